"""One object for each name: thousands of streams name the same resources, and clients repeat themselves.

Not `sys.intern`: CPython 3.12.0 to 3.12.5 never frees what it interned (python/cpython#113993), so that a client with
ever new names would cost memory for ever. This pool is emptied when it has grown too large. Nobody depends on it: two
equal names that are two objects are still equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

POOLED = 8 * 1024 * 1024
"""Characters of the names in a pool, about: a hundred thousand names, some 25 MB."""


class NamePool:
    """Names that were met. Several threads may use it: each step on the dictionary is one of the interpreter."""

    def __init__(self, pooled: int = POOLED) -> None:
        self._names: dict[str, str] = {}
        self._pooled = pooled
        self._size = 0

    def __len__(self) -> int:
        return len(self._names)

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
                self._names = {}
        return shared


POOL = NamePool()
"""The pool of the process."""


def share(names: Iterable[str]) -> tuple[str, ...]:
    """`NamePool.share` of the process's pool."""
    return POOL.share(names)
