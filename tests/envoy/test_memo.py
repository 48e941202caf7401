"""The memo: what is remembered, what is forgotten, what is counted."""

from hypothesis import given
from hypothesis import strategies as st

from trierarch.envoy.memo import Memo, MemoStatistics


def _double(number: int) -> tuple[int, ...]:
    return (number, number)


def _negate(number: int) -> tuple[int, ...]:
    return (-number,)


def _ask(memo: Memo, build, inputs):
    found = memo.find(build, inputs)
    return memo.build(build, inputs) if found is None else found


def test_equal_inputs_are_built_once():
    """The second question with equal inputs gets the very object that the first one got."""
    memo = Memo(10)
    first = _ask(memo, _double, 7)
    assert _ask(memo, _double, 7) is first
    assert memo.statistics() == MemoStatistics(hits=1, misses=1, entries=1, capacity=10)


def test_a_build_function_is_part_of_the_key():
    """Two functions with equal inputs do not get each other's results."""
    memo = Memo(10)
    assert _ask(memo, _double, 7) == (7, 7)
    assert _ask(memo, _negate, 7) == (-7,)


def test_the_least_recently_used_entry_is_forgotten():
    """With room for two, a third entry drives out the one that was not asked for in between."""
    memo = Memo(2)
    _ask(memo, _double, 1)
    _ask(memo, _double, 2)
    _ask(memo, _double, 1)
    _ask(memo, _double, 3)
    assert memo.find(_double, 1) is not None
    assert memo.find(_double, 2) is None


@given(st.lists(st.integers(min_value=0, max_value=8)), st.integers(min_value=1, max_value=5))
def test_it_never_answers_wrongly_and_never_outgrows_its_capacity(questions, capacity):
    """Whatever is asked in whatever order: the answer is what the function would give, and len <= capacity."""
    memo = Memo(capacity)
    for number in questions:
        assert _ask(memo, _double, number) == _double(number)
        assert len(memo) <= capacity
    assert memo.hits + memo.misses == len(questions)
