"""Authorization policies: which apply to a workload, whom they ask, and whom a change of them concerns."""

from __future__ import annotations

import pytest

from tests.push.fixtures import built, edited, objects, scope_of, sidecar, snapshot, view_in, view_of
from trierarch.push.attachment import Attachments, attach
from trierarch.push.authorization import NOBODY, SECOND, UNRESTRICTED, Authorizer, BadAuthorizer
from trierarch.push.fleet import moving_request
from trierarch.push.mesh import ContextSettings, Features
from trierarch.push.model import Hostname
from trierarch.push.request import ConfigKey, PushRequest
from trierarch.push.scope import Skipped, affected_types, affects

LABELS = {"app": "web", "version": "v1"}
DENY = "AuthorizationPolicy {}: {{action: DENY, rules: [{{}}], {}}}"
ASK = "AuthorizationPolicy shop/{0}: {{action: CUSTOM, provider: {{name: {0}}}, rules: [{{}}]}}"
OPA = "Service policy/opa: {ports: [{name: grpc, port: 9191}]}"
GRPC = "{{name: {0}, envoyExtAuthzGrpc: {{service: {1}, port: {2}}}}}"


def mesh(*providers: str) -> str:
    """The mesh's settings with these extension providers."""
    return f"MeshConfig mesh: {{extensionProviders: [{', '.join(providers)}]}}"


def applying(*given: str, namespace: str = "shop", **features: bool):
    """What applies to a workload with `LABELS`."""
    context = snapshot(*given, settings=ContextSettings(features=Features(**features)))
    return context.authorization.of(namespace, LABELS.items())


@pytest.mark.parametrize(
    ("policy", "attached"),
    [
        (DENY.format("shop/it", ""), True),
        (DENY.format("istio-system/it", ""), True),
        (DENY.format("bank/it", ""), False),
        (DENY.format("shop/it", "selector: {matchLabels: {app: web}}"), True),
        (DENY.format("shop/it", "selector: {matchLabels: {app: web, version: v2}}"), False),
        (DENY.format("shop/it", "selector: {}"), True),
        (DENY.format("istio-system/it", "selector: {matchLabels: {app: db}}"), False),
        (DENY.format("shop/it", "targetRefs: [{kind: Service, name: web}]"), False),
        (DENY.format("shop/it", "targetRef: {kind: Gateway, group: gateway.networking.k8s.io, name: web}"), False),
    ],
)
def test_whom_a_policy_is_attached_to(policy, attached):
    """Namespace, root namespace and labels decide; what refers to targets is not for sidecars."""
    assert bool(applying(policy).deny) is attached


def test_policies_act_in_a_fixed_order():
    """By action; of one action the root namespace's first, then the older ones."""
    aged = "AuthorizationPolicy {}: {{metadata: {{creationTimestamp: '{}'}}}}"
    policies = (
        aged.format("shop/a", "2024-05-02T00:00:00Z"),
        aged.format("shop/b", "2024-05-01T00:00:00Z"),
        aged.format("istio-system/z", "2024-05-03T00:00:00Z"),
        "AuthorizationPolicy shop/audit: {action: AUDIT, rules: [{}]}",
    )
    found = applying(*policies)
    assert [policy.key.name for policy in found.allow] == ["z", "b", "a"]
    assert [policy.key.name for policy in found.audit] == ["audit"]
    assert [policy.key.name for policy in applying(*policies, namespace="bank").allow] == ["z"]


def test_where_nothing_is_attached_everything_goes():
    """One value for all such workloads."""
    assert applying(DENY.format("bank/it", "")) is UNRESTRICTED


def test_policies_are_attached_anew_only_where_they_changed():
    """Groups without a change keep their order, and nothing at all changes without a change."""
    one, two = objects(DENY.format("shop/it", "")), objects(DENY.format("bank/it", ""))
    table = {each.key: each for each in (*one, *two)}
    first = attach(table, "istio-system", Attachments())
    assert attach(dict(table), "istio-system", first) is first
    (newer,) = objects(DENY.format("bank/it", "selector: {}"))
    second = attach({**table, newer.key: newer}, "istio-system", first)
    assert second.by_age["shop"] is first.by_age["shop"]
    assert second.by_age["bank"] == (newer,)


# --- authorizers -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("service", ["opa.policy.svc.cluster.local", "policy/opa.policy.svc.cluster.local"])
def test_a_provider_is_found_by_its_service(service):
    """With or without its namespace."""
    (custom,) = applying(ASK.format("opa"), OPA, mesh(GRPC.format("opa", service, 9191))).custom
    assert isinstance(custom.authorizer, Authorizer)
    assert custom.authorizer.service == Hostname("policy", "opa.policy.svc.cluster.local")


ADDED = '{{name: opa, envoyExtAuthzHttp: {{service: a.b, port: 1, includeAdditionalHeadersInCheck: {{{0}: "{1}"}}}}}}'
ENTRY = "ServiceEntry {}/opa: {{hosts: [opa.example.com], ports: [{{number: 9191, name: grpc}}]}}"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([], "no extension provider has this name"),
        ([mesh(GRPC.format("opa", "nobody.example.com", 1))], "no service has the name nobody.example.com"),
        (
            [mesh(GRPC.format("opa", "opa.example.com", 1)), ENTRY.format("a"), ENTRY.format("b")],
            "several services have the name opa.example.com",
        ),
        ([mesh("{name: opa, envoyExtAuthzGrpc: {service: a.b, port: 1, statusOnError: '999'}}")], '"999"'),
        ([mesh(ADDED.format("a b", "c"))], '"a b" is not a valid header name'),
        ([mesh(ADDED.format("a", "b\\n"))], "line feeds"),
        ([mesh("{name: opa, prometheus: {}}")], "no extension provider has this name"),
    ],
)
def test_a_provider_that_cannot_be_asked_is_told(given, reason):
    """Its policies deny what they match, and the user is told why."""
    context = snapshot(ASK.format("opa"), *given)
    (custom,) = context.authorization.of("shop", LABELS.items()).custom
    assert isinstance(custom.authorizer, BadAuthorizer)
    assert custom.authorizer.reason.startswith(reason)
    (remark,) = context.authorization.remarks
    assert remark.key == custom.policies[0].key
    assert reason in remark.reason
    assert remark in context.findings


def test_a_second_provider_needs_the_switch():
    """Without it neither is asked; with it each is, in the order of their names."""
    given = (ASK.format("two"), ASK.format("one"), OPA)
    host = "opa.policy.svc.cluster.local"
    settings = mesh(GRPC.format("one", host, 9191), GRPC.format("two", host, 9191))
    assert [each.authorizer for each in applying(*given, settings).custom] == [SECOND, SECOND]
    allowed = applying(*given, settings, several_authorizers=True).custom
    assert [each.provider for each in allowed] == ["one", "two"]
    assert all(isinstance(each.authorizer, Authorizer) for each in allowed)
    assert [each.authorizer for each in applying(*given, several_authorizers=True).custom] == [NOBODY, NOBODY]


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("shop", "shop", True),
        ("shop", "istio-system", True),
        ("shop", "bank", False),
        ("shop, {app: web}", "shop, {version: v1}", True),
        ("shop, {app: web}", "shop, {app: db}", False),
    ],
)
def test_policies_that_may_ask_two_providers_for_one_workload_are_told(one, other, meet):
    """Each of the two, unless the switch is on."""
    given = [OPA, mesh(*(GRPC.format(name, "opa.policy.svc.cluster.local", 9191) for name in ("one", "two")))]
    for name, place in (("one", one), ("two", other)):
        namespace, _, labels = place.partition(", ")
        attached = f"selector: {{matchLabels: {labels}}}, " if labels else ""
        spec = f"{{{attached}action: CUSTOM, provider: {{name: {name}}}, rules: [{{}}]}}"
        given.append(f"AuthorizationPolicy {namespace}/{name}: {spec}")
    told = {remark.key.name for remark in snapshot(*given).authorization.remarks}
    assert told == ({"one", "two"} if meet else set())
    switched = ContextSettings(features=Features(several_authorizers=True))
    assert snapshot(*given, settings=switched).authorization.remarks == ()


# --- whom a change concerns ------------------------------------------------------------------------------------------
SELECTING = "AuthorizationPolicy shop/it: {selector: {matchLabels: {app: web}}, action: %s, rules: [{}]}"


def test_a_policy_moves_those_whom_it_selects_and_nobody_else():
    """They are owed listeners only; other proxies of the namespace are skipped."""
    before = view_of(SELECTING % "ALLOW")
    old = built(before)
    new = built(edited(before, SELECTING % "DENY"), old)
    request = PushRequest(keys=new.changed)
    web, db = sidecar(LABELS={"app": "web"}), sidecar(LABELS={"app": "db"})
    stays = view_in(db, new)
    assert stays == view_in(db, old)
    assert affects(stays, scope_of(db, new), None, request, new) == Skipped(
        "for other workloads: AuthorizationPolicy shop/it"
    )
    moved = moving_request(view_in(web, old), view_in(web, new), request)
    assert affected_types(moved, view_in(web, new)) == ("LDS",)


def test_a_policy_that_is_written_again_moves_nobody():
    """The same words are the same object."""
    before = view_of(SELECTING % "ALLOW")
    old = built(before)
    new = built(edited(before, SELECTING % "ALLOW"), old)
    assert new.authorization is old.authorization
    assert new.changed == frozenset()


def test_a_provider_that_appears_moves_those_who_ask_it():
    """Though it is only a service that came."""
    before = view_of(ASK.format("opa"), mesh(GRPC.format("opa", "opa.policy.svc.cluster.local", 9191)))
    old = built(before)
    new = built(edited(before, OPA), old)
    web = sidecar(LABELS={"app": "web"})
    moved = moving_request(view_in(web, old), view_in(web, new), PushRequest(keys=new.changed))
    assert ConfigKey("AuthorizationPolicy", "shop", "") in moved.keys
    assert "LDS" in affected_types(moved, view_in(web, new))
