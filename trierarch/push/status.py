"""What came of a push to one proxy: the record behind `push_finished`, `/debug/pushes` and `trierarch why`."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from trierarch.push.causes import UNSTAGED, Cause, Causes, Stages

if TYPE_CHECKING:
    from collections.abc import Mapping


class Outcome(StrEnum):
    """How a push ended. UNCHANGED: the proxy was concerned but its bytes are equal. SKIPPED: it was not concerned."""

    ACKED = "acked"
    NACKED = "nacked"
    UNANSWERED = "unanswered"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    CLOSED = "closed"


class TypeSent(NamedTuple):
    """One response of a push. `size` in bytes; `error` is the client's message if it rejected it."""

    short: str
    nonce: str
    version: str
    sent: int
    removed: int
    size: int
    error: str = ""


class PushRecord(NamedTuple):
    """A push to one proxy, finished. Times are monotonic seconds, 0.0 = did not happen; `finished_wall` is wall clock.

    `skipped` maps a type's short name (or "all") to the reason why nothing of it was sent. A tuple, for each push makes
    one when it is written and finishes it as another.
    """

    proxy: str
    connection: str
    snapshot: int
    causes: Causes
    outcome: Outcome
    reasons: Mapping[str, int] = MappingProxyType({})
    forced: bool = False
    sent: tuple[TypeSent, ...] = ()
    skipped: Mapping[str, str] = MappingProxyType({})
    stages: Stages = UNSTAGED
    queued_at: float = 0.0
    granted_at: float = 0.0
    written_at: float = 0.0
    answered_at: float = 0.0
    finished_wall: float = 0.0


def stage_times(record: PushRecord) -> dict[str, float]:
    """How long each stage took, in milliseconds; stages that did not happen are left out."""
    moments = (
        ("seen", record.stages.seen_at),
        ("debounced", record.stages.debounced_at),
        ("built", record.stages.built_at),
        ("generated", record.queued_at),
        ("granted", record.granted_at),
        ("written", record.written_at),
        ("acknowledged", record.answered_at),
    )
    known = [(name, moment) for name, moment in moments if moment]
    return {name: round((moment - before) * 1000, 3) for (_, before), (name, moment) in pairwise(known)}


def record_fields(record: PushRecord) -> dict[str, object]:
    """The record as plain data: the keys of the canonical log line, and an item of `/debug/pushes`."""
    return {
        "proxy": record.proxy,
        "connection": record.connection,
        "snapshot": record.snapshot,
        "outcome": record.outcome.value,
        "causes": [cause_fields(cause) for cause in record.causes.kept],
        "more_causes": record.causes.dropped,
        "reasons": dict(record.reasons),
        "forced": record.forced,
        "sent": [sent_fields(item) for item in record.sent],
        "skipped": dict(record.skipped),
        "stages": stage_times(record),
        "finished": record.finished_wall,
    }


def cause_fields(cause: Cause) -> dict[str, object]:
    """A cause as plain data."""
    return {
        "id": cause.id,
        "source": cause.source,
        "kind": cause.kind,
        "namespace": cause.namespace,
        "name": cause.name,
        "resource_version": cause.resource_version,
        "event": cause.event.value,
    }


def sent_fields(item: TypeSent) -> dict[str, object]:
    """One response of a push as plain data; `size` in bytes."""
    return {
        "type": item.short,
        "sent": item.sent,
        "removed": item.removed,
        "size": item.size,
        "nonce": item.nonce,
        "version": item.version,
        "error": item.error,
    }
