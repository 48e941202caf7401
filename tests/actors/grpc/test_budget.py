"""Budgets and allowances: what may be spent, comes back, is earned and is shared."""

from hypothesis import given
from hypothesis import strategies as st

from actors.grpc.budget import Allowance, Budget
from actors.grpc.limits import Rate


def test_a_burst_and_then_the_rate():
    """What is there may be spent at once; after that, what time brings."""
    budget = Budget(Rate(3, 2), now=10.0)
    assert [budget.spend(1, 10.0) for _ in range(4)] == [True, True, True, False]
    assert [budget.spend(1, 11.0) for _ in range(2)] == [True, False]


def test_time_fills_up_to_the_burst_and_no_further():
    """An hour of silence is worth one burst."""
    budget = Budget(Rate(2, 1), now=0.0)
    assert [budget.spend(1, 3600.0) for _ in range(3)] == [True, True, False]


def test_what_is_earned_may_exceed_the_burst():
    """Earned points do not get lost when time passes."""
    budget = Budget(Rate(1, 1), now=0.0)
    budget.earn(5)
    assert [budget.spend(1, 100.0) for _ in range(7)] == [True] * 6 + [False]


def test_a_refund_fills_up_to_the_burst_and_takes_nothing_away():
    """Whoever gets everything back has a burst again, or what he has earned."""
    budget = Budget(Rate(2, 0), now=0.0)
    budget.refund(9)
    assert [budget.spend(1, 0.0) for _ in range(3)] == [True, True, False]
    rich = Budget(Rate(2, 0), now=0.0)
    rich.earn(2)
    rich.refund(1)
    assert rich.spend(4, 0.0)


def test_debts_are_paid_by_waiting():
    """`borrow` never refuses; it says how long the debt lasts."""
    budget = Budget(Rate(10, 5), now=0.0)
    assert [budget.borrow(10, 0.0), budget.borrow(10, 0.0), budget.borrow(0, 2.0)] == [0.0, 2.0, 0.0]


@given(
    st.lists(st.tuples(st.floats(0, 3), st.floats(0, 10)), max_size=40),
    st.floats(0, 20),
    st.floats(0.1, 20),
)
def test_nobody_spends_more_than_burst_and_rate_allow(steps, burst, per_second):
    """Whatever is asked for when: what is granted is within the burst and what time brought."""
    budget, now, granted = Budget(Rate(burst, per_second), now=0.0), 0.0, 0.0
    for pause, cost in steps:
        now += pause
        if budget.spend(cost, now):
            granted += cost
    assert granted <= burst + now * per_second + 1e-6


def test_an_allowance_within_another():
    """What is held here is held around too, and a refusal holds nothing anywhere."""
    around = Allowance(10)
    one, other = Allowance(8, within=around), Allowance(8, within=around)
    assert [one.take(7), one.take(2), other.take(4), other.take(3)] == [True, False, False, True]
    assert (one.left, other.left, around.left) == (1, 5, 0)
    one.give_back(7)
    other.give_back(3)
    assert (one.left, other.left, around.left) == (8, 8, 10)
