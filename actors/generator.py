"""Builds resources: the one owner of the memo, so nobody fills a cache of somebody else's.

Owns: the memo (inputs -> encoded resources), and the outlooks and parts of the newest snapshot.
Receives: `GenerateEach` from the push scheduler, `Generate` from connections.
Sends: the answer, on the reply channel of the question.
Dies when: nothing known. A generator that breaks a rule of its own would do it again: the answer says so instead.
Recovers by: starting with an empty memo; whoever waits for an answer is told and asks again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, assert_never

import trio

from actors.logs import get_logger
from actors.messages import Generate, GenerateEach, GenerationFailed
from actors.stepping import drive, drive_lightly
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
    from actors.messages import ToGenerator
    from actors.metrics import Metrics
    from protocol.xds.resources import ResourceSet
    from trierarch.envoy.outlook import Outlook
    from trierarch.push.context import PushContext
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import View

    Answer = Mapping[str, ResourceSet] | GenerationFailed

log = get_logger("generator")

VIEWS_PER_STEP = 20
"""After looking up what so many views share the event loop gets its turn: a millisecond of work."""


async def run(
    inbox: Mailbox[ToGenerator],
    *,
    memo_size: int,
    metrics: Metrics,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer questions for ever, one at a time."""
    generator = Generator(memo_size, metrics)
    await drive(prepare_codec())
    task_status.started()
    while True:
        question = await inbox.receive()
        match question:
            case Generate(view=view, types=types, scope=scope, context=context):
                with question.reply as reply:
                    reply.answer(await generator.answer(view, types, scope, context))
            case GenerateEach(wanted=wanted, scope=scope, context=context):
                with question.reply as each:
                    each.answer(await generator.answer_each(wanted, scope, context))
            case never:
                assert_never(never)
        generator.count_lookups()


class Generator:
    """The state of one life of the actor."""

    def __init__(self, memo_size: int, metrics: Metrics) -> None:
        self._memo = Memo(memo_size)
        self._parts = PartCache()
        self._outlooks = Outlooks()
        self._hit, self._miss = (metrics.memo_lookups.labels(result) for result in ("hit", "miss"))
        self._failed = metrics.contained_errors.labels("generation")
        self._counted = self._memo.statistics()

    async def answer_each(
        self, wanted: Mapping[View, tuple[str, ...]], scope: SidecarScope, context: PushContext
    ) -> Mapping[View, Answer]:
        """The sets that are asked for, by view. The first builds what all share, and the others find it."""
        answers: dict[View, Answer] = {}
        outlook = self._outlooks.find(next(iter(wanted)).outbound, scope, context)
        for count, (view, types) in enumerate(wanted.items()):
            answers[view] = await self._answer(view, types, outlook)
            if count % VIEWS_PER_STEP == 0:
                await trio.lowlevel.checkpoint()
        return answers

    async def answer(self, view: View, types: tuple[str, ...], scope: SidecarScope, context: PushContext) -> Answer:
        """The sets that are asked for, or why there are none. Not a checkpoint if all are known."""
        return await self._answer(view, types, self._outlooks.find(view.outbound, scope, context))

    async def _answer(self, view: View, types: tuple[str, ...], outlook: Outlook) -> Answer:
        outcome = await attempt(partial(self._generate, view, types, outlook))
        if not isinstance(outcome, Crashed):
            return outcome
        self._failed.inc()
        namespace = outlook.scope.key.namespace
        log.error("generation_failed", namespace=namespace, types=list(types), exc_info=outcome.error)
        return GenerationFailed(reason=describe(outcome.error))

    async def _generate(self, view: View, types: tuple[str, ...], outlook: Outlook) -> Mapping[str, ResourceSet]:
        return {url: await drive_lightly(generate_set(view, outlook, url, self._memo, self._parts)) for url in types}

    def count_lookups(self) -> None:
        """Add to the metrics what was found and built since they were counted last."""
        now, before = self._memo.statistics(), self._counted
        self._hit.inc(now.hits - before.hits)
        self._miss.inc(now.misses - before.misses)
        self._counted = now
