"""One object for each name: thousands of streams name the same resources, and clients repeat themselves.

Not `sys.intern`: CPython 3.12.0 to 3.12.5 never frees what it interned (python/cpython#113993), so that a client with
ever new names would cost memory for ever. This pool is emptied when it has grown too large. Nobody depends on it: two
equal names that are two objects are still equal.

A name that was met is known by its bytes too, so that the names of a request need not be decoded one by one. In both
dialects they are its field 3, one after the other: cut where that field's tag is, each piece is the length of a name
and the name. Only a piece that is known is trusted to be a whole field, for the tag's byte may also be in a name, or
be a length; so they are taken from the first on for as long as they are known, and the decoder gets the rest.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING

from protocol.wire import DELIMITED, START_GROUP, tag
from protocol.wire_reading import MALFORMED, read_tag, skip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

POOLED = 8 * 1024 * 1024
"""Characters of the names in a pool, about: a hundred thousand names, some 40 MB."""

OPENING = tag(3, DELIMITED)
"""How a name begins: DiscoveryRequest.resource_names, DeltaDiscoveryRequest.resource_names_subscribe."""

_NAME = 3 << 3 | DELIMITED

_FIRST = frozenset({1 << 3 | DELIMITED, 2 << 3 | DELIMITED})
"""Tags of the version and the Node, or the Node and the type URL: what a request of either dialect begins with."""

SHORT = 0x7F
"""Bytes up to which the length of a name is a single byte. Nobody has names whose length takes three."""

_MANY = 1024
"""Bytes of a request from which on its names are looked for."""

_MOST_BEFORE = 8
"""Fields that are passed over on the way to the first name. In both dialects two may stand there, and two million fit
into a request: a second's work.
"""


class NamePool:
    """Names that were met. Several threads may use it: each step on a dictionary is one of the interpreter."""

    def __init__(self, pooled: int = POOLED) -> None:
        self._names: dict[str, str] = {}
        self._fields: dict[bytes, str] = {}
        self._pooled = pooled
        self._size = 0

    def __len__(self) -> int:
        return len(self._names)

    def share_one(self, name: str) -> str:
        """The object that an equal name was when it was met first."""
        return self._names.get(name) or self.share((name,))[0]

    def share(self, names: Iterable[str]) -> tuple[str, ...]:
        """The same names, each the object that an equal one was when it was met first."""
        names, known = tuple(names), len(self._names)
        if not names:
            return names
        shared = tuple(map(self._names.setdefault, names, names))
        if len(self._names) > known:
            self._size += sum(map(len, names))
            if self._size > self._pooled:
                self._size = 0
                self._names, self._fields = {}, {}
            else:
                self._fields.update(_fields(shared))
        return shared

    def known(self, field: bytes) -> str | None:
        """The name that was met with these bytes, its length and itself."""
        return self._fields.get(field)

    def cut(self, data: bytes) -> tuple[bytes, tuple[str, ...]]:
        """A request without its first names, as far as they are known, and these names."""
        begin = begin_of_names(data) if len(data) >= _MANY else len(data)
        if begin == len(data):
            return data, ()
        fields = data[begin + len(OPENING) :].split(OPENING)
        names = list(map(self._fields.get, fields, repeat("")))
        run = names.index("") if "" in names else len(names)
        rest = [data[:begin], *fields[run:]]
        return OPENING.join(rest), tuple(names[:run])


def _fields(names: Iterable[str]) -> dict[bytes, str]:
    """Names by what is behind the tag of the fields that hold them. The empty name is of no use to anybody."""
    encoded = ((name.encode(), name) for name in names if name)
    return {bytes((len(text),)) + text: name for text, name in encoded if len(text) <= SHORT}


def begin_of_names(data: bytes) -> int:
    """Where the first name's field begins in a request; the end of what has none, or not where it should be."""
    return next((position for field, position, _ in _first_fields(data) if field == _NAME), len(data))


def dense_size(data: bytes) -> int:
    """Bytes of a request that may be many fields: those behind the version, the Node and the type URL with which it
    begins. Each of these is one, however long it is.
    """
    passed = 0
    for field, _, behind in _first_fields(data):
        if field not in _FIRST:
            break
        passed = behind
    return len(data) - passed


def _first_fields(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The first fields of a request: tag, where it is, and where the field ends. Up to one that is a group or none."""
    position = 0
    with suppress(*MALFORMED):
        for _ in range(_MOST_BEFORE):
            field, after = read_tag(data, position)
            if field & 7 == START_GROUP:
                return
            behind = skip(data, after, field)
            yield field, position, behind
            position = behind


POOL = NamePool()
"""The pool of the process."""


def share(names: Iterable[str]) -> tuple[str, ...]:
    """`NamePool.share` of the process's pool."""
    return POOL.share(names)
