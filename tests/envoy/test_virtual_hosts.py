"""Which virtual hosts a port has, under which domains, and who owns what two of them want."""

from __future__ import annotations

import pytest

from tests.envoy.meshes import STOCK, egress, external, mesh_of, routes, scope, service, virtual_service
from tests.envoy.samples import mesh, outbound_key, snapshot
from trierarch.config.mesh_config import MeshOutboundMode, MeshOutboundTrafficPolicy
from trierarch.envoy.virtual_host_domains import short_names
from trierarch.push.model import Hostname, Resolution

WEB = service("web", "80/HTTP", "81/HTTP", address="10.0.0.7")
API = service("api", "80/HTTP")


def hosts(here, port="80", key=STOCK) -> dict[str, list[str]]:
    """Name -> domains of a route configuration's virtual hosts."""
    return {host["name"]: host["domains"] for host in routes(here, key)[port]["virtual_hosts"]}


def owners(here, port="80", key=STOCK) -> dict[str, list[str]]:
    """Name -> names of its routes."""
    found = routes(here, key)[port]["virtual_hosts"]
    return {host["name"]: [route.get("name", "") for route in host["routes"]] for host in found}


def plain(name: str, *host: str):
    """A VirtualService with one route of its own name that takes everything."""
    listed = ", ".join(f"'{each}'" for each in host)
    route = f"{{name: {name}, route: [{{destination: {{host: web}}}}]}}"
    return virtual_service(f"{{hosts: [{listed}], http: [{route}]}}", name)


SHORT_NAMES = {
    ("web.shop.svc.cluster.local", "shop.svc.cluster.local"): ["web", "web.shop.svc", "web.shop"],
    ("web.shop.svc.cluster.local", "bank.svc.cluster.local"): ["web.shop", "web.shop.svc"],
    ("web.shop.svc.cluster.local", "shop.svc.other.local"): [],
    ("api.example.com", "shop.svc.cluster.local"): [],
    ("web.shop.svc.cluster.local", "vms.local"): ["web.shop.svc.cluster"],
    ("api.example.com", "example.com"): ["api"],
    ("a.b.example.com", "example.com"): ["a.b", "a.b.example"],
    ("api.example.com", "other.net"): [],
}


@pytest.mark.parametrize(("pair", "names"), SHORT_NAMES.items(), ids=str)
def test_short_names_are_what_the_clients_resolver_completes(pair, names):
    """By namespace in Kubernetes, by the shared end of the domain elsewhere."""
    assert short_names(*pair) == names


def test_a_service_answers_to_all_its_names_and_its_address():
    """The full name first, then what the search domain makes of it, then the virtual IP."""
    host = "web.shop.svc.cluster.local"
    assert hosts(mesh_of(WEB))[f"{host}:80"] == [host, f"{host}.", "web", "web.shop.svc", "web.shop", "10.0.0.7"]


def test_a_pod_of_a_headless_service_answers_to_its_own_name():
    """Every name may have one more label in front."""
    store = service("store", "80/HTTP", resolution=Resolution.PASSTHROUGH)
    domains = hosts(mesh_of(store))["store.shop.svc.cluster.local:80"]
    assert "*.store.shop.svc.cluster.local" in domains
    assert "*.store" in domains


def test_aliases_are_domains_of_what_they_stand_for():
    """An ExternalName service has no virtual host of its own."""
    old = service("old", "80/HTTP", resolution=Resolution.ALIAS, external_name=WEB.hostname)
    web = service("web", "80/HTTP", aliases=(Hostname("shop", old.hostname),))
    found = hosts(mesh_of(web, old))
    assert list(found) == ["web.shop.svc.cluster.local:80", "allow_any"]
    assert {"old.shop.svc.cluster.local", "old"} <= set(found["web.shop.svc.cluster.local:80"])


def test_the_catch_all_is_the_last():
    """The others are sorted by name."""
    assert list(hosts(mesh_of(WEB, API))) == [
        "api.shop.svc.cluster.local:80",
        "web.shop.svc.cluster.local:80",
        "allow_any",
    ]


def test_unknown_hosts_go_where_the_mode_says():
    """Through, nowhere (502), to an egress proxy, or where their name resolves to."""
    policy = MeshOutboundTrafficPolicy(mode=MeshOutboundMode.ALLOW_ANY_DYNAMIC_DNS)
    resolving = snapshot(settings=mesh(outbound_traffic_policy=policy))
    found = {
        "any": routes(mesh_of(API)),
        "registry": routes(mesh_of(API, registry_only=True)),
        "proxy": routes(mesh_of(API, egress_proxy=("out.shop.svc.cluster.local", "", 3128))),
        "dns": routes(mesh_of(API), STOCK, resolving),
    }
    last = {mode: (each["80"]["virtual_hosts"][-1]) for mode, each in found.items()}
    actions = {mode: (host["name"], host["routes"][0]) for mode, host in last.items()}
    assert {mode: (name, route.get("route", {}).get("cluster")) for mode, (name, route) in actions.items()} == {
        "any": ("allow_any", "PassthroughCluster"),
        "registry": ("block_all", None),
        "proxy": ("allow_any", "outbound|3128||out.shop.svc.cluster.local"),
        "dns": ("allow_any_dynamic_dns", "AllowAnyDynamicDNSCluster"),
    }
    assert actions["registry"][1]["direct_response"] == {"status": 502}


def test_a_virtual_service_routes_its_services():
    """On every HTTP port of the service; services that it does not name keep the default route."""
    here = mesh_of(WEB, API, virtual=(plain("own", "web"),))
    assert owners(here) == {
        "api.shop.svc.cluster.local:80": ["default"],
        "web.shop.svc.cluster.local:80": ["own"],
        "allow_any": ["allow_any"],
    }
    assert owners(here, "81")["web.shop.svc.cluster.local:81"] == ["own"]


def test_hosts_that_are_no_services_are_served_on_port_80():
    """On another port only beside a service that the same object names."""
    alone, beside = plain("alone", "a.example"), plain("beside", "b.example", "web")
    here = mesh_of(WEB, virtual=(alone, beside))
    assert {"a.example:80", "b.example:80"} <= set(hosts(here))
    assert set(hosts(here, "81")) == {"b.example:81", "web.shop.svc.cluster.local:81", "allow_any"}


def test_a_wildcard_means_the_services_that_nobody_means_more_exactly():
    """Of two wildcards the longer counts, and an exact host before both."""
    wide, narrow, exact = plain("wide", "*.local"), plain("narrow", "*.shop.svc.cluster.local"), plain("exact", "web")
    other = service("far", "80/HTTP", namespace="bank", hostname="far.bank.svc.cluster.local")
    found = owners(mesh_of(WEB, API, other, virtual=(wide, narrow, exact)))
    assert found == {
        "api.shop.svc.cluster.local:80": ["narrow"],
        "far.bank.svc.cluster.local:80": ["wide"],
        "web.shop.svc.cluster.local:80": ["exact"],
        "allow_any": ["allow_any"],
    }


def test_a_wildcard_without_services_is_a_host_of_its_own():
    """It is a domain as it stands."""
    assert hosts(mesh_of(WEB, virtual=(plain("wild", "*.example"),)))["*.example:80"] == ["*.example"]


def test_of_two_virtual_services_for_a_host_the_first_counts():
    """Precedence is the order in which the scope has them."""
    assert owners(mesh_of(WEB, virtual=(plain("first", "web"), plain("second", "web"))))[
        "web.shop.svc.cluster.local:80"
    ] == ["first"]


def test_where_no_route_applies_the_default_does():
    """A VirtualService for another port contributes nothing to this one."""
    other = virtual_service(
        "{hosts: [web], http: [{name: other, match: [{port: 9}], route: [{destination: {host: web}}]}]}"
    )
    assert owners(mesh_of(WEB, virtual=(other,)))["web.shop.svc.cluster.local:80"] == ["default"]


STATIC = {
    "{port: 80}": True,
    "{port: 81}": False,
    "{sourceLabels: {app: shop}}": True,
    "{sourceLabels: {app: bank}}": False,
    "{sourceNamespace: shop}": True,
    "{sourceNamespace: bank}": False,
    "{gateways: [mesh], sourceNamespace: bank}": True,
    "{gateways: [shop/edge]}": False,
}


@pytest.mark.parametrize(("match", "holds"), STATIC.items(), ids=str)
def test_what_is_known_of_the_client_is_decided_beforehand(match, holds):
    """Port, gateway and source; where gateways are named, the source does not count."""
    found = virtual_service(
        f"{{hosts: [web], http: [{{name: own, match: [{match}], route: [{{destination: {{host: web}}}}]}}]}}"
    )
    key = outbound_key(labels=frozenset({("app", "shop")}))
    names = owners(mesh_of(WEB, virtual=(found,)), key=key)["web.shop.svc.cluster.local:80"]
    assert names == (["own"] if holds else ["default"])


def test_nothing_follows_a_route_that_takes_everything():
    """Neither the rest of its matches nor later routes."""
    found = virtual_service(
        "{hosts: [web], http: [{name: a, match: [{uri: {exact: /x}}, {uri: {prefix: /}}, {uri: {exact: /y}}],"
        " route: [{destination: {host: web}}]}, {name: b, route: [{destination: {host: web}}]}]}"
    )
    assert owners(mesh_of(WEB, virtual=(found,)))["web.shop.svc.cluster.local:80"] == ["a", "a"]


def test_a_domain_stays_with_its_first_owner():
    """Letters' case makes no difference, and short names never take a full name."""
    one, two = external("a.example", "80/HTTP"), external("A.example", "80/HTTP")
    assert list(hosts(mesh_of(one, two))) == ["a.example:80", "allow_any"]
    short = external("web.shop", "80/HTTP")
    found = hosts(mesh_of(WEB, short))
    assert "web.shop" not in found["web.shop.svc.cluster.local:80"]
    assert found["web.shop:80"] == ["web.shop", "web.shop."]


def test_a_detected_port_has_one_virtual_host_for_all_names():
    """Its listener belongs to the service alone."""
    auto = service("auto", "7000", address="10.0.0.8")
    name = "auto.shop.svc.cluster.local:7000"
    assert hosts(mesh_of(auto, WEB), name) == {name: ["*"]}


def test_a_port_that_a_sidecar_names_knows_only_what_it_imports():
    """Its virtual services, too, are those of the egress listener."""
    here = scope(egress(WEB, port="80/HTTP"), egress(WEB, API, virtual=(plain("own", "web"),)))
    assert owners(here) == {"web.shop.svc.cluster.local:80": ["default"], "allow_any": ["allow_any"]}


def test_a_proxy_port_serves_all_ports_by_name_and_port():
    """An HTTP proxy's listener has every service; only names with a port tell its ports apart."""
    found = hosts(scope(egress(WEB, port="3128/HTTP_PROXY")), "3128")
    assert set(found) == {"web.shop.svc.cluster.local:80", "web.shop.svc.cluster.local:81", "allow_any"}
    assert "web:80" in found["web.shop.svc.cluster.local:80"]
    assert all(":" in domain for domain in found["web.shop.svc.cluster.local:81"])


def test_of_services_with_one_host_the_last_counts():
    """If its port is no HTTP, the host has no virtual host at all."""
    first, last = external("x.example", "80/HTTP"), external("x.example", "80/TCP")
    assert list(hosts(mesh_of(last, first, API))) == ["api.shop.svc.cluster.local:80", "x.example:80", "allow_any"]
    assert list(hosts(mesh_of(first, last, API))) == ["api.shop.svc.cluster.local:80", "allow_any"]
