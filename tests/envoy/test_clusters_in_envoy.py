"""A real, stock Envoy accepts our clusters and load assignments: `envoy --mode validate` builds each of them."""

import json
import os
import subprocess

import pytest

from tests.envoy.samples import (
    DETECTED,
    GRPC,
    HTTP,
    HTTPS,
    TCP,
    endpoint,
    external,
    generated,
    inbound_key,
    mesh,
    outbound_key,
    rule,
    scope,
    service,
    snapshot,
    subset,
)
from trierarch.config.destination_rule import (
    ClientTls,
    ClientTlsMode,
    ConnectionPool,
    ConsistentHash,
    HashSourceIp,
    Http2KeepAlive,
    HttpPool,
    LoadBalancer,
    LocalityFailover,
    LocalityLbSetting,
    Maglev,
    OutlierDetection,
    ProxyProtocol,
    RetryBudget,
    SimpleLoadBalancer,
    TcpKeepalive,
    TcpPool,
    TrafficPolicy,
    Warmup,
    ZoneAwareLbSetting,
)
from trierarch.config.mesh_config import MeshOutboundMode, MeshOutboundTrafficPolicy
from trierarch.config.sidecar import IngressListener, Sidecar, SidecarPort
from trierarch.envoy.bootstrap import build_bootstrap
from trierarch.envoy.types import CLUSTER, ENDPOINT
from trierarch.push.model import Locality, Resolution, ServiceTarget
from trierarch.push.proxy import Capabilities, SecretSource

pytestmark = pytest.mark.envoy

OUTLIER = OutlierDetection(
    consecutive_5xx_errors=5,
    interval=1.0,
    base_ejection_time=30.0,
    max_ejection_percent=50,
    split_external_local_origin_errors=True,
    consecutive_local_origin_failures=3,
    outlier_detection_http_error_codes=(503, 429),
)
POOL = ConnectionPool(
    tcp=TcpPool(
        max_connections=9, connect_timeout=0.5, tcp_keepalive=TcpKeepalive(probes=3, time=9.0), idle_timeout=5.0
    ),
    http=HttpPool(
        max_requests_per_connection=3, max_concurrent_streams=8, http2_keep_alive=Http2KeepAlive(interval=9.0)
    ),
)
POLICIES = {
    "none": TrafficPolicy(),
    "pool": TrafficPolicy(connection_pool=POOL, retry_budget=RetryBudget(percent=10.0)),
    "outlier": TrafficPolicy(outlier_detection=OUTLIER),
    "one error code": TrafficPolicy(
        outlier_detection=OutlierDetection(interval=1.0, outlier_detection_http_error_codes=(503,))
    ),
    "random": TrafficPolicy(load_balancer=LoadBalancer(policy=SimpleLoadBalancer.RANDOM)),
    "passthrough": TrafficPolicy(load_balancer=LoadBalancer(policy=SimpleLoadBalancer.PASSTHROUGH)),
    "ring": TrafficPolicy(load_balancer=LoadBalancer(policy=ConsistentHash(key=HashSourceIp(True)))),
    "maglev": TrafficPolicy(
        load_balancer=LoadBalancer(policy=ConsistentHash(key=HashSourceIp(True), algorithm=Maglev(table_size=65537)))
    ),
    "warmup": TrafficPolicy(
        load_balancer=LoadBalancer(policy=SimpleLoadBalancer.ROUND_ROBIN, warmup=Warmup(duration=30.0))
    ),
    "failover": TrafficPolicy(
        outlier_detection=OUTLIER,
        load_balancer=LoadBalancer(
            locality_lb_setting=LocalityLbSetting(failover=(LocalityFailover(from_="eu", to="us"),))
        ),
    ),
    "zone aware": TrafficPolicy(
        load_balancer=LoadBalancer(zone_aware_lb_setting=ZoneAwareLbSetting(min_cluster_size=3))
    ),
    "proxy protocol": TrafficPolicy(proxy_protocol=ProxyProtocol(), tls=ClientTls(mode=ClientTlsMode.DISABLE)),
    "mutual": TrafficPolicy(tls=ClientTls(mode=ClientTlsMode.ISTIO_MUTUAL)),
}


def _accepts(clusters, tmp_path):
    """What Envoy says against these clusters, as resources of its bootstrap; "" if nothing."""
    binary = os.environ.get("TRIERARCH_ENVOY")
    if not binary:
        pytest.skip("TRIERARCH_ENVOY does not name an Envoy binary")
    bootstrap = build_bootstrap(node_id="sidecar~10.1.0.9~cart-1.shop~shop.svc.cluster.local", xds="127.0.0.1:15010")
    bootstrap["static_resources"]["clusters"] += clusters
    path = tmp_path / "envoy.json"
    path.write_text(json.dumps(bootstrap))
    result = subprocess.run([binary, "--mode", "validate", "-c", path], capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return ""
    return result.stderr.partition("[critical]")[2]


# Secrets over ADS crash Envoy's validation (not Envoy itself) in clusters that need no endpoints from the stream.
VALIDATED = [(name, SecretSource.NONE) for name in POLICIES] + [
    (name, SecretSource.ADS) for name in POLICIES if name != "mutual"
]


def _outbound(name, secrets=SecretSource.NONE, **features):
    """Clusters of every kind of port and of resolution, with a subset, under the policy of that name."""
    web = service(ports=(HTTP, GRPC, TCP, DETECTED))
    bare = service("bare", ports=(TCP,), resolution=Resolution.PASSTHROUGH)
    api = external("api.example", ports=(HTTPS,))
    wild = external("*.example", ports=(HTTP,), resolution=Resolution.DYNAMIC_DNS)
    raced = external("raced.example", ports=(HTTPS,), races_addresses=True)
    services = [web, bare, api, wild, raced]
    rules = [rule(POLICIES[name], host=each.hostname, subsets=[subset("v1", version="v1")]) for each in services]
    named = {"port": 443, "port_name": "https", "labels": {"version": "v1"}}
    endpoints = {each: [endpoint(each.hostname, **named)] for each in (api, raced)}
    tls = ClientTls(mode=ClientTlsMode.SIMPLE)
    policy = MeshOutboundTrafficPolicy(mode=MeshOutboundMode.ALLOW_ANY_DYNAMIC_DNS, tls=tls)
    settings = mesh(features=features, outbound_traffic_policy=policy)
    key = outbound_key(capabilities=Capabilities(secrets=secrets))
    clusters = generated(
        CLUSTER, snapshot(services, endpoints, settings=settings), scope(services, rules), outbound=key
    )
    return list(clusters.values())


@pytest.mark.parametrize(("name", "secrets"), VALIDATED)
def test_outbound_clusters_under_each_policy(name, secrets, tmp_path):
    """With and without certificates."""
    assert _accepts(_outbound(name, secrets), tmp_path) == ""


@pytest.mark.parametrize("name", POLICIES)
def test_localities_may_count_by_weight_everywhere(name, tmp_path):
    """Under each policy and in each kind of cluster."""
    assert _accepts(_outbound(name, weigh_localities=True), tmp_path) == ""


def test_inbound_clusters(tmp_path):
    """Service targets and every form of defaultEndpoint."""
    web = service(ports=(HTTP, GRPC))
    places = ("", "127.0.0.1:18080", "0.0.0.0:18081", "unix:///run/app.sock")
    ingress = tuple(
        IngressListener(port=SidecarPort(number=7000 + number, protocol="HTTP", name="x"), default_endpoint=place)
        for number, place in enumerate(places)
    )
    key = inbound_key(targets=(ServiceTarget(web.id, 7070, 7070, GRPC.protocol),), address="10.1.0.9")
    settings = mesh(features={"inbound_listener_merge": True})
    reach = scope([web], sidecar=Sidecar(ingress=ingress))
    clusters = generated(CLUSTER, snapshot([web], settings=settings), reach, inbound=key)
    assert _accepts(list(clusters.values()), tmp_path) == ""


@pytest.mark.parametrize("name", ["none", "failover"])
def test_load_assignments(name, tmp_path):
    """Localities, priorities, health: as the inline assignment of a static cluster, which Envoy checks alike."""
    web = service()
    endpoints = [
        endpoint(f"10.1.0.{number}", locality=Locality(region, zone), weight=number)
        for number, (region, zone) in enumerate([("eu", "a"), ("eu", "b"), ("us", "a"), ("as", "a")])
    ]
    context, reach = snapshot([web], {web: endpoints}), scope([web], [rule(POLICIES[name])])
    key = outbound_key(locality=Locality("eu", "a"))
    (assignment,) = generated(ENDPOINT, context, reach, outbound=key).values()
    cluster = {"name": "static", "type": "STATIC", "connect_timeout": "1s", "load_assignment": assignment}
    assert _accepts([cluster], tmp_path) == ""
