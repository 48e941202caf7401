"""Clusters of the workload's own ports (networking.md §2.10)."""

import pytest

from tests.envoy.golden import check_golden
from tests.envoy.samples import (
    DETECTED,
    GRPC,
    HTTP,
    ISTIO,
    TCP,
    generated,
    inbound_key,
    mesh,
    outbound_key,
    rule,
    scope,
    service,
    snapshot,
)
from trierarch.config.destination_rule import (
    ConnectionPool,
    H2UpgradePolicy,
    HttpPool,
    OutlierDetection,
    TcpPool,
    TrafficPolicy,
)
from trierarch.config.mesh_config import MeshInboundMode, MeshInboundTrafficPolicy
from trierarch.config.proxy_config import ProxyHeaders
from trierarch.config.sidecar import IngressListener, Sidecar, SidecarPort
from trierarch.envoy.types import CLUSTER
from trierarch.push.model import ServiceTarget
from trierarch.push.proxy import Interception, IPMode

WEB = service(ports=(HTTP, GRPC, TCP, DETECTED))


def _target(port, target_port, *, of=WEB):
    return ServiceTarget(of.id, port.number, target_port, port.protocol)


TARGETS = (_target(HTTP, 8080), _target(TCP, 9090))


def _inbound(targets=TARGETS, *, services=(WEB,), rules=(), sidecar=None, settings=None, **key):
    context = snapshot(services, settings=settings)
    clusters = generated(
        CLUSTER,
        context,
        scope(services, rules, sidecar=sidecar),
        outbound=outbound_key(capabilities=key.get("capabilities", outbound_key().capabilities)),
        inbound=inbound_key(targets=targets, **key),
    )
    return {name: cluster for name, cluster in clusters.items() if name.lower().startswith("inbound")}


def _ingress(*listeners, **fields):
    return Sidecar(ingress=listeners, **fields)


def _listener(number, default_endpoint="", protocol="HTTP", **fields):
    port = SidecarPort(number=number, protocol=protocol, name="x")
    return IngressListener(port=port, default_endpoint=default_endpoint, **fields)


def _where(cluster):
    """Type, address and whether the proxy binds."""
    endpoints = cluster.get("load_assignment", {}).get("endpoints", [{}])[0].get("lb_endpoints", [{}])
    address = endpoints[0].get("endpoint", {}).get("address", {})
    socket = address.get("socket_address")
    shown = f"{socket['address']}:{socket['port_value']}" if socket else address.get("pipe", {}).get("path", "")
    return cluster["type"], shown, "upstream_bind_config" in cluster


def test_a_workload_with_two_ports():
    """The whole output, as Istio's proxy gets it."""
    check_golden("clusters_inbound", _inbound(capabilities=ISTIO))


def test_services_that_share_a_target_port_have_one_cluster():
    """Metadata lists the winner and those with the same port number (networking.md §1.5)."""
    twin, other = service("twin"), service("other")
    targets = (
        _target(HTTP, 8080),
        _target(HTTP, 8080, of=twin),
        ServiceTarget(other.id, 81, 8080, HTTP.protocol),
    )
    clusters = _inbound(targets, services=(WEB, twin, other), capabilities=ISTIO)
    assert list(clusters) == ["inbound|8080||", "InboundPassthroughCluster"]
    services = clusters["inbound|8080||"]["metadata"]["filter_metadata"]["istio"]["services"]
    assert [each["name"] for each in services] == ["web", "twin"]


def test_the_mesh_may_send_inbound_traffic_to_localhost():
    """The policy LOCALHOST: a static address, nothing to bind."""
    policy = MeshInboundTrafficPolicy(mode=MeshInboundMode.LOCALHOST)
    cluster = _inbound(settings=mesh(inbound_traffic_policy=policy))["inbound|8080||"]
    assert _where(cluster) == ("STATIC", "127.0.0.1:8080", False)


@pytest.mark.parametrize(
    ("default_endpoint", "expected"),
    [
        ("", ("ORIGINAL_DST", "", True)),
        ("127.0.0.1:18080", ("STATIC", "127.0.0.1:18080", False)),
        ("[::1]:18080", ("STATIC", "127.0.0.1:18080", False)),
        ("0.0.0.0:18080", ("STATIC", "10.1.0.9:18080", True)),
        ("unix:///run/app.sock", ("STATIC", "/run/app.sock", True)),
    ],
)
def test_where_a_sidecar_says_that_the_application_listens(default_endpoint, expected):
    """The five forms of defaultEndpoint, for a proxy with IPv4."""
    clusters = _inbound((), sidecar=_ingress(_listener(7000, default_endpoint)), address="10.1.0.9")
    assert _where(clusters["inbound|7000||"]) == expected


def test_ingress_listeners_take_the_place_of_service_ports():
    """Unless the switch that merges them is on; a port that both name is the listener's."""
    sidecar = _ingress(_listener(8080, "127.0.0.1:18080"))
    assert list(_inbound(sidecar=sidecar)) == ["inbound|8080||", "InboundPassthroughCluster"]
    merged = _inbound(sidecar=sidecar, settings=mesh(features={"inbound_listener_merge": True}))
    assert list(merged) == ["inbound|8080||", "inbound|9090||", "InboundPassthroughCluster"]
    assert merged["inbound|8080||"]["type"] == "STATIC"


def test_without_capture_only_ingress_listeners_count():
    """In mode NONE nothing would ever arrive at the ports of services."""
    assert list(_inbound(interception=Interception.NONE)) == ["InboundPassthroughCluster"]
    sidecar = _ingress(_listener(8080, "127.0.0.1:18080"))
    assert "inbound|8080||" in _inbound(interception=Interception.NONE, sidecar=sidecar)


def _pool(connections):
    return ConnectionPool(tcp=TcpPool(max_connections=connections))


def _limit(cluster):
    return cluster["circuit_breakers"]["thresholds"][0]["max_connections"]


def test_of_a_rule_only_the_pool_counts():
    """Outlier detection and upgrades are the client's matter; the rule is named in metadata."""
    pool = ConnectionPool(tcp=TcpPool(max_connections=2), http=HttpPool(h2_upgrade_policy=H2UpgradePolicy.UPGRADE))
    rules = [rule(TrafficPolicy(connection_pool=pool, outlier_detection=OutlierDetection(interval=1.0)))]
    cluster = _inbound(rules=rules, capabilities=ISTIO)["inbound|8080||"]
    assert _limit(cluster) == 2
    assert "outlier_detection" not in cluster
    assert "typed_extension_protocol_options" not in cluster
    assert cluster["metadata"]["filter_metadata"]["istio"]["config"].endswith("/destination-rule/web")


def test_pools_of_the_sidecar_replace_the_rules_whole():
    """The Sidecar's beats the rule's, the ingress listener's beats both."""
    rules = [rule(TrafficPolicy(connection_pool=_pool(1)))]
    assert _limit(_inbound(rules=rules)["inbound|8080||"]) == 1
    assert _limit(_inbound(rules=rules, sidecar=Sidecar(inbound_connection_pool=_pool(2)))["inbound|8080||"]) == 2
    sidecar = _ingress(_listener(8080, connection_pool=_pool(3)), _listener(8081), inbound_connection_pool=_pool(2))
    clusters = _inbound(rules=rules, sidecar=sidecar)
    assert (_limit(clusters["inbound|8080||"]), _limit(clusters["inbound|8081||"])) == (3, 2)


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (HTTP, None),
        (TCP, None),
        (GRPC, "explicit_http_config"),
        (DETECTED, "use_downstream_protocol_config"),
    ],
)
def test_the_ports_protocol_decides_what_is_spoken(port, expected):
    """HTTP/2 where it is declared, whatever the client speaks where it is detected."""
    cluster = _inbound((_target(port, 8080),))["inbound|8080||"]
    options = cluster.get("typed_extension_protocol_options", {})
    assert [key for each in options.values() for key in each if key != "@type"] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("mode", "dual_stack", "expected"),
    [
        (IPMode.IPV4, True, ["127.0.0.6"]),
        (IPMode.IPV6, True, ["::6"]),
        (IPMode.DUAL, True, ["127.0.0.6", "::6"]),
        (IPMode.DUAL, False, ["127.0.0.6", "::6"]),
    ],
)
def test_the_source_address_that_capture_lets_through(mode, dual_stack, expected):
    """One for each family that the proxy has, also on the passthrough cluster."""
    for cluster in _inbound(ip_mode=mode, settings=mesh(features={"dual_stack": dual_stack})).values():
        bind = cluster["upstream_bind_config"]
        extra = [each["address"]["address"] for each in bind.get("extra_source_addresses", [])]
        assert [bind["source_address"]["address"], *extra] == expected


def test_letters_case_of_headers_is_kept_towards_the_workload():
    """At its ports, and at those that no service has."""
    clusters = _inbound(headers=ProxyHeaders(preserve_http1_header_case=True))
    assert "preserve_case" in str(clusters["inbound|8080||"])
    assert "preserve_case" in str(clusters["InboundPassthroughCluster"])


def test_inbound_statistics_may_be_named_by_a_pattern():
    """The service's port, and the target port."""
    settings = mesh(inbound_cluster_stat_name="in_%SERVICE%_%SERVICE_PORT%_%SERVICE_PORT_NAME%_%TARGET_PORT%")
    assert _inbound(settings=settings)["inbound|8080||"]["alt_stat_name"] == "in_web.shop_80_http_8080;"
