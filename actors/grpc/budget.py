"""What a peer may still cost: points that come back with time, and bytes that many share. Pure: the time is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.grpc.limits import Rate


class Budget:
    """A token bucket. Invariant: what time gives back never fills it beyond the burst; what is earned may."""

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._points = rate.burst
        self._at = now

    def spend(self, cost: float, now: float) -> bool:
        """Take the cost; False if there is not as much."""
        self._refill(now)
        self._points -= cost
        return self._points >= 0

    def borrow(self, cost: float, now: float) -> float:
        """Take the cost whatever there is. Returns the seconds until it is paid back."""
        self._refill(now)
        self._points -= cost
        return max(0.0, -self._points / self._rate.per_second)

    def earn(self, points: float) -> None:
        """Add points, beyond the burst if need be."""
        self._points += points

    def refund(self, points: float) -> None:
        """Give back what was spent in vain."""
        self._points = max(self._points, min(self._points + points, self._rate.burst))

    def _refill(self, now: float) -> None:
        missing = self._rate.burst - self._points
        if missing > 0:
            self._points += min(missing, (now - self._at) * self._rate.per_second)
        self._at = now


class Allowance:
    """A number of bytes that several hold parts of, perhaps within a larger one."""

    def __init__(self, size: int, within: Allowance | None = None) -> None:
        self._within = within
        self.left = size
        """Bytes that nobody holds."""

    def take(self, size: int) -> bool:
        """Hold so many bytes; False, and none are held, if there are not as many here or around."""
        if size > self.left or not (self._within is None or self._within.take(size)):
            return False
        self.left -= size
        return True

    def give_back(self, size: int) -> None:
        """Hold so many bytes no longer."""
        self.left += size
        if self._within is not None:
            self._within.give_back(size)
