"""How many names one stream may ask for. Without end they would hold memory and slow each step down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import RemoteError
from protocol.statuses import RESOURCE_EXHAUSTED
from protocol.xds.requests import SotwRequest
from protocol.xds.wire_requests import MOST_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.xds.requests import Request
    from protocol.xds.session import AdsSession
    from protocol.xds.subscription import Watch

MOST_CHARACTERS = 8 * 1024 * 1024
"""Of all names that one stream asks for: twice what a state-of-the-world client can say in one request."""


class NameBounds:
    """Watches over one stream's names. What it remembers is only an upper bound, so that it may be begun anew."""

    def __init__(self, most: int = MOST_NAMES, characters: int = MOST_CHARACTERS) -> None:
        self._most = most
        self._characters = characters
        self._claimed = 0
        self._counted: dict[str, frozenset[str]] = {}

    def check(self, session: AdsSession, request: Request) -> None:
        """To be called with each request and the session stepped by it. Raises `RemoteError` if there are too many.

        Names are counted when there may be more of them than before, their characters only when the requests since the
        last count may have added enough.
        """
        if not self._may_add(session, request):
            return
        kept = [names for watch in session.watches.values() for names in _kept(watch)]
        if sum(map(len, kept)) > self._most:
            raise RemoteError(RESOURCE_EXHAUSTED, f"a stream that asks for more than {self._most} names")
        self._claimed += characters_of_names(request)
        if self._claimed > self._characters:
            self._claimed = sum(map(_characters, kept))
        if self._claimed > self._characters:
            raise RemoteError(RESOURCE_EXHAUSTED, f"a stream that asks for names of {self._characters} characters")

    def _may_add(self, session: AdsSession, request: Request) -> bool:
        """Whether a request says names, and not only those that a state-of-the-world client repeats with every ACK: of
        them the session keeps the set that it has.
        """
        if not isinstance(request, SotwRequest):
            names = request.subscribe or request.unsubscribe or request.initial
            return bool(names) and request.type_url in session.watches
        watch = session.watches.get(request.type_url)
        if watch is None:
            return False
        repeated = self._counted.get(request.type_url) is watch.names
        self._counted[request.type_url] = watch.names
        return not repeated


def _kept(watch: Watch) -> tuple[frozenset[str], ...]:
    """The names that a client has made us remember: asked for, or asked for and not yet taken."""
    late = (watch.late.subscribe, watch.late.unsubscribe) if watch.late else ()
    return (watch.names, *late)


def characters_of_names(request: Request) -> int:
    """How many characters the names in a request have, whatever it says of them."""
    if isinstance(request, SotwRequest):
        return _characters(request.names)
    return _characters(request.subscribe) + _characters(request.unsubscribe) + _characters(request.initial)


def _characters(names: Iterable[str]) -> int:
    """Joined and measured, for to ask each of 2,400 names takes six times as long."""
    return len("".join(names))
