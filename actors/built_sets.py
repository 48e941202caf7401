"""The sets that were last built for each view, and how those that a snapshot may have changed are built anew.

Views with one outbound key are asked about in one question: the generator has for the others what it built for the
first. Who needs the sets is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from actors.mailbox import ask
from actors.messages import GenerateEach, GenerationFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from actors.mailbox import Mailbox
    from actors.messages import ToGenerator
    from protocol.xds.resources import ResourceSet
    from trierarch.push.context import PushContext
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import View


class BuiltSets:
    """By view, then by type. Invariant: a set that is here is what the newest snapshot would make of it."""

    def __init__(self, generator: Mailbox[ToGenerator]) -> None:
        self._generator = generator
        self._known: dict[View, Mapping[str, ResourceSet]] = {}

    def of(self, view: View) -> Mapping[str, ResourceSet]:
        """The sets of a view by type, those that there are. It does not change any more."""
        return self._known.get(view, {})

    def keep(self, views: Container[View]) -> None:
        """Forget all views but these."""
        self._known = {view: known for view, known in self._known.items() if view in views}

    async def renew(
        self,
        affected: Mapping[View, frozenset[str]],
        watched: Callable[[View], frozenset[str]],
        scope: SidecarScope,
        context: PushContext,
    ) -> Mapping[View, GenerationFailed]:
        """Forget the affected types of views with one outbound key, and have those built anew that somebody watches.

        What nobody watches yet is not built, and must not be taken for new later. The answer is for which views that
        failed. A checkpoint.
        """
        wanted: dict[View, tuple[str, ...]] = {}
        for view, types in affected.items():
            self._known[view] = {url: known for url, known in self.of(view).items() if url not in types}
            if seen := types & watched(view):
                wanted[view] = tuple(sorted(seen))
        if not wanted:
            await trio.lowlevel.checkpoint()
            return {}
        answers: Mapping[View, Mapping[str, ResourceSet] | GenerationFailed] = await ask(
            self._generator, lambda reply: GenerateEach(wanted=wanted, scope=scope, context=context, reply=reply)
        )
        failed = {view: answer for view, answer in answers.items() if isinstance(answer, GenerationFailed)}
        for view, answer in answers.items():
            if not isinstance(answer, GenerationFailed):
                self._known[view] = {**self._known[view], **answer}
        return failed
