"""Known answers about what is generated, from tables of istiod's own tests (`go-tables/`).

A row is fed in at the boundary that users meet: an object of Istio's, and resources as proto-JSON.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conformance.go_tables import ip_mode, istio_object, mesh_config, plain, rows, rule_of, service, snake_case
from tests.conformance.protojson import to_plain
from tests.envoy.meshes import mesh_of, routes
from tests.envoy.samples import endpoint, generated, mesh, outbound_key, scope, snapshot
from tests.envoy.samples import service as plain_service
from trierarch.config.mesh_config import MeshConfig
from trierarch.envoy.grpc_listeners import callable_names
from trierarch.envoy.locality import Standpoint, apply_preference, group_by_locality, preference_in_force
from trierarch.envoy.route_filters import build_fault, mirrors
from trierarch.envoy.types import CLUSTER, ENDPOINT
from trierarch.envoy.well_known_types import encode
from trierarch.push.model import Locality, TrafficDistribution
from trierarch.push.network_gateways import NetworkGateway, index_gateways
from trierarch.push.proxy import PROXYLESS_GRPC, Capabilities, IPMode, SecretSource
from trierarch.push.traffic import effective_policy

CORE = "core/pilot__pkg__networking__core__{}.json"
GRPC = "core/pilot__pkg__networking__grpcgen__{}.json"
UTIL = "core/pilot__pkg__networking__util__util.json"
TELEMETRY = "core/pilot__pkg__networking__telemetry__telemetry.json"
ENDPOINTS = "xds/pilot__pkg__xds__endpoints__{}.json"


# --- routes ----------------------------------------------------------------------------------------------------------
@rows(CORE.format("httproute"), "TestGenerateVirtualHostDomains")
def test_domains_of_a_virtual_host(row):
    """All names and addresses under which a proxy may call a service."""
    node = row["node"]
    cluster = (node.get("metadata") or {}).get("clusterID", "")
    key = outbound_key(dns_domain=node["dnsDomain"], cluster=cluster, ip_mode=ip_mode(node.get("ipAddresses") or ()))
    one = service({**row["service"], "ports": [{"port": row["port"], "protocol": "HTTP"}]})
    host = routes(mesh_of(one), key)[str(row["port"])]["virtual_hosts"][0]
    if row["name"] in ("ipv4 domain", "ipv6 domain"):
        pytest.skip("a service whose name is an address is refused")
    assert host["domains"] == row["want"]


@rows(CORE.format("route__route_internal"), "TestMirrorPercent")
def test_shares_of_mirrors(row):
    """The old spellings of what is copied to a mirror."""
    (rule,) = istio_object("VirtualService", {"hosts": ["it"], "http": [row["route"]]}).spec.http
    assert _shares(rule) == _wanted_shares(row["want"])


@rows(CORE.format("route__route_internal"), "TestMirrorPercentByPolicy")
def test_shares_of_several_mirrors(row):
    """What is copied to one of several."""
    (rule,) = istio_object("VirtualService", {"hosts": ["it"], "http": [{"mirrors": [row["policy"]]}]}).spec.http
    assert _shares(rule) == _wanted_shares(row["want"])


def _shares(rule):
    return [(share.numerator, share.denominator.name) for _, share in mirrors(rule)]


def _wanted_shares(want):
    share = (want or {}).get("defaultValue")
    return [(share["numerator"], share["denominator"])] if share else []


@rows(CORE.format("route__route_internal"), "TestTranslateFault")
def test_faults(row):
    """Delays and aborts, by percentage."""
    (rule,) = istio_object("VirtualService", {"hosts": ["it"], "http": [{"fault": row["fault"]}]}).spec.http
    built = to_plain(
        "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault", encode(build_fault(rule.fault))
    )
    assert built == snake_case(plain(row["want"]))


# --- TCP -------------------------------------------------------------------------------------------------------------
@rows(CORE.format("networkfilter"), "TestBuildOutboundNetworkFiltersTunnelingConfig")
def test_tunnels(row):
    """Where a rule wants one, or its subset does."""
    destination = row["routeDestinations"][0]["destination"]
    if len(row["routeDestinations"]) > 1:
        pytest.skip("of several destinations the first is looked at; chains have tests of their own")
    rule = row["destinationRule"] or {}
    fields = {"subsets": rule.get("subsets") or []}
    policy = effective_policy(
        rule_of(rule.get("trafficPolicy"), **fields),
        destination.get("subset", ""),
        destination["port"]["number"],
        mesh(),
    )
    expected = row["expectedTunnelingConfig"]
    assert (policy.tunnel is not None) is (expected is not None)
    if policy.tunnel is not None:
        assert f"{policy.tunnel.target_host}:{policy.tunnel.target_port}" == expected["hostname"]


# --- endpoints -------------------------------------------------------------------------------------------------------
@rows(CORE.format("loadbalancer__loadbalancer"), "TestGetEffectiveLbSetting")
def test_which_preference_is_in_force(row):
    """The rule's, the service's wish, the mesh's."""
    balancer = (
        rule_of({"loadBalancer": _readable(row["dr"])}).spec.traffic_policy.load_balancer if row.get("dr") else None
    )
    config = MeshConfig(locality_lb_setting=None)
    if row.get("meshLocality") or row.get("meshZoneAware"):
        settings = {"localityLbSetting": row.get("meshLocality"), "zoneAwareLbSetting": row.get("meshZoneAware")}
        stated = mesh_config(_readable(settings))
        locality = stated.locality_lb_setting if row.get("meshLocality") else None
        config = replace(config, locality_lb_setting=locality, zone_aware_lb_setting=stated.zone_aware_lb_setting)
    wish = service(row["svc"]).traffic_distribution if row.get("svc") else TrafficDistribution.ANY
    found = preference_in_force(balancer, wish, config)
    expected = row.get("expectedLocality") or row.get("expectedZoneAware")
    assert (found is None) is (expected is None)
    if found is not None and expected is not None:
        zone_aware = hasattr(found.setting, "min_cluster_size")
        assert zone_aware is (row.get("expectedZoneAware") is not None)
        assert list(found.setting.failover_priority) == expected.get("failoverPriority", [])
        assert found.forced is bool(row.get("expectedForce"))


def _readable(value):
    """Without the empty items that only a program can write."""
    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items()}
    return [_readable(item) for item in value if item is not None] if isinstance(value, list) else value


N1, N2 = ({"topology.istio.io/network": f"n{n}", "topology.istio.io/cluster": f"c{n}"} for n in (1, 2))
KEYED, OTHER_CLUSTER = {"key": "value"}, {"topology.istio.io/cluster": "c3"}
SPREAD = [
    endpoint("1.1.1.1", locality=Locality("region1", "zone1", "subzone1"), labels=N1),
    endpoint("2.2.2.2", locality=Locality("region1", "zone1", "subzone1"), labels=KEYED | N2),
    endpoint("3.3.3.3", locality=Locality("region2", "zone2", "subzone2"), labels=KEYED | N1),
    endpoint("4.4.4.4", locality=Locality("region2", "zone2", "subzone2"), labels=KEYED | N2 | OTHER_CLUSTER),
    endpoint("1.2.3.4", locality=Locality("region3", "zone3", "subzone3"), labels=KEYED | N1),
    endpoint("2.3.4.5", locality=Locality("region3", "zone3", "subzone3"), labels=KEYED | N2),
]
"""The endpoints that the rows about failover by labels are about."""


@rows(CORE.format("loadbalancer__loadbalancer"), "TestApplyLocalitySetting")
def test_failover_by_labels(row):
    """Priorities of the groups that each locality is split into."""
    if "failoverPriority" not in row:
        pytest.skip("rows of another table")
    wanted = _wanted_groups(row["expected"])
    if len({address for _, group in wanted for address in group}) < len(SPREAD):
        pytest.skip("names an endpoint twice and leaves another one out")
    setting = {"localityLbSetting": {"failoverPriority": row["failoverPriority"]}}
    balancer = rule_of({"loadBalancer": setting}).spec.traffic_policy.load_balancer
    preference = preference_in_force(balancer, TrafficDistribution.ANY, MeshConfig())
    client = Standpoint(labels=frozenset(row["proxyLabels"].items()))
    groups = apply_preference(group_by_locality(SPREAD), preference, True, client)
    assert sorted((group.priority, _addresses(group)) for group in groups) == wanted


@rows(UTIL, "TestLocalityMatch")
def test_localities_of_a_pattern(row):
    """A rule to send everything elsewhere concerns clients in the localities that it names."""
    place = row["locality"]
    client = Standpoint(Locality(place.get("region", ""), place.get("zone", ""), place.get("subZone", "")))
    elsewhere = {"localityLbSetting": {"distribute": [{"from": row["rule"], "to": {"elsewhere": 100}}]}}
    balancer = rule_of({"loadBalancer": elsewhere}).spec.traffic_policy.load_balancer
    preference = preference_in_force(balancer, TrafficDistribution.ANY, MeshConfig())
    (group,) = apply_preference(group_by_locality([endpoint()]), preference, True, client)
    assert (not group.endpoints) is row["match"]


def _addresses(group):
    return sorted(each.addresses[0] for each in group.endpoints)


def _wanted_groups(groups):
    return sorted(
        (
            group.get("priority", 0),
            sorted(each["endpoint"]["address"]["socketAddress"]["address"] for each in group["lbEndpoints"]),
        )
        for group in groups
    )


ISTIO = Capabilities(istio=True, secrets=SecretSource.AGENT)


def assignments(endpoints, gateways, network, mode=IPMode.IPV4):
    """ADDRESS, weight and workload of the endpoints that a client of a network is sent, and the weight of all."""
    one = plain_service()
    known = index_gateways(frozenset(gateways))
    context = replace(snapshot([one], {one: endpoints}), network_gateways=known)
    key = outbound_key(network=network, ip_mode=mode, capabilities=ISTIO)
    (assignment,) = generated(ENDPOINT, context, scope([one]), outbound=key).values()
    (group,) = assignment["endpoints"]
    found = [
        (
            each["endpoint"]["address"]["socket_address"]["address"],
            each["load_balancing_weight"],
            each["metadata"]["filter_metadata"]["istio"]["workload"],
        )
        for each in group.get("lb_endpoints", ())
    ]
    return sorted(found), group.get("load_balancing_weight", 0)


@rows(ENDPOINTS.format("ep_filters"), "TestEndpointsByNetworkFilter_GatewayIPFamily", "cases")
def test_gateways_of_a_family(row):
    """A client is sent to gateways that it can reach; where there are none the endpoint is left out."""
    mode = IPMode.DUAL if "after" in row else ip_mode(row["proxy"].get("ipAddresses") or ())
    gateways = [
        NetworkGateway(each["addr"], each["port"], each["network"], each["cluster"]) for each in row["gateways"]
    ]
    far = endpoint("20.0.0.1", network="network2", cluster="cluster2", tls_mode="istio")
    found, weight = assignments([far], gateways, row["proxy"]["metadata"]["network"], mode)
    (wanted,) = row["want"]
    assert [each[:2] for each in found] == sorted((each["address"], each["weight"]) for each in wanted["lbEps"])
    assert weight == wanted["weight"]


NETWORKS = [
    NetworkGateway("1.1.1.1", 80, "network1", "cluster1a"),
    NetworkGateway("2.2.2.2", 80, "network2", "cluster2a"),
    NetworkGateway("2.2.2.20", 80, "network2", "cluster2b"),
    NetworkGateway("2.2.2.21", 80, "network2", "cluster2b"),
]
FOUR_NETWORKS = [
    endpoint(address, network=f"network{cluster[7]}", cluster=cluster, tls_mode=tls, labels={"app": "example"})
    for address, cluster, tls in (
        ("10.0.0.1", "cluster1a", "istio"),
        ("10.0.0.2", "cluster1a", "istio"),
        ("10.0.0.3", "cluster1b", "disabled"),
        ("20.0.0.1", "cluster2a", "istio"),
        ("20.0.0.2", "cluster2b", "istio"),
        ("20.0.0.3", "cluster2b", "istio"),
        ("40.0.0.1", "cluster4", "istio"),
    )
]
"""The mesh that the rows about networks are about."""


@rows(ENDPOINTS.format("ep_filters"), None, "networkFiltered")
def test_endpoints_by_network(row):
    """Near ones and gateways, with weights that add up the same for all."""
    found, weight = assignments(FOUR_NETWORKS, NETWORKS, row["proxy"]["metadata"]["network"])
    (wanted,) = row["want"]
    assert [each[:2] for each in found] == sorted((each["address"], each["weight"]) for each in wanted["lbEps"])
    assert weight == wanted["weight"]
    clusters = sorted(text.rpartition(";")[2] for text in row["wantWorkloadMetadata"])
    assert sorted(label.rpartition(";")[2] for *_, label in found) == clusters


# --- gRPC without a proxy --------------------------------------------------------------------------------------------
@rows(GRPC.format("lds"), "TestTryFindFQDN")
def test_names_of_targets(row):
    """A name that a client of namespace ns may write leads to the one full name; others are none of it."""
    full = row["want"] or "foo.ns.svc.cluster.local"
    known = list(callable_names(full, "ns", "ns.svc.cluster.local"))
    assert (row["in"] in known and row["in"] != full) is bool(row["want"])


def grpc_cluster(policy):
    """The cluster of a service under a policy."""
    one = plain_service()
    rule = rule_of(policy)
    rule = replace(rule, host=one.hostname)
    key = outbound_key(generator=PROXYLESS_GRPC)
    (found,) = generated(CLUSTER, snapshot([one]), scope([one], [rule]), outbound=key).values()
    return found


@rows(GRPC.format("cds"), "TestApplyCircuitBreakers")
def test_limits_of_grpc(row):
    """Requests alone."""
    breakers = grpc_cluster(row["policy"]).get("circuit_breakers")
    assert breakers == (None if row.get("wantNil") else {"thresholds": [{"max_requests": row["wantMaxReqs"]}]})


@rows(GRPC.format("cds"), "TestApplyLoadBalancing")
def test_balancing_of_grpc(row):
    """Round robin is not written."""
    assert grpc_cluster(row["policy"]).get("lb_policy", "ROUND_ROBIN") == row["wantLbPolicy"]
