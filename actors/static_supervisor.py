"""Supervision of children that are known beforehand: drives a tree that `actors.tree` describes (after Erlang/OTP).

Theory of operation. The supervisor's loop knows three things to do: start who is due (left to right, waiting for each
one's handshake), settle who is down (count it, stop whoever is affected, right to left, and set the time at which they
are due again), and sleep until the bell or the next due time. How one child lives and ends is `actors.supervision`'s.

Children live in a nursery that is shielded from the outside: when the supervisor is cancelled, it stops them one by one
instead of all at once. It fails when they crash too often; `actors.factory` is for children that come and go.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from actors.supervision import Child, ChildState, SupervisorHandle
from actors.tree import ChildSpec, Crashed, RestartWindow, SupervisorSpec, affected, reason, wants_restart
from protocol.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Sequence


class IntensityExceeded(LocalError):  # noqa: N818 - what has happened, not what is wrong
    """A supervisor gave up. `str()` is the report: who crashed, of what, how often. Its cause is the last crash."""

    def __init__(self, spec: SupervisorSpec, crashes: Sequence[str]) -> None:
        told = ", ".join(f"{crash} x {times}" if times > 1 else crash for crash, times in Counter(crashes).items())
        super().__init__(f"{spec.name} gave up after {len(crashes)} crashes within {spec.period:g} s: {told}")


async def supervise(
    spec: SupervisorSpec,
    *,
    handle: SupervisorHandle | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a tree until cancelled; `started()` when all its children are up. Raises `IntensityExceeded`."""
    await _Supervisor(spec, handle or SupervisorHandle()).run(task_status)


class _Supervisor:
    """One static supervisor during one life of it."""

    def __init__(self, spec: SupervisorSpec, handle: SupervisorHandle) -> None:
        self._spec = spec
        self._handle = handle
        self._window = RestartWindow(intensity=spec.intensity, period=spec.period)
        self._crashes: deque[str] = deque(maxlen=spec.intensity + 1)
        self._ring, self._bell = trio.open_memory_channel[None](1)
        self._children = tuple(
            Child(self._as_child(child), spec.name, self._window, ring=self._wake, on_restart=handle.on_restart)
            for child in spec.children
        )

    def _as_child(self, spec: ChildSpec | SupervisorSpec) -> ChildSpec:
        if isinstance(spec, ChildSpec):
            return spec
        return ChildSpec(name=spec.name, start=partial(supervise, spec, handle=self._handle), shutdown=float("inf"))

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Keep the children running until cancelled. Raises `IntensityExceeded`."""
        self._handle.register(self._spec.name, self._children)
        async with trio.open_nursery() as outside:
            loop = trio.CancelScope()
            outside.start_soon(_cancel_when_cancelled, loop)
            failure = None
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    with loop:
                        failure = await self._loop(nursery, task_status)
                    await self._stop(self._children)
            outside.cancel_scope.cancel()
        self._handle.forget(self._spec.name)
        if failure is not None:
            raise failure

    async def _loop(self, nursery: trio.Nursery, task_status: trio.TaskStatus[None]) -> IntensityExceeded:
        announced = False
        while True:
            await self._start_due(nursery)
            for child in self._children:
                if child.state is ChildState.DOWN and (failure := await self._settle(child)):
                    return failure
            if not announced and not any(child.state is ChildState.WAITING for child in self._children):
                announced = True
                task_status.started()
            await self._wait()

    async def _start_due(self, nursery: trio.Nursery) -> None:
        """Start whoever is due, left to right. One that fails stops the row: those after it may depend on it."""
        for child in self._children:
            if child.state is ChildState.WAITING and child.due <= trio.current_time():
                await nursery.start(child.live)
            if child.state is ChildState.DOWN:
                return

    async def _settle(self, child: Child) -> IntensityExceeded | None:
        """Decide what follows from a child's being down."""
        if not wants_restart(child.spec.restart, child.ending):
            child.state = ChildState.STOPPED
            return None
        now = trio.current_time()
        self._crashes.append(f"{child.spec.name} ({reason(child.ending)})")
        self._window, exceeded = self._window.add(now)
        if exceeded:
            return self._give_up(child)
        child.count_restart(now)
        group = affected(self._spec.strategy, tuple(each.spec.name for each in self._children), child.spec.name)
        neighbours = tuple(each for each in self._children if each.spec.name in group)
        await self._stop(neighbours, why=f"stopped because {child.spec.name} is down")
        for each in neighbours:
            if each.restarts_with_others:
                each.state, each.due = ChildState.WAITING, child.due
        return None

    def _give_up(self, child: Child) -> IntensityExceeded:
        child.report("intensity_exceeded", reason(child.ending))
        failure = IntensityExceeded(self._spec, tuple(self._crashes)[-len(self._window.times) :])
        failure.__cause__ = child.ending.error if isinstance(child.ending, Crashed) else None
        return failure

    async def _stop(self, children: tuple[Child, ...], why: str = "stopped by its supervisor") -> None:
        for child in reversed(children):
            await child.stop(why)

    async def _wait(self) -> None:
        """Sleep until a child ends or the next is due."""
        due = min((c.due for c in self._children if c.state is ChildState.WAITING), default=float("inf"))
        with trio.move_on_at(due):
            await self._bell.receive()

    def _wake(self) -> None:
        with suppress(trio.WouldBlock):  # it has been rung already
            self._ring.send_nowait(None)


async def _cancel_when_cancelled(scope: trio.CancelScope) -> None:
    """Carry a cancellation from outside through a shield, to where it can be met in order."""
    try:
        await trio.sleep_forever()
    finally:
        scope.cancel()
