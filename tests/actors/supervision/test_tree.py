"""The policy of supervision, without tasks or clocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.tree import (
    ChildSpec,
    Crashed,
    Killed,
    Restart,
    RestartWindow,
    Returned,
    Strategy,
    SupervisorSpec,
    affected,
    describe,
    names,
    reason,
    restart_delay,
    wants_restart,
)
from protocol.errors import LocalError

ENDINGS = (Returned(), Crashed(ValueError("boom")), Killed())
ROW = ("a", "b", "c", "d")


async def nothing(*, task_status):
    """A start function that is never called here."""


def test_who_wants_a_restart():
    """Restart type by ending, the whole table."""
    table = {restart: [wants_restart(restart, ending) for ending in ENDINGS] for restart in Restart}
    assert table == {
        Restart.PERMANENT: [True, True, True],
        Restart.TRANSIENT: [False, True, True],
        Restart.TEMPORARY: [False, False, False],
    }


@pytest.mark.parametrize(("index", "failed"), list(enumerate(ROW)))
def test_who_is_affected(index, failed):
    """Strategy by position, the whole table."""
    assert affected(Strategy.ONE_FOR_ONE, ROW, failed) == (failed,)
    assert affected(Strategy.REST_FOR_ONE, ROW, failed) == ROW[index:]
    assert affected(Strategy.ONE_FOR_ALL, ROW, failed) == ROW


@given(
    st.integers(0, 5),
    st.floats(0.1, 100),
    st.lists(st.floats(0, 50), max_size=30).map(lambda gaps: [sum(gaps[: n + 1]) for n in range(len(gaps))]),
)
def test_a_window_counts_what_lies_within_the_period(intensity, period, times):
    """Exceeded exactly if more than `intensity` restarts, this one included, are at most `period` old."""
    window = RestartWindow(intensity=intensity, period=period)
    for position, now in enumerate(times):
        window, exceeded = window.add(now)
        within = [time for time in times[: position + 1] if now - time <= period]
        assert exceeded == (len(within) > intensity)
        assert list(window.times) == within


def test_delays_double_up_to_five_seconds():
    """None before the first restart, then 0.1 s doubling, never more than 5 s."""
    delays = [restart_delay(recent) for recent in range(1, 10)]
    assert delays == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert restart_delay(10_000) == 5.0


def test_reasons_are_words():
    """Every ending has a reason; a group of exceptions names each different one once."""
    assert [reason(ending) for ending in ENDINGS] == ["returned", "ValueError: boom", "killed"]
    group = ExceptionGroup("g", [ValueError("x"), ExceptionGroup("h", [ValueError("x"), KeyError()])])
    assert describe(group) == "ValueError: x; KeyError"


def test_names_are_listed_in_order_of_starting():
    """A tree's names, parents before their children."""
    inner = SupervisorSpec(name="inner", children=(ChildSpec(name="b", start=nothing),))
    assert list(names(SupervisorSpec(name="root", children=(inner, ChildSpec(name="c", start=nothing))))) == [
        "root", "inner", "b", "c",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        lambda: ChildSpec(name="a", start=nothing, shutdown=0),
        lambda: SupervisorSpec(name="s", children=(), intensity=-1),
        lambda: SupervisorSpec(name="s", children=(), period=0),
        lambda: SupervisorSpec(name="s", children=(ChildSpec(name="s", start=nothing),)),
    ],
)
def test_a_wrong_tree_cannot_be_made(make):
    """Specifications are checked at birth: times positive, names unique in the whole tree."""
    with pytest.raises(LocalError):
        make()
