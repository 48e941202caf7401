"""How often something may begin (xds-server.md §3.4), and how fast one client is read. Plain state, injected time."""

from __future__ import annotations

from math import inf

MEMORY = 10.0
"""Seconds for which a host that asked counts as one that shares the rate."""

LEAST_SHARE = 4
"""However many hosts share the rate, each gets a quarter of it: many clients may stand behind one address."""


class TokenBucket:
    """Lets `rate` per second begin, evenly spaced, in the order in which they ask.

    A host that asks all the time cannot have it all: while others ask too, it gets its share only, and a host that has
    nothing to wait for yet may wait for twice as long as its patience, which is beyond all that the greedy one holds.
    """

    def __init__(self, rate: float) -> None:
        self._interval = 1.0 / rate
        self._next = 0.0
        self._hosts: dict[str, float] = {}  # when each may begin next by its share; who asked last is last

    def reserve(self, now: float, patience: float, host: str = "") -> float | None:
        """Seconds to wait before beginning; None, and nothing is reserved, if that would be more than `patience`."""
        own = self._hosts.pop(host, 0.0)
        self._forget(now)
        start = max(now, self._next, own)
        self._hosts[host] = own
        if start - now > (patience if own > now else 2 * patience):
            return None
        self._next = max(now, self._next) + self._interval
        self._hosts[host] = start + self._interval * min(len(self._hosts), LEAST_SHARE)
        return start - now

    def _forget(self, now: float) -> None:
        """Forget hosts that have not asked for long."""
        while self._hosts:
            host, own = next(iter(self._hosts.items()))
            if own > now - MEMORY:
                return
            del self._hosts[host]


class Pace:
    """How fast one client is read: what it asks for costs time, of which some may be spent ahead."""

    def __init__(self, *, each: float, ahead: float) -> None:
        """`each`: seconds that one unit costs; `ahead`: seconds that may be spent before anybody must wait."""
        self._each = each
        self._ahead = ahead
        self._paid_at = -inf

    def spend(self, units: int, now: float) -> float:
        """Seconds to wait after so many units."""
        self._paid_at = max(self._paid_at, now - self._ahead) + units * self._each
        return max(0.0, self._paid_at - now)
