"""Collects garbage, a few milliseconds at a time: Python's own collector would stop everything for 150 ms amid a push.

Owns: the garbage collector of the process, for as long as this actor lives.
Receives: nothing; it looks now and then whether anything was done.
Sends: nothing.
Dies when: nothing known.
Recovers by: looking again; meanwhile Python collects by itself.

Nearly everything here is freed without a collector, by counting references. Clients that come and go, changes, deaths
of actors leave no cycles (tests/actors/test_garbage.py); what the collector is for is what libraries leave, such as
each connection to the debug pages, and mistakes. Those die young. A pass takes time in proportion to the objects that
it looks at, up to half a microsecond for each, for they are far apart in memory; Python's own passes took a fifth of
the cost of each change, because they look at the same objects again and again.

So only what is new is looked at, and a pass begins before that is much: when there are `NEW` objects more (Python
counts them), and `INTERVAL` after something was done (for what takes the place of something else is no more). What
survives is set aside, and no pass looks at it any more; but not while it is so little that looking again takes no
time, for what lives only as long as a request is then found when it has died. What was there at the start is set aside
at once.

While much is going on, what lives for a moment is set aside too. If that dies in a cycle, as a connection to the debug
pages does (7 KB), it is kept: two scrapes a minute could come to 20 MB a day. So once a day, while nothing is pushed,
everything is looked at.
"""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.metrics import Metrics

NEW = 5_000
"""Objects more than were freed after which Python begins a pass, in the middle of anything."""

INTERVAL = 0.05
"""Seconds between two looks whether a pass is due."""

WORK = 0.0005
"""Seconds of CPU time within an interval that are worth a pass: in less hardly anything can have died."""

DAY = 24 * 60 * 60.0
"""Seconds after which everything is looked at."""

REST = 0.005
"""Seconds of CPU time within an interval in which nothing is pushed."""

WHOLE = 2
"""The generation of a pass that was asked for; Python's own are of lower ones."""

LONG = 0.001
"""Seconds; what survives a longer pass is set aside."""

NEVER = 1_000_000_000
"""Passes of Python's over what is new until it looks at older objects."""


async def run(metrics: Metrics, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Collect for ever."""
    with _only_what_is_new(metrics):
        task_status.started()
        worked, next_day = time.process_time(), trio.current_time() + DAY
        while True:
            await trio.sleep(INTERVAL)
            spent, worked = time.process_time() - worked, time.process_time()
            if trio.current_time() >= next_day and spent < REST:
                next_day = trio.current_time() + DAY
                _look_at_everything()
            elif spent >= WORK:
                gc.collect()


def _look_at_everything() -> None:
    """A pass over what was set aside, too; all that survives is set aside."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def _only_what_is_new(metrics: Metrics) -> Iterator[None]:
    """No pass looks at what was there before, nor for long at what survives."""
    thresholds, passes = gc.get_threshold(), Passes(metrics)
    gc.freeze()
    gc.set_threshold(NEW, NEVER, NEVER)
    gc.callbacks.append(passes.note)
    try:
        yield
    finally:
        gc.callbacks.remove(passes.note)
        gc.set_threshold(*thresholds)
        gc.unfreeze()


class Passes:
    """Watches passes, whoever began them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._began = 0.0

    def note(self, phase: str, about: dict[str, int]) -> None:
        """A pass begins or ends (`gc.callbacks`)."""
        if phase == "start":
            self._began = time.perf_counter()
            return
        took = time.perf_counter() - self._began
        self._metrics.collection_time.observe(took)
        if took > LONG or about["generation"] < WHOLE:  # Python began it: much is going on
            gc.freeze()
