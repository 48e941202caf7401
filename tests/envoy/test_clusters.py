"""Outbound and fixed clusters: what each field of the model and of a rule does to a cluster (networking.md §2)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.envoy.golden import check_golden
from tests.envoy.samples import (
    DETECTED,
    GRPC,
    HTTP,
    HTTPS,
    ISTIO,
    TCP,
    UDP,
    encoded,
    endpoint,
    external,
    generated,
    mesh,
    outbound_key,
    rule,
    scope,
    service,
    snapshot,
    subset,
)
from trierarch.config.common import PortSelector
from trierarch.config.destination_rule import (
    ClientTls,
    ClientTlsMode,
    ConnectionPool,
    ConsistentHash,
    H2UpgradePolicy,
    HashHttpHeader,
    Http2KeepAlive,
    HttpPool,
    LoadBalancer,
    LocalityDistribute,
    LocalityFailover,
    LocalityLbSetting,
    Maglev,
    OutlierDetection,
    PortTrafficPolicy,
    RetryBudget,
    RingHash,
    SimpleLoadBalancer,
    TcpKeepalive,
    TcpPool,
    TrafficPolicy,
    Warmup,
    ZoneAwareLbSetting,
)
from trierarch.config.mesh_config import (
    DefaultTrafficPolicy,
    MeshH2UpgradePolicy,
    MeshOutboundMode,
    MeshOutboundTrafficPolicy,
)
from trierarch.config.proxy_config import ProxyConfig, ProxyHeaders
from trierarch.envoy.connection_pool import build_circuit_breakers
from trierarch.envoy.types import CLUSTER
from trierarch.push.model import PortProtocol, Resolution, ServicePort, TrafficDistribution
from trierarch.push.proxy import IPMode, ProxyType

HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
WEB = "outbound|80||web.shop.svc.cluster.local"


def _clusters(services, rules=(), *, endpoints=(), settings=None, key=None):
    context = snapshot(services, endpoints, settings=settings)
    return generated(CLUSTER, context, scope(services, rules), outbound=key)


def _cluster(policy, *, port=HTTP, settings=None, key=None, **changes):
    """The cluster of service `web` under a traffic policy."""
    web = service(ports=(port,), **changes)
    rules = [rule(policy)] if policy is not None else []
    return _clusters([web], rules, settings=settings, key=key)[f"outbound|{port.number}||{web.hostname}"]


def _options(cluster):
    options = dict(cluster.get("typed_extension_protocol_options", {}).get(HTTP_OPTIONS, {}))
    options.pop("@type", None)
    return options


def test_a_plain_mesh():
    """The whole output for a service of each kind, as a stock Envoy gets it."""
    web = service(ports=(HTTP, GRPC, TCP, DETECTED, UDP))
    bare = service("bare", ports=(TCP,), resolution=Resolution.PASSTHROUGH, headless=True)
    api = external("api.example.com", ports=(HTTPS,))
    endpoints = {api: [endpoint("api.example.com", port=443, port_name="https")]}
    rules = [rule(TrafficPolicy(), subsets=[subset("v1", version="v1")])]
    check_golden("clusters_stock", _clusters([web, bare, api], rules, endpoints=endpoints))


def test_the_same_mesh_for_an_istio_proxy():
    """An Istio proxy gets metadata for its filters, and the filter that exchanges metadata, beside all that."""
    web = service()
    api = external("api.example.com", ports=(HTTPS,))
    endpoints = {api: [endpoint("api.example.com", port=443, port_name="https", workload_name="api")]}
    rules = [rule(TrafficPolicy(), subsets=[subset("v1", version="v1")])]
    key = outbound_key(capabilities=ISTIO)
    check_golden("clusters_istio", _clusters([web, api], rules, endpoints=endpoints, key=key))


def test_clusters_come_in_order_of_services_ports_and_subsets():
    """Default before subsets, port by port, then the fixed ones, then inbound (networking.md §2.2)."""
    web = service(ports=(HTTP, TCP))
    rules = [rule(subsets=[subset("b"), subset("a")])]
    assert list(_clusters([web, service("cart")], rules)) == [
        "outbound|80||web.shop.svc.cluster.local",
        "outbound|80|b|web.shop.svc.cluster.local",
        "outbound|80|a|web.shop.svc.cluster.local",
        "outbound|9000||web.shop.svc.cluster.local",
        "outbound|9000|b|web.shop.svc.cluster.local",
        "outbound|9000|a|web.shop.svc.cluster.local",
        "outbound|80||cart.shop.svc.cluster.local",
        "BlackHoleCluster",
        "PassthroughCluster",
        "InboundPassthroughCluster",
    ]


@pytest.mark.parametrize(
    ("resolution", "expected"),
    [
        (Resolution.CLIENT_SIDE, "EDS"),
        (Resolution.DNS, "STRICT_DNS"),
        (Resolution.DNS_ROUND_ROBIN, "LOGICAL_DNS"),
        (Resolution.PASSTHROUGH, "ORIGINAL_DST"),
    ],
)
def test_the_resolution_decides_the_type(resolution, expected):
    """How a service's endpoints are found is how Envoy finds them (networking.md §1.1)."""
    api = external("api.example", resolution=resolution)
    clusters = _clusters([api], endpoints={api: [endpoint("api.example")]})
    assert clusters["outbound|80||api.example"]["type"] == expected


@pytest.mark.parametrize("resolution", [Resolution.DNS, Resolution.DNS_ROUND_ROBIN])
def test_addresses_that_are_raced(resolution):
    """Of one name, and of both families, whichever the proxy itself has: Envoy connects to what answers first."""
    api = external("api.example", resolution=resolution, races_addresses=True)
    cluster = _clusters([api], endpoints={api: [endpoint("api.example")]})["outbound|80||api.example"]
    assert (cluster["type"], cluster["dns_lookup_family"]) == ("LOGICAL_DNS", "ALL")


def test_an_alias_has_no_clusters():
    """ExternalName services have no resources of their own."""
    assert [name for name in _clusters([service(resolution=Resolution.ALIAS)]) if name.startswith("outbound")] == []


def test_a_router_lists_the_endpoints_of_headless_services():
    """What a router receives was addressed to itself, so there is no original destination to go to."""
    key = outbound_key(type=ProxyType.ROUTER)
    assert _cluster(None, resolution=Resolution.PASSTHROUGH, key=key)["type"] == "EDS"


def test_a_dns_cluster_without_endpoints_is_left_out():
    """Neither the service nor a subset that selects nothing gets a DNS cluster."""
    empty, full = external("empty.example"), external("full.example")
    rules = [rule(host="full.example", subsets=[subset("a", side="a"), subset("z", side="z")])]
    endpoints = {full: [endpoint("full.example", labels={"side": "a"})]}
    names = [name for name in _clusters([empty, full], rules, endpoints=endpoints) if name.startswith("outbound")]
    assert names == ["outbound|80||full.example", "outbound|80|a|full.example"]


def test_a_port_of_a_service_entry_that_keeps_the_destination_may_be_remapped():
    """Resolution NONE with a targetPort overrides the port of the original destination (networking.md §1.6)."""
    port = ServicePort(80, "http", PortProtocol.HTTP, target=8080)
    api = external("any.example", ports=(port,), resolution=Resolution.PASSTHROUGH)
    cluster = _clusters([api])["outbound|80||any.example"]
    assert cluster["original_dst_lb_config"] == {"upstream_port_override": 8080}


@pytest.mark.parametrize(("mode", "family"), [(IPMode.IPV4, "V4_ONLY"), (IPMode.IPV6, "V6_ONLY"), (IPMode.DUAL, "ALL")])
def test_the_proxys_addresses_decide_which_addresses_are_looked_up(mode, family):
    """Dual-stack lookups only where the switch is on (it is, here)."""
    api = external("api.example")
    settings = mesh(features={"dual_stack": True})
    endpoints = {api: [endpoint("api.example")]}
    clusters = _clusters([api], endpoints=endpoints, settings=settings, key=outbound_key(ip_mode=mode))
    assert clusters["outbound|80||api.example"]["dns_lookup_family"] == family


def test_wildcard_names_are_resolved_while_they_are_forwarded():
    """DYNAMIC_DNS: a forward-proxy cluster for ports that name their destination, without subsets."""
    wild = external("*.example", ports=(HTTP, TCP), resolution=Resolution.DYNAMIC_DNS)
    clusters = _clusters([wild], [rule(host="*.example", subsets=[subset("a")])])
    names = [name for name in clusters if name.startswith("outbound")]
    assert names == ["outbound|80||*.example"]
    cluster = clusters[names[0]]
    assert cluster["cluster_type"]["typed_config"]["dns_cache_config"]["name"] == "*.example_dfp_dns_cache"
    assert "common_lb_config" not in cluster


def test_a_forward_proxy_cluster_with_http_options_is_one_that_envoy_accepts():
    """Envoy wants the server's name checked, or to be told that it is not (istiod does neither)."""
    wild = external("*.example", ports=(HTTP, GRPC), resolution=Resolution.DYNAMIC_DNS)
    clusters = _clusters([wild])
    configs = {name: clusters[name].get("cluster_type", {}).get("typed_config", {}) for name in clusters}
    assert "allow_insecure_cluster_options" not in configs["outbound|80||*.example"]
    assert configs["outbound|7070||*.example"]["allow_insecure_cluster_options"] is True


# --- connection pool -------------------------------------------------------------------------------------------------
def _tcp(**fields):
    return TrafficPolicy(connection_pool=ConnectionPool(tcp=TcpPool(**fields)))


def _http(**fields):
    return TrafficPolicy(connection_pool=ConnectionPool(http=HttpPool(**fields)))


def test_a_retry_budget_has_an_interval_if_one_is_stated():
    """The field is newer than the messages by which other tests read clusters."""
    for stated, interval in ((None, None), (20.0, timedelta(seconds=20))):
        breakers = build_circuit_breakers(None, RetryBudget(budget_interval=stated))
        assert breakers.thresholds[0].retry_budget.budget_interval == interval


@pytest.mark.parametrize(
    ("policy", "threshold", "value"),
    [
        (_tcp(max_connections=7), "max_connections", 7),
        (_http(http1_max_pending_requests=7), "max_pending_requests", 7),
        (_http(http2_max_requests=7), "max_requests", 7),
        (_http(max_retries=7), "max_retries", 7),
        (TrafficPolicy(), "max_connections", 4294967295),
        (
            TrafficPolicy(retry_budget=RetryBudget(percent=12)),
            "retry_budget",
            {"budget_percent": {"value": 12}, "min_retry_concurrency": 3},
        ),
        (
            TrafficPolicy(retry_budget=RetryBudget(min_retry_concurrency=9)),
            "retry_budget",
            {"budget_percent": {"value": 20}, "min_retry_concurrency": 9},
        ),
    ],
)
def test_limits_become_circuit_breakers(policy, threshold, value):
    """Each limit is one threshold; what is not stated is unlimited (networking.md §2.5)."""
    assert _cluster(policy)["circuit_breakers"]["thresholds"][0][threshold] == value


def test_the_connect_timeout_is_the_rules_else_the_meshs():
    """Milliseconds are kept."""
    assert _cluster(None, settings=mesh(connect_timeout=3.0))["connect_timeout"] == "3s"
    assert _cluster(_tcp(connect_timeout=0.25))["connect_timeout"] == "0.250s"


def test_keepalive_of_the_rule_overrides_the_meshs_value_by_value():
    """The rule's time, the mesh's probes and interval."""
    settings = mesh(tcp_keepalive=TcpKeepalive(probes=2, time=60.0, interval=5.0))
    cluster = _cluster(_tcp(tcp_keepalive=TcpKeepalive(time=9.0)), settings=settings)
    expected = {"keepalive_probes": 2, "keepalive_time": 9, "keepalive_interval": 5}
    assert cluster["upstream_connection_options"]["tcp_keepalive"] == expected


EXPLICIT_HTTP1 = {"explicit_http_config": {"http_protocol_options": {}}}
EXPLICIT_HTTP2 = {"explicit_http_config": {"http2_protocol_options": {}}}
AS_CLIENT = {"use_downstream_protocol_config": {"http_protocol_options": {}, "http2_protocol_options": {}}}


@pytest.mark.parametrize(
    ("port", "policy", "expected"),
    [
        (HTTP, None, {}),
        (TCP, None, {}),
        (GRPC, None, EXPLICIT_HTTP2),
        (DETECTED, None, AS_CLIENT),
        (TCP, _http(use_client_protocol=True), AS_CLIENT),
        (HTTP, _http(h2_upgrade_policy=H2UpgradePolicy.UPGRADE), EXPLICIT_HTTP2),
        (HTTPS, _http(h2_upgrade_policy=H2UpgradePolicy.UPGRADE), EXPLICIT_HTTP2),
        (DETECTED, _http(h2_upgrade_policy=H2UpgradePolicy.UPGRADE), AS_CLIENT),
        (
            HTTP,
            _http(max_requests_per_connection=3),
            EXPLICIT_HTTP1 | {"common_http_protocol_options": {"max_requests_per_connection": 3}},
        ),
        (
            TCP,
            _tcp(max_connection_duration=90.0),
            EXPLICIT_HTTP1 | {"common_http_protocol_options": {"max_connection_duration": "90s"}},
        ),
        (HTTP, _tcp(idle_timeout=9.0), EXPLICIT_HTTP1 | {"common_http_protocol_options": {"idle_timeout": "9s"}}),
        (HTTP, _http(max_concurrent_streams=6), EXPLICIT_HTTP1 | {"common_http_protocol_options": {}}),
        (
            GRPC,
            _http(max_concurrent_streams=6),
            {
                "common_http_protocol_options": {},
                "explicit_http_config": {"http2_protocol_options": {"max_concurrent_streams": 6}},
            },
        ),
        (
            GRPC,
            _http(http2_keep_alive=Http2KeepAlive(interval=30.0, timeout=5.0)),
            {
                "common_http_protocol_options": {},
                "explicit_http_config": {
                    "http2_protocol_options": {"connection_keepalive": {"interval": "30s", "timeout": "5s"}}
                },
            },
        ),
    ],
)
def test_the_port_and_the_rule_decide_the_http_version(port, policy, expected):
    """The table of networking.md §2.6, row by row."""
    assert _options(_cluster(policy, port=port)) == expected


def test_the_mesh_upgrades_only_what_is_known_to_be_http():
    """Its policy concerns HTTP ports; a rule may forbid it."""
    settings = mesh(h2_upgrade_policy=MeshH2UpgradePolicy.UPGRADE)
    assert _options(_cluster(None, settings=settings)) == EXPLICIT_HTTP2
    assert _options(_cluster(None, port=TCP, settings=settings)) == {}
    forbidden = _http(h2_upgrade_policy=H2UpgradePolicy.DO_NOT_UPGRADE)
    assert _options(_cluster(forbidden, settings=settings)) == {}


def test_the_http_idle_timeout_beats_that_of_connections():
    """Both may be stated; requests come first."""
    pool = ConnectionPool(tcp=TcpPool(idle_timeout=90.0), http=HttpPool(idle_timeout=55.0))
    options = _options(_cluster(TrafficPolicy(connection_pool=pool)))
    assert options["common_http_protocol_options"] == {"idle_timeout": "55s"}


# --- load balancing --------------------------------------------------------------------------------------------------
def _balanced(policy=None, **fields):
    return TrafficPolicy(load_balancer=LoadBalancer(policy=policy, **fields))


def _hashed(**fields):
    return _balanced(ConsistentHash(key=HashHttpHeader("x-user"), **fields))


SLOW_START = {
    "slow_start_window": "30s",
    "aggression": {"default_value": 1, "runtime_key": "("},
    "min_weight_percent": {"value": 10},
}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, {"lb_policy": "LEAST_REQUEST"}),
        (_balanced(SimpleLoadBalancer.UNSPECIFIED), {"lb_policy": "LEAST_REQUEST"}),
        (_balanced(SimpleLoadBalancer.LEAST_CONN), {"lb_policy": "LEAST_REQUEST"}),
        (_balanced(SimpleLoadBalancer.ROUND_ROBIN), {}),
        (_balanced(SimpleLoadBalancer.RANDOM), {"lb_policy": "RANDOM"}),
        (_hashed(), {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": "1024"}}),
        (_hashed(minimum_ring_size=7), {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": "7"}}),
        (
            _hashed(algorithm=RingHash(minimum_ring_size=9)),
            {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": "9"}},
        ),
        (_hashed(algorithm=Maglev(table_size=11)), {"lb_policy": "MAGLEV", "maglev_lb_config": {"table_size": "11"}}),
        (
            _balanced(SimpleLoadBalancer.LEAST_REQUEST, warmup=Warmup(duration=30.0)),
            {"lb_policy": "LEAST_REQUEST", "least_request_lb_config": {"slow_start_config": SLOW_START}},
        ),
        (
            _balanced(SimpleLoadBalancer.ROUND_ROBIN, warmup_duration_secs=50.0),
            {"round_robin_lb_config": {"slow_start_config": {"slow_start_window": "50s"}}},
        ),
        (_balanced(SimpleLoadBalancer.RANDOM, warmup=Warmup(duration=30.0)), {"lb_policy": "RANDOM"}),
    ],
)
def test_the_balancer_of_a_rule(policy, expected):
    """Policy and its settings (networking.md §2.7); ROUND_ROBIN is Envoy's zero value."""
    cluster = _cluster(policy)
    found = {key: value for key, value in cluster.items() if key.startswith(("lb_policy", *_LB_CONFIGS))}
    assert found == expected


_LB_CONFIGS = ("ring_hash_lb", "maglev_lb", "least_request_lb", "round_robin_lb")


def test_passthrough_balancing_keeps_the_original_destination():
    """The cluster's type changes, and it has no endpoints to ask for."""
    cluster = _cluster(_balanced(SimpleLoadBalancer.PASSTHROUGH))
    assert (cluster["type"], cluster["lb_policy"]) == ("ORIGINAL_DST", "CLUSTER_PROVIDED")
    assert "eds_cluster_config" not in cluster


OUTLIER = OutlierDetection(interval=1.0)
FAILOVER = LocalityLbSetting(failover=(LocalityFailover(from_="r1", to="r2"),))
DISTRIBUTE = LocalityLbSetting(distribute=(LocalityDistribute(from_="r1/*", to={"r1/*": 80, "r2/*": 20}),))


@pytest.mark.parametrize(
    ("balancer", "outlier", "expected"),
    [
        (LoadBalancer(locality_lb_setting=DISTRIBUTE), None, {"locality_weighted_lb_config": {}}),
        (LoadBalancer(locality_lb_setting=FAILOVER), None, {}),
        (LoadBalancer(locality_lb_setting=FAILOVER), OUTLIER, {"locality_weighted_lb_config": {}}),
        (LoadBalancer(locality_lb_setting=LocalityLbSetting(enabled=False)), OUTLIER, {}),
        (
            LoadBalancer(zone_aware_lb_setting=ZoneAwareLbSetting(min_cluster_size=3)),
            None,
            {"zone_aware_lb_config": {"min_cluster_size": "3"}},
        ),
        (
            LoadBalancer(zone_aware_lb_setting=ZoneAwareLbSetting(enabled=False)),
            None,
            {"zone_aware_lb_config": {"routing_enabled": {}}},
        ),
    ],
)
def test_preferences_for_near_endpoints(balancer, outlier, expected):
    """Weights between localities count where endpoints are distributed, or fail over effectively."""
    cluster = _cluster(TrafficPolicy(load_balancer=balancer, outlier_detection=outlier))
    assert cluster["common_lb_config"] == {"healthy_panic_threshold": {}} | expected


def test_a_services_wish_for_near_endpoints_needs_no_outlier_detection():
    """Traffic distribution is a failover priority that is forced; the mesh's setting does not count then."""
    cluster = _cluster(None, traffic_distribution=TrafficDistribution.SAME_ZONE)
    assert cluster["common_lb_config"] == {"healthy_panic_threshold": {}, "locality_weighted_lb_config": {}}


@pytest.mark.parametrize(
    ("balancer", "expected"),
    [
        (None, {"locality_weighted_lb_config": {}}),
        (LoadBalancer(locality_lb_setting=FAILOVER), {"locality_weighted_lb_config": {}}),
        (LoadBalancer(zone_aware_lb_setting=ZoneAwareLbSetting()), {"zone_aware_lb_config": {}}),
    ],
)
def test_localities_may_count_by_weight_everywhere(balancer, expected):
    """A switch of the control plane; a cluster that goes by zones goes on so, for Envoy knows one or the other."""
    settings = mesh(features={"weigh_localities": True})
    cluster = _cluster(TrafficPolicy(load_balancer=balancer), settings=settings)
    assert cluster["common_lb_config"] == {"healthy_panic_threshold": {}} | expected


# --- outlier detection -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("outlier", "expected"),
    [
        (OutlierDetection(), {}),
        (OutlierDetection(consecutive_errors=7), {}),
        (OutlierDetection(consecutive_5xx_errors=5), {"consecutive_5xx": 5, "enforcing_consecutive_5xx": 100}),
        (OutlierDetection(consecutive_5xx_errors=0), {"consecutive_5xx": 0, "enforcing_consecutive_5xx": 0}),
        (
            OutlierDetection(consecutive_gateway_errors=4),
            {"consecutive_gateway_failure": 4, "enforcing_consecutive_gateway_failure": 100},
        ),
        (
            OutlierDetection(interval=10.0, base_ejection_time=30.0, max_ejection_percent=60),
            {"interval": "10s", "base_ejection_time": "30s", "max_ejection_percent": 60},
        ),
        (
            OutlierDetection(split_external_local_origin_errors=True, consecutive_local_origin_failures=6),
            {
                "split_external_local_origin_errors": True,
                "consecutive_local_origin_failure": 6,
                "enforcing_consecutive_local_origin_failure": 100,
                "enforcing_local_origin_success_rate": 0,
            },
        ),
        (
            OutlierDetection(split_external_local_origin_errors=True),
            {"split_external_local_origin_errors": True, "enforcing_local_origin_success_rate": 0},
        ),
    ],
)
def test_outlier_detection(outlier, expected):
    """Ejection by success rate is always off; zero errors switch a detection off (networking.md §2.8)."""
    cluster = _cluster(TrafficPolicy(outlier_detection=outlier))
    assert cluster["outlier_detection"] == {"enforcing_success_rate": 0} | expected


def test_status_codes_that_count_as_errors():
    """Several are alternatives; a single one stands alone, for Envoy wants two rules at least in an "or"."""
    two = _options(
        _cluster(TrafficPolicy(outlier_detection=OutlierDetection(outlier_detection_http_error_codes=(503, 429))))
    )
    rules = two["outlier_detection"]["error_matcher"]["or_match"]["rules"]
    headers = [each["http_response_headers_match"]["headers"][0] for each in rules]
    assert [(each["name"], each["string_match"]["exact"]) for each in headers] == [
        (":status", "503"),
        (":status", "429"),
    ]
    one = _options(
        _cluster(TrafficPolicy(outlier_detection=OutlierDetection(outlier_detection_http_error_codes=(503,))))
    )
    assert "http_response_headers_match" in one["outlier_detection"]["error_matcher"]


@pytest.mark.parametrize(
    ("minimum", "features", "expected"),
    [
        (0, {}, {"healthy_panic_threshold": {}}),
        (40, {}, {"healthy_panic_threshold": {"value": 40}}),
        (None, {}, {"healthy_panic_threshold": {}}),
        (None, {"auto_send_unhealthy": False}, {}),
        (0, {"auto_send_unhealthy": False}, {"healthy_panic_threshold": {}}),
    ],
)
def test_panic_only_where_a_rule_wants_it(minimum, features, expected):
    """Envoy's own threshold of 50 % would send requests to endpoints known to be unhealthy."""
    outlier = None if minimum is None else OutlierDetection(min_health_percent=minimum)
    cluster = _cluster(TrafficPolicy(outlier_detection=outlier), settings=mesh(features=features))
    assert cluster["common_lb_config"] == expected


# --- levels of a rule ------------------------------------------------------------------------------------------------
def test_port_level_settings_stand_alone():
    """A port with an entry of its own takes nothing from the rule's blocks (networking.md §2.4)."""
    entry = PortTrafficPolicy(
        port=PortSelector(number=80), load_balancer=LoadBalancer(policy=SimpleLoadBalancer.RANDOM)
    )
    policy = TrafficPolicy(outlier_detection=OUTLIER, port_level_settings=(entry,))
    clusters = _clusters([service(ports=(HTTP, TCP))], [rule(policy)])
    assert "outlier_detection" not in clusters[WEB]
    assert clusters[WEB]["lb_policy"] == "RANDOM"
    assert "outlier_detection" in clusters["outbound|9000||web.shop.svc.cluster.local"]


def test_a_subsets_blocks_replace_the_rules():
    """Block by block, not field by field."""
    policy = TrafficPolicy(connection_pool=ConnectionPool(tcp=TcpPool(max_connections=10)), outlier_detection=OUTLIER)
    own = TrafficPolicy(connection_pool=ConnectionPool(http=HttpPool(max_retries=2)))
    cluster = _clusters([service()], [rule(policy, subsets=[subset("v2", own, version="v2")])])[
        "outbound|80|v2|web.shop.svc.cluster.local"
    ]
    threshold = cluster["circuit_breakers"]["thresholds"][0]
    assert (threshold["max_connections"], threshold["max_retries"]) == (4294967295, 2)
    assert "outlier_detection" in cluster


def test_what_no_rule_says_the_mesh_says():
    """The mesh's default policy reaches fixed clusters too, but their idle timeout stays."""
    pool = ConnectionPool(tcp=TcpPool(max_connections=77, idle_timeout=5.0))
    settings = mesh(default_traffic_policy=DefaultTrafficPolicy(connection_pool=pool, outlier_detection=OUTLIER))
    clusters = _clusters([service()], settings=settings)
    for name in (WEB, "PassthroughCluster", "InboundPassthroughCluster"):
        assert clusters[name]["circuit_breakers"]["thresholds"][0]["max_connections"] == 77
    assert _options(clusters["PassthroughCluster"])["common_http_protocol_options"] == {"idle_timeout": "300s"}
    assert "outlier_detection" in clusters[WEB]


# --- what only Istio's proxy gets ------------------------------------------------------------------------------------
def _istio_metadata(policy=None, **changes):
    cluster = _cluster(policy, key=outbound_key(capabilities=ISTIO), **changes)
    return cluster["metadata"]["filter_metadata"]["istio"]


def test_a_tls_mode_of_the_users_own_keeps_the_alpn_filter_away():
    """Istio's ALPN names would confuse a server outside of the mesh."""
    policy = TrafficPolicy(tls=ClientTls(mode=ClientTlsMode.SIMPLE))
    assert _istio_metadata(policy)["alpn_override"] == "false"
    assert "alpn_override" not in _istio_metadata(TrafficPolicy(tls=ClientTls(mode=ClientTlsMode.ISTIO_MUTUAL)))


def test_metadata_names_the_rule_and_what_is_outside():
    """`config` is the rule's path in the API; `external` marks services outside of the mesh."""
    metadata = _istio_metadata(TrafficPolicy(), mesh_external=True)
    assert metadata["config"] == "/apis/networking.istio.io/v1/namespaces/shop/destination-rule/web"
    assert metadata["external"] is True


def test_a_stock_envoy_gets_neither_metadata_nor_filters_of_istio():
    """It has no use for the one and would reject the other."""
    cluster = _cluster(TrafficPolicy())
    assert "metadata" not in cluster
    assert "filters" not in cluster


def test_switches_of_the_control_plane():
    """Without telemetry labels no `services`, without metadata exchange no filter."""
    settings = mesh(features={"metadata_exchange": False, "telemetry_labels": False})
    cluster = _cluster(TrafficPolicy(), settings=settings, key=outbound_key(capabilities=ISTIO))
    assert "services" not in cluster["metadata"]["filter_metadata"]["istio"]
    assert "filters" not in cluster


def test_sessions_outlive_draining():
    """A service with the session label keeps using hosts that drain, where the switch is on."""
    settings = mesh(features={"persistent_session": True})
    cluster = _cluster(None, settings=settings, labels={"istio.io/persistent-session": "cookie"})
    assert "DRAINING" in cluster["common_lb_config"]["override_host_status"]["statuses"]
    other = _cluster(None, settings=settings, labels={"istio.io/persistent-session": ""})
    assert "override_host_status" not in other["common_lb_config"]


# --- fixed clusters and names ----------------------------------------------------------------------------------------
def test_a_router_has_no_passthrough():
    """Of the fixed clusters it has the black hole only."""
    clusters = generated(CLUSTER, snapshot(), scope(), outbound=outbound_key(type=ProxyType.ROUTER))
    assert "BlackHoleCluster" in clusters
    assert "PassthroughCluster" not in clusters


def test_unknown_names_may_be_resolved():
    """Mesh policy ALLOW_ANY_DYNAMIC_DNS adds a cluster that resolves whatever is asked for."""
    policy = MeshOutboundTrafficPolicy(mode=MeshOutboundMode.ALLOW_ANY_DYNAMIC_DNS)
    cluster = _clusters([], settings=mesh(outbound_traffic_policy=policy))["AllowAnyDynamicDNSCluster"]
    assert cluster["cluster_type"]["typed_config"]["dns_cache_config"]["max_hosts"] == 1024


def test_statistics_may_be_named_by_a_pattern():
    """All placeholders; outbound clusters have no target port."""
    pattern = "%SERVICE%.%SERVICE_NAME%.%SERVICE_FQDN%.%SERVICE_PORT%.%SERVICE_PORT_NAME%.%SUBSET_NAME%.%TARGET_PORT%"
    cluster = _cluster(None, settings=mesh(outbound_cluster_stat_name=pattern))
    assert cluster["alt_stat_name"] == "web.shop.web.web.shop.svc.cluster.local.80.http..0;"


@pytest.mark.parametrize(("port", "expected"), [(HTTP, True), (DETECTED, True), (GRPC, False), (TCP, False)])
def test_letters_case_of_headers_is_kept_where_they_have_any(port, expected):
    """In HTTP/1.1, towards services and anywhere else, as the mesh or the proxy's own configuration says."""
    config = ProxyConfig(proxy_headers=ProxyHeaders(preserve_http1_header_case=True))
    for options in ({"settings": mesh(default_config=config)}, {"key": outbound_key(headers=config.proxy_headers)}):
        assert ("preserve_case" in str(_cluster(None, port=port, **options))) is expected
        assert "preserve_case" in str(_clusters([], **options)["PassthroughCluster"])
    refused = {"settings": mesh(default_config=config), "key": outbound_key(headers=ProxyHeaders())}
    assert "preserve_case" not in str(_cluster(None, port=port, **refused))


# --- bytes -----------------------------------------------------------------------------------------------------------
@given(st.permutations(["app", "tier", "version", "zone"]))
def test_equal_input_gives_equal_bytes(order):
    """Whatever the order in which labels were written, and in every process: versions are digests of these bytes."""

    def encode(names):
        labels = {name: f"{name}-1" for name in names}
        api = external("api.example")
        context = snapshot([api], {api: [endpoint("api.example", labels=labels)]})
        reach = scope([api], [rule(host="api.example", subsets=[subset("s", **labels)])])
        return encoded(CLUSTER, context, reach, outbound=outbound_key(capabilities=ISTIO))

    assert encode(order) == encode(sorted(order))
