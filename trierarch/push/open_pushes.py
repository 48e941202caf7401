"""Pushes that a client has not answered yet: which nonces are open, and what came of each push in the end.

Pure, with injected time: `now` in monotonic seconds, `wall` as clocks show it. A push is finished when each of its
responses was accepted, rejected or overtaken, when nobody answered for `PATIENCE` seconds, or when the stream ends. A
response is overtaken when the client answers a later one of the same type, as it may do after it had both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from trierarch.push.status import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.push.status import PushRecord, TypeSent

PATIENCE = 30.0
"""Seconds after which a push counts as unanswered."""

MOST_OPEN = 100
"""Pushes of a connection that may be open. A client that asks and asks and answers nothing could have them without end,
and each of its answers is looked for among all.
"""


@dataclass(slots=True, kw_only=True)
class _Open:
    """A push as it was written, its nonces by type until they are answered, and what was said of those rejected."""

    record: PushRecord
    nonces: dict[str, str]
    deadline: float
    errors: dict[str, str] = field(default_factory=dict)
    answered_at: float = 0.0

    def settle(self, short: str, now: float) -> None:
        """Nothing of this type is open any more: it was answered, or overtaken."""
        if self.nonces.pop(short, None) is not None:
            self.answered_at = now


class OpenPushes:
    """The pushes of one connection that are not finished, oldest first. Nonces are unique on a stream."""

    def __init__(self) -> None:
        self._open: list[_Open] = []

    def begin(self, record: PushRecord, now: float, wall: float) -> tuple[PushRecord, ...]:
        """A push was written; `record.sent` names its nonces and is not empty. Returns the oldest, unanswered, if there
        are too many.
        """
        nonces = {item.short: item.nonce for item in record.sent}
        self._open.append(_Open(record=record, nonces=nonces, deadline=now + PATIENCE))
        return (_finished(self._open.pop(0), Outcome.UNANSWERED, wall),) if len(self._open) > MOST_OPEN else ()

    def answered(self, nonce: str, error: str, now: float, wall: float) -> tuple[PushRecord, ...]:
        """The client answered a response (`error` is "" for an ACK). Returns the pushes that are finished by it."""
        found = self._find(nonce)
        if found is None:
            return ()
        last, short = found
        if error:
            self._open[last].errors[nonce] = error
        for item in self._open[: last + 1]:
            item.settle(short, now)
        finished = [item for item in self._open[: last + 1] if not item.nonces]
        if finished:
            self._open = [item for item in self._open if item.nonces]
        return tuple(_finished(item, Outcome.NACKED if item.errors else Outcome.ACKED, wall) for item in finished)

    def _find(self, nonce: str) -> tuple[int, str] | None:
        """Which push the response with this nonce belongs to, and of which type it is."""
        for place, item in enumerate(self._open):
            for short, open_nonce in item.nonces.items():
                if open_nonce == nonce:
                    return place, short
        return None

    def deadline(self) -> float:
        """When the oldest push counts as unanswered; never without one."""
        return self._open[0].deadline if self._open else inf

    def expire(self, now: float, wall: float) -> tuple[PushRecord, ...]:
        """The pushes that nobody has answered in time."""
        late = [item for item in self._open if item.deadline <= now]
        if late:
            self._open = [item for item in self._open if item.deadline > now]
        return tuple(_finished(item, Outcome.UNANSWERED, wall) for item in late)

    def close(self, wall: float) -> tuple[PushRecord, ...]:
        """The stream has ended: whatever is open ends with it."""
        closed = tuple(_finished(item, Outcome.CLOSED, wall) for item in self._open)
        self._open = []
        return closed


def _finished(item: _Open, outcome: Outcome, wall: float) -> PushRecord:
    return item.record._replace(
        sent=tuple(map(partial(_marked, item.errors), item.record.sent)) if item.errors else item.record.sent,
        answered_at=item.answered_at,
        finished_wall=wall,
        outcome=outcome,
    )


def _marked(errors: Mapping[str, str], sent: TypeSent) -> TypeSent:
    return sent._replace(error=errors[sent.nonce]) if sent.nonce in errors else sent
