"""Causality: which change of which object made something happen, bounded, and when each stage saw it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

KEPT = 50
"""As many causes travel with a request; the rest is counted."""


class ChangeEvent(StrEnum):
    """What happened to an object."""

    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"
    RESYNCED = "resynced"
    ISSUED = "issued"
    RENEWED = "renewed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One change that entered. `id` is unique in this process and grows; `seen_at`: monotonic seconds."""

    id: int
    source: str
    kind: str
    namespace: str
    name: str
    resource_version: str
    event: ChangeEvent
    seen_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """A bounded set of causes in the order in which they came; `dropped` counts those beyond the first `KEPT`."""

    kept: tuple[Cause, ...] = ()
    dropped: int = 0

    @property
    def last_id(self) -> int:
        """The newest cause that is kept; 0 without any."""
        return max((cause.id for cause in self.kept), default=0)

    def without(self, settled: Causes) -> Causes:
        """What is left when those are settled.

        Which causes were only counted, nobody knows: then all up to the newest that was kept are taken for settled.
        """
        known = {cause.id for cause in settled.kept}
        newest = settled.last_id if settled.dropped else 0
        return Causes(kept=tuple(cause for cause in self.kept if cause.id > newest and cause.id not in known))

    def merged(self, other: Causes) -> Causes:
        """Both together. A cause that is in both counts once (a resent request does not double its causes)."""
        known = {cause.id for cause in self.kept}
        union = self.kept + tuple(cause for cause in other.kept if cause.id not in known)
        return Causes(kept=union[:KEPT], dropped=self.dropped + other.dropped + max(0, len(union) - KEPT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """When a request passed each stage, in seconds of the monotonic clock; 0.0 = not yet. Merging keeps the oldest."""

    seen_at: float = 0.0
    debounced_at: float = 0.0
    built_at: float = 0.0

    def merged(self, other: Stages) -> Stages:
        """The older of each that is known."""
        return replace(
            self,
            seen_at=_older(self.seen_at, other.seen_at),
            debounced_at=_older(self.debounced_at, other.debounced_at),
            built_at=_older(self.built_at, other.built_at),
        )


UNSTAGED = Stages()
"""Of what no change has led to: nothing is known of it."""


def _older(first: float, second: float) -> float:
    return min(first, second) if first and second else first or second
