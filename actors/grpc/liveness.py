"""When to ask a silent peer whether it lives, and when to take it for dead. Pure: the time is an argument.

Any bytes from the peer count as life, not just the answer to a PING: that answer may wait behind megabytes on a slow
link, while the WINDOW_UPDATEs for those megabytes arrive all the time.
"""

from enum import Enum, auto


class Verdict(Enum):
    """What to do about a peer."""

    LEAVE = auto()
    ASK = auto()
    """Send a PING now."""
    BURY = auto()
    """It did not answer: abort the connection."""


class Liveness:
    """The last signs of life of one peer. Times in seconds of any one clock."""

    def __init__(self, *, interval: float, timeout: float, now: float) -> None:
        self._interval = interval
        self._timeout = timeout
        self._heard_at = now
        self._asked_at: float | None = None

    def heard(self, now: float) -> None:
        """Bytes came from the peer."""
        self._heard_at = now
        self._asked_at = None

    def check(self, now: float) -> Verdict:
        """Decide; `ASK` is said once, and the answer awaited from then on."""
        if self._asked_at is not None:
            return Verdict.BURY if now - self._asked_at >= self._timeout else Verdict.LEAVE
        if now - self._heard_at < self._interval:
            return Verdict.LEAVE
        self._asked_at = now
        return Verdict.ASK
