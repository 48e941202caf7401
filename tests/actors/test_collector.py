"""The garbage collector as an actor: when it collects, and that it leaves the process as it found it."""

from __future__ import annotations

import gc
import weakref
from functools import partial

import pytest
import trio

from actors import collector
from actors.collector import GROWTH, INTERVAL, MOST, RESTED, is_due
from actors.metrics import Metrics


@pytest.mark.parametrize(
    ("grown", "rested", "due"),
    [
        (0, 10 * RESTED, False),
        (GROWTH - 1, 10 * RESTED, False),
        (GROWTH, RESTED - INTERVAL, False),
        (GROWTH, RESTED, True),
        (MOST - 1, 0.0, False),
        (MOST, 0.0, True),
    ],
)
def test_a_pass_waits_for_a_rest(grown, rested, due):
    """It is made if it is worth it and nothing has happened for a while; without a rest only if there is very much."""
    assert is_due(grown, rested) is due


class Knot:
    """A cycle: only the collector can free it."""

    def __init__(self) -> None:
        self.me = self
        self.others = [[] for _ in range(GROWTH)]


async def test_cycles_are_freed_though_python_does_not_collect(nursery, autojump_clock, monkeypatch):
    """When there are enough new objects, among them the dead ones, and the process has rested."""
    monkeypatch.setattr(collector, "IDLE", 1000)  # virtual time costs real work
    metrics = Metrics()
    await nursery.start(partial(collector.run, metrics))
    assert not gc.isenabled()
    dead = weakref.ref(Knot())
    await trio.sleep(RESTED - INTERVAL)
    assert dead() is not None
    await trio.sleep(3 * INTERVAL)
    assert dead() is None
    assert metrics.registry.get_sample_value("trierarch_collection_seconds_count") == 1


async def test_the_process_is_left_as_it_was(autojump_clock):
    """Python collects again when the actor has gone, and nothing stays set aside."""
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(collector.run, Metrics()))
        assert gc.get_freeze_count()
        nursery.cancel_scope.cancel()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
