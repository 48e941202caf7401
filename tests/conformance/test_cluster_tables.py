"""Known answers about clusters, from tables of istiod's own tests (`go-tables/`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conformance.go_tables import ip_mode, mesh_config, plain, rows, rule_of, service, snake_case
from tests.conformance.protojson import to_plain
from tests.envoy.samples import endpoint, external, generated, mesh, outbound_key, scope, snapshot
from trierarch.envoy.discovery import dns_lookup_family
from trierarch.envoy.names import parse_cluster_name
from trierarch.envoy.outlier import build_outlier_detection
from trierarch.envoy.protocol_options import Version, outbound_version
from trierarch.envoy.stat_names import pattern_stat_name
from trierarch.envoy.types import CLUSTER
from trierarch.envoy.well_known_types import encode
from trierarch.push.mesh import Mesh
from trierarch.push.model import PortProtocol, Resolution, ServicePort
from trierarch.push.proxy import Capabilities, ProxyType, SecretSource
from trierarch.push.traffic import effective_policy

CORE = "core/pilot__pkg__networking__core__{}.json"
UTIL = "core/pilot__pkg__networking__util__util.json"
TELEMETRY = "core/pilot__pkg__networking__telemetry__telemetry.json"


# --- clusters --------------------------------------------------------------------------------------------------------
@rows(CORE.format("cluster"), "TestApplyOutlierDetection", "tests")
def test_outlier_detection(row):
    """Every setting and its absence."""
    outlier = rule_of({"outlierDetection": row["cfg"]}).spec.traffic_policy.outlier_detection
    built = to_plain(
        "type.googleapis.com/envoy.config.cluster.v3.OutlierDetection", encode(build_outlier_detection(outlier))
    )
    assert built == snake_case(plain(row["o"]))


@rows(CORE.format("cluster_builder"), "TestShouldH2Upgrade")
def test_upgrades_to_http2(row):
    """By the rule, or by the mesh for ports that are known to be HTTP."""
    pool = rule_of({"connectionPool": row["connectionPool"]}).spec.traffic_policy.connection_pool
    protocol = PortProtocol(row["port"]["protocol"])
    version = outbound_version(protocol, pool, mesh_config(row["mesh"]), ProxyType.ROUTER)
    assert (version is Version.HTTP2) is row["upgrade"]


@rows(UTIL, "TestSelectDNSLookupFamily")
def test_lookup_families(row):
    """The proxy's own addresses decide."""
    assert dns_lookup_family(ip_mode(row["ips"]), dual_stack=False).name == row["want"]


@rows(TELEMETRY, "TestBuildStatPrefix")
def test_names_of_statistics(row):
    """All placeholders."""
    named = service({"hostname": row["host"], "attributes": row["attributes"]})
    port = row["port"]
    found = pattern_stat_name(
        row["statPattern"], named, port["port"], port["name"], row["subsetName"], target_port=row["targetPort"]
    )
    assert found == row["want"] + ";"


@rows(TELEMETRY, "TestBuildInboundStatPrefix")
def test_names_of_inbound_statistics(row):
    """The same placeholders, of a workload's own services."""
    about = row["tm"]
    attributes = {"name": about.get("kubernetesServiceName"), "namespace": about.get("kubernetesServiceNamespace")}
    registry = {"serviceRegistry": "Kubernetes"} if attributes["name"] else {}
    named = service({"hostname": about["instanceHostname"], "attributes": attributes | registry})
    found = pattern_stat_name(row["statPattern"], named, row["port"], row["portName"], row["subset"], target_port=0)
    assert found == row["want"] + ";"


@rows(CORE.format("cluster_traffic_policy"), "TestApplyDefaultTrafficPolicy")
def test_defaults_of_the_mesh(row):
    """They stand in for the blocks that a rule leaves out, whole."""
    settings = Mesh(config=mesh_config({"defaultTrafficPolicy": row["meshDefault"]} if row["meshDefault"] else {}))
    rule = rule_of(row["policy"]) if row["policy"] else None
    wanted = rule_of({"connectionPool": row.get("wantConnPool"), "outlierDetection": row.get("wantOutlier")})
    found, expected = effective_policy(rule, "", 1, settings), effective_policy(wanted, "", 1, mesh())
    assert str((found.connection_pool, found.outlier_detection)) == str(
        (expected.connection_pool, expected.outlier_detection)
    )


@rows(UTIL, "TestMergeSubsetTrafficPolicy")
def test_policies_of_subsets(row):
    """A subset's policy over the rule's, seen at a port."""
    number = (row["port"] or {}).get("port", 1)
    subset = {"name": "v1", "labels": {"a": "b"}, "trafficPolicy": row["subset"]}
    merged = effective_policy(rule_of(row["original"], subsets=[subset]), "v1", number, mesh())
    expected = effective_policy(rule_of(row["expected"]), "", number, mesh())
    assert str(merged) == str(expected)


def clusters_of(one, rule, **changes):
    """The clusters of a service under a rule, in order; `changes` are those of `generated` and of `snapshot`."""
    settings = changes.pop("settings", None)
    resolved = one.resolution in (Resolution.DNS, Resolution.DNS_ROUND_ROBIN)
    endpoints = [endpoint(port_name=port.name, labels=one.labels) for port in one.ports] if resolved else []
    context = snapshot([one], {one: endpoints}, settings=settings)
    rules = [] if rule is None else [replace(rule, host=one.hostname)]
    found = generated(CLUSTER, context, scope([one], rules), **changes)
    return {name: cluster for name, cluster in found.items() if name.startswith("outbound|")}


@rows(CORE.format("cluster_builder"), "TestApplyDestinationRule", "cases")
def test_subsets(row):
    """Their clusters: name, discovery, limits, the name of statistics."""
    if row["clusterMode"] != "outbound":
        pytest.skip("clusters of gateways between networks")
    if row["service"].get("hostname") is None:
        pytest.skip("a service has a name")
    one = replace(service(row["service"]), ports=service({"ports": [row["port"]]}).ports)
    rule = row["destRule"] or {}
    rule = rule_of(rule.get("trafficPolicy"), subsets=rule.get("subsets") or [])
    found = clusters_of(one, rule, settings=Mesh(config=mesh_config(row.get("meshConfig"))))
    expected = {each["name"]: snake_case(plain(each)) for each in row.get("expectedSubsetClusters") or ()}
    assert [name for name in found if parse_cluster_name(name).subset] == list(expected)
    for name, wanted in expected.items():
        wanted.setdefault("alt_stat_name", f"{name};")
        assert _told(found[name], wanted) == wanted


def _told(cluster, wanted):
    """What of a cluster a row tells."""
    told = {field: cluster.get(field) for field in wanted}
    if "eds_cluster_config" in told:
        told["eds_cluster_config"] = {"service_name": cluster["eds_cluster_config"]["service_name"]}
    if "circuit_breakers" in told:
        (limits,) = cluster["circuit_breakers"]["thresholds"]
        (stated,) = wanted["circuit_breakers"]["thresholds"]
        told["circuit_breakers"] = {"thresholds": [{field: limits.get(field) for field in stated}]}
    return told


@rows(CORE.format("cluster_dfp_sidecar"), "TestSidecarDynamicDNSClusters", "cases")
def test_clusters_of_wildcards(row):
    """For protocols that name their destination; TLS checks the name that was asked for."""
    port = ServicePort(row["port"], "test-port", PortProtocol(row["protocol"]))
    one = external("*.svc.cluster.local", ports=(port,), resolution=Resolution.DYNAMIC_DNS)
    policy = (row.get("destinationRule") or {}).get("trafficPolicy")
    key = outbound_key(capabilities=Capabilities(istio=True, secrets=SecretSource.AGENT))
    found = list(clusters_of(one, rule_of(policy) if policy else None, outbound=key).values())
    assert bool(found) is row["expectCluster"]
    if row.get("validateTLS"):
        (cluster,) = found
        (options,) = cluster["typed_extension_protocol_options"].values()
        checks = options["upstream_http_protocol_options"]
        assert bool(checks.get("auto_sni")) is bool(row.get("expectAutoSni"))
        assert bool(checks.get("auto_san_validation")) is bool(row.get("expectAutoSanValidation"))
        assert ("transport_socket" in cluster) is bool(row.get("expectTransportTLS"))


PORT = {"name": "default", "port": 8080, "protocol": "HTTP"}
RESOLUTIONS = {"ORIGINAL_DST": "Passthrough", "STRICT_DNS": "DNSLB", "EDS": "ClientSideLB"}


@rows(CORE.format("cluster"), "TestApplyLoadBalancer", "testcases")
def test_balancing(row):
    """By the rule, the protocol and the type."""
    resolution = RESOLUTIONS[row["discoveryType"]]
    one = service({"hostname": "it.example", "ports": [PORT | plain(row.get("port") or {})], "resolution": resolution})
    threshold = int(row.get("presetPanicThreshold") or 0)
    outlier = {"outlierDetection": {"minHealthPercent": threshold}} if threshold or row.get("outlierDetection") else {}
    unhealthy = bool(row.get("defaultSendUnhealthyEndpoints"))
    settings = mesh(features={"auto_send_unhealthy": False, "send_unhealthy": unhealthy, "redis_filter": True})
    rule = rule_of({"loadBalancer": row.get("lbSettings")} | outlier)
    (cluster,) = clusters_of(one, rule, settings=settings).values()
    common = cluster.get("common_lb_config", {})
    assert cluster.get("lb_policy", "ROUND_ROBIN") == row["expectedLbPolicy"]
    assert ("locality_weighted_lb_config" in common) is bool(row.get("expectedLocalityWeightedConfig"))
    if "expectedPanicThreshold" in row:
        assert common["healthy_panic_threshold"].get("value", 0.0) == row["expectedPanicThreshold"]
    if row.get("expectClusterLoadAssignmenttoBeNil"):
        assert "load_assignment" not in cluster


@rows(CORE.format("cluster"), "TestWarmup", "testcases")
def test_warm_up(row):
    """Of endpoints that are new, where the policy takes turns."""
    rule = rule_of({"loadBalancer": {"simple": row.get("lbType"), "warmup": row["warmup"]}})
    (cluster,) = clusters_of(service({"hostname": "it.example", "ports": [PORT]}), rule).values()
    configs = [cluster.get(f"{policy}_lb_config", {}) for policy in ("least_request", "round_robin")]
    starts = [each["slow_start_config"] for each in configs if "slow_start_config" in each]
    wanted = row["warmup"] if row.get("lbType") != "PASSTHROUGH" else None
    assert len(starts) == int(wanted is not None)
    if wanted is not None:
        assert starts[0]["slow_start_window"] == wanted["duration"]
        assert starts[0]["min_weight_percent"]["value"] == wanted.get("minimumPercent", 10)
        assert starts[0]["aggression"]["default_value"] == wanted.get("aggression", 1.0)
