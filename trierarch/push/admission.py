"""`Admission`: how many clients get their first configuration at a time.

A first configuration is megabytes. Serving a thousand newcomers at once serves every one of them last; so they are
admitted in the order in which they came, a few at a time. A place is free again when its client has acknowledged what
it needs to start, has gone, or has taken `PATIENCE` seconds. Plain state with one owner and injected time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACES = 24
"""First configurations on their way at a time; between 16 and 32 it makes little difference."""

PATIENCE = 5.0
"""Seconds after which a newcomer's place goes to the next, whether it has answered or not."""


STANDSTILL = 0.1
"""Seconds after which one is admitted though there is no place: ten in a second. A working line moves faster."""


class Admission:
    """A waiting line and a limited number of places. Invariant: nobody is in line and inside at a time."""

    def __init__(self, places: int = PLACES, *, patience: float = PATIENCE, standstill: float = STANDSTILL) -> None:
        self._places = places
        self._patience = patience
        self._standstill = standstill
        self._moved_at = 0.0
        self._returning: dict[str, None] = {}
        self._line: dict[str, None] = {}
        self._inside: OrderedDict[str, float] = OrderedDict()  # until when; the oldest first

    def __len__(self) -> int:
        return len(self._returning) + len(self._line)

    def ask(self, name: str, *, at_once: bool = False) -> None:
        """A connection wants its configuration. `at_once`: it has one already and costs no more than a push."""
        self._inside.pop(name, None)
        if at_once:
            self._line.pop(name, None)
        (self._returning if at_once else self._line).setdefault(name)

    def admit(self, now: float) -> Iterator[str]:
        """Who may be served now, one at each step, in order. The caller may stop anywhere and come back later."""
        while self._returning:
            yield _pop_first(self._returning)
        while self._inside and next(iter(self._inside.values())) <= now:
            self._inside.popitem(last=False)
        while self._line and (len(self._inside) < self._places or now >= self._moved_at + self._standstill):
            name = _pop_first(self._line)
            self._inside[name] = now + self._patience
            self._moved_at = now
            yield name

    def done(self, name: str) -> None:
        """A client has acknowledged its first configuration."""
        self._inside.pop(name, None)

    def forget(self, name: str) -> None:
        """A connection has gone."""
        for place in (self._returning, self._line, self._inside):
            place.pop(name, None)

    def deadline(self) -> float | None:
        """When `admit` should be called again although nothing happened: somebody in line will be let in."""
        if not (self._line and self._inside):
            return None
        return min(self._moved_at + self._standstill, next(iter(self._inside.values())))


def _pop_first(line: dict[str, None]) -> str:
    name = next(iter(line))
    del line[name]
    return name
