"""Whoever is told that a change does not concern him would have got the same bytes: checked with the real generator."""

from __future__ import annotations

from hypothesis import given, settings

from tests.push.fixtures import built, sidecar
from tests.push.pool import applied, histories
from trierarch.config.store import ConfigView
from trierarch.envoy.generate import VHDS_PARTS, generate
from trierarch.envoy.memo import Memo
from trierarch.envoy.part_cache import PartCache
from trierarch.envoy.types import TYPE_RULES
from trierarch.push.changes import MESH_KEY
from trierarch.push.fleet import moving_request
from trierarch.push.request import PushRequest
from trierarch.push.scope import Skipped, affected_types, affects
from trierarch.push.sidecar_scope import build_scope
from trierarch.push.steps import run_steps
from trierarch.push.view import select_view

PROXIES = (
    sidecar("web-1", "a", "10.1.0.1"),
    sidecar("other", "b", "10.1.0.8", LABELS={"app": "db"}),
    sidecar("vm", "a", "10.5.0.1", LABELS={"version": "v1"}, ISTIO_VERSION="1.32.0", DNS_CAPTURE="true"),
    sidecar("root", "istio-system", "10.1.0.3", INTERCEPTION_MODE="NONE"),
    sidecar("web-2", "a", "10.1.0.2", GENERATOR="grpc", ISTIO_VERSION="1.32.0"),
    sidecar("web-2", "a", "10.1.0.2", LABELS={"app": "web"}, TRIERARCH_SDS="ads"),
    sidecar("web-1", "a", "10.1.0.1", TRIERARCH_VHDS="true"),
)


def generated(view, scope, context):
    """Name to version of all resources, by the short name of their type; nothing is remembered from before."""
    memo, parts = Memo(10_000), PartCache()
    sets = {url: run_steps(generate(view, scope, context, url, memo, parts)) for url in VHDS_PARTS}
    return {TYPE_RULES[url].short: {each.name: each.version for each in found} for url, found in sets.items()}


class Client:
    """A proxy and what it was sent last."""

    def __init__(self, proxy, context) -> None:
        self.proxy = proxy
        self.view = select_view(proxy, context)
        self.scope = run_steps(build_scope(self.view.outbound.scope, context))
        self.sent = generated(self.view, self.scope, context)

    def step(self, context, request):
        """Check the verdict on a request in the next snapshot, and take that snapshot."""
        view = select_view(self.proxy, context)
        previous = self.scope if view.outbound.scope == self.view.outbound.scope else None
        scope = run_steps(build_scope(view.outbound.scope, context, previous))
        fresh = generated(view, scope, context)
        stays = view == self.view
        self.check(
            affects(view, scope, self.scope, request, context) if stays else moving_request(self.view, view, request),
            fresh,
        )
        self.view, self.scope, self.sent = view, scope, fresh

    def check(self, verdict, fresh):
        """Hold a verdict against what a fresh generation gave."""
        types = () if isinstance(verdict, Skipped) else affected_types(verdict, self.view)
        for short, resources in fresh.items():
            if short not in types:
                assert resources == self.sent[short], (short, verdict)


@given(histories)
@settings(max_examples=settings.default.max_examples // 5)
def test_never_no_when_a_generation_differs(history):
    """Types outside the verdict come out as they were: of a view that stays, and of a proxy that moves to another."""
    start, batches = history
    view = applied(ConfigView(), start)
    context = built(view)
    clients = [Client(proxy, context) for proxy in PROXIES]
    for batch in batches:
        view = applied(view, batch)
        context = built(view, context)
        request = PushRequest(keys=context.changed, forced=MESH_KEY in context.changed)
        for client in clients:
            client.step(context, request)
