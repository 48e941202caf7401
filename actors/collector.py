"""Collects garbage, a few milliseconds at a time: Python's own collector would stop everything for 150 ms amid a push.

Owns: the garbage collector of the process, for as long as this actor lives.
Receives: nothing; it looks now and then whether anything was done.
Sends: nothing.
Dies when: nothing known.
Recovers by: looking again; meanwhile Python collects by itself.

Nearly everything here is freed without a collector, by counting references. Clients that come and go, changes, deaths
of actors leave no cycles (tests/actors/test_garbage.py); what the collector is for is what libraries leave, such as
each connection to the debug pages, and mistakes. A pass takes time in proportion to the objects that it looks at, up to
half a microsecond for each, for they are far apart in memory; Python's own passes took a fifth of the cost of each
change, and even looking once at all that is new took a tenth.

So Python begins no pass, and only what is new and little is looked at: what an interval with a little work has left,
such as a scrape. What survives is set aside, and no pass looks at it any more; but not while it is so little that
looking again takes no time, for what lives only as long as a request is then found when it has died. What was there at
the start, and what an interval with much work leaves, is set aside unseen.

If that dies in a cycle it is kept: should every second scrape meet a push, that could come to 20 MB a day, and whoever
asks the debug pages as often as they answer leaves 3 MB a second. So once a day, while nothing is pushed, everything is
looked at; and whenever memory has grown to twice what it was after the last such look.
"""

from __future__ import annotations

import gc
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.metrics import Metrics

INTERVAL = 0.1
"""Seconds between two looks whether a pass is due."""

LITTLE, MUCH = 0.0005, 0.005
"""Seconds of CPU time within an interval: in less than a little hardly anything can have died; in much, a push for
instance, more is new than a short pass can look at.
"""

DAY = 24 * 60 * 60.0
"""Seconds after which everything is looked at."""

SECOND = 1.0
"""Seconds between two looks how much memory there is, which takes a tenth of a millisecond for 100 MB."""

MANY = 10_000_000
"""Blocks of memory more, some 700 MB, for which everything is looked at, at least. A mesh that grows by so much in a
day has one long pause for it.
"""

LONG = 0.001
"""Seconds; what survives a longer pass is set aside."""


async def run(metrics: Metrics, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Collect for ever."""
    with _instead_of_python(metrics):
        task_status.started()
        worked, old = time.process_time(), SetAside(trio.current_time())
        while True:
            await trio.sleep(INTERVAL)
            spent, worked = time.process_time() - worked, time.process_time()
            if old.is_due(trio.current_time(), calm=spent < MUCH):
                old.look(trio.current_time())
            elif spent >= MUCH:
                gc.freeze()
            elif spent >= LITTLE:
                gc.collect()


class SetAside:
    """What is set aside, and when it must be looked at all the same."""

    def __init__(self, now: float) -> None:
        self._next_count = now
        self._begin(now)

    def is_due(self, now: float, *, calm: bool) -> bool:
        """Whether it is time for that: a day has passed and it is calm, or there is much more than there was."""
        if calm and now >= self._next_day:
            return True
        if now < self._next_count:
            return False
        self._next_count = now + SECOND
        return sys.getallocatedblocks() - self._kept > max(self._kept, MANY)

    def look(self, now: float) -> None:
        """A pass over everything; what survives is set aside."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._begin(now)

    def _begin(self, now: float) -> None:
        self._kept = sys.getallocatedblocks()
        self._next_day = now + DAY


@contextmanager
def _instead_of_python(metrics: Metrics) -> Iterator[None]:
    """What was there before is set aside, and Python begins no pass."""
    passes = Passes(metrics)
    gc.freeze()
    gc.disable()
    gc.callbacks.append(passes.note)
    try:
        yield
    finally:
        gc.callbacks.remove(passes.note)
        gc.enable()
        gc.unfreeze()


class Passes:
    """Measures passes, and sets aside what survives a long one."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._began = 0.0

    def note(self, phase: str, _about: dict[str, int]) -> None:
        """A pass begins or ends (`gc.callbacks`)."""
        if phase == "start":
            self._began = time.perf_counter()
            return
        took = time.perf_counter() - self._began
        self._metrics.collection_time.observe(took)
        if took > LONG:
            gc.freeze()
