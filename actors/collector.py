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

If that dies in a cycle it is kept: should every second scrape meet a push, that could come to 20 MB a day. So once a
day, while nothing is pushed, everything is looked at.
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

INTERVAL = 0.05
"""Seconds between two looks whether a pass is due."""

LITTLE, MUCH = 0.0005, 0.005
"""Seconds of CPU time within an interval: in less than a little hardly anything can have died; in much, a push for
instance, more is new than a short pass can look at.
"""

DAY = 24 * 60 * 60.0
"""Seconds after which everything is looked at."""

LONG = 0.001
"""Seconds; what survives a longer pass is set aside."""


async def run(metrics: Metrics, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Collect for ever."""
    with _instead_of_python(metrics):
        task_status.started()
        worked, next_day = time.process_time(), trio.current_time() + DAY
        while True:
            await trio.sleep(INTERVAL)
            spent, worked = time.process_time() - worked, time.process_time()
            if spent >= MUCH:
                gc.freeze()
            elif trio.current_time() >= next_day:
                next_day = trio.current_time() + DAY
                _look_at_everything()
            elif spent >= LITTLE:
                gc.collect()


def _look_at_everything() -> None:
    """A pass over what was set aside, too; all that survives is set aside."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


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
