"""What has changed lately, snapshot by snapshot: so whoever comes back can be told what it has missed, and why."""

from __future__ import annotations

from dataclasses import dataclass

from trierarch.push.request import PushRequest

KEPT = 100
"""As many snapshots are remembered; who has missed more is told of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The requests that led to the last snapshots, oldest first, each with its snapshot's number."""

    entries: tuple[tuple[int, PushRequest], ...] = ()

    def added(self, number: int, request: PushRequest) -> History:
        """One more snapshot."""
        return History(entries=(*self.entries[-KEPT + 1 :], (number, request)))

    def after(self, number: int) -> tuple[PushRequest, ...]:
        """What has changed since that snapshot, oldest first."""
        return tuple(request for later, request in self.entries if later > number)

    def missed(self, number: int) -> PushRequest:
        """The same as one request. A client that comes without a snapshot (0) has missed nothing."""
        missed = PushRequest()
        for request in self.after(number) if number else ():
            missed = missed.merged(request)
        return missed
