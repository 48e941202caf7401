"""How many names one stream may ask for. Without end they would hold memory and slow each step down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import RemoteError
from protocol.statuses import RESOURCE_EXHAUSTED
from protocol.xds.requests import SotwRequest
from protocol.xds.wire_requests import MOST_NAMES

if TYPE_CHECKING:
    from protocol.xds.requests import Request
    from protocol.xds.session import AdsSession

MOST_CHARACTERS = 8 * 1024 * 1024
"""Of all names that one stream asks for: twice what a state-of-the-world client can say in one request."""


class NameBounds:
    """Watches over one stream's names. What it remembers is only an upper bound, so that it may be begun anew."""

    def __init__(self, most: int = MOST_NAMES, characters: int = MOST_CHARACTERS) -> None:
        self._most = most
        self._characters = characters
        self._claimed = 0

    def check(self, session: AdsSession, request: Request) -> None:
        """To be called with each request and the session stepped by it. Raises `RemoteError` if there are too many.

        Names are counted each time, their characters only when the requests since the last count may have added enough.
        """
        if sum(len(watch.names) for watch in session.watches.values()) > self._most:
            raise RemoteError(RESOURCE_EXHAUSTED, f"a stream that asks for more than {self._most} names")
        self._claimed += _characters_of(request)
        if self._claimed > self._characters:
            self._claimed = sum(sum(map(len, watch.names)) for watch in session.watches.values())
        if self._claimed > self._characters:
            raise RemoteError(RESOURCE_EXHAUSTED, f"a stream that asks for names of {self._characters} characters")


def _characters_of(request: Request) -> int:
    if isinstance(request, SotwRequest):
        return sum(map(len, request.names))
    return sum(map(len, request.subscribe)) + sum(map(len, request.initial))
