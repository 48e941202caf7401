"""The records of one connection's pushes: begun when a push is written, finished when it is answered or will not be.

No actor: a connection keeps them, and the factory of connections finishes what nobody answers. A finished record goes
to the journal and into the log. What is open lies in the connection's slot, so it outlives the actor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from actors.logs import get_logger
from actors.messages import Placed, PushRecorded
from trierarch.envoy.types import TYPE_RULES
from trierarch.push.status import Outcome, PushRecord, TypeSent, record_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.mailbox import Mailbox
    from actors.messages import ToJournal
    from actors.slot import Slot
    from protocol.xds.events import Response
    from trierarch.push.request import PushRequest

log = get_logger("connection")

Recording = Callable[..., PushRecord]
"""Makes the record of a push that has begun, given by name what came of it: the last parameters of `push_record`."""


class PushRecords:
    """Those of one connection. `wall`: seconds since the epoch."""

    def __init__(self, slot: Slot, journal: Mailbox[ToJournal], wall: Callable[[], float]) -> None:
        self._slot = slot
        self._journal = journal
        self._wall = wall

    def begin(
        self, place: Placed, request: PushRequest, *, queued_at: float = 0.0, granted_at: float = 0.0
    ) -> Recording:
        """A push has begun, for this reason and from this place in a snapshot."""
        return partial(push_record, self._slot, place, request, queued_at=queued_at, granted_at=granted_at)

    def written(self, record: PushRecord, now: float) -> None:
        """A push is written, as far as it will be. One of which something was sent is finished when it is answered."""
        cut_short = record.outcome is Outcome.CLOSED
        if not cut_short:
            self._slot.snapshot = record.snapshot
        if record.sent and not cut_short:
            self._finish(self._slot.open.begin(record, now, record.finished_wall))
        elif record.sent or record.causes.kept or record.forced:
            self._finish((record,))

    def answered(self, nonce: str, error: str) -> None:
        """The client has answered a response; `error` is "" unless it was rejected."""
        self._finish(self._slot.open.answered(nonce, error, trio.current_time(), self._wall()))

    def give_up(self, now: float) -> None:
        """Finish what nobody has answered in time."""
        self._finish(self._slot.open.expire(now, self._wall()))

    def close(self) -> None:
        """Finish what nobody will answer any more: the stream has ended."""
        self._finish(self._slot.open.close(self._wall()))

    def _finish(self, records: Iterable[PushRecord]) -> None:
        for record in records:
            self._journal.post(PushRecorded(record=record))
            line = log.bind()
            if line.is_enabled_for(logging.INFO):  # a thousand lines that nobody wants are not put together
                line.info("push_finished", **record_fields(record))


def push_record(
    slot: Slot,
    place: Placed,
    request: PushRequest,
    *,
    queued_at: float,
    granted_at: float,
    sent: tuple[TypeSent, ...],
    skipped: Mapping[str, str],
    written_at: float,
    finished_wall: float,
    outcome: Outcome,
) -> PushRecord:
    """The record of a push to this client that is written, as far as it will be; nobody has answered it yet."""
    return PushRecord(
        proxy=slot.proxy.id if slot.proxy else "",
        connection=slot.name,
        snapshot=place.context.number,
        causes=request.causes,
        reasons=request.reasons,
        forced=request.forced,
        sent=sent,
        skipped=skipped,
        stages=request.stages,
        queued_at=queued_at,
        granted_at=granted_at,
        written_at=written_at,
        finished_wall=finished_wall,
        outcome=outcome,
    )


def sent_record(response: Response) -> TypeSent:
    """The part of a record that is about one response."""
    return TypeSent(
        short=TYPE_RULES[response.type_url].short,
        nonce=response.nonce,
        version=response.version,
        sent=response.sent,
        removed=response.removed,
        size=response.size,
    )
