"""Collects garbage, when it disturbs nobody: Python's own collector would stop everything for 150 ms amid a push.

Owns: the garbage collector of the process, which is switched off for as long as this actor lives.
Receives: nothing; it looks at the heap now and then.
Sends: nothing.
Dies when: nothing known.
Recovers by: looking again; meanwhile Python collects by itself.

Nearly everything here is freed without a collector, by counting references; what it is for is the odd cycle, such as a
crash leaves behind. A pass takes time in proportion to the objects that it looks at, half a microsecond for each, for
they are far apart in memory. Looking at new objects in small numbers does not make it less: with a thousand proxies it
took a tenth of the cost of each change, and found nothing. So a pass is over everything; it waits until so much has
been added that it is worth one, and until nothing has happened for a while: then most likely nobody waits for its end.
What was there at the start is no garbage and never looked at.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from actors.metrics import Metrics

INTERVAL = 0.25
"""Seconds between two looks."""

GROWTH = 300_000
"""Objects more than after the last pass that are worth another one."""

RESTED = 10.0
"""Seconds without work after which a pass is likely to disturb nobody."""

MOST = 10_000_000
"""Objects more than after the last pass at which it is time for one whatever the process does: a gigabyte, perhaps."""

IDLE = 0.05
"""The share of a core that a process without work may use."""


def is_due(grown: int, rested: float) -> bool:
    """Whether it is time for a pass. `grown`: objects more than after the last one; `rested`: seconds without work."""
    return grown >= MOST or (grown >= GROWTH and rested >= RESTED)


async def run(metrics: Metrics, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Collect for ever. What is there at the start is set aside."""
    gc.disable()
    gc.freeze()
    try:
        task_status.started()
        await _watch(metrics)
    finally:
        gc.unfreeze()
        gc.enable()


async def _watch(metrics: Metrics) -> None:
    rested, worked = 0.0, time.process_time()
    while True:
        await trio.sleep(INTERVAL)
        spent, worked = time.process_time() - worked, time.process_time()
        rested = rested + INTERVAL if spent < IDLE * INTERVAL else 0.0
        if is_due(gc.get_count()[0], rested):
            with metrics.collection_time.time():
                gc.collect()
            worked = time.process_time()
