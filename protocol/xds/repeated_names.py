"""Names that a state-of-the-world client repeats with each request, read once.

Theory. Such a client says with every answer all that it wants of a type, nearly always what it said before and in the
same bytes: 2,400 names are 150 KB, which take longer to read than all else that an ACK costs. So whoever reads a stream
keeps the names of each type as they came, and cuts them out of the next request before it is decoded. Names that
thousands of clients say in the same bytes are kept once.

Fields of a message may come in any order, even names with others between them. Kept are only bytes that are all the
names and nothing else: the rest of their request says without them all that it said with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from protocol.errors import RemoteError
from protocol.xds.names import SHORT, begin_of_names
from protocol.xds.wire_requests import decode_sotw_request

if TYPE_CHECKING:
    from protocol.xds.requests import SotwRequest

LEAST, MOST = 4 * 1024, 1024 * 1024
"""Bytes of names that are worth it, and that one stream may have kept of a type."""

MOST_BESIDE = 4 * 1024
"""Bytes that a request may have beside its names if these are to be kept: for that they are decoded once more."""

MOST_TYPES = 8
"""Types whose names one stream may have kept. Envoy asks for fewer by name; of made-up types there is no end."""


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class _Block:
    """Names, and the fields that hold them."""

    data: bytes
    names: tuple[str, ...]


_BLOCKS: WeakValueDictionary[bytes, _Block] = WeakValueDictionary()
"""All blocks in use, so that equal ones are one."""


class RepeatedNames:
    """The names of one stream's requests, by type URL."""

    def __init__(self) -> None:
        self._blocks: dict[str, _Block] = {}

    def cut(self, data: bytes) -> tuple[bytes, tuple[str, ...]]:
        """A DiscoveryRequest without its first names, if they are known, and these names; all of it and none if not."""
        begin = begin_of_names(data) if self._blocks and len(data) >= LEAST else len(data)
        for block in self._blocks.values():
            end = begin + len(block.data)
            if data.startswith(block.data, begin):
                return data[:begin] + data[end:], block.names
        return data, ()

    def note(self, data: bytes, request: SotwRequest) -> SotwRequest:
        """Keep the names of a request that was decoded whole, if they are many; the request with the names as kept."""
        self._blocks.pop(request.type_url, None)
        begin, size = begin_of_names(data), _size(request.names)
        found, rest = data[begin : begin + size], data[:begin] + data[begin + size :]
        worth_it = LEAST <= size <= MOST and len(rest) <= MOST_BESIDE and len(self._blocks) < MOST_TYPES
        if not worth_it or len(found) < size or not _says(rest, replace(request, names=())):
            return request
        block = _BLOCKS.get(found)
        if block is None:
            block = _BLOCKS[found] = _Block(data=found, names=request.names)
        self._blocks[request.type_url] = block
        return request if block.names is request.names else replace(request, names=block.names)


def _size(names: tuple[str, ...]) -> int:
    """Bytes of the fields that hold these names, if they are plain ones: ASCII, and encoded in the shortest way."""
    size = len("".join(names)) + 2 * len(names)
    return size + sum(len(name) > SHORT for name in names) if max(map(len, names), default=0) > SHORT else size


def _says(data: bytes, request: SotwRequest) -> bool:
    try:
        return decode_sotw_request(data) == request
    except RemoteError:
        return False
