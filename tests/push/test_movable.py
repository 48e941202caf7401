"""Who has to be placed anew after a snapshot: nobody is missing, and few are asked for nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.push.fixtures import built, edited, sidecar, view_in, view_of
from tests.push.pool import applied, histories
from trierarch.config.store import ConfigView
from trierarch.push.movable import EVERYBODY, select_movable

PROXIES = (
    sidecar("web-1", "a", "10.1.0.1"),
    sidecar("other", "b", "10.1.0.8", LABELS={"app": "db"}),
    sidecar("root", "istio-system", "10.1.0.3", LABELS={"app": "web"}),
)


@given(histories)
@settings(max_examples=settings.default.max_examples // 5)
def test_whoever_is_not_movable_keeps_the_view(history):
    """Whatever changes."""
    start, batches = history
    view = applied(ConfigView(), start)
    context = built(view)
    for batch in batches:
        view = applied(view, batch)
        after = built(view, context)
        movable = select_movable(context, after)
        for proxy in PROXIES:
            assert movable.has(proxy) or view_in(proxy, after) == view_in(proxy, context)
        context = after


POLICY = "AuthorizationPolicy {}/it: {{action: DENY, rules: [{{}}]}}"
TOKENS = "RequestAuthentication {}/it: {{jwtRules: [{{issuer: a, jwks: '{{\"keys\":[]}}'}}]}}"


@pytest.mark.parametrize("policy", [POLICY, TOKENS])
def test_a_policy_concerns_its_namespace(policy):
    """Proxies of others are not even asked; one of the root namespace concerns everybody."""
    before = view_of("MeshConfig mesh: {}")
    old = built(before)
    movable = select_movable(old, built(edited(before, policy.format("shop")), old))
    assert [movable.has(sidecar(namespace=each)) for each in ("shop", "bank", "istio-system")] == [True, False, False]
    assert select_movable(old, built(edited(before, policy.format("istio-system")), old)).everybody


def test_other_changes_concern_everybody_or_nobody():
    """The first snapshot everybody; a VirtualService moves nobody, a Service anybody."""
    before = view_of("MeshConfig mesh: {}")
    old = built(before)
    assert select_movable(None, old) == EVERYBODY
    assert not select_movable(old, built(edited(before, "VirtualService shop/it: {hosts: [a.b], http: []}"), old))
    assert select_movable(old, built(edited(before, "Service shop/web: {ports: [{port: 80}]}"), old)) == EVERYBODY


@pytest.mark.parametrize("entry", ["", "WorkloadEntry bank/vm: {address: 10.9.0.1}"])
def test_a_service_that_selects_its_workloads_concerns_their_namespace(entry):
    """Proxies of others are not even asked, unless the mesh has workload entries: theirs may be anywhere."""
    before = view_of(f"MeshConfig mesh: {{}}\n{entry}")
    old = built(before)
    service = "Service shop/web: {selector: {app: web}, clusterIP: 10.96.0.1, ports: [{port: 80}]}"
    movable = select_movable(old, built(edited(before, service), old))
    assert movable.has(sidecar(namespace="shop"))
    assert movable.has(sidecar("web-1", "bank")) is bool(entry)
