"""What a source finds outside of the mesh (addresses, keys), as intake is told of it: objects of a kind of our own.

Shared by the sources that look something up because a snapshot wants it. What was found is given by whoever makes the
source and outlives it: a source that dies takes nothing from proxies. When something is looked up is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from actors.messages import SourceChanged

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from actors.mailbox import Mailbox
    from actors.messages import ToIntake
    from trierarch.config.objects import AnyObject

WantedT = TypeVar("WantedT", bound="str | tuple[object, ...]")
FoundT = TypeVar("FoundT")


class Finds(Generic[WantedT, FoundT]):
    """What was found (`known`) for whatever is wanted. `build` makes an object of it that comes from `source`."""

    def __init__(
        self,
        source: str,
        known: dict[WantedT, FoundT],
        intake: Mailbox[ToIntake],
        build: Callable[[WantedT, FoundT, str], AnyObject],
    ) -> None:
        self._source = source
        self._known = known
        self._intake = intake
        self._build = build

    def get(self, wanted: WantedT) -> FoundT | None:
        """What is known for this, or None."""
        return self._known.get(wanted)

    async def tell_everything(self) -> None:
        """Tell all that is known."""
        await self._tell(self._known, full=True)

    async def put(self, wanted: WantedT, found: FoundT) -> None:
        """Tell what was found, unless it is known."""
        if found != self._known.get(wanted):
            self._known[wanted] = found
            await self._tell({wanted: found})

    async def keep(self, wanted: Collection[WantedT]) -> None:
        """Forget what is known for anything else, and tell that it is gone."""
        gone = {each: self._known.pop(each) for each in self._known.keys() - set(wanted)}
        if gone:
            await self._tell({}, gone=gone)

    async def _tell(
        self, found: Mapping[WantedT, FoundT], *, gone: Mapping[WantedT, FoundT] | None = None, full: bool = False
    ) -> None:
        message = SourceChanged(
            source=self._source,
            upserts=self._objects(found),
            deletes=frozenset(each.key for each in self._objects(gone or {})),
            full=full,
            seen_at=trio.current_time(),
        )
        await self._intake.send(message)

    def _objects(self, found: Mapping[WantedT, FoundT]) -> tuple[AnyObject, ...]:
        return tuple(self._build(each, found[each], self._source) for each in sorted(found))
