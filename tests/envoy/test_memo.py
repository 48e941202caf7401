"""The memo: what is remembered, what is forgotten, what is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.xds.resources import Chunk, Resource, build_resource
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


def test_what_was_asked_for_last_is_remembered():
    """As many as there is room for, whether they were built last or found; what nobody asked for fades."""
    memo = Memo(20)
    for number in range(1000):
        _ask(memo, _double, number)
        _ask(memo, _double, 0)
    assert all(memo.find(_double, number) for number in (0, *range(981, 1000)))
    assert memo.find(_double, 1) is None


def test_nothing_is_forgotten_before_there_is_no_room():
    """Not even what was asked for once, at the very beginning."""
    memo = Memo(20)
    for number in range(20):
        _ask(memo, _double, number)
    assert all(memo.find(_double, number) for number in range(20))


def test_large_results_are_forgotten_earlier():
    """A service of a thousand endpoints that come and go would fill gigabytes with what it was, and still be few."""
    memo = Memo(1000, heaviest=10_000)
    for number in range(100):
        memo.build(_resources, number)
        assert sum(one.size for number in range(100) for one in memo.find(_resources, number) or ()) <= 3 * 10_000
    assert memo.find(_resources, 99) is not None
    assert len(memo) < 20


@pytest.mark.parametrize(
    ("result", "weight"),
    [
        (b"twelve bytes", 12),
        (Chunk(b"five!"), 5),
        ((build_resource("a", b"123"), build_resource("b", b"4567")), 7),
        ((), 0),
        (("thought",), 0),
    ],
)
def test_what_weighs_is_what_was_encoded(result, weight):
    """Bytes, chunks and resources; what was only thought consists of what others hold too. So many fit as there is
    room for their bytes.
    """
    memo = Memo(1000, heaviest=10 * weight or 1)
    for number in range(200):
        memo.recall(lambda _: result, number)
    assert len(memo) == 200 if not weight else len(memo) <= 40


def _resources(number: int) -> tuple[Resource, ...]:
    return (build_resource(f"service-{number}", bytes(1000)),)


@given(st.lists(st.integers(min_value=0, max_value=60)), st.integers(min_value=1, max_value=5))
def test_it_never_answers_wrongly_and_never_outgrows_its_capacity(questions, capacity):
    """Whatever is asked in whatever order: the answer is what the function would give, the last that were asked for
    are remembered, and no more than three generations are held.
    """
    memo, asked = Memo(capacity), []
    for number in questions:
        assert (memo.find(_double, number) is not None) >= (number in asked[-capacity:])
        assert _ask(memo, _double, number) == _double(number)
        assert len(memo) <= 3 * capacity
        asked.append(number)
