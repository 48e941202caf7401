"""Supervision of children that are known beforehand, under the autojump clock. The policy alone: `test_tree.py`."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from actors.static_supervisor import IntensityExceeded, supervise
from actors.supervision import ChildState
from actors.tree import Restart, Strategy, SupervisorSpec
from tests.actors.supervision.scripted_children import (
    crashes_after,
    fails_to_start,
    never_starts,
    returns_after,
    runs,
    shields_for,
)


def tree(*children, strategy=Strategy.ONE_FOR_ONE, intensity=3, period=60.0, name="root"):
    """A supervisor."""
    return SupervisorSpec(name=name, children=children, strategy=strategy, intensity=intensity, period=period)


async def test_starts_left_to_right_and_stops_right_to_left(stage, nursery, autojump_clock):
    """Each child is up before the next starts, and is gone before the one to its left is cancelled."""
    scope = trio.CancelScope()
    with scope:
        async with trio.open_nursery() as inner:
            await inner.start(supervise, tree(stage.child("a"), stage.child("b"), stage.child("c")))
            assert stage.diary == ["+a", "+b", "+c"]
            scope.cancel()
    assert stage.diary[3:] == ["-c", "-b", "-a"]
    assert scope.cancelled_caught


async def test_a_crash_restarts_only_the_child_itself(stage, handle, nursery, autojump_clock):
    """ONE_FOR_ONE: the neighbours of a crashed child live on."""
    spec = tree(stage.child("a"), stage.child("b", crashes_after(1), runs), stage.child("c"))
    await nursery.start(partial(supervise, spec, handle=handle))
    await trio.sleep(2)
    assert stage.diary == ["+a", "+b", "+c", "-b", "+b"]
    assert [(each.name, each.state, each.restarts, each.reason, each.started_at) for each in handle.statistics()] == [
        ("a", ChildState.RUNNING, 0, "", 0.0),
        ("b", ChildState.RUNNING, 1, "ValueError: boom", 1.0),
        ("c", ChildState.RUNNING, 0, "", 0.0),
    ]
    nursery.cancel_scope.cancel()


async def test_rest_for_one_restarts_those_after_it(stage, lines, nursery, autojump_clock):
    """REST_FOR_ONE: those to the right are stopped from the right, then all start again from the left, and say why."""
    spec = tree(
        stage.child("a"), stage.child("b", crashes_after(1), runs), stage.child("c"), stage.child("d"),
        strategy=Strategy.REST_FOR_ONE,
    )  # fmt: skip
    await nursery.start(supervise, spec)
    await trio.sleep(2)
    assert stage.diary[4:] == ["-b", "-d", "-c", "+b", "+c", "+d"]
    assert [(line["event"], line["child"], line["reason"]) for line in lines[5:]] == [
        ("child_stopped", "d", "stopped because b is down"),
        ("child_stopped", "c", "stopped because b is down"),
        ("child_restarted", "b", "ValueError: boom"),
        ("child_restarted", "c", "stopped because b is down"),
        ("child_restarted", "d", "stopped because b is down"),
    ]
    nursery.cancel_scope.cancel()


async def test_one_for_all_restarts_all(stage, nursery, autojump_clock):
    """ONE_FOR_ALL: everybody is stopped and started."""
    spec = tree(stage.child("a"), stage.child("b", crashes_after(1), runs), strategy=Strategy.ONE_FOR_ALL)
    await nursery.start(supervise, spec)
    await trio.sleep(2)
    assert stage.diary[2:] == ["-b", "-a", "+a", "+b"]
    nursery.cancel_scope.cancel()


async def test_restarts_wait_longer_and_longer(stage, nursery, autojump_clock):
    """The first restart is immediate; the next wait 0.1, 0.2, 0.4 seconds."""
    starts = []

    async def crash(task_status):
        starts.append(round(trio.current_time(), 3))
        raise ValueError("again")

    with pytest.raises(IntensityExceeded):
        await supervise(tree(stage.child("a", crash), intensity=4))
    assert starts == [0.0, 0.0, 0.1, 0.3, 0.7]


async def test_a_waiting_child_does_not_keep_the_supervisor_from_others(stage, nursery, autojump_clock):
    """While one child waits for its restart, another's crash is answered at once."""
    spec = tree(stage.child("a", *[crashes_after(0)] * 6, runs), stage.child("b", crashes_after(1), runs), intensity=20)
    nursery.start_soon(supervise, spec)
    await trio.sleep(1.01)  # `a` waits from 0.7 to 1.5
    assert stage.lives == {"a": 5, "b": 2}
    nursery.cancel_scope.cancel()


async def test_a_start_that_fails_counts_as_a_crash(stage, handle, nursery, autojump_clock):
    """A child that raises before `started()`, at first or on a restart, is tried again within the intensity."""
    spec = tree(stage.child("a", fails_to_start, crashes_after(1), fails_to_start, runs), stage.child("b"))
    await nursery.start(partial(supervise, spec, handle=handle))
    await trio.sleep(5)
    assert stage.lives == {"a": 4, "b": 1}
    assert handle.statistics()[0].reason == "OSError: no room"
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("act", [fails_to_start, never_starts])
async def test_a_tree_that_never_comes_up_fails(stage, act, autojump_clock):
    """A permanent child that cannot come up, whether it raises or returns, exceeds the intensity; trio says nothing."""
    with pytest.raises(IntensityExceeded, match=r"root gave up after 4 crashes within 60 s: a \(.*\) x 4"):
        await supervise(tree(stage.child("a", act), stage.child("b")))
    assert stage.lives["a"] == 4


async def test_a_failing_start_holds_up_those_after_it(stage, nursery, autojump_clock):
    """REST_FOR_ONE: nobody starts before the one to its left is up."""
    spec = tree(
        stage.child("a", fails_to_start, fails_to_start, runs), stage.child("b"), strategy=Strategy.REST_FOR_ONE
    )
    await nursery.start(supervise, spec)
    assert stage.diary == ["+a", "-a", "+a", "-a", "+a", "+b"]
    nursery.cancel_scope.cancel()


async def test_exceeding_the_intensity_stops_the_others_and_reports(stage, lines, autojump_clock):
    """The supervisor stops its children in order, then raises with the last crash as its cause."""
    error = ValueError("boom")
    with pytest.raises(IntensityExceeded) as caught:
        await supervise(
            tree(stage.child("a"), stage.child("b", crashes_after(1, error)), stage.child("c"), intensity=1)
        )
    assert str(caught.value) == "root gave up after 2 crashes within 60 s: b (ValueError: boom) x 2"
    assert caught.value.__cause__ is error
    assert stage.diary[-3:] == ["-b", "-c", "-a"]
    assert [line["event"] for line in lines if line["child"] == "b"] == [
        "child_started", "child_crashed", "child_restarted", "child_crashed", "intensity_exceeded",
    ]  # fmt: skip


async def test_crashes_far_apart_are_forgiven(stage, nursery, autojump_clock):
    """Restarts older than the period do not count."""
    spec = tree(stage.child("a", *[crashes_after(10)] * 20, runs), intensity=1, period=9.0)
    await nursery.start(supervise, spec)
    await trio.sleep(1000)
    assert stage.lives == {"a": 21}
    nursery.cancel_scope.cancel()


async def test_who_is_started_again_after_returning(stage, handle, lines, nursery, autojump_clock):
    """A permanent child that returns is restarted; transient and temporary ones have done their work."""
    spec = tree(
        stage.child("permanent", returns_after(1), runs),
        stage.child("transient", returns_after(1), restart=Restart.TRANSIENT),
        stage.child("temporary", crashes_after(1), restart=Restart.TEMPORARY),
    )
    await nursery.start(partial(supervise, spec, handle=handle))
    await trio.sleep(2)
    assert stage.lives == {"permanent": 2, "transient": 1, "temporary": 1}
    assert [each.state for each in handle.statistics()] == [ChildState.RUNNING, ChildState.STOPPED, ChildState.STOPPED]
    ends = {line["child"]: line["event"] for line in lines if line["event"] in {"child_crashed", "child_stopped"}}
    assert ends == {"permanent": "child_crashed", "transient": "child_stopped", "temporary": "child_crashed"}
    nursery.cancel_scope.cancel()


async def test_a_neighbours_restart_does_not_revive_temporary_children(stage, nursery, autojump_clock):
    """REST_FOR_ONE stops a temporary child for good, but one that has never lived still gets its life."""
    spec = tree(
        stage.child("a", fails_to_start, crashes_after(1), runs),
        stage.child("b", restart=Restart.TEMPORARY),
        strategy=Strategy.REST_FOR_ONE,
    )
    await nursery.start(supervise, spec)
    assert stage.diary == ["+a", "-a", "+a", "+b"]
    await trio.sleep(2)
    assert stage.diary[4:] == ["-a", "-b", "+a"]
    nursery.cancel_scope.cancel()


async def test_a_kill_counts_as_a_crash(stage, handle, lines, nursery, autojump_clock):
    """`kill` cancels a child by name anywhere in the tree; it is counted, restarted and says so."""
    inner = tree(stage.child("b"), name="inner")
    await nursery.start(partial(supervise, tree(stage.child("a"), inner), handle=handle))
    assert handle.kill("b")
    assert not handle.kill("nobody")
    await trio.testing.wait_all_tasks_blocked()
    (b,) = (each for each in handle.statistics() if each.name == "b")
    assert (b.supervisor, b.state, b.restarts, b.reason) == ("inner", ChildState.RUNNING, 1, "killed")
    assert [line["event"] for line in lines if line["child"] == "b"] == [
        "child_started",
        "child_killed",
        "child_restarted",
    ]
    nursery.cancel_scope.cancel()


async def test_only_a_child_that_is_up_can_be_killed(stage, handle, nursery, autojump_clock):
    """A child that waits for its restart, or has been stopped, is not there to be killed."""
    spec = tree(
        stage.child("a", *[fails_to_start] * 2, runs), stage.child("b", returns_after(0), restart=Restart.TRANSIENT)
    )
    nursery.start_soon(partial(supervise, spec, handle=handle))
    await trio.sleep(0.05)
    assert [each.state for each in handle.statistics()] == [ChildState.WAITING, ChildState.STOPPED]
    assert not handle.kill("a")
    assert not handle.kill("b")
    nursery.cancel_scope.cancel()


async def test_killing_while_it_starts(stage, handle, nursery, autojump_clock):
    """A child may be killed before it is up; that is a start that failed."""

    async def slow(task_status):
        await trio.sleep(100)

    spec = tree(stage.child("a", slow, runs))
    nursery.start_soon(partial(supervise, spec, handle=handle))
    await trio.testing.wait_all_tasks_blocked()
    assert handle.kill("a")
    await trio.testing.wait_all_tasks_blocked()
    assert (handle.statistics()[0].state, stage.lives) == (ChildState.RUNNING, {"a": 2})
    nursery.cancel_scope.cancel()


async def test_killing_a_supervisor_restarts_what_is_below(stage, handle, nursery, autojump_clock):
    """A supervisor is a child too: killed, it stops its own children in order and they start again."""
    inner = tree(stage.child("b"), stage.child("c"), name="inner")
    await nursery.start(partial(supervise, tree(stage.child("a"), inner), handle=handle))
    assert handle.kill("inner")
    await trio.testing.wait_all_tasks_blocked()
    assert stage.diary[3:] == ["-c", "-b", "+b", "+c"]
    assert [each.name for each in handle.statistics()] == ["a", "inner", "b", "c"]
    nursery.cancel_scope.cancel()


async def test_a_failing_supervisor_is_a_crash_of_its_parent(stage, handle, nursery, autojump_clock):
    """Intensity exceeded below counts once above, and is reported all the way up."""
    inner = tree(stage.child("b", crashes_after(1)), intensity=1, name="inner")
    with pytest.raises(IntensityExceeded) as caught:
        await supervise(tree(inner, intensity=1))
    assert stage.lives["b"] == 4
    assert str(caught.value) == (
        "root gave up after 2 crashes within 60 s: inner (IntensityExceeded: inner gave up after 2 crashes within "
        "60 s: b (ValueError: boom) x 2) x 2"
    )


async def test_groups_of_exceptions_are_crashes(stage, handle, nursery, autojump_clock):
    """What a child's nursery raises is an ExceptionGroup; its members are named in the reason."""

    async def raises(error):
        raise error

    async def act(task_status):
        task_status.started()
        async with trio.open_nursery() as inner:
            inner.start_soon(raises, ValueError("one"))
            inner.start_soon(raises, ValueError("one"))
            inner.start_soon(raises, KeyError("two"))

    await nursery.start(partial(supervise, tree(stage.child("a", act, runs)), handle=handle))
    await trio.testing.wait_all_tasks_blocked()
    parts = handle.statistics()[0].reason.split("; ")
    assert sorted(parts) == ["KeyError: 'two'", "ValueError: one"]
    nursery.cancel_scope.cancel()


async def test_a_cancellation_of_the_child_s_own_is_not_a_kill(stage, handle, nursery, autojump_clock):
    """A child whose own scope ends it has returned."""

    async def act(task_status):
        task_status.started()
        with trio.move_on_after(1):
            await trio.sleep_forever()

    await nursery.start(partial(supervise, tree(stage.child("a", act, runs)), handle=handle))
    await trio.sleep(2)
    assert handle.statistics()[0].reason == "returned"
    nursery.cancel_scope.cancel()


async def test_a_missed_shutdown_deadline_is_reported_once(stage, lines, nursery, autojump_clock):
    """A child that shields itself past its deadline is reported; the others are still stopped, and all are awaited."""
    spec = tree(stage.child("a"), stage.child("b", shields_for(7), shutdown=2.0), stage.child("c"))
    async with trio.open_nursery() as inner:
        await inner.start(supervise, spec)
        inner.cancel_scope.cancel()
    assert trio.current_time() == 7
    assert stage.diary[3:] == ["-c", "-a", "-b"]
    assert [(line["event"], line["child"]) for line in lines[3:]] == [
        ("child_stopped", "c"), ("shutdown_overdue", "b"), ("child_stopped", "a"), ("child_stopped", "b"),
    ]  # fmt: skip
    assert lines[4]["reason"] == "still running 2 s after it was cancelled"


async def test_nothing_takes_the_place_of_a_child_that_is_not_gone(stage, handle, nursery, autojump_clock):
    """A mailbox has one owner at a time: the next life waits for an overdue one."""
    spec = tree(
        stage.child("a", crashes_after(1), runs), stage.child("b", shields_for(7), runs, shutdown=2.0),
        strategy=Strategy.REST_FOR_ONE,
    )  # fmt: skip
    await nursery.start(partial(supervise, spec, handle=handle))
    await trio.sleep(20)
    assert stage.diary == ["+a", "+b", "-a", "+a", "-b", "+b"]
    assert [(each.state, each.started_at) for each in handle.statistics()] == [
        (ChildState.RUNNING, 3.0), (ChildState.RUNNING, 8.0),
    ]  # fmt: skip
    nursery.cancel_scope.cancel()


async def test_a_crash_while_being_stopped_is_told_and_changes_nothing(stage, lines, nursery, autojump_clock):
    """An exception during shutdown is logged, not restarted and not raised."""

    async def act(task_status):
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("cleanup")

    async with trio.open_nursery() as inner:
        await inner.start(supervise, tree(stage.child("a", act)))
        inner.cancel_scope.cancel()
    assert [(line["event"], line["reason"]) for line in lines[1:]] == [
        ("child_crashed", "while it was stopped: ValueError: cleanup")
    ]


async def test_cancelled_while_a_child_starts(stage, lines, autojump_clock):
    """A tree may be cancelled before it is up; the half-started child is told so."""

    async def slow(task_status):
        await trio.sleep(100)

    with trio.move_on_after(1) as scope:
        await supervise(tree(stage.child("a"), stage.child("b", slow), stage.child("c")))
    assert scope.cancelled_caught
    assert stage.diary == ["+a", "+b", "-b", "-a"]
    assert [(line["event"], line["child"]) for line in lines] == [
        ("child_started", "a"), ("child_stopped", "b"), ("child_stopped", "a"),
    ]  # fmt: skip


async def test_coming_up_while_being_stopped(stage, handle, autojump_clock):
    """A child that calls `started()` when it is already being stopped is not taken for running."""

    async def stubborn(task_status):
        with trio.CancelScope(shield=True):
            await trio.sleep(2)
            task_status.started()

    spec = tree(stage.child("a", crashes_after(1), runs), stage.child("b", stubborn))
    with trio.move_on_after(1.5):
        await supervise(spec, handle=handle)
    assert trio.current_time() == 2
    assert stage.lives == {"a": 1, "b": 1}


async def test_started_twice_is_a_bug_of_the_child(stage, nursery, handle, autojump_clock):
    """Calling `started()` again crashes the child that does it."""

    async def twice(task_status):
        task_status.started()
        task_status.started()

    await nursery.start(partial(supervise, tree(stage.child("a", twice, runs)), handle=handle))
    await trio.testing.wait_all_tasks_blocked()
    assert handle.statistics()[0].reason == "LocalError: a called started() twice"
    nursery.cancel_scope.cancel()


async def test_every_line_has_the_same_keys(stage, lines, autojump_clock):
    """Supervision events carry supervisor, child, reason, restarts; a crash also its traceback."""
    with pytest.raises(IntensityExceeded):
        await supervise(tree(stage.child("a"), stage.child("b", crashes_after(1), never_starts), intensity=2))
    keys = {"event", "log_level", "supervisor", "child", "reason", "restarts"}
    assert {frozenset(line) - {"exc_info"} for line in lines} == {frozenset(keys)}
    assert {line["event"] for line in lines if line.get("exc_info")} == {"child_crashed"}
