"""Whom a change concerns, in which types, and what is said to those whom it does not concern."""

from __future__ import annotations

import pytest

from tests.push.fixtures import built, edited, scope_of, sidecar, snapshot, view_in, view_of
from trierarch.push.changes import MESH_KEY
from trierarch.push.proxy import NodeInfo, build_proxy
from trierarch.push.request import ConfigKey, PushRequest
from trierarch.push.scope import TYPES, Skipped, affected_types, affects, types_by_themselves

MESH = """
    Service shop/web: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}], selector: {app: web}}
    Service bank/pay: {clusterIP: 10.0.0.2, ports: [{name: http, port: 80}]}
    Pod shop/web-1: {metadata: {labels: {app: web}}, status: {podIP: 10.1.0.1}}
    Sidecar shop/default: {egress: [{hosts: ['bank/*']}]}
"""
WEB, PAY = "web.shop.svc.cluster.local", "pay.bank.svc.cluster.local"


def verdict(*keys, forced=False, proxy=None, context=None, previous=None):
    """What is said of these keys to a proxy of namespace shop, whose Sidecar imports namespace bank alone."""
    proxy, context = proxy or sidecar(), context or snapshot(MESH)
    request = PushRequest(keys=frozenset(keys), forced=forced)
    return affects(view_in(proxy, context), scope_of(proxy, context), previous, request, context)


def of_type(kind):
    """A proxy of another type, in namespace shop."""
    node = NodeInfo(id=f"{kind}~10.1.0.1~web-1.shop~shop.svc.cluster.local")
    return build_proxy(node, default_cluster="Kubernetes")


def test_keys_out_of_reach_are_taken_off():
    """The request keeps those that concern the view; one of which all do is handed on as it is."""
    near, far = ConfigKey("ServiceEntry", "bank", PAY), ConfigKey("DestinationRule", "shop", "none")
    assert verdict(near, far).keys == {near}
    request = PushRequest(keys=frozenset({near}))
    context = snapshot(MESH)
    proxy = sidecar()
    assert affects(view_in(proxy, context), scope_of(proxy, context), None, request, context) is request


def test_own_services_always_count():
    """Their definition does, even if the Sidecar does not import it; their endpoints do not (xds-server.md §5.1)."""
    assert not isinstance(verdict(ConfigKey("ServiceEntry", "shop", WEB)), Skipped)
    assert isinstance(verdict(ConfigKey("Endpoints", "shop", WEB)), Skipped)


def test_views_of_one_scope_share_a_verdict():
    """One request serves all views that have a scope; but each hears of what it serves itself."""
    context, verdicts = snapshot(MESH), {}
    far, own = ConfigKey("ServiceEntry", "bank", PAY), ConfigKey("ServiceEntry", "shop", WEB)
    request = PushRequest(keys=frozenset({far, own, ConfigKey("DestinationRule", "bank", "none")}))
    scope = scope_of(sidecar(), context)

    def ask(name):
        return affects(view_in(sidecar(name), context), scope, None, request, context, verdicts)

    assert ask("other") is ask("another")
    assert ask("other").keys == {far}
    assert ask("web-1").keys == {far, own}


def test_what_has_gone_is_noticed_through_the_scope_before():
    """The new scope does not know it any more."""
    view = view_of(MESH)
    before = built(view)
    gone = [each for each in view.table("Service").values() if each.key.name == "pay"]
    after = built(edited(view, deletes=gone), before)
    key = ConfigKey("ServiceEntry", "bank", PAY)
    assert after.changed >= {key}
    assert isinstance(verdict(key, context=after), Skipped)
    assert verdict(key, context=after, previous=scope_of(sidecar(), before)).keys == {key}


def test_forced_and_empty_requests():
    """Forced concerns everybody; nothing concerns nobody."""
    assert verdict(forced=True).forced
    assert isinstance(verdict(), Skipped)


def test_the_reason_is_for_people():
    """It names the Sidecar, and the first few objects."""
    keys = [ConfigKey("VirtualService", "far", f"v{number}") for number in range(5)]
    assert verdict(*keys).reason == (
        "out of reach of Sidecar shop/default:"
        " VirtualService far/v0, VirtualService far/v1, VirtualService far/v2 and 2 more"
    )
    reason = verdict(keys[0], context=snapshot("Service shop/web: {clusterIP: 10.0.0.1}")).reason
    assert reason == "out of reach of namespace shop: VirtualService far/v0"


@pytest.mark.parametrize(
    ("kind", "key", "concerned"),
    [
        ("sidecar", ConfigKey("Gateway", "shop", "g"), False),
        ("sidecar", ConfigKey("Whatever", "far", "w"), True),
        ("sidecar", ConfigKey("EnvoyFilter", "shop", "f"), True),
        ("sidecar", ConfigKey("EnvoyFilter", "istio-system", "f"), True),
        ("sidecar", ConfigKey("EnvoyFilter", "far", "f"), False),
        ("router", ConfigKey("Gateway", "far", "g"), True),
        ("router", ConfigKey("Sidecar", "shop", "default"), False),
        ("router", ConfigKey("VirtualService", "far", "v"), True),
        ("router", ConfigKey("ServiceEntry", "bank", PAY), True),
        ("router", ConfigKey("ServiceEntry", "far", "unknown.example"), False),
        ("waypoint", ConfigKey("Sidecar", "far", "x"), True),
    ],
)
def test_types_of_proxies(kind, key, concerned):
    """xds-server.md §5.1: a gateway is told of nearly everything, a waypoint of everything."""
    assert (not isinstance(verdict(key, proxy=of_type(kind)), Skipped)) is concerned


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Endpoints", ("EDS",)),
        ("ServiceEntry", TYPES),
        ("VirtualService", TYPES),
        ("DestinationRule", ("CDS", "EDS", "LDS", "RDS", "VHDS")),
        ("Sidecar", TYPES),
        ("MeshConfig", ("CDS", "EDS", "LDS", "RDS", "VHDS")),
        ("PeerAuthentication", ("CDS", "EDS")),
        ("AuthorizationPolicy", ("LDS",)),
        ("Telemetry", ("LDS", "RDS", "VHDS")),
        ("EnvoyFilter", ("CDS", "EDS", "LDS", "RDS", "VHDS")),
        ("DNSName", ("NDS",)),
        ("Secret", ()),
        ("Gateway", ()),
        ("Unheard", TYPES),
    ],
)
def test_types_by_kind(kind, expected):
    """xds-server.md §5.3; VirtualService and Sidecar also touch EDS, for they change what is in reach.

    A PeerAuthentication that concerns listeners moves their proxies to another view.
    """
    view = view_in(sidecar(), snapshot(MESH))
    assert affected_types(PushRequest(keys=frozenset({ConfigKey(kind, "shop", "x")})), view) == expected


def test_types_of_a_mixed_or_forced_request():
    """What one kind leaves out another may bring in; forced is all."""
    view = view_in(sidecar(), snapshot(MESH))
    keys = frozenset({ConfigKey("Endpoints", "a", "b"), ConfigKey("AuthorizationPolicy", "a", "b")})
    assert affected_types(PushRequest(keys=keys), view) == ("EDS", "LDS")
    assert affected_types(PushRequest(forced=True), view) == TYPES
    gateway = view_in(of_type("router"), snapshot(MESH))
    assert affected_types(PushRequest(keys=frozenset({ConfigKey("Gateway", "a", "b")})), gateway) == (
        "CDS",
        "LDS",
        "RDS",
        "VHDS",
    )
    assert affected_types(PushRequest(forced=True), view_in(of_type("ztunnel"), snapshot(MESH))) == ()


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["Sidecar"], ("CDS", "LDS", "RDS", "VHDS", "NDS")),
        (["VirtualService", "AuthorizationPolicy"], ("CDS", "LDS", "RDS", "VHDS", "NDS")),
        (["VirtualService", "ServiceEntry"], TYPES),
        (["Sidecar", "Endpoints"], TYPES),
        (["Endpoints"], ("EDS",)),
    ],
)
def test_endpoints_that_only_come_into_reach_or_go_do_not_change_by_themselves(kinds, expected):
    """xds-server.md §5.3: a Sidecar or VirtualService alone sends no endpoints; what it brings is asked for."""
    view = view_in(sidecar(), snapshot(MESH))
    keys = frozenset(ConfigKey(kind, "shop", "x") for kind in kinds)
    assert types_by_themselves(PushRequest(keys=keys), view) == expected
    assert types_by_themselves(PushRequest(keys=keys, forced=True), view) == TYPES


def test_a_change_of_the_mesh_is_a_key_of_its_own():
    """Whoever drives the build forces the push when it sees it."""
    view = view_of(MESH)
    before = built(view)
    assert MESH_KEY in built(edited(view, "MeshConfig mesh: {trustDomain: other}"), before).changed
    assert MESH_KEY in built(edited(view, "MeshNetworks mesh: {networks: {n: {}}}"), before).changed
    assert MESH_KEY not in built(edited(view, "Sidecar bank/x: {}"), before).changed
