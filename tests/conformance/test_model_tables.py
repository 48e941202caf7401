"""Known answers about the service model, from tables of istiod's own tests (`go-tables/`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conformance.go_tables import istio_object, mesh_config, rows, service
from tests.envoy.meshes import mesh_of, routes
from tests.envoy.samples import endpoint, generated, mesh, outbound_key, scope, snapshot
from trierarch.config.hosts import most_specific_cover, resolve_short_name
from trierarch.envoy.names import parse_cluster_name
from trierarch.envoy.outbound_view import served_families, service_addresses
from trierarch.envoy.outline import outline_clusters
from trierarch.envoy.types import ENDPOINT
from trierarch.push.delegation import merged_routes
from trierarch.push.mesh import Mesh
from trierarch.push.model import TrafficDistribution
from trierarch.push.network_gateways import _node_selector
from trierarch.push.port_protocols import select_protocol
from trierarch.push.proxy import IPMode
from trierarch.push.registries import service_of_kubernetes

MODEL = "model/pilot__pkg__model__{}.json"
MODES = {"IPv4": IPMode.IPV4, "IPv6": IPMode.IPV6, "Dual": IPMode.DUAL}
KUBERNETES = "registry/pilot__pkg__serviceregistry__kube__{}.json"


# --- ports, names, versions ------------------------------------------------------------------------------------------
@rows(KUBERNETES.format("conversion"), "TestConvertProtocol", "protocols")
def test_protocol_of_a_port(row):
    """By name and appProtocol, and by numbers at which servers speak first."""
    assert select_protocol(row["port"], row["name"], row["proto"], row["appProtocol"]) == row["out"]


@rows(MODEL.format("config"), "TestResolveShortnameToFQDN")
def test_short_names(row):
    """In an object of a namespace, where the mesh has a domain."""
    place = row["meta"]
    namespace, domain = place.get("namespace", ""), place.get("domain", "")
    if row["name"] != row["out"] and not (namespace and domain):
        pytest.skip("our objects always have a namespace, and the mesh a domain")
    assert resolve_short_name(row["name"], namespace, domain) == row["out"]


@rows(MODEL.format("config"), "TestMostSpecificHostMatch")
def test_the_most_specific_host(row):
    """Of those that cover a host; exact names go first."""
    assert (most_specific_cover(row["needle"], set(row["in"])) or "") == row["want"]


@rows(MODEL.format("service"), "TestParseSubsetKey")
def test_cluster_names(row):
    """Both spellings; a name without a port is none of ours."""
    name = parse_cluster_name(row["input"])
    if not row["port"]:
        assert name is None
    else:
        assert name == (row["direction"], row["port"], row["subsetName"], row["hostname"])


@rows(MODEL.format("service"), "TestIsValidSubsetKey")
def test_valid_cluster_names(row):
    """Four parts."""
    assert (parse_cluster_name(row["subsetkey"]) is None) is row["expectErr"]


# --- services --------------------------------------------------------------------------------------------------------
@rows(MODEL.format("service"), "TestGetAddressForProxy")
def test_addresses_of_a_service(row):
    """Of the proxy's cluster and family, or allocated ones."""
    metadata = row["proxy"].get("metadata") or {}
    key = outbound_key(
        cluster=metadata.get("clusterID", ""),
        dns_capture=bool(metadata.get("dnsCapture")),
        ip_mode=MODES[row["proxy"]["ipMode"]],
    )
    one = service({**row["service"], "hostname": "it", "ports": [{"port": 80, "protocol": "HTTP"}]})
    (host, _catch_all) = routes(mesh_of(one), key)["80"]["virtual_hosts"]
    assert row["expectedAddress"] in [domain.strip("[]") for domain in host["domains"]]


@rows(MODEL.format("service"), "TestGetAllAddresses")
def test_all_addresses_of_a_service(row):
    """Of the proxy's families; of both only in a dual-stack mesh."""
    if row["expectedAddresses"] is None:
        pytest.skip("a service without an address of the family keeps the one that it has")
    allocates = bool(row.get("autoAllocationEnabled"))
    key = outbound_key(cluster="id", ip_mode=MODES[row["ipMode"]], dns_capture=allocates)
    settings = mesh(features={"dual_stack": bool(row.get("dualStackEnabled"))})
    one = service({**row["service"], "hostname": "it", "ports": [{"port": 80, "protocol": "HTTP"}]})
    found = service_addresses(one, "id", served_families(key, settings), dns_capture=allocates)
    assert list(found) == row["expectedAddresses"]


@rows(MODEL.format("service"), "TestGetTrafficDistribution")
def test_traffic_distribution(row):
    """The specification, the service's annotation, the namespace's."""
    annotations = row["svcAnnotation"] or {}
    source = istio_object("Service", {"trafficDistribution": row["specValue"]})
    namespace = (row["nsAnnotation"] or {}).get("networking.istio.io/traffic-distribution", "")
    found = service_of_kubernetes((replace(source, annotations=annotations), namespace, Mesh())).traffic_distribution
    names = {TrafficDistribution.ANY: "Any", TrafficDistribution.SAME_ZONE: "PreferSameZone"}
    assert f"TrafficDistribution{names.get(found, 'PreferSameNode')}" == row["want"]


@rows(MODEL.format("service"), "TestSupportsUnhealthyEndpoints")
def test_unhealthy_endpoints(row):
    """By the switches, or because the service wants near endpoints."""
    if row["svc"] is None:
        pytest.skip("a cluster always has a service")
    features = {"send_unhealthy": bool(row.get("globalSendUnhealthy"))}
    features["auto_send_unhealthy"] = bool(row.get("defaultSendUnhealthy"))
    wanted = service({**row["svc"], "ports": [{"port": 80, "protocol": "HTTP"}]})
    (outline,) = outline_clusters(wanted, None, mesh(features=features), False)
    assert outline.keep_unhealthy is row["wantSupports"]


@rows(MODEL.format("cluster_local"), "TestIsClusterLocal")
def test_hosts_of_one_cluster(row):
    """By default those of kube-system, and what the mesh's settings say."""
    one = service({"hostname": row["host"], "ports": [{"port": 80, "name": "http", "protocol": "HTTP"}]})
    context = snapshot([one], {one: [endpoint(cluster="remote")]}, settings=Mesh(config=mesh_config(row["m"])))
    (assignment,) = generated(ENDPOINT, context, scope([one])).values()
    assert ("endpoints" not in assignment) is row["expected"]


@rows(KUBERNETES.format("controller__util"), "TestGetNodeSelectorsForService")
def test_node_selectors(row):
    """The annotation of a Service with ports on nodes; without it no node is selected."""
    annotation = ((row["svc"].get("annotations") or {}) or {}).get("traffic.istio.io/nodeSelector")
    found = _node_selector(annotation) if annotation is not None else None
    assert (found or None) == (row["expectedLabelSelector"] or None)


# --- delegates -------------------------------------------------------------------------------------------------------
def http_routes(routes):
    """HTTP routes of the model."""
    return istio_object("VirtualService", {"hosts": ["it"], "http": routes}).spec.http


def matches(routes):
    """Their matches, to be compared by what they say."""
    return [[str(match) for match in route.match] for route in routes]


@rows(MODEL.format("virtualservice"), "TestMergeHttpRoutes")
def test_routes_of_delegates(row):
    """Narrowed to what the root's route matches."""
    (root,) = http_routes([row["root"]])
    merged = tuple(merged_routes(root, http_routes(row["delegate"])))
    expected = http_routes(row["expected"])
    assert matches(merged) == matches(expected)
    assert [str((each.timeout, each.route)) for each in merged] == [
        str((each.timeout, each.route)) for each in expected
    ]


@rows(MODEL.format("virtualservice"), "TestMergeHTTPMatchRequests")
def test_matches_of_delegates(row):
    """All pairs that can hold together, or the route is dropped."""
    (root,), delegate = http_routes([{"match": row["root"]}]), http_routes([{"match": row["delegate"]}])
    merged = tuple(merged_routes(root, delegate))
    assert matches(merged) == (matches(http_routes([{"match": row["expected"]}])) if row["expected"] else [])


@rows(MODEL.format("virtualservice"), "TestHasConflict")
def test_conflicts_of_delegates(row):
    """A leaf that can reach beyond the root has no place in it."""
    root, leaf = (http_routes([{"match": [row[side]]}]) for side in ("root", "leaf"))
    assert (not tuple(merged_routes(root[0], leaf))) is row["expected"]
