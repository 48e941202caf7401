"""A task for each thing that is wanted: begun when it comes to be wanted, cancelled when it is not any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Iterable

ThingT = TypeVar("ThingT", bound=Hashable)


class Following(Generic[ThingT]):
    """The tasks of one actor, in its nursery. `task` runs for ever, for one thing."""

    def __init__(self, nursery: trio.Nursery, task: Callable[[ThingT], Awaitable[None]]) -> None:
        self._nursery = nursery
        self._task = task
        self._running: dict[ThingT, trio.CancelScope] = {}

    def follow(self, wanted: Iterable[ThingT]) -> None:
        """Have a task for each of these from now on, begun in their order, and for nothing else."""
        things = dict.fromkeys(wanted)
        for thing in self._running.keys() - things.keys():
            self._running.pop(thing).cancel()
        for thing in things:
            if thing not in self._running:
                self._running[thing] = trio.CancelScope()
                self._nursery.start_soon(self._run, thing, self._running[thing])

    async def _run(self, thing: ThingT, scope: trio.CancelScope) -> None:
        with scope:
            await self._task(thing)
