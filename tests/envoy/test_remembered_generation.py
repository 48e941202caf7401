"""What is generated with everything remembered is what is generated from nothing, whatever happened before."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.push.fixtures import built, sidecar
from tests.push.pool import applied, histories
from trierarch.config.store import ConfigView
from trierarch.envoy.generate import PROXYLESS_PARTS, VHDS_PARTS, generate, generate_parts, generate_set
from trierarch.envoy.memo import Memo
from trierarch.envoy.outlook import Outlook, Outlooks
from trierarch.envoy.part_cache import PartCache
from trierarch.push.sidecar_scope import build_scope
from trierarch.push.steps import run_steps
from trierarch.push.view import select_view

PROXIES = (
    sidecar("web-1", "a", "10.1.0.1"),
    sidecar("web-2", "a", "10.1.0.2", LABELS={"app": "web"}, ISTIO_VERSION="1.32.0"),
    sidecar("other", "b", "10.1.0.8", LABELS={"app": "db"}),
    sidecar("vm", "a", "10.5.0.1", LABELS={"version": "v1"}, ISTIO_VERSION="1.32.0", DNS_CAPTURE="true"),
    sidecar("root", "istio-system", "10.1.0.3", INTERCEPTION_MODE="NONE"),
    sidecar("grpc", "b", "10.1.0.9", GENERATOR="grpc"),
    sidecar("one-by-one", "a", "10.1.0.1", TRIERARCH_VHDS="true"),
)


class Remembering:
    """Generates for one snapshot after another; scopes too are built on the ones before."""

    def __init__(self, room: int) -> None:
        self.memo, self.parts, self.outlooks, self.scopes = Memo(room), PartCache(), Outlooks(), {}

    def generated(self, proxy, context):
        """All resources for a proxy, in their order, by type."""
        view = select_view(proxy, context)
        key = view.outbound.scope
        scope = self.scopes[key] = run_steps(build_scope(key, context, self.scopes.get(key)))
        outlook = self.outlooks.find(view.outbound, scope, context)
        sets = {url: run_steps(generate_set(view, outlook, url, self.memo, self.parts)) for url in VHDS_PARTS}
        return {url: [(each.name, each.body) for each in found] for url, found in sets.items()}


@given(histories, st.sampled_from([10, 300, 100_000]))
@settings(max_examples=settings.default.max_examples // 10)
def test_remembering_changes_nothing(history, room):
    """Every type for every proxy after every batch of edits, with much and with little room to remember."""
    start, batches = history
    remembering, view, context = Remembering(room), ConfigView(), None
    for batch in (start, *batches):
        view = applied(view, batch)
        context = built(view, context)
        for proxy in PROXIES:
            assert remembering.generated(proxy, context) == Remembering(100_000).generated(proxy, built(view))


@given(histories)
@settings(max_examples=settings.default.max_examples // 20)
def test_what_comes_back_is_shared_with_what_was(history):
    """A mesh that is edited and then put back as it was gives the very sets that it gave before."""
    start, batches = history
    remembering = Remembering(100_000)
    before = applied(ConfigView(), start)
    context = built(before)
    first = {proxy.id: _sets(remembering, proxy, context) for proxy in PROXIES}
    view = before
    for batch in batches:
        view = applied(view, batch)
        context = built(view, context)
    again = {proxy.id: _sets(remembering, proxy, built(before, context)) for proxy in PROXIES}
    assert again == first


@given(histories)
@settings(max_examples=settings.default.max_examples // 20)
def test_what_a_workload_serves_shows_only_in_parts_with_places_of_their_own(history):
    """Clients with one outbound key and whatever inbound keys are sent equal parts where these have one place."""
    start, _ = history
    context = built(applied(ConfigView(), start))
    views = [select_view(proxy, context) for proxy in PROXIES]
    for view in views:
        scope = run_steps(build_scope(view.outbound.scope, context))
        neighbours = [replace(view, inbound=another.inbound) for another in views]
        table = PROXYLESS_PARTS if view.outbound.is_proxyless else VHDS_PARTS
        for rule in chain.from_iterable(table.values()):
            sharing = [each for each in neighbours if rule.place(each) == rule.place(view)]
            first, *others = (_part(rule, each, scope, context) for each in sharing)
            assert all(other == first for other in others)


def _part(rule, view, scope, context):
    """What a part holds, made with nothing remembered."""
    outlook = Outlook(key=view.outbound, scope=scope, context=context)
    return list(run_steps(generate_parts((rule,), view, outlook, Memo(1000), PartCache())))


def _sets(remembering, proxy, context):
    view = select_view(proxy, context)
    scope = run_steps(build_scope(view.outbound.scope, context))
    return {
        url: run_steps(generate(view, scope, context, url, remembering.memo, remembering.parts)) for url in VHDS_PARTS
    }
