"""`Debounce`: many changes in a row become one snapshot (xds-server.md §2.3). Immutable, with injected time.

A batch opens with its first change and is released when nothing has come for `after` seconds, or `longest` seconds
after it opened; and only when nothing is being built. What comes during a build waits in a batch of its own, which is
released as soon as the build is finished if it has been quiet for long enough by then.

With `endpoints=False`, changes of nothing but endpoints do not wait: each is released by itself, at once, past a
waiting batch. They still count as builds, so that a batch is never released into a running one.

Here the longest time is kept to the millisecond; istiod looks at it only when its timer fires and overshoots by up to
`after`. Times are monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar


class Change(Protocol):
    """What is debounced: it can be merged with one that came later, and says whether it is about endpoints only."""

    @property
    def endpoints_only(self) -> bool:
        """Whether it changes nothing but endpoints."""
        ...

    def merged(self: SelfT, newer: SelfT) -> SelfT:
        """Both in one."""
        ...


SelfT = TypeVar("SelfT")
ChangeT = TypeVar("ChangeT", bound=Change)


@dataclass(frozen=True, slots=True, kw_only=True)
class DebounceOptions:
    """Seconds of quiet, the longest wait in seconds, and whether endpoint changes wait too."""

    after: float = 0.1
    longest: float = 10.0
    endpoints: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Generic[ChangeT]):
    """Changes merged into one: `events` of them, which came from `first_at` to `last_at`."""

    change: ChangeT
    events: int
    first_at: float
    last_at: float

    def with_another(self, change: ChangeT, now: float) -> Batch[ChangeT]:
        """The batch and one more change."""
        return replace(self, change=self.change.merged(change), events=self.events + 1, last_at=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Debounce(Generic[ChangeT]):
    """What waits and what is being built. Invariant: `building` >= 0."""

    options: DebounceOptions
    batch: Batch[ChangeT] | None = None
    at_once: tuple[Batch[ChangeT], ...] = ()
    building: int = 0

    def add(self, change: ChangeT, now: float) -> Debounce[ChangeT]:
        """A change came."""
        alone = Batch(change=change, events=1, first_at=now, last_at=now)
        if change.endpoints_only and not self.options.endpoints:
            return replace(self, at_once=(*self.at_once, alone))
        return replace(self, batch=self.batch.with_another(change, now) if self.batch else alone)

    def deadline(self) -> float | None:
        """When `take` will release something; None: not before a change comes or a build is finished."""
        if self.at_once:
            return self.at_once[0].first_at
        if self.batch is None or self.building:
            return None
        return min(self.batch.last_at + self.options.after, self.batch.first_at + self.options.longest)

    def take(self, now: float) -> tuple[Debounce[ChangeT], Batch[ChangeT] | None]:
        """What is to be built now, if anything. The builder owes a `finished` for it."""
        deadline = self.deadline()
        if deadline is None or now < deadline:
            return self, None
        if self.at_once:
            return replace(self, at_once=self.at_once[1:], building=self.building + 1), self.at_once[0]
        return replace(self, batch=None, building=self.building + 1), self.batch

    def finished(self) -> Debounce[ChangeT]:
        """A build has finished, or the builder says that it has none."""
        return replace(self, building=max(0, self.building - 1))
