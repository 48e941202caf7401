"""The longest steps between two turns of the event loop, and where they are: the whole tree of actors, 1,000 services.

    python bench/longest_step.py [--services 1000] [--proxies 40] [--show 12]

Everything runs in one thread, so whoever computes holds everybody: a step may take 5 ms of CPU time, garbage collection
apart, and a pass of the collector 10 ms. Measured is a whole life: a folder of 7,000 objects is
read and the first snapshot built, proxies of all namespaces connect, objects of every kind change, many at once, a
namespace goes, a document is broken, and a client asks for as many names as it may. A step is shown with the places
where it began and ended.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import sys
import time
from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import trio
from common.folder import AUTHORIZATION, BROKEN, KEYS, PEER, REQUEST, WIDE_RULE, MeshFolder
from common.mesh import NAMESPACES
from common.system import SETTINGS, discarded_logs, replica, started
from common.table import Table

from protocol.xds.requests import DeltaRequest, Nack
from protocol.xds.wire_requests import MOST_NAMES, encode_delta_request
from trierarch.envoy.types import CLUSTER, ENDPOINT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from common.system import Running

STEP_BUDGET, PAUSE_BUDGET = 5.0, 10.0
KEPT = 500
OURS = frozenset({"actors", "trierarch", "protocol"})
NEW, MANY = 5_000, 100
"""The number of a service that the mesh does not have; how many objects change at once."""


# --- what is measured ------------------------------------------------------------------------------------------------
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
        self.phase = "start"
        self.longest: list[Step] = []
        self.by_phase: dict[str, float] = defaultdict(float)
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
        if not (before or now):
            return  # one of this file
        self.by_phase[self.phase] = max(self.by_phase[self.phase], spent)
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


# --- what happens ----------------------------------------------------------------------------------------------------
def edits(folder: MeshFolder) -> Iterator[tuple[str, Callable[[], None]]]:
    """What is edited, in its order, and how."""
    yield "VirtualService", lambda: folder.write_service(1, timeout=2)
    yield "DestinationRule", lambda: folder.write_service(2, second="v3")
    yield "endpoint", lambda: folder.write_service(3, pods=1)
    yield "new Service", lambda: folder.write_service(NEW)
    yield "AuthorizationPolicy", lambda: folder.write("access.yaml", AUTHORIZATION.format(namespace="ns-1"))
    yield (
        "mesh-wide AuthorizationPolicy",
        lambda: folder.write("all-access.yaml", AUTHORIZATION.format(namespace="istio-system")),
    )
    yield (
        "RequestAuthentication",
        lambda: folder.write("tokens.yaml", REQUEST.format(namespace="istio-system", keys=KEYS)),
    )
    yield "PeerAuthentication", lambda: folder.write("ns-1-mtls.yaml", PEER.format(namespace="ns-1", mode="DISABLE"))
    yield (
        "mesh-wide PeerAuthentication",
        lambda: folder.write("mtls.yaml", PEER.format(namespace="istio-system", mode="STRICT")),
    )
    yield "mesh-wide DestinationRule", lambda: folder.write("rules.yaml", WIDE_RULE)
    yield f"{MANY} VirtualServices", lambda: folder.write_services(range(MANY), timeout=3)
    yield "a broken document", lambda: folder.write("broken.yaml", BROKEN)
    yield "a namespace goes", lambda: folder.delete_namespace(NAMESPACES - 1)


async def edit_all(system: Running, folder: MeshFolder, steps: Steps) -> None:
    """One after the other, each until all is quiet."""
    for phase, edit in edits(folder):
        steps.phase = phase
        await trio.to_thread.run_sync(edit)
        await system.settle()


async def ask_too_much(system: Running, steps: Steps) -> None:
    """A client subscribes to nearly as many names as it may, rejects what it was sent, and subscribes to more."""
    steps.phase = "one more client"
    names = tuple(f"outbound|80||nothing-{number}.ns-1.svc.cluster.local" for number in range(MOST_NAMES))
    many = names[: MOST_NAMES * 9 // 10]
    (client,) = await system.connect(1)
    await system.settle()
    rejection = Nack(code=13, message="no " * 20_000)
    for phase, request in {
        "many names": DeltaRequest(type_url=ENDPOINT, subscribe=many, initial={}),
        "a rejection": DeltaRequest(type_url=CLUSTER, initial={}, nonce=client.nonces[CLUSTER], nack=rejection),
        "many names go": DeltaRequest(type_url=ENDPOINT, unsubscribe=many, initial={}),
        "too many names": DeltaRequest(type_url=ENDPOINT, subscribe=names, initial={}),
    }.items():
        steps.phase = phase
        client.ask(encode_delta_request(request))
        await system.settle()


async def live(services: int, proxies: int) -> tuple[Steps, Pauses]:
    """A whole life of the system."""
    pauses = Pauses()
    steps = Steps(pauses)
    with TemporaryDirectory() as path:
        folder = MeshFolder(Path(path))
        folder.write_services(range(services))
        gc.callbacks.append(pauses.note)
        trio.lowlevel.add_instrument(steps)
        async with started(services, replace(SETTINGS, config=path, collects_briefly=True)) as system:
            steps.phase = "connect"
            await system.connect(proxies, partial(replica, namespaces=NAMESPACES))
            await edit_all(system, folder, steps)
            await ask_too_much(system, steps)
            trio.lowlevel.remove_instrument(steps)
            gc.callbacks.remove(pauses.note)
    return steps, pauses


def main() -> int:
    """Measure, print, compare with the budgets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--proxies", type=int, default=40)
    parser.add_argument("--show", type=int, default=12)
    arguments = parser.parse_args()
    with discarded_logs():
        steps, pauses = trio.run(live, arguments.services, arguments.proxies)
    table = Table(f"{arguments.services} services, {arguments.proxies} proxies of {NAMESPACES} namespaces")
    for phase, longest in steps.by_phase.items():
        table.value(f"longest step: {phase}", longest, STEP_BUDGET)
    table.value("longest pause for collecting garbage", pauses.longest, PAUSE_BUDGET)
    print(f"\n{'ms':>8}  {'while':32}from -> to")
    for step in sorted(steps.longest, reverse=True)[: arguments.show]:
        print(f"{step.spent:8.2f}  {step.phase:32}{step.began} -> {step.ended}")
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
