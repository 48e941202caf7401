"""TCP and TLS chains: what virtual services and destination rules make of the connections to a service."""

from __future__ import annotations

import pytest

from tests.envoy.meshes import destination_rule, external, listeners, mesh_of, service, summary, virtual_service
from tests.envoy.samples import mesh, outbound_key, snapshot
from trierarch.config.destination_rule import ConnectionPool, TcpPool
from trierarch.config.mesh_config import DefaultTrafficPolicy
from trierarch.push.model import Hostname, Resolution

DB = service("db", "5000/TCP", address="10.0.0.5")
HOST = "db.shop.svc.cluster.local"
KEY = outbound_key(labels=frozenset({("app", "shop")}))


def tcp(routes: str, *, here=(DB,), rules=(), name="10.0.0.5_5000") -> list[str]:
    """The chains of a listener under a VirtualService with these TCP routes."""
    hosts = ", ".join(each.hostname for each in here)
    found = virtual_service(f"{{hosts: [{hosts}], tcp: {routes}}}", "db")
    return summary(listeners(mesh_of(*here, virtual=(found,), rules=rules), KEY)[name])


def to(subset: str) -> str:
    """A TCP route's destinations: one, a subset of db."""
    return f"route: [{{destination: {{host: db, subset: {subset}}}}}]"


def test_a_route_without_match_takes_every_connection():
    """Later routes are never reached."""
    assert tcp(f"[{{{to('v1')}}}, {{{to('v2')}}}]") == [f"all -> outbound|5000|v1|{HOST}"]


HOLDS = {
    "{port: 5000}": True,
    "{port: 5001}": False,
    "{sourceLabels: {app: shop}}": True,
    "{sourceLabels: {app: bank}}": False,
    "{sourceNamespace: bank}": False,
    "{gateways: [mesh]}": True,
    "{gateways: [shop/edge]}": False,
    "{gateways: [mesh], sourceNamespace: bank}": False,
}


@pytest.mark.parametrize(("match", "holds"), HOLDS.items(), ids=str)
def test_conditions_are_decided_beforehand_and_all_must_hold(match, holds):
    """Unlike those of HTTP matches: a gateway does not make the source irrelevant."""
    assert tcp(f"[{{match: [{match}], {to('v1')}}}]") == [
        f"all -> outbound|5000|v1|{HOST}" if holds else f"all -> outbound|5000||{HOST}"
    ]


def test_a_range_has_one_spelling():
    """Whatever the letters of an IPv6 address are."""
    (first, _) = tcp(f"[{{match: [{{destinationSubnets: ['2001:DB8:0::1/32']}}], {to('v1')}}}]")
    assert first == f"2001:db8::1/32 -> outbound|5000|v1|{HOST}"


def test_connections_are_shared_by_weight():
    """Destinations without weight are left out; the statistics are the VirtualService's."""
    shares = "route: [{destination: {host: db, subset: v1}, weight: 25}, {destination: {host: db}, weight: 75}]"
    assert tcp(f"[{{{shares}}}]") == [f"all -> outbound|5000|v1|{HOST}*25 outbound|5000||{HOST}*75"]


def test_subnets_add_chains_before_the_services_own():
    """Those of all matches of a route are one chain."""
    net = external("net.example", "5000/TCP", address="198.51.100.0/24")
    routes = (
        "[{match: [{destinationSubnets: [198.51.100.0/25]}, {destinationSubnets: [198.51.100.200]}],"
        " route: [{destination: {host: net.example, subset: l}}]}]"
    )
    assert tcp(routes, here=(net,), name="0.0.0.0_5000") == [
        "198.51.100.0/25,198.51.100.200/32 -> outbound|5000|l|net.example",
        "198.51.100.0/24 -> outbound|5000||net.example",
        "otherwise -> PassthroughCluster",
    ]


def test_subnets_that_are_the_services_own_leave_it_no_chain():
    """Envoy refuses two chains with one match."""
    net = external("net.example", "5000/TCP", address="198.51.100.0/24")
    routes = (
        "[{match: [{destinationSubnets: [198.51.100.0/24]}], route: [{destination: {host: net.example, subset: l}}]}]"
    )
    assert tcp(routes, here=(net,), name="0.0.0.0_5000")[:-1] == ["198.51.100.0/24 -> outbound|5000|l|net.example"]


def tls(routes: str, *services) -> list[str]:
    """The chains of port 443 under a VirtualService with these TLS routes."""
    hosts = ", ".join(each.hostname for each in services)
    found = virtual_service(f"{{hosts: [{hosts}], tls: {routes}}}", "sni")
    return summary(listeners(mesh_of(*services, virtual=(found,)), KEY)["0.0.0.0_443"])


A, B = external("a.example", "443/TLS"), external("b.example", "443/TLS")


def test_tls_is_routed_by_server_name():
    """Each distinct set of names is a chain, once; a service that no match names keeps its own."""
    routes = (
        "[{match: [{sniHosts: [a.example]}], route: [{destination: {host: b.example}}]},"
        " {match: [{sniHosts: [a.example], port: 443}], route: [{destination: {host: a.example}}]}]"
    )
    assert tls(routes, A) == ["a.example -> outbound|443||b.example", "otherwise -> PassthroughCluster"]
    unmatched = "[{match: [{sniHosts: [x.example], port: 9}], route: [{destination: {host: b.example}}]}]"
    assert tls(unmatched, A)[0] == "a.example -> outbound|443||a.example"


def test_subnets_of_tls_matches_stay_in_force():
    """A match that names none inherits those before it: istiod does so."""
    routes = (
        "[{match: [{sniHosts: [a.example], destinationSubnets: [192.0.2.0/24]}],"
        " route: [{destination: {host: a.example}}]},"
        " {match: [{sniHosts: [b.example]}], route: [{destination: {host: b.example}}]}]"
    )
    found = virtual_service(f"{{hosts: [a.example], tls: {routes}}}")
    chains = listeners(mesh_of(A, virtual=(found,)))["0.0.0.0_443"]["filter_chains"]
    assert [chain["filter_chain_match"].get("prefix_ranges") for chain in chains] == [
        [{"address_prefix": "192.0.2.0", "prefix_len": 24}]
    ] * 2


def test_a_server_name_is_matched_only_where_the_address_does_not_tell():
    """A service with an address of its own needs none; its aliases are names of it."""
    own = external("own.example", "443/TLS", address="192.0.2.7")
    aliased = external("to.example", "443/TLS", aliases=(Hostname("shop", "web.shop.svc.cluster.local"),))
    found = listeners(mesh_of(own, aliased))
    assert summary(found["192.0.2.7_443"]) == ["all -> outbound|443||own.example"]
    assert summary(found["0.0.0.0_443"])[0] == (
        "to.example,web.shop.svc.cluster.local,web,web.shop.svc,web.shop -> outbound|443||to.example"
    )


def test_hosts_of_a_wildcard_are_resolved_by_server_name():
    """The name is looked up before the connection goes on."""
    wild = external("*.dyn.example", "443/TLS", resolution=Resolution.DYNAMIC_DNS)
    (chain,) = listeners(mesh_of(wild))["0.0.0.0_443"]["filter_chains"]
    assert chain["filter_chain_match"] == {"server_names": ["*.dyn.example"]}
    assert [each["name"].rpartition(".")[2] for each in chain["filters"]] == ["sni_dynamic_forward_proxy", "tcp_proxy"]


def test_the_destination_rule_sets_times_hash_and_tunnel():
    """Its TCP pool and its hash by source address are the filter's."""
    rule = destination_rule(
        f"{{host: {HOST}, trafficPolicy: {{loadBalancer: {{consistentHash: {{useSourceIp: true}}}},"
        " connectionPool: {tcp: {idleTimeout: 30s, maxConnectionDuration: 5m}},"
        " tunnel: {protocol: POST, targetHost: out.example, targetPort: 443}}}"
    )
    (chain,) = listeners(mesh_of(DB, rules=(rule,)))["10.0.0.5_5000"]["filter_chains"]
    config = chain["filters"][0]["typed_config"]
    assert config["idle_timeout"] == "30s"
    assert config["max_downstream_connection_duration"] == "300s"
    assert config["hash_policy"] == [{"source_ip": {}}]
    assert config["tunneling_config"] == {"hostname": "out.example:443", "use_post": True}


def test_the_default_pool_is_not_for_the_filter():
    """It is for clusters: their connections end by it, those of clients do not."""
    pool = ConnectionPool(tcp=TcpPool(idle_timeout=7.0, max_connection_duration=9.0))
    settings = snapshot(settings=mesh(default_traffic_policy=DefaultTrafficPolicy(connection_pool=pool)))
    (chain,) = listeners(mesh_of(DB), snapshot=settings)["10.0.0.5_5000"]["filter_chains"]
    config = chain["filters"][0]["typed_config"]
    assert not {"idle_timeout", "max_downstream_connection_duration"} & config.keys()


EVERY_DATABASE = {"mongo_filter": True, "redis_filter": True, "mysql_filter": True}
NO_DATABASE = dict.fromkeys(EVERY_DATABASE, False)


@pytest.mark.parametrize(
    ("protocol", "features", "expected"),
    [
        ("MONGO", {}, ["mongo_proxy", "tcp_proxy"]),
        ("MONGO", NO_DATABASE, ["tcp_proxy"]),
        ("MYSQL", {}, ["tcp_proxy"]),
        ("MYSQL", EVERY_DATABASE, ["mysql_proxy", "tcp_proxy"]),
        ("REDIS", {}, ["tcp_proxy"]),
        ("REDIS", EVERY_DATABASE, ["redis_proxy"]),
        ("TCP", EVERY_DATABASE, ["tcp_proxy"]),
    ],
)
def test_databases_have_filters_that_can_be_switched(protocol, features, expected):
    """Statistics of the protocol stand before the proxy, or the protocol's own proxy in its place."""
    db = service("m", f"27017/{protocol}", address="10.0.0.6")
    settings = snapshot(settings=mesh(features=features))
    (chain,) = listeners(mesh_of(db), KEY, settings)["10.0.0.6_27017"]["filter_chains"]
    assert [each["name"].rpartition(".")[2] for each in chain["filters"]] == expected


def test_redis_has_a_proxy_of_its_own():
    """To the one cluster, or to the first of several, for it spreads keys itself."""
    db, found = service("m", "6379/REDIS", address="10.0.0.6"), snapshot(settings=mesh(features=EVERY_DATABASE))
    (chain,) = listeners(mesh_of(db), KEY, found)["10.0.0.6_6379"]["filter_chains"]
    config = chain["filters"][0]["typed_config"]
    assert config["stat_prefix"] == "outbound|6379||m.shop.svc.cluster.local"
    assert config["settings"] == {"op_timeout": "5s"}
    assert config["latency_in_micros"]
    assert config["prefix_routes"] == {"catch_all_route": {"cluster": "outbound|6379||m.shop.svc.cluster.local"}}
    shares = "[{destination: {host: a.x}, weight: 1}, {destination: {host: b.x}, weight: 3}]"
    virtual = virtual_service(f"{{hosts: [m], tcp: [{{route: {shares}}}]}}")
    (chain,) = listeners(mesh_of(db, virtual=(virtual,)), KEY, found)["10.0.0.6_6379"]["filter_chains"]
    routes = chain["filters"][0]["typed_config"]["prefix_routes"]
    assert routes == {"catch_all_route": {"cluster": "outbound|6379||a.x"}}


def test_a_pattern_names_the_statistics():
    """The mesh's own, without the mark at its end."""
    found = snapshot(settings=mesh(outbound_cluster_stat_name="out_%SERVICE_FQDN%"))
    (chain,) = listeners(mesh_of(DB), KEY, found)["10.0.0.5_5000"]["filter_chains"]
    assert chain["filters"][0]["typed_config"]["stat_prefix"] == f"out_{HOST}"
