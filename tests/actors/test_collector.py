"""The garbage collector as an actor: when it looks at what, and that it leaves the process as it found it."""

from __future__ import annotations

import gc
import weakref
from functools import partial

import pytest
import trio

from actors import collector
from actors.collector import BUSY_YOUNG, GROWTH, IDLE_YOUNG, INTERVAL, Heap, Pass, choose
from actors.metrics import Metrics


@pytest.mark.parametrize(
    ("heap", "due"),
    [
        (Heap(young=0, added=0, idle=True), None),
        (Heap(young=IDLE_YOUNG - 1, added=0, idle=True), None),
        (Heap(young=IDLE_YOUNG, added=0, idle=True), Pass.YOUNG),
        (Heap(young=IDLE_YOUNG, added=0, idle=False), None),
        (Heap(young=BUSY_YOUNG, added=GROWTH, idle=False), Pass.YOUNG),
        (Heap(young=0, added=GROWTH, idle=True), Pass.EVERYTHING),
    ],
)
def test_a_pass_is_as_large_as_it_disturbs_nobody(heap, due):
    """Few objects at a time while there is work; everything only while there is none and it is worth it."""
    assert choose(heap) is due


class Knot:
    """A cycle: only the collector can free it."""

    def __init__(self) -> None:
        self.me = self
        self.others = [[] for _ in range(BUSY_YOUNG)]


async def test_cycles_are_freed_though_python_does_not_collect(nursery, autojump_clock):
    """As soon as there are enough young objects, among them the dead ones."""
    metrics = Metrics()
    await nursery.start(partial(collector.run, metrics))
    assert not gc.isenabled()
    dead = weakref.ref(Knot())
    assert dead() is not None
    await trio.sleep(2 * INTERVAL)
    assert dead() is None
    passes = metrics.registry.get_sample_value("trierarch_collection_seconds_count", {"pass": "young"})
    assert passes == 1


async def test_the_process_is_left_as_it_was(autojump_clock):
    """Python collects again when the actor has gone, and nothing stays set aside."""
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(collector.run, Metrics()))
        assert gc.get_freeze_count()
        nursery.cancel_scope.cancel()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
