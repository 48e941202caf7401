"""What a Sidecar imports: hosts, exclusions, listeners with ports, routes, and the services that routes lead to."""

from __future__ import annotations

import pytest

from tests.push.fixtures import built, edited, scope_of, sidecar, snapshot, view_of
from trierarch.config.objects import ObjectKey
from trierarch.push.egress_hosts import EVERYTHING, parse_egress_hosts
from trierarch.push.model import PortProtocol, Registry
from trierarch.push.request import ConfigKey
from trierarch.push.sidecar_scope import build_scope
from trierarch.push.steps import run_steps
from trierarch.push.view import ScopeKey

SERVICES = """
    Service shop/web: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}, {name: tcp, port: 90}]}
    Service shop/cart: {clusterIP: 10.0.0.2, ports: [{name: http, port: 80}]}
    Service bank/pay: {clusterIP: 10.0.0.3, ports: [{name: http, port: 80}, {name: tcp, port: 70}]}
    ServiceEntry bank/out: {hosts: [a.example.com, b.example.com], ports: [{number: 443, name: tls, protocol: TLS}]}
"""
SHOP = ScopeKey("shop", ObjectKey("Kubernetes", "Sidecar", "shop", "default"))


def scope(*texts, key=SHOP):
    """The scope of Sidecar shop/default over the services."""
    return run_steps(build_scope(key, snapshot(SERVICES, *texts), None))


def with_egress(*listeners):
    """A Sidecar shop/default with egress listeners in YAML."""
    return f"Sidecar shop/default: {{egress: [{', '.join(listeners)}]}}"


def names(services):
    """First labels of host names."""
    return [service.hostname.removesuffix(".svc.cluster.local") for service in services]


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (["*/*"], ["cart.shop", "pay.bank", "web.shop", "a.example.com", "b.example.com"]),
        (["./*"], ["cart.shop", "web.shop"]),
        (["bank/*"], ["pay.bank", "a.example.com", "b.example.com"]),
        (["bank/*.example.com"], ["a.example.com", "b.example.com"]),
        (["*/a.example.com"], ["a.example.com"]),
        (["bank/a.example.com", "./web.shop.svc.cluster.local"], ["web.shop", "a.example.com"]),
        (["other/a.example.com"], []),
        (["~/*"], []),
        (["*/*", "~/*"], []),
        (["*/*", "~bank/*"], ["cart.shop", "web.shop"]),
        (["~./cart.shop.svc.cluster.local", "./*"], ["web.shop"]),
        (["*/*", "~*/*.example.com"], ["cart.shop", "pay.bank", "web.shop"]),
        (["nonsense", "a/b/c", "./web.shop.svc.cluster.local"], ["web.shop"]),
    ],
)
def test_egress_hosts(hosts, expected):
    """xds-server.md §8.5.3: namespaces, wildcards, exclusions; what is malformed imports nothing."""
    assert names(scope(with_egress(f"{{hosts: {hosts}}}")).services) == expected


def test_hosts_are_meant_in_the_proxys_namespace():
    """In a Sidecar of the root namespace `./` is the namespace of the proxy."""
    context = snapshot(SERVICES, "Sidecar istio-system/default: {egress: [{hosts: ['./*']}]}")
    assert names(scope_of(sidecar(namespace="bank"), context).services) == [
        "pay.bank",
        "a.example.com",
        "b.example.com",
    ]
    assert parse_egress_hosts(["./*"], "bank") == parse_egress_hosts(["bank/*"], "shop")


def test_without_a_sidecar_everything_is_imported():
    """Also for the key of a Sidecar that is gone, and for one without egress."""
    everything = ["cart.shop", "pay.bank", "web.shop", "a.example.com", "b.example.com"]
    assert names(scope(key=ScopeKey("shop", None)).services) == everything
    assert names(scope().services) == everything
    assert names(scope("Sidecar shop/default: {ingress: []}").services) == everything
    assert EVERYTHING.everything


def test_a_listener_with_a_port_trims():
    """To services that have the port, and of those to that port; a proxy's port trims nothing."""
    web = "{hosts: ['*/*'], port: {number: 80, protocol: HTTP, name: http}}"
    (listener,) = scope(with_egress(web)).egress
    assert listener.port == (80, "http", PortProtocol.HTTP, 0)
    assert names(listener.services) == ["cart.shop", "pay.bank", "web.shop"]
    assert {port.number for service in listener.services for port in service.ports} == {80}
    (proxy,) = scope(with_egress(web.replace("protocol: HTTP", "protocol: HTTP_PROXY"))).egress
    assert len(proxy.services) == 5


def test_earlier_listeners_win_and_ports_are_merged():
    """A service that two listeners import in part has both ports where it gets clusters."""
    whole = scope(
        with_egress(
            "{hosts: ['./*'], port: {number: 80, protocol: HTTP, name: http}}",
            "{hosts: ['./web.shop.svc.cluster.local'], port: {number: 90, protocol: TCP, name: tcp}}",
        )
    )
    assert [port.number for port in whole.by_host["web.shop.svc.cluster.local"].ports] == [80, 90]
    assert [port.number for port in whole.egress[1].services[0].ports] == [90]


def test_what_binds():
    """Listeners with captureMode NONE, and Unix sockets, bind a port of their own."""
    listeners = (
        "{hosts: ['*/*'], captureMode: NONE, port: {number: 80, protocol: HTTP, name: a}}",
        "{hosts: ['*/*'], bind: 'unix:///x', port: {number: 0, protocol: HTTP, name: b}}",
        "{hosts: ['*/*'], bind: 10.0.0.9, port: {number: 81, protocol: HTTP, name: c}}",
    )
    assert [listener.binds for listener in scope(with_egress(*listeners)).egress] == [True, True, False]


def test_one_namespace_for_a_host():
    """The proxy's own, else Kubernetes before a ServiceEntry, else the first (networking.md §0.4)."""
    host = "web.shop.svc.cluster.local"
    twins = f"""
        ServiceEntry a/twin: {{hosts: [{host}, x.y], ports: [{{number: 1, name: http}}],
          metadata: {{creationTimestamp: '2019-01-01T00:00:00Z'}}}}
        ServiceEntry b/twin: {{hosts: [x.y], ports: [{{number: 2, name: http}}]}}
    """
    third = scope(twins, key=ScopeKey("third", None))
    assert third.by_host[host].registry is Registry.KUBERNETES
    assert third.by_host["x.y"].namespace == "a"
    assert scope(twins, key=ScopeKey("a", None)).by_host[host].namespace == "a"
    assert scope(twins, key=ScopeKey("b", None)).by_host["x.y"].namespace == "b"


def test_which_virtual_services_are_imported():
    """Those with a host that overlaps an import of their namespace and is not excluded (xds-server.md §8.3.6)."""
    context = """
        VirtualService bank/wild: {hosts: ['*.example.com'], http: []}
        VirtualService bank/exact: {hosts: [a.example.com], http: []}
        VirtualService shop/foreign: {hosts: [a.example.com], http: []}
        VirtualService bank/elsewhere: {hosts: [pay], http: []}
    """

    def imported(*hosts):
        (listener,) = scope(context, with_egress(f"{{hosts: {list(hosts)}}}")).egress
        return [each.name for each in listener.virtual_services]

    assert imported("bank/a.example.com") == ["exact", "wild"]
    assert imported("./*") == ["foreign"]
    assert imported("bank/*", "~bank/a.example.com") == ["elsewhere", "wild"]
    assert imported("~/*") == []


ROUTE = """
    VirtualService shop/web: {hosts: [web], http: [{route: [{destination: {host: pay.bank.svc.cluster.local, port:
      {number: 70}}}], mirror: {host: a.example.com}}]}
"""


def test_destinations_of_virtual_services_get_clusters():
    """With the ports named there, or all; but no listener imports them (networking.md §0.4)."""
    whole = scope(ROUTE, with_egress("{hosts: ['./*']}"))
    assert names(whole.services) == ["cart.shop", "web.shop", "pay.bank", "a.example.com"]
    assert [port.number for port in whole.by_host["pay.bank.svc.cluster.local"].ports] == [70]
    assert names(whole.egress[0].services) == ["cart.shop", "web.shop"]


def test_a_destination_that_is_not_visible_is_left_out():
    """And so is one without the port."""
    hidden = "ServiceEntry other/x: {hosts: [x.y], exportTo: ['.'], ports: [{number: 1, name: http}]}"
    route = "VirtualService shop/web: {hosts: [web], http: [{route: [{destination: {host: x.y}}]}]}"
    assert "x.y" not in scope(hidden, route, with_egress("{hosts: ['./*']}")).by_host
    wrong = ROUTE.replace("number: 70", "number: 71")
    assert "pay.bank.svc.cluster.local" not in scope(wrong, with_egress("{hosts: ['./*']}")).by_host


def test_rules_of_the_services():
    """Those that the scope's namespace finds."""
    rule = "DestinationRule shop/web: {host: web}\nDestinationRule other/hidden: {host: cart.shop.svc.cluster.local}"
    assert list(scope(rule).rules) == ["web.shop.svc.cluster.local"]


@pytest.mark.parametrize(
    ("policy", "mesh", "expected"),
    [
        ("", "ALLOW_ANY", False),
        ("", "REGISTRY_ONLY", True),
        ("outboundTrafficPolicy: {mode: ALLOW_ANY}", "REGISTRY_ONLY", False),
        ("outboundTrafficPolicy: {mode: REGISTRY_ONLY}", "ALLOW_ANY", True),
    ],
)
def test_unknown_destinations(policy, mesh, expected):
    """The Sidecar's policy, else the mesh's."""
    config = f"MeshConfig mesh: {{outboundTrafficPolicy: {{mode: {mesh}}}}}"
    assert scope(config, f"Sidecar shop/default: {{{policy}}}").registry_only is expected


def test_egress_proxy():
    """Its short name is meant in the Sidecar's namespace."""
    proxy = "{mode: ALLOW_ANY, egressProxy: {host: way-out, subset: s, port: {number: 9}}}"
    found = scope(f"Sidecar shop/default: {{outboundTrafficPolicy: {proxy}}}")
    assert found.egress_proxy == ("way-out.shop.svc.cluster.local", "s", 9)


def test_what_a_scope_depends_on():
    """Its Sidecar, services and their endpoints, roots, and every object behind a rule (xds-server.md §5.1)."""
    rules = "DestinationRule shop/one: {host: web}\nDestinationRule shop/two: {host: web, subsets: [{name: s}]}"
    whole = scope(ROUTE, rules, with_egress("{hosts: ['./*']}"))
    for kind, namespace, name in (
        ("Sidecar", "shop", "default"),
        ("VirtualService", "shop", "web"),
        ("DestinationRule", "shop", "one"),
        ("DestinationRule", "shop", "two"),
        ("ServiceEntry", "shop", "web.shop.svc.cluster.local"),
        ("Endpoints", "bank", "pay.bank.svc.cluster.local"),
    ):
        assert whole.depends(ConfigKey(kind, namespace, name)), kind
    for kind, namespace, name in (
        ("Sidecar", "shop", "other"),
        ("ServiceEntry", "bank", "b.example.com"),
        ("ServiceEntry", "shop", "pay.bank.svc.cluster.local"),
    ):
        assert not whole.depends(ConfigKey(kind, namespace, name)), kind


def test_a_scope_keeps_what_did_not_change():
    """Another rule: listeners and services are the very objects; nothing at all: so is the scope."""
    view = view_of(SERVICES, ROUTE, with_egress("{hosts: ['./*'], port: {number: 80, protocol: HTTP, name: http}}"))
    context = built(view)
    before = run_steps(build_scope(SHOP, context))
    assert run_steps(build_scope(SHOP, built(view, context), before)) is before
    after = run_steps(build_scope(SHOP, built(edited(view, "DestinationRule shop/r: {host: web}"), context), before))
    assert after.egress is before.egress
    assert after.by_host is before.by_host
    assert after.services is before.services
    assert list(after.rules) == ["web.shop.svc.cluster.local"]


def test_which_sidecars_come_first():
    """Those with a selector, then by age; the root's oldest without one is everybody's default (§8.5.1)."""
    context = snapshot("""
        Sidecar shop/b-plain: {}
        Sidecar shop/a-old: {metadata: {creationTimestamp: '2020-01-01T00:00:00Z'}}
        Sidecar shop/z-chosen: {workloadSelector: {labels: {a: b}}}
        Sidecar istio-system/chosen: {workloadSelector: {labels: {a: b}}}
        Sidecar istio-system/second: {}
    """)
    assert [each.key.name for each in context.sidecars.by_namespace["shop"]] == ["z-chosen", "a-old", "b-plain"]
    assert context.sidecars.root_default.key.name == "second"
