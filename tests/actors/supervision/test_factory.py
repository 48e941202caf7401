"""Supervision of children that come and go, under the autojump clock."""

from __future__ import annotations

import pytest
import trio

from actors.factory import open_factory
from actors.tree import Restart
from protocol.errors import LocalError
from tests.actors.supervision.scripted_children import (
    crashes_after,
    fails_to_start,
    returns_after,
    shields_for,
)


@pytest.fixture
def given_up():
    """What `on_giving_up` was told."""
    return []


async def test_a_factory_child_is_restarted_then_given_up(stage, handle, lines, given_up, autojump_clock):
    """One restart within 5 seconds; the second crash calls back and nobody else notices."""
    async with open_factory("connections", handle=handle) as factory:
        await factory.start(stage.child("steady"), on_giving_up=given_up.append)
        await factory.start(stage.child("shaky", crashes_after(1)), on_giving_up=given_up.append)
        await trio.sleep(10)
        assert given_up == ["ValueError: boom"]
        assert stage.lives == {"steady": 1, "shaky": 2}
        assert [(each.name, each.supervisor) for each in handle.statistics()] == [("steady", "connections")]
    assert [line["event"] for line in lines if line["child"] == "shaky"] == [
        "child_started", "child_crashed", "child_restarted", "child_crashed", "intensity_exceeded",
    ]  # fmt: skip
    assert stage.diary[-1] == "-steady"
    assert handle.statistics() == ()


async def test_a_factory_child_that_ends_is_forgotten(stage, handle, given_up, autojump_clock):
    """Transient children that return leave, and their name is free again."""
    async with open_factory("connections", handle=handle) as factory:
        for _ in range(3):
            await factory.start(
                stage.child("once", returns_after(1), restart=Restart.TRANSIENT), on_giving_up=given_up.append
            )
            await trio.sleep(2)
    assert stage.diary == ["+once", "-once"] * 3
    assert given_up == []


async def test_factory_children_are_known_by_name(stage, handle, given_up, autojump_clock):
    """Two children of one name are a bug; each can be killed by name and is restarted."""
    async with open_factory("connections", handle=handle) as factory:
        await factory.start(stage.child("a"), on_giving_up=given_up.append)
        with pytest.raises(LocalError, match="connections has a child a already"):
            await factory.start(stage.child("a"), on_giving_up=given_up.append)
        assert handle.kill("a")
        await trio.testing.wait_all_tasks_blocked()
        assert handle.statistics()[0].restarts == 1


async def test_a_factory_child_that_cannot_start_does_not_hold_up_the_factory(stage, handle, given_up, autojump_clock):
    """`start` returns after the first failure; giving up comes by the callback."""
    async with open_factory("connections", handle=handle) as factory:
        await factory.start(stage.child("a", fails_to_start), on_giving_up=given_up.append)
        await trio.sleep(1)
    assert given_up == ["OSError: no room"]


async def test_a_cancelled_factory_stops_its_children_at_once(stage, handle, lines, given_up, autojump_clock):
    """Cancelled from outside, all children are cancelled together, and an overdue one is reported."""
    with trio.move_on_after(1):
        async with open_factory("connections", handle=handle) as factory:
            await factory.start(stage.child("a"), on_giving_up=given_up.append)
            await factory.start(stage.child("b", shields_for(7), shutdown=2.0), on_giving_up=given_up.append)
            await trio.sleep_forever()
    assert trio.current_time() == 8
    assert [(line["event"], line["child"]) for line in lines[2:]] == [
        ("child_stopped", "a"), ("shutdown_overdue", "b"), ("child_stopped", "b"),
    ]  # fmt: skip
