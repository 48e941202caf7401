"""A token bucket of one: how often something may begin (xds-server.md §3.4). Plain state with injected time."""

from __future__ import annotations


class TokenBucket:
    """Lets `rate` per second begin, evenly spaced, in the order in which they ask."""

    def __init__(self, rate: float) -> None:
        self._interval = 1.0 / rate
        self._next = 0.0

    def reserve(self, now: float, patience: float) -> float | None:
        """Seconds to wait before beginning; None, and nothing is reserved, if that would be more than `patience`."""
        start = max(now, self._next)
        if start - now > patience:
            return None
        self._next = start + self._interval
        return start - now
