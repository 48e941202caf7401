"""Remembers what came of the last pushes to each proxy: what `/debug/pushes` and `trierarch why` show.

Owns: a bounded ring of records for each proxy, and the order in which proxies were last heard of.
Receives: `PushRecorded` from connections and the scheduler, `ReadJournal` from the debug pages.
Sends: the answer, on the reply channel of the question.
Dies when: nothing known.
Recovers by: starting empty; what was forgotten is in the log.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, assert_never

import trio

from actors.messages import PushRecorded, ReadJournal

if TYPE_CHECKING:
    from actors.mailbox import Mailbox
    from actors.messages import ToJournal
    from trierarch.push.status import PushRecord

RECORDS_PER_PROXY = 50
PROXIES = 20_000

RECORDS_PER_STEP = 100
"""After so many messages the event loop gets its turn: a few microseconds each."""


class Ring:
    """The last records of the proxies that were last heard of."""

    def __init__(self, records: int = RECORDS_PER_PROXY, proxies: int = PROXIES) -> None:
        self._records = records
        self._proxies = proxies
        self._by_proxy: OrderedDict[str, deque[PushRecord]] = OrderedDict()

    def add(self, record: PushRecord) -> None:
        """Remember a record; the oldest of its proxy, or the proxy not heard of for longest, makes room."""
        ring = self._by_proxy.setdefault(record.proxy, deque(maxlen=self._records))
        ring.append(record)
        self._by_proxy.move_to_end(record.proxy)
        if len(self._by_proxy) > self._proxies:
            self._by_proxy.popitem(last=False)

    def last(self, proxy_id: str, limit: int) -> tuple[PushRecord, ...]:
        """The last `limit` records of all proxies whose id contains `proxy_id`, in order of their end."""
        rings = [reversed(ring) for proxy, ring in self._by_proxy.items() if proxy_id in proxy]
        newest = merge(*rings, key=lambda record: (record.finished_wall, record.snapshot), reverse=True)
        return tuple(islice(newest, limit))[::-1]


async def run(inbox: Mailbox[ToJournal], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Record and answer for ever."""
    ring = Ring()
    task_status.started()
    while True:
        _handle(await inbox.receive(), ring)
        for message in inbox.waiting(RECORDS_PER_STEP):
            _handle(message, ring)


def _handle(message: ToJournal, ring: Ring) -> None:
    match message:
        case PushRecorded(record=record):
            ring.add(record)
        case ReadJournal(proxy_id=proxy_id, limit=limit, reply=reply):
            with reply:
                reply.answer(ring.last(proxy_id, limit))
        case never:
            assert_never(never)
