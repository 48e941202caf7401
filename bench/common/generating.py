"""Generation as the actor of that name does it, with what it remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.timing import timed
from trierarch.envoy.generate import generate_set
from trierarch.envoy.memo import Memo
from trierarch.envoy.outlook import Outlooks
from trierarch.envoy.part_cache import PartCache
from trierarch.push.sidecar_scope import build_scope
from trierarch.push.steps import run_steps
from trierarch.push.view import select_view

if TYPE_CHECKING:
    from common.timing import Timing
    from protocol.xds.resources import ResourceSet
    from trierarch.push.context import PushContext
    from trierarch.push.proxy import Proxy
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.steps import Steps
    from trierarch.push.view import ScopeKey


class Generator:
    """What the actor of that name holds."""

    def __init__(self) -> None:
        self.memo, self.parts, self.outlooks = Memo(200_000), PartCache(), Outlooks()
        self.scopes: dict[ScopeKey, SidecarScope] = {}
        self.held: dict[tuple[Proxy, str], ResourceSet] = {}

    def scope(self, key: ScopeKey, context: PushContext) -> SidecarScope:
        """The scope of that key, built on the one before."""
        scope = self.scopes[key] = run_steps(build_scope(key, context, self.scopes.get(key)))
        return scope

    def time(self, client: Proxy, context: PushContext, type_url: str) -> Timing[ResourceSet]:
        """Generate one set; it is held as if a client had it."""
        view = select_view(client, context)
        scope = self.scope(view.outbound.scope, context)

        def steps() -> Steps[ResourceSet]:
            outlook = self.outlooks.find(view.outbound, scope, context)
            return generate_set(view, outlook, type_url, self.memo, self.parts)

        timing = timed(steps)
        self.held[client, type_url] = timing.result
        return timing
