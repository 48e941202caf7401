"""Collects garbage, when it disturbs nobody: Python's own collector would stop everything for 150 ms amid a push.

Owns: the garbage collector of the process, which is switched off for as long as this actor lives.
Receives: nothing; it looks at the heap now and then.
Sends: nothing.
Dies when: nothing known.
Recovers by: looking again; meanwhile Python collects by itself.

Nearly everything here is freed without a collector, by counting references; what it is for is the odd cycle, such as a
crash leaves behind. A pass takes time in proportion to the objects that it looks at. So young objects are looked at in
small numbers, and what survives is set aside (`gc.freeze`): the next pass does not look at it again. Garbage among what
was set aside is found by a pass over everything; that waits until so much has been added and the process has nothing to
do.
"""

from __future__ import annotations

import gc
import time
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import trio

if TYPE_CHECKING:
    from actors.metrics import Metrics

INTERVAL = 0.25
"""Seconds between two looks."""

BUSY_YOUNG, IDLE_YOUNG = 40_000, 5_000
"""Young objects that are worth a pass, while there is other work and while there is none."""

GROWTH = 300_000
"""Objects set aside since the last pass over everything that are worth another one. They are counted when they are
young: to ask Python how many are set aside would itself be a walk over all of them.
"""

IDLE = 0.05
"""The share of a core that a process without work may use."""


class Pass(Enum):
    """What to look at."""

    YOUNG = "young"
    EVERYTHING = "everything"


class Heap(NamedTuple):
    """What there is: `young` objects since the last pass, those `added` to what is set aside since the last full one.

    `idle`: the process has nothing else to do.
    """

    young: int
    added: int
    idle: bool


def choose(heap: Heap) -> Pass | None:
    """The pass that is due, if any."""
    if heap.idle and heap.added >= GROWTH:
        return Pass.EVERYTHING
    return Pass.YOUNG if heap.young >= (IDLE_YOUNG if heap.idle else BUSY_YOUNG) else None


async def run(metrics: Metrics, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Collect for ever. What is there at the start is set aside at once."""
    gc.disable()
    gc.freeze()
    try:
        task_status.started()
        await _watch(metrics)
    finally:
        gc.unfreeze()
        gc.enable()


async def _watch(metrics: Metrics) -> None:
    added, worked = 0, time.process_time()
    while True:
        await trio.sleep(INTERVAL)
        spent, worked = time.process_time() - worked, time.process_time()
        young = gc.get_count()[0]
        due = choose(Heap(young, added, idle=spent < IDLE * INTERVAL))
        if due is not None:
            added = 0 if due is Pass.EVERYTHING else added + young
            with metrics.collections.labels(due.value).time():
                _collect(due)
            worked = time.process_time()


def _collect(due: Pass) -> None:
    if due is Pass.EVERYTHING:
        gc.unfreeze()
    gc.collect()  # of all generations: what is old is set aside, so only the young one has anything in it
    gc.freeze()
