"""An event that can be cleared: what grpclib's protocol classes wait for, awaited by trio tasks."""

import asyncio
from typing import Literal

from trio.lowlevel import ParkingLot


class Flag(asyncio.Event):
    """Stands where grpclib puts an `asyncio.Event` (it is one for the type checker) and needs no event loop.

    trio's own `Event` cannot be cleared, which flow control needs. Whoever is woken checks its condition again:
    the flag may have been cleared before it ran, or it was only nudged.
    """

    def __init__(self, *, is_set: bool = False) -> None:
        self._is_set = is_set
        self._waiting = ParkingLot()

    def is_set(self) -> bool:
        """Whether waiting would return at once."""
        return self._is_set

    def set(self) -> None:
        """Wake every waiter."""
        if not self._is_set:  # else nobody waits
            self._is_set = True
            self._waiting.unpark_all()

    def nudge(self) -> None:
        """Wake every waiter without setting the flag: what it waits for may be pointless by now."""
        self._waiting.unpark_all()

    def clear(self) -> None:
        """Make those who come from now on wait."""
        self._is_set = False

    async def wait(self) -> Literal[True]:
        """Wait until the flag is set. Not a checkpoint if it is: the callers are on the path of every message."""
        if not self._is_set:
            await self._waiting.park()
        return True
