"""Pushes that a client has not answered yet: which nonces are open, and what came of each push in the end.

Pure, with injected time (monotonic seconds). A push is finished when each of its responses was accepted, rejected or
overtaken, when nobody answered for `PATIENCE` seconds, or when the stream ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trierarch.push.status import Outcome

if TYPE_CHECKING:
    from trierarch.push.status import PushRecord, TypeSent

PATIENCE = 30.0
"""Seconds after which a push counts as unanswered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    record: PushRecord
    nonces: frozenset[str]
    deadline: float


class OpenPushes:
    """The pushes of one connection that are not finished, oldest first. Nonces are unique on a stream."""

    def __init__(self) -> None:
        self._open: list[_Open] = []

    def begin(self, record: PushRecord, now: float) -> None:
        """A push was written; `record.sent` names its nonces and is not empty."""
        nonces = frozenset(item.nonce for item in record.sent)
        self._open.append(_Open(record=record, nonces=nonces, deadline=now + PATIENCE))

    def answered(self, nonce: str, error: str, now: float) -> tuple[PushRecord, ...]:
        """The client answered a response (`error` is "" for an ACK). Returns the pushes that are finished by it."""
        found = next((index for index, item in enumerate(self._open) if nonce in item.nonces), None)
        if found is None:
            return ()
        item = self._open[found]
        record = replace(item.record, sent=_marked(item.record, nonce, error), answered_at=now)
        if item.nonces == {nonce}:
            del self._open[found]
            return (replace(record, outcome=_outcome(record)),)
        self._open[found] = replace(item, record=record, nonces=item.nonces - {nonce})
        return ()

    def deadline(self) -> float | None:
        """When the oldest push counts as unanswered; None without one."""
        return self._open[0].deadline if self._open else None

    def expire(self, now: float) -> tuple[PushRecord, ...]:
        """The pushes that nobody has answered in time."""
        late = [item for item in self._open if item.deadline <= now]
        self._open = [item for item in self._open if item.deadline > now]
        return tuple(replace(item.record, outcome=Outcome.UNANSWERED) for item in late)

    def close(self) -> tuple[PushRecord, ...]:
        """The stream has ended: whatever is open ends with it."""
        closed = tuple(replace(item.record, outcome=Outcome.CLOSED) for item in self._open)
        self._open = []
        return closed


def _marked(record: PushRecord, nonce: str, error: str) -> tuple[TypeSent, ...]:
    return tuple(replace(item, error=error) if item.nonce == nonce else item for item in record.sent)


def _outcome(record: PushRecord) -> Outcome:
    return Outcome.NACKED if any(item.error for item in record.sent) else Outcome.ACKED
