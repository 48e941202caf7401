"""The garbage collector as an actor: what passes look at and when, and that it leaves the process as it found it."""

from __future__ import annotations

import gc
import sys
import weakref
from functools import partial
from math import inf

import pytest
import trio

from actors import collector
from actors.collector import INTERVAL, MANY, SECOND
from actors.metrics import Metrics


class Knot:
    """A cycle: only the collector can free it. It may be as large as one likes."""

    def __init__(self, size: int = 0) -> None:
        self.me = self
        self.others = [[] for _ in range(size)]


@pytest.fixture
async def metrics(nursery, monkeypatch):
    """Metrics of a collector in a process that always works a little. Its passes are never long."""
    monkeypatch.setattr(collector, "LITTLE", 0.0)
    monkeypatch.setattr(collector, "MUCH", inf)
    monkeypatch.setattr(collector, "LONG", inf)
    metrics = Metrics()
    await nursery.start(partial(collector.run, metrics))
    return metrics


def passes(metrics):
    """How many there were."""
    return metrics.registry.get_sample_value("trierarch_collection_seconds_count")


async def test_a_cycle_is_freed_soon_after_it_died(autojump_clock, metrics):
    """Even one that has survived a pass before."""
    knot = Knot()
    await trio.sleep(1.5 * INTERVAL)
    dead = weakref.ref(knot)
    del knot
    assert dead() is not None
    await trio.sleep(INTERVAL)
    assert dead() is None
    assert passes(metrics) == 2


async def test_nothing_is_looked_at_when_nothing_was_done(autojump_clock, metrics, monkeypatch):
    """A process at rest makes no garbage."""
    monkeypatch.setattr(collector, "LITTLE", inf)
    await trio.sleep(100 * INTERVAL)
    assert passes(metrics) == 0


async def test_what_much_work_leaves_is_set_aside_unseen(autojump_clock, metrics, monkeypatch):
    """No pass begins amid it, and none has much to look at after it."""
    monkeypatch.setattr(collector, "MUCH", 0.0)
    before = gc.get_freeze_count()
    large = Knot(100_000)
    await trio.sleep(1.5 * INTERVAL)
    assert passes(metrics) == 0
    assert gc.get_freeze_count() - before >= 100_000
    assert len(gc.get_objects()) < 1000
    del large


async def test_what_survives_a_long_pass_is_not_looked_at_again(autojump_clock, metrics, monkeypatch):
    """So the next one is short, and would not find it dead."""
    monkeypatch.setattr(collector, "LONG", 0.0)
    knot = Knot(1000)
    await trio.sleep(1.5 * INTERVAL)
    assert len(gc.get_objects()) < 1000
    dead = weakref.ref(knot)
    del knot
    await trio.sleep(10 * INTERVAL)
    assert dead() is not None


async def test_what_was_set_aside_is_looked_at_once_a_day(autojump_clock, nursery, monkeypatch):
    """When nothing is pushed: what died in a cycle after it was set aside is freed then, and all else set aside."""
    monkeypatch.setattr(collector, "DAY", 100 * INTERVAL)
    monkeypatch.setattr(collector, "MUCH", 0.0)
    knot = Knot()
    await nursery.start(partial(collector.run, Metrics()))
    dead = weakref.ref(knot)
    del knot
    await trio.sleep(150 * INTERVAL)
    assert dead() is not None
    monkeypatch.setattr(collector, "MUCH", inf)
    await trio.sleep(2 * INTERVAL)
    assert dead() is None
    assert len(gc.get_objects()) < 1000


async def test_what_was_set_aside_is_looked_at_when_memory_has_doubled(autojump_clock, nursery, monkeypatch):
    """However much is going on: whoever makes that go on could leave cycles without end."""
    memory = MANY
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: memory)
    monkeypatch.setattr(collector, "MUCH", 0.0)
    knot = Knot()
    await nursery.start(partial(collector.run, Metrics()))
    dead = weakref.ref(knot)
    del knot
    memory = 2 * MANY
    await trio.sleep(3 * SECOND)
    assert dead() is not None
    memory += 1
    await trio.sleep(1.5 * SECOND)
    assert dead() is None
    knot = Knot()
    dead = weakref.ref(knot)
    del knot
    await trio.sleep(3 * SECOND)
    assert dead() is not None  # it has not doubled again


async def test_the_process_is_left_as_it_was(autojump_clock):
    """Python collects as before when the actor has gone, and nothing stays set aside."""
    callbacks = tuple(gc.callbacks)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(collector.run, Metrics()))
        assert not gc.isenabled()
        assert gc.get_freeze_count()
        nursery.cancel_scope.cancel()
    assert tuple(gc.callbacks) == callbacks
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
