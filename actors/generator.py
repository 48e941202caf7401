"""Builds resources: the one owner of the memo, so nobody fills a cache of somebody else's.

Owns: the memo (inputs -> encoded resources) and the shared parts of the newest snapshot.
Receives: `Generate` from the push scheduler and from connections.
Sends: the answer, on the reply channel of the question.
Dies when: a generator breaks a rule of its own.
Recovers by: starting with an empty memo; whoever waits for an answer is told and asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trierarch.envoy.generate import PartCache, generate
from trierarch.envoy.memo import Memo

if TYPE_CHECKING:
    from actors.mailbox import Mailbox
    from actors.messages import Generate, ToGenerator
    from actors.metrics import Metrics
    from protocol.xds.resources import ResourceSet


async def run(
    inbox: Mailbox[ToGenerator],
    *,
    memo_size: int,
    metrics: Metrics,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer questions for ever, one at a time."""
    memo, parts = Memo(memo_size), PartCache()
    task_status.started()
    while True:
        question = await inbox.receive()
        with question.reply as reply:
            hits, misses = memo.hits, memo.misses
            reply.answer({url: await _generate(question, url, memo, parts) for url in question.types})
            metrics.memo_lookups.labels("hit").inc(memo.hits - hits)
            metrics.memo_lookups.labels("miss").inc(memo.misses - misses)


async def _generate(question: Generate, type_url: str, memo: Memo, parts: PartCache) -> ResourceSet:
    steps = generate(question.view, question.scope, question.context, type_url, memo, parts)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            resources: ResourceSet = stop.value
            return resources
        await trio.lowlevel.checkpoint()
