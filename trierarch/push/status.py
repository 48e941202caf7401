"""What came of a push to one proxy: the canonical record behind `push_finished`, `/debug/pushes` and `trierarch why`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from trierarch.push.causes import Causes, Stages

if TYPE_CHECKING:
    from collections.abc import Mapping


class Outcome(StrEnum):
    """How a push ended. UNCHANGED: the proxy was concerned but its bytes are the same. SKIPPED: it was not concerned."""

    ACKED = "acked"
    NACKED = "nacked"
    UNANSWERED = "unanswered"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSent:
    """One response of a push. `size` in bytes; `error` is the client's message if it rejected it."""

    short: str
    nonce: str
    version: str
    sent: int
    removed: int
    size: int
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRecord:
    """A push to one proxy, finished. Times are monotonic seconds, 0.0 = did not happen; `finished_wall` is wall clock.

    `skipped` maps a type's short name (or "all") to the reason why nothing of it was sent.
    """

    proxy: str
    connection: str
    snapshot: int
    causes: Causes
    reasons: Mapping[str, int] = field(default_factory=dict)
    forced: bool = False
    sent: tuple[TypeSent, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    stages: Stages = field(default_factory=Stages)
    queued_at: float = 0.0
    granted_at: float = 0.0
    written_at: float = 0.0
    answered_at: float = 0.0
    finished_wall: float = 0.0
    outcome: Outcome
