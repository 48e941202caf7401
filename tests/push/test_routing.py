"""Virtual services: full names, delegates, visibility."""

from __future__ import annotations

import pytest
import yaml

from tests.push.fixtures import built, edited, short, snapshot, view_of
from trierarch.config.common import Prefix
from trierarch.push.delegation import merged_routes
from trierarch.push.request import ConfigKey
from trierarch.push.route_names import destinations

DELEGATING = """
    VirtualService shop/root: {hosts: [web], http: [{match: [{uri: {prefix: /a}}], name: r, timeout: 5s,
      delegate: {name: part, namespace: other}}, {route: [{destination: {host: web}}]}]}
"""


def root(context, name="root"):
    """The root of that name."""
    return next(each for each in context.virtual_services.roots if each.name == name)


def http_routes(text):
    """HTTP routes as a VirtualService holds them."""
    return short("VirtualService shop/x", {"http": yaml.safe_load(text)}).spec.http


def test_names_become_full():
    """Hosts, destinations, mirrors and gateways, as the object's namespace means them (xds-server.md §8.3.2)."""
    context = snapshot("""
        VirtualService shop/root:
          hosts: [web, full.example, 1.2.3.4, '*']
          gateways: [mesh, own, ./own, far/edge, old.far.svc]
          http:
          - match: [{gateways: [own]}]
            route: [{destination: {host: cart}}]
            mirror: {host: shadow}
            mirrors: [{destination: {host: other.example}}]
          tls: [{match: [{sniHosts: [x.y], gateways: [own]}], route: [{destination: {host: cart}}]}]
          tcp: [{route: [{destination: {host: cart}}]}]
    """)
    spec = root(context).spec
    cart = "cart.shop.svc.cluster.local"
    assert spec.hosts == ("web.shop.svc.cluster.local", "full.example", "1.2.3.4", "*")
    assert spec.gateways[0] == "mesh"
    assert spec.gateways[1] == "shop/own"
    assert spec.gateways[3:] == ("far/edge", "far/old")
    assert spec.http[0].match[0].gateways == ("shop/own",)
    assert spec.http[0].route[0].destination.host == cart
    assert spec.http[0].mirror.host == "shadow.shop.svc.cluster.local"
    assert spec.http[0].mirrors[0].destination.host == "other.example"
    assert spec.tls[0].match[0].gateways == ("shop/own",)
    assert (spec.tls[0].route[0].destination.host, spec.tcp[0].route[0].destination.host) == (cart, cart)


def test_a_delegate_takes_the_place_of_its_route():
    """Matches meet, what the delegate leaves open is the root's, names are joined; order is kept."""
    context = snapshot(
        DELEGATING,
        """
        VirtualService other/part: {http: [
          {match: [{uri: {prefix: /a/b}}], name: d, route: [{destination: {host: cart}}]},
          {match: [{uri: {prefix: /z}}], route: [{destination: {host: cart}}]},
          {timeout: 1s, route: [{destination: {host: cart}}]}]}
        """,
    )
    first, second, third = root(context).spec.http
    assert (first.name, first.timeout, first.match[0].uri) == ("r-d", 5.0, Prefix("/a/b"))
    assert first.route[0].destination.host == "cart.other.svc.cluster.local"
    assert (second.name, second.timeout, second.match[0].uri) == ("r", 1.0, Prefix("/a"))
    assert third.route[0].destination.host == "web.shop.svc.cluster.local"


@pytest.mark.parametrize(
    ("delegate", "reason"),
    [
        ("", "there is no VirtualService/other/part"),
        ("VirtualService other/part: {hosts: [x.y]}", "has hosts of its own"),
        ("VirtualService other/part: {exportTo: ['.']}", "is not exported to namespace shop"),
    ],
)
def test_a_delegate_that_cannot_be_used_drops_its_route(delegate, reason):
    """Only that route, and the author is told why."""
    context = snapshot(DELEGATING, delegate)
    assert len(root(context).spec.http) == 1
    (remark,) = context.virtual_services.remarks
    assert remark in context.findings
    assert reason in remark.reason
    assert remark.path == "spec.http[0].delegate"


def test_a_changed_delegate_shows_as_its_root():
    """A delegate has no key of its own; another root stays the very object."""
    rest = "VirtualService shop/rest: {hosts: [rest], http: [{route: [{destination: {host: rest}}]}]}"
    view = view_of(DELEGATING, rest)
    before = built(view)
    view = edited(view, "VirtualService other/part: {http: [{route: [{destination: {host: cart}}]}]}")
    after = built(view, before)
    assert after.changed == {ConfigKey("VirtualService", "shop", "root")}
    assert root(after, "rest") is root(before, "rest")


@pytest.mark.parametrize(
    ("outer", "inner", "fits"),
    [
        ("{uri: {exact: /a}}", "{uri: {exact: /a}}", True),
        ("{uri: {exact: /a}}", "{uri: {exact: /b}}", False),
        ("{uri: {exact: /a}}", "{uri: {prefix: /a}}", False),
        ("{uri: {prefix: /a}}", "{uri: {exact: /ab}}", True),
        ("{uri: {prefix: /a}}", "{uri: {prefix: /b}}", False),
        ("{uri: {regex: a}}", "{uri: {exact: /a}}", False),
        ("{uri: {prefix: /a}}", "{uri: {regex: /ab}}", False),
        ("{uri: {regex: a}}", "{method: {exact: GET}}", True),
        ("{headers: {x: {exact: a}}}", "{headers: {x: {exact: b}}}", False),
        ("{headers: {x: {exact: a}}}", "{headers: {y: {exact: b}}}", True),
        ("{queryParams: {x: {exact: a}}}", "{queryParams: {x: {exact: b}}}", False),
        ("{port: 80}", "{port: 81}", False),
        ("{port: 80}", "{}", True),
        ("{ignoreUriCase: true}", "{}", False),
        ("{sourceNamespace: a}", "{}", False),
        ("{sourceNamespace: a}", "{sourceNamespace: a}", True),
        ("{sourceLabels: {a: '1'}}", "{sourceLabels: {a: '2'}}", False),
        ("{sourceLabels: {a: '1'}}", "{sourceLabels: {b: '2'}}", True),
        ("{gateways: [a, b]}", "{gateways: [a]}", True),
        ("{gateways: [a]}", "{gateways: [a, b]}", False),
    ],
)
def test_which_matches_can_hold_together(outer, inner, fits):
    """xds-server.md §8.3.4, the table of conflicts."""
    (outer_route,), inner_routes = http_routes(f"[{{match: [{outer}]}}]"), http_routes(f"[{{match: [{inner}]}}]")
    assert bool(list(merged_routes(outer_route, inner_routes))) is fits


def test_every_match_of_a_delegate_must_fit_somewhere():
    """All fitting pairs are kept; one match without any drops the route."""
    (outer,) = http_routes("[{match: [{uri: {prefix: /a}}, {uri: {prefix: /a/b}}]}]")
    both = http_routes("[{match: [{uri: {prefix: /a/b/c}}]}]")
    assert [len(route.match) for route in merged_routes(outer, both)] == [2]
    half = http_routes("[{match: [{uri: {prefix: /a}}, {uri: {prefix: /z}}]}]")
    assert list(merged_routes(outer, half)) == []


def test_visibility_and_order():
    """Private, exported and public, each by age (xds-server.md §8.3.5, §8.3.6)."""
    context = snapshot("""
        VirtualService a/public: {hosts: [x.y]}
        VirtualService a/own: {hosts: [x.y], exportTo: ['.']}
        VirtualService b/lent: {hosts: [x.y], exportTo: [a]}
        VirtualService b/hidden: {hosts: [x.y], exportTo: ['~', a]}
        VirtualService b/edge: {hosts: [x.y], gateways: [edge]}
        VirtualService b/older: {hosts: [x.y], metadata: {creationTimestamp: '2020-01-01T00:00:00Z'}}
        VirtualService a/delegate: {http: []}
    """)
    index = context.virtual_services
    assert [each.name for each in index.visible("a", "mesh")] == ["own", "lent", "older", "public"]
    assert [each.name for each in index.visible("c", "mesh")] == ["older", "public"]
    assert [each.name for each in index.visible("c", "b/edge")] == ["edge"]


def test_destinations_depend_on_the_caller_only_if_a_route_names_a_namespace():
    """A route for another namespace leads this one nowhere, even if it has matches for everybody (§8.3.7)."""
    context = snapshot("""
        VirtualService shop/root: {hosts: [web], http: [
          {match: [{sourceNamespace: b}, {uri: {prefix: /}}], route: [{destination: {host: b.x, port: {number: 7}}}]},
          {route: [{destination: {host: all.x}}, {destination: {host: all.x, port: {number: 9}}}]}]}
        VirtualService shop/plain: {hosts: [web], http: [{route: [{destination: {host: x.y}}]}]}
    """)
    namespaced = root(context)
    assert namespaced.destinations_for("b") == (("b.x", frozenset({7})), ("all.x", frozenset({0, 9})))
    assert namespaced.destinations_for("a") == (("all.x", frozenset({0, 9})),)
    plain = root(context, "plain")
    assert plain.destinations_for("a") is plain.destinations
    assert plain.destinations == destinations(plain.spec, "a")
