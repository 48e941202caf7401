"""Builds resources: the one owner of the memo, so nobody fills a cache of somebody else's.

Owns: the memo (inputs -> encoded resources), and the outlooks and parts of the newest snapshot.
Receives: `Generate` from the push scheduler and from connections.
Sends: the answer, on the reply channel of the question.
Dies when: nothing known. A generator that breaks a rule of its own would do it again: the answer says so instead.
Recovers by: starting with an empty memo; whoever waits for an answer is told and asks again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from actors.logs import get_logger
from actors.messages import GenerationFailed
from actors.stepping import drive
from actors.supervision import attempt
from actors.tree import Crashed, describe
from trierarch.envoy.generate import generate_set
from trierarch.envoy.memo import Memo
from trierarch.envoy.outlook import Outlooks
from trierarch.envoy.part_cache import PartCache
from trierarch.envoy.preparation import prepare_codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.mailbox import Mailbox
    from actors.messages import Generate, ToGenerator
    from actors.metrics import Metrics
    from protocol.xds.resources import ResourceSet

log = get_logger("generator")


async def run(
    inbox: Mailbox[ToGenerator],
    *,
    memo_size: int,
    metrics: Metrics,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer questions for ever, one at a time."""
    generator = Generator(memo_size)
    hit, miss = metrics.memo_lookups.labels("hit"), metrics.memo_lookups.labels("miss")
    await drive(prepare_codec())
    task_status.started()
    while True:
        question = await inbox.receive()
        with question.reply as reply:
            hits, misses = generator.memo.hits, generator.memo.misses
            outcome = await attempt(partial(generator.generate, question))
            reply.answer(_failed(question, outcome.error, metrics) if isinstance(outcome, Crashed) else outcome)
            hit.inc(generator.memo.hits - hits)
            miss.inc(generator.memo.misses - misses)


def _failed(question: Generate, error: Exception, metrics: Metrics) -> GenerationFailed:
    scope = question.scope.key
    metrics.contained_errors.labels("generation").inc()
    log.error("generation_failed", namespace=scope.namespace, types=list(question.types), exc_info=error)
    return GenerationFailed(reason=describe(error))


class Generator:
    """The state of one life of the actor."""

    def __init__(self, memo_size: int) -> None:
        self.memo = Memo(memo_size)
        self._parts = PartCache()
        self._outlooks = Outlooks()

    async def generate(self, question: Generate) -> Mapping[str, ResourceSet]:
        """The sets that are asked for."""
        view = question.view
        outlook = self._outlooks.find(view.outbound, question.scope, question.context)
        return {
            type_url: await drive(generate_set(view, outlook, type_url, self.memo, self._parts))
            for type_url in question.types
        }
