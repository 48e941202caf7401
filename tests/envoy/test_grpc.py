"""Clients and servers of gRPC without a proxy: what they are sent by which name (networking.md §4.11)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.envoy.meshes import egress, external, scope, service, virtual_service
from tests.envoy.samples import endpoint, generated, inbound_key, mesh, outbound_key, rule, snapshot, subset
from trierarch.config.destination_rule import (
    ClientTls,
    ClientTlsMode,
    ConnectionPool,
    ConsistentHash,
    HttpPool,
    LoadBalancer,
    Maglev,
    RingHash,
    SimpleLoadBalancer,
    TrafficPolicy,
)
from trierarch.config.peer_authentication import MutualTlsMode
from trierarch.envoy.grpc_listeners import callable_names
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE
from trierarch.push.authentication import BOTH_KINDS, PeerModes
from trierarch.push.model import Hostname, PortProtocol, Resolution, ServiceTarget
from trierarch.push.proxy import PROXYLESS_GRPC, Capabilities, SecretSource

CLIENT = outbound_key(generator=PROXYLESS_GRPC)
WITH_CERTIFICATES = replace(CLIENT, capabilities=Capabilities(istio=True, secrets=SecretSource.AGENT))
WEB = service("web", "7070/GRPC", "9000/TCP", address="10.0.0.7")
HOST = WEB.hostname
NAME = f"outbound|7070||{HOST}"


def resources(kind, *services, rules=(), virtual=(), key=CLIENT, context=None):
    """Resources of one type for a client of a mesh that has these services."""
    here = scope(egress(*services, virtual=virtual), rules=rules)
    return generated(kind, context or snapshot(services), here, outbound=key)


# --- listeners -------------------------------------------------------------------------------------------------------
NAMES = {
    ("web.shop.svc.cluster.local", "shop", "shop.svc.cluster.local"): [
        "web.shop.svc.cluster.local",
        "web",
        "web.shop",
        "web.shop.svc",
    ],
    ("web.bank.svc.cluster.local", "shop", "shop.svc.cluster.local"): ["web.bank.svc.cluster.local"],
    ("a.web.shop.svc.cluster.local", "shop", "shop.svc.cluster.local"): [
        "a.web.shop.svc.cluster.local",
        "a.web.shop",
        "a.web.shop.svc",
    ],
    ("web.example.com", "shop", "example.com"): ["web.example.com", "web"],
    ("example.com", "shop", "shop.svc.cluster.local"): ["example.com"],
}


@pytest.mark.parametrize(("place", "names"), NAMES.items(), ids=str)
def test_names_that_a_client_may_write(place, names):
    """In its own namespace it may leave out what its resolver would add; elsewhere it has to say everything."""
    assert list(callable_names(*place)) == names


def test_a_listener_says_where_the_routes_are():
    """It binds nothing; the same under each name, for each port."""
    found = resources(LISTENER, WEB)
    assert set(found) >= {"web:7070", "web.shop:7070", f"{HOST}:7070", "web:9000"}
    listener = found["web:7070"]
    assert listener["address"] == {"socket_address": {"address": "10.0.0.7", "port_value": 7070}}
    manager = listener["api_listener"]["api_listener"]
    assert manager["rds"] == {"config_source": {"ads": {}}, "route_config_name": NAME}
    assert [each["name"] for each in manager["http_filters"]] == [
        "envoy.filters.http.fault",
        "envoy.filters.http.router",
    ]
    assert {**listener, "name": f"{HOST}:7070"} == found[f"{HOST}:7070"]


def test_sessions_are_the_listeners_matter():
    """Its filter keeps them, before all others."""
    sticky = service("web", "7070/GRPC", labels={"istio.io/persistent-session-header": "x-seat"})
    on = snapshot([sticky], settings=mesh(features={"persistent_session": True}))
    manager = resources(LISTENER, sticky, context=on)["web:7070"]["api_listener"]["api_listener"]
    first = manager["http_filters"][0]
    assert first["name"] == "envoy.filters.http.stateful_session"
    assert first["typed_config"]["session_state"]["typed_config"]["name"] == "x-seat"


# --- routes ----------------------------------------------------------------------------------------------------------
def test_routes_are_found_by_the_target_as_it_was_written():
    """With the port and without; nothing else is in the configuration, no catch-all either."""
    other = service("api", "7070/GRPC")
    (host,) = resources(ROUTE, WEB, other)[NAME]["virtual_hosts"]
    assert host["name"] == f"{HOST}:7070"
    assert {"web", "web:7070", "10.0.0.7:7070"} <= set(host["domains"])
    (route,) = host["routes"]
    assert route["route"]["cluster"] == NAME
    assert route["route"]["max_grpc_timeout"] == "0s"


def test_a_port_that_is_not_http_has_no_routes():
    """The configuration is there, for the listener names it."""
    assert resources(ROUTE, WEB)[f"outbound|9000||{HOST}"] == {"name": f"outbound|9000||{HOST}"}


def test_a_virtual_service_routes_calls():
    """As for sidecars, but the timeout is the stream's; hosts that are not the target's have no place here."""
    routed = virtual_service(
        """
        hosts: [web, other.example]
        http:
        - {match: [{headers: {x: {exact: "1"}}}], timeout: 3s, route: [{destination: {host: web, subset: v1}}]}
        - {route: [{destination: {host: web}, weight: 9}, {destination: {host: web, subset: v1}, weight: 1}]}
        """
    )
    (host,) = resources(ROUTE, service("web", "80/GRPC"), virtual=[routed])[f"outbound|80||{HOST}"]["virtual_hosts"]
    matched, weighted = (route["route"] for route in host["routes"])
    assert matched["cluster"] == f"outbound|80|v1|{HOST}"
    assert (matched["timeout"], matched["max_stream_duration"]) == ("3s", {"max_stream_duration": "3s"})
    assert "max_grpc_timeout" not in matched
    assert [each["weight"] for each in weighted["weighted_clusters"]["clusters"]] == [9, 1]


# --- clusters --------------------------------------------------------------------------------------------------------
def cluster(policy=None, key=CLIENT, context=None):
    """The cluster of WEB's first port under a policy."""
    rules = [rule(policy)] if policy is not None else []
    return resources(CLUSTER, WEB, rules=rules, key=key, context=context)[NAME]


def test_a_cluster_asks_for_its_endpoints_and_says_little_else():
    """No timeout, no limit, no options: gRPC has its own."""
    assert cluster() == {
        "name": NAME,
        "alt_stat_name": f"{NAME};",
        "type": "EDS",
        "eds_cluster_config": {"eds_config": {"ads": {}}, "service_name": NAME},
    }


def test_even_names_and_headless_services_are_asked_for():
    """Nobody resolves names in a gRPC client: it is told that there are no endpoints."""
    bare = service("bare", "7070/GRPC", resolution=Resolution.PASSTHROUGH)
    dns = external("dns.example", "7070/GRPC")
    context = snapshot([bare, dns], {bare: [endpoint(port_name="p7070")], dns: [endpoint(port_name="p7070")]})
    clusters = resources(CLUSTER, bare, dns, context=context)
    assert {each["type"] for each in clusters.values()} == {"EDS"}
    assignments = resources(ENDPOINT, bare, dns, context=context)
    assert list(assignments) == [f"outbound|7070||{bare.hostname}"]
    assert len(assignments[f"outbound|7070||{bare.hostname}"]["endpoints"]) == 1


BALANCERS = {
    "least": (SimpleLoadBalancer.LEAST_REQUEST, "LEAST_REQUEST", None),
    "random": (SimpleLoadBalancer.RANDOM, None, None),
    "passthrough": (SimpleLoadBalancer.PASSTHROUGH, None, None),
    "ring": (ConsistentHash(algorithm=RingHash(minimum_ring_size=512)), "RING_HASH", "512"),
    "old ring": (ConsistentHash(minimum_ring_size=64), "RING_HASH", "64"),
    "hash": (ConsistentHash(), "RING_HASH", "1024"),
    "maglev": (ConsistentHash(algorithm=Maglev(table_size=65537)), "RING_HASH", "1024"),
}


@pytest.mark.parametrize(("policy", "expected", "ring"), BALANCERS.values(), ids=BALANCERS)
def test_policies_that_grpc_knows(policy, expected, ring):
    """Least request and ring hash; what it does not know it would refuse, so it goes round."""
    found = cluster(TrafficPolicy(load_balancer=LoadBalancer(policy=policy)))
    assert found.get("lb_policy") == expected
    assert found.get("ring_hash_lb_config", {}).get("minimum_ring_size") == ring


def test_a_limit_of_requests_is_the_only_limit():
    """Others are not gRPC's."""
    pool = ConnectionPool(http=HttpPool(http2_max_requests=77, max_retries=3))
    assert cluster(TrafficPolicy(connection_pool=pool))["circuit_breakers"] == {"thresholds": [{"max_requests": 77}]}


MUTUAL = TrafficPolicy(tls=ClientTls(mode=ClientTlsMode.ISTIO_MUTUAL))


def test_a_rule_asks_for_mutual_tls():
    """With certificates of the bootstrap's provider, and whoever the endpoints are."""
    context = snapshot([WEB], {WEB: [endpoint(port_name="p7070")]})
    served = replace(context.endpoints.of(WEB.id), service_accounts=("spiffe://cluster.local/ns/shop/sa/web",))
    context = replace(context, endpoints=replace(context.endpoints, by_service={WEB.id: served}))
    tls = cluster(MUTUAL, WITH_CERTIFICATES, context)["transport_socket"]["typed_config"]["common_tls_context"]
    own, roots = ({"instance_name": "default", "certificate_name": name} for name in ("default", "ROOTCA"))
    assert tls == {
        "tls_certificate_provider_instance": own,
        "tls_certificate_certificate_provider_instance": own,
        "combined_validation_context": {
            "default_validation_context": {
                "ca_certificate_provider_instance": roots,
                "match_subject_alt_names": [{"exact": "spiffe://cluster.local/ns/shop/sa/web"}],
            },
            "validation_context_certificate_provider_instance": roots,
        },
    }


def test_no_tls_of_itself():
    """Nothing is automatic, and without certificates nothing is possible."""
    assert "transport_socket" not in cluster(key=WITH_CERTIFICATES)
    assert "transport_socket" not in cluster(MUTUAL)
    simple = TrafficPolicy(tls=ClientTls(mode=ClientTlsMode.SIMPLE))
    assert "transport_socket" not in cluster(simple, WITH_CERTIFICATES)


def test_subsets_are_clusters_too():
    """Each with its own name and policy."""
    found = resources(CLUSTER, WEB, rules=[rule(subsets=[subset("v1", version="v1")])])
    assert f"outbound|7070|v1|{HOST}" in found


# --- servers ---------------------------------------------------------------------------------------------------------
def servers(peers=BOTH_KINDS, secrets=SecretSource.AGENT):
    """The listeners of a server with one port, by the address that they are asked for by."""
    target = ServiceTarget(Hostname("shop", HOST), 7070, 17070, PortProtocol.GRPC)
    dns = ServiceTarget(Hostname("shop", HOST), 53, 5353, PortProtocol.UDP)
    key = inbound_key(
        targets=(target, dns), address="10.1.0.1", peers=peers, capabilities=Capabilities(istio=True, secrets=secrets)
    )
    found = generated(LISTENER, snapshot(), scope(), outbound=CLIENT, inbound=key)
    return {name.removeprefix("xds.istio.io/grpc/lds/inbound/"): listener for name, listener in found.items()}


def test_a_server_asks_by_the_address_that_it_listens_on():
    """Anywhere, at home, or at the workload's own address; ports that no service leads to are not its."""
    found = servers()
    assert sorted(found) == ["0.0.0.0:17070", "10.1.0.1:17070", "127.0.0.1:17070", "[::1]:17070", "[::]:17070"]
    assert found["[::]:17070"]["address"] == {"socket_address": {"address": "::", "port_value": 17070}}


@pytest.mark.parametrize(
    ("mode", "secrets", "kind"),
    [
        (MutualTlsMode.STRICT, SecretSource.AGENT, "mtls"),
        (MutualTlsMode.DISABLE, SecretSource.AGENT, "plaintext"),
        (MutualTlsMode.STRICT, SecretSource.NONE, "plaintext"),
    ],
)
def test_a_port_is_one_or_the_other(mode, secrets, kind):
    """A gRPC server cannot tell the two apart, so it is told which to expect; without certificates, plaintext."""
    (chain,) = servers(PeerModes(mode), secrets)["0.0.0.0:17070"]["filter_chains"]
    assert chain["name"] == f"inbound-{kind}"
    (manager,) = chain["filters"]
    assert manager["name"] == f"inbound-hcm{kind}"
    (host,) = manager["typed_config"]["route_config"]["virtual_hosts"]
    assert host == {"domains": ["*"], "routes": [{"match": {"prefix": "/"}, "non_forwarding_action": {}}]}
    assert ("transport_socket" in chain) is (kind == "mtls")


@pytest.mark.parametrize("mutual", [True, False])
def test_where_both_are_accepted_the_clients_mark_decides(mutual):
    """Clients speak mutual TLS to a workload that is marked so, and to no other."""
    modes = PeerModes(ports=((8080, MutualTlsMode.PERMISSIVE), (9090, MutualTlsMode.DISABLE))).settled(mutual)
    settled = MutualTlsMode.STRICT if mutual else MutualTlsMode.DISABLE
    assert (modes.default, modes.at(8080), modes.at(9090)) == (settled, settled, MutualTlsMode.DISABLE)
