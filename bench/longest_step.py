"""The longest steps between two turns of the event loop, and where they are: the whole tree of actors, 1,000 services.

    python bench/longest_step.py [--services 1000] [--proxies 40] [--show 12]

Everything runs in one thread, so whoever computes holds everybody: a step may take 5 ms of CPU time, garbage collection
apart. Proxies of all namespaces connect, and then objects of every kind change. A step is shown
with the places where it began and ended. Garbage is collected as in production, by an actor of its own, which waits for
a rest; a pass may stop everything for 10 ms.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import trio
from common.mesh import EDITS, NAMESPACES
from common.system import SETTINGS, discarded_logs, running
from common.table import Table

if TYPE_CHECKING:
    from types import FrameType

STEP_BUDGET, PAUSE_BUDGET = 5.0, 10.0
KEPT = 200
OURS = frozenset({"actors", "trierarch", "protocol"})


class Pauses:
    """What the collector of cycles took, in milliseconds of CPU time."""

    def __init__(self) -> None:
        self.total = 0.0
        self.longest = 0.0
        self._began = 0.0

    def note(self, phase: str, _info: dict[str, int]) -> None:
        """A pass begins or ends (`gc.callbacks`)."""
        if phase == "start":
            self._began = time.thread_time()
            return
        spent = (time.thread_time() - self._began) * 1000
        self.total += spent
        self.longest = max(self.longest, spent)


class Step(NamedTuple):
    """A step of a task: its CPU time in milliseconds, what was going on, and where in its code it began and ended."""

    spent: float
    phase: str
    began: str
    ended: str


class Steps(trio.abc.Instrument):
    """The longest steps of all tasks, collection apart."""

    def __init__(self, pauses: Pauses) -> None:
        self.phase = "connect"
        self.longest: list[Step] = []
        self._pauses = pauses
        self._places: dict[trio.lowlevel.Task, str] = {}
        self._began = self._paused = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """The task goes on."""
        self._paused, self._began = self._pauses.total, time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """The task has given others their turn."""
        if not self._began:
            return  # it began before anybody looked
        spent = (time.thread_time() - self._began) * 1000 - (self._pauses.total - self._paused)
        before = self._places.get(task, "")
        now = self._places[task] = place(task.coro)
        step = Step(spent, self.phase, before, now)
        (heapq.heappush if len(self.longest) < KEPT else heapq.heappushpop)(self.longest, step)

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        """Forget it."""
        self._places.pop(task, None)


def place(waiting: Any) -> str:  # noqa: ANN401 - a coroutine, or a generator that an actor drives
    """The innermost functions of the project in which a task waits."""
    frames: list[FrameType] = []
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
        if frame is not None:
            frames.append(frame)
            waiting = frame.f_locals.get("steps", waiting)
    names = ((Path(frame.f_code.co_filename), frame.f_code.co_name, frame.f_lineno) for frame in frames)
    ours = [f"{path.stem}.{name}:{line}" for path, name, line in names if not OURS.isdisjoint(path.parts)]
    return " > ".join(ours[-2:])


async def measure(services: int, proxies: int) -> tuple[list[Step], Pauses, float]:
    """Start, connect, change two objects of each kind; then what a pass over everything takes."""
    pauses = Pauses()
    steps = Steps(pauses)
    async with running(services, replace(SETTINGS, collects_briefly=True)) as system:
        gc.callbacks.append(pauses.note)
        trio.lowlevel.add_instrument(steps)
        await system.connect(proxies, NAMESPACES)
        for index in (1, 2):
            for kind, edit in EDITS.items():
                steps.phase = f"one {kind}"
                await system.change(edit(index, 1), proxies)
        trio.lowlevel.remove_instrument(steps)
        gc.callbacks.remove(pauses.note)
        began = time.thread_time()
        gc.collect()
        return sorted(steps.longest, reverse=True), pauses, (time.thread_time() - began) * 1000


def main() -> int:
    """Measure, print, compare with the budgets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--proxies", type=int, default=40)
    parser.add_argument("--show", type=int, default=12)
    arguments = parser.parse_args()
    with discarded_logs():
        longest, pauses, everything = trio.run(measure, arguments.services, arguments.proxies)
    table = Table(f"{arguments.services} services, {arguments.proxies} proxies of {NAMESPACES} namespaces")
    table.value("the longest step", longest[0].spent, STEP_BUDGET)
    table.value("the collector's longest pause meanwhile", pauses.longest, PAUSE_BUDGET)
    table.value("its pass over everything, after 10 s of rest", everything, PAUSE_BUDGET)
    print(f"\n{'ms':>8}  {'while':20}from -> to")
    for step in longest[: arguments.show]:
        print(f"{step.spent:8.2f}  {step.phase:20}{step.began} -> {step.ended}")
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
