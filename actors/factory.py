"""Supervision of children of one kind that come and go, one for each connection: each by itself (after Erlang/OTP).

A static supervisor (`actors.static_supervisor`) knows its children beforehand and fails when they crash too often; here
such a child is given up and nobody else notices.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from actors.supervision import Child, ChildState
from actors.tree import RestartWindow, Returned, reason, wants_restart
from protocol.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection

    from actors.supervision import SupervisorHandle
    from actors.tree import ChildSpec


class Factory:
    """Supervises children of one kind that come and go: each by itself, with an intensity of its own.

    Made by `open_factory`. A child that crashes too often is given up: its callback is called and nobody else notices.
    """

    def __init__(self, name: str, nursery: trio.Nursery, window: RestartWindow, handle: SupervisorHandle) -> None:
        self._name = name
        self._nursery = nursery
        self._handle = handle
        self._window = window
        self._children: dict[str, Child] = {}

    @property
    def children(self) -> Collection[Child]:
        """Those that are there now; changes as they come and go."""
        return self._children.values()

    async def start(self, spec: ChildSpec, *, on_giving_up: Callable[[str], None]) -> None:
        """Start a child and wait until it is up or has failed for the first time.

        `on_giving_up` is called with the reason when it has crashed too often. Raises `LocalError` if there is a child
        of that name.
        """
        if spec.name in self._children:
            raise LocalError(f"{self._name} has a child {spec.name} already")
        child = self._children[spec.name] = Child(spec, self._name, self._window, on_restart=self._count)
        await self._nursery.start(self._keep, child, on_giving_up)

    async def _keep(
        self, child: Child, on_giving_up: Callable[[str], None], *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Life after life, until a child has come to its end or it has been too much."""
        try:
            await child.live(task_status=task_status)
            while child.state is ChildState.DOWN and wants_restart(child.spec.restart, child.ending):
                if child.count_restart(trio.current_time()):
                    child.report("intensity_exceeded", reason(child.ending))
                    on_giving_up(reason(child.ending))
                    return
                await trio.sleep_until(child.due)
                await child.live(task_status=trio.TASK_STATUS_IGNORED)
        finally:
            child.ending = Returned()  # the frames of an error know the child, which knows the error: a cycle
            del self._children[child.spec.name]

    def _count(self, _: str) -> None:
        """All children under one name: thousands come and go."""
        self._handle.on_restart(f"{self._name}/*")

    async def stop(self) -> None:
        """Stop all children at once: they do not depend on each other."""
        async with trio.open_nursery() as nursery:
            for child in self.children:
                nursery.start_soon(child.stop)


@asynccontextmanager
async def open_factory(
    name: str, *, handle: SupervisorHandle, intensity: int = 1, period: float = 5.0
) -> AsyncIterator[Factory]:
    """A factory for the length of a block; its children are stopped at the end. The intensity is that of each child."""
    async with trio.open_nursery() as nursery:
        factory = Factory(name, nursery, RestartWindow(intensity=intensity, period=period), handle)
        handle.register(name, factory.children)
        try:
            yield factory
        finally:
            handle.forget(name)
            with trio.CancelScope(shield=True):
                await factory.stop()
            nursery.cancel_scope.cancel()
