"""What the generator has built of the newest snapshot, asked for once for all views that share it.

A type that the outbound key decides alone is the same for every view with that key: a thousand workloads of fifty
namespaces are fifty questions. Who needs the sets is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.mailbox import ask
from actors.messages import Generate, GenerationFailed
from trierarch.envoy.generate import decided_by_outbound_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.mailbox import Mailbox
    from actors.messages import ToGenerator
    from protocol.xds.resources import ResourceSet
    from trierarch.push.context import PushContext
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import OutboundKey, View


class SharedSets:
    """Those of the newest snapshot. Invariant: nothing in it is of an earlier one."""

    def __init__(self, generator: Mailbox[ToGenerator]) -> None:
        self._generator = generator
        self._known: dict[tuple[OutboundKey, str], ResourceSet] = {}

    def begin(self) -> None:
        """A new snapshot: everything is asked for anew."""
        self._known.clear()

    async def find(
        self, view: View, scope: SidecarScope, context: PushContext, types: tuple[str, ...]
    ) -> Mapping[str, ResourceSet] | GenerationFailed:
        """The sets of these types for a view. Not a checkpoint if all are known."""
        known = {url: self._known[view.outbound, url] for url in types if (view.outbound, url) in self._known}
        missing = tuple(url for url in types if url not in known)
        if not missing:
            return known
        answer: Mapping[str, ResourceSet] | GenerationFailed = await ask(
            self._generator,
            lambda reply: Generate(view=view, scope=scope, context=context, types=missing, reply=reply),
        )
        if isinstance(answer, GenerationFailed):
            return answer
        self._known.update({(view.outbound, url): answer[url] for url in missing if decided_by_outbound_key(view, url)})
        return {**known, **answer}
