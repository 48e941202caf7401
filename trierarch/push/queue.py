"""`PushQueue`: which proxy is pushed to next, and how many large pushes may be on their way (xds-server.md §3).

Plain state with one owner and injected time (monotonic seconds). A connection is in one place at a time:

    offer          grant                done
    ------> PENDING ------> IN FLIGHT --------> gone, or PENDING again at the tail, if something came meanwhile

While it is pending or in flight, whatever is offered merges with what is there and keeps the time of the oldest. A
large push holds a credit from its grant until its last byte is handed to the transport (`done`), the connection is
forgotten or `PATIENCE` has passed. When all credits are held and none has moved for `STANDSTILL`, then those who hold
them are stuck, and lose them to those who wait. The connection itself stays in flight until it is done, so a reader
that stalls costs the others one credit for a moment and itself everything. Small pushes need no credit and pass those
that wait for one. Nothing here waits for an ACK: credits that did let 30 silent clients stop 270 others when that was
tried; and when 40 of 300 clients stopped reading, they held all credits for two seconds.

Invariants: 0 <= credits in use <= limit; who holds a credit is in flight; who waits for a credit is pending.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trierarch.push.request import PushRequest

PATIENCE = 2.0
"""Seconds that a large push may hold its credit."""

STANDSTILL = 0.1
"""Seconds after which credits are taken back if none of them has come or gone. A working line moves faster."""

LARGE = 64 * 1024
"""Bytes from which a push counts as large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A push that may go out now. `queued_at`: when the oldest change in it was offered."""

    name: str
    request: PushRequest
    queued_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """How busy the queue is."""

    pending: int
    """Connections that wait, for a credit or for their turn."""
    in_flight: int
    """Connections that were granted a push and are not done with it."""
    credits_used: int
    """Large pushes that hold a credit."""


@dataclass(slots=True)
class _Waiting:
    request: PushRequest
    large: bool
    queued_at: float


class PushQueue:
    """First come, first served, one push at a time for each connection."""

    def __init__(self, limit: int, *, patience: float = PATIENCE) -> None:
        self._limit = limit
        self._patience = patience
        self._pending: OrderedDict[str, _Waiting] = OrderedDict()
        self._short: OrderedDict[str, _Waiting] = OrderedDict()  # pending too: found large when no credit was left
        self._in_flight: dict[str, _Waiting | None] = {}  # and what came meanwhile
        self._holders: OrderedDict[str, float] = OrderedDict()  # who holds a credit, until when; the oldest first
        self._moved_at = 0.0  # when a credit was granted or given back last
        self._last_merge: tuple[PushRequest, PushRequest, PushRequest] | None = None

    def __len__(self) -> int:
        return len(self._pending) + len(self._short)

    def offer(self, name: str, request: PushRequest, now: float, *, large: bool = True) -> None:
        """A push that is due for a connection. `large`: it may well exceed `LARGE` bytes."""
        waiting = self._pending.get(name) or self._short.get(name) or self._in_flight.get(name)
        if waiting is not None:
            waiting.request = self._merged(waiting.request, request)
            waiting.large = waiting.large or large
            return
        place = self._in_flight if name in self._in_flight else self._pending
        place[name] = _Waiting(request, large, now)

    def grant(self, now: float, ready: Callable[[str], bool] = lambda _: True) -> Iterator[Grant]:
        """What may go out, one at each step, in order. The caller may stop anywhere and come back later.

        Who is not `ready` keeps its place in the line and lets the others pass.
        """
        self._take_back_credits(now)
        for name in tuple(self._short):
            if len(self._holders) >= self._limit:
                break
            if ready(name):
                yield self._send_off(name, self._short.pop(name), now)
        for name in filter(ready, tuple(self._pending)):
            waiting = self._pending.pop(name)
            if waiting.large and len(self._holders) >= self._limit:
                self._short[name] = waiting
            else:
                yield self._send_off(name, waiting, now)

    def done(self, name: str, now: float) -> None:
        """A connection has handed the last byte of its push to the transport, or found that there was none to write."""
        waiting = self._in_flight.pop(name, None)
        if self._holders.pop(name, None) is not None:
            self._moved_at = now
        if waiting is not None:
            self._pending[name] = waiting

    def forget(self, name: str) -> None:
        """A connection has gone, and whatever was meant for it."""
        for place in (self._pending, self._short, self._in_flight, self._holders):
            place.pop(name, None)

    def deadline(self) -> float | None:
        """When `grant` should be called again although nothing happened: a credit comes free that is waited for."""
        if not (self._short and self._holders):
            return None
        return min(self._moved_at + STANDSTILL, next(iter(self._holders.values())))

    def statistics(self) -> QueueStatistics:
        """How busy the queue is."""
        return QueueStatistics(pending=len(self), in_flight=len(self._in_flight), credits_used=len(self._holders))

    def _send_off(self, name: str, waiting: _Waiting, now: float) -> Grant:
        self._in_flight[name] = None
        if waiting.large:
            self._holders[name] = now + self._patience
            self._moved_at = now
        return Grant(name=name, request=waiting.request, queued_at=waiting.queued_at)

    def _take_back_credits(self, now: float) -> None:
        if self._short and now >= self._moved_at + STANDSTILL:
            self._holders.clear()
        while self._holders and next(iter(self._holders.values())) <= now:
            self._holders.popitem(last=False)

    def _merged(self, older: PushRequest, newer: PushRequest) -> PushRequest:
        """Thousands of connections wait with the same two requests: those are merged once and shared."""
        last = self._last_merge
        if last is None or last[0] is not older or last[1] is not newer:
            last = self._last_merge = (older, newer, older.merged(newer))
        return last[2]
