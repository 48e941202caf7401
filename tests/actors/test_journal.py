"""The journal remembers the last pushes of each proxy, within bounds."""

from __future__ import annotations

from actors import journal
from actors.journal import Ring
from actors.mailbox import Mailbox, ask
from actors.messages import PushRecorded, ReadJournal, ToJournal
from trierarch.push.causes import Causes
from trierarch.push.status import Outcome, PushRecord

RECORD = PushRecord(proxy="web.shop", connection="web.shop-1", snapshot=0, causes=Causes(), outcome=Outcome.ACKED)


def test_the_last_records_of_a_proxy_are_kept():
    """Beyond its bound a proxy's oldest record makes room."""
    ring = Ring(records=2)
    for snapshot in (1, 2, 3):
        ring.add(RECORD._replace(snapshot=snapshot))
    assert [record.snapshot for record in ring.last("web", 10)] == [2, 3]


def test_the_proxy_not_heard_of_for_longest_is_forgotten():
    """Beyond the bound of proxies the one with the oldest news goes, whole."""
    ring = Ring(proxies=2)
    for proxy in ("a", "b", "a", "c"):
        ring.add(RECORD._replace(proxy=proxy))
    assert {record.proxy for record in ring.last("", 10)} == {"a", "c"}


def test_records_come_in_the_order_of_their_end():
    """The newest is last, whichever proxy it is of; the limit keeps the newest."""
    ring = Ring()
    for proxy, moment in (("b", 1.0), ("a", 2.0), ("b", 2.5), ("a", 3.0)):
        ring.add(RECORD._replace(proxy=proxy, finished_wall=moment))
    assert [record.finished_wall for record in ring.last("", 3)] == [2.0, 2.5, 3.0]
    assert ring.last("", 0) == ()


async def test_the_actor_records_and_answers(nursery, autojump_clock):
    """What was posted before a question is in its answer."""
    inbox: Mailbox[ToJournal] = Mailbox("journal")
    await nursery.start(lambda *, task_status: journal.run(inbox, task_status=task_status))
    inbox.post(PushRecorded(record=RECORD))
    assert await ask(inbox, lambda reply: ReadJournal(proxy_id="web", limit=5, reply=reply)) == (RECORD,)
