"""Outbound and fixed clusters: what each field of the model and of a rule does to a cluster (networking.md §2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.envoy.golden import check_golden
from tests.envoy.outbound_clusters import WEB, clusters_of, http_options, web_cluster
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
    HttpPool,
    LoadBalancer,
    OutlierDetection,
    PortTrafficPolicy,
    SimpleLoadBalancer,
    TcpPool,
    TrafficPolicy,
)
from trierarch.config.mesh_config import DefaultTrafficPolicy, MeshOutboundMode, MeshOutboundTrafficPolicy
from trierarch.config.proxy_config import ProxyConfig, ProxyHeaders
from trierarch.envoy.types import CLUSTER
from trierarch.push.model import PortProtocol, Resolution, ServicePort
from trierarch.push.proxy import IPMode, ProxyType

OUTLIER = OutlierDetection(interval=1.0)


def test_a_plain_mesh():
    """The whole output for a service of each kind, as a stock Envoy gets it."""
    web = service(ports=(HTTP, GRPC, TCP, DETECTED, UDP))
    bare = service("bare", ports=(TCP,), resolution=Resolution.PASSTHROUGH, headless=True)
    api = external("api.example.com", ports=(HTTPS,))
    endpoints = {api: [endpoint("api.example.com", port=443, port_name="https")]}
    rules = [rule(TrafficPolicy(), subsets=[subset("v1", version="v1")])]
    check_golden("clusters_stock", clusters_of([web, bare, api], rules, endpoints=endpoints))


def test_the_same_mesh_for_an_istio_proxy():
    """An Istio proxy gets metadata for its filters, and the filter that exchanges metadata, beside all that."""
    web = service()
    api = external("api.example.com", ports=(HTTPS,))
    endpoints = {api: [endpoint("api.example.com", port=443, port_name="https", workload_name="api")]}
    rules = [rule(TrafficPolicy(), subsets=[subset("v1", version="v1")])]
    key = outbound_key(capabilities=ISTIO)
    check_golden("clusters_istio", clusters_of([web, api], rules, endpoints=endpoints, key=key))


def test_clusters_come_in_order_of_services_ports_and_subsets():
    """Default before subsets, port by port, then the fixed ones, then inbound (networking.md §2.2)."""
    web = service(ports=(HTTP, TCP))
    rules = [rule(subsets=[subset("b"), subset("a")])]
    assert list(clusters_of([web, service("cart")], rules)) == [
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
    clusters = clusters_of([api], endpoints={api: [endpoint("api.example")]})
    assert clusters["outbound|80||api.example"]["type"] == expected


@pytest.mark.parametrize("resolution", [Resolution.DNS, Resolution.DNS_ROUND_ROBIN])
def test_addresses_that_are_raced(resolution):
    """Of one name, and of both families, whichever the proxy itself has: Envoy connects to what answers first."""
    api = external("api.example", resolution=resolution, races_addresses=True)
    cluster = clusters_of([api], endpoints={api: [endpoint("api.example")]})["outbound|80||api.example"]
    assert (cluster["type"], cluster["dns_lookup_family"]) == ("LOGICAL_DNS", "ALL")


def test_an_alias_has_no_clusters():
    """ExternalName services have no resources of their own."""
    assert [name for name in clusters_of([service(resolution=Resolution.ALIAS)]) if name.startswith("outbound")] == []


def test_a_router_lists_the_endpoints_of_headless_services():
    """What a router receives was addressed to itself, so there is no original destination to go to."""
    key = outbound_key(type=ProxyType.ROUTER)
    assert web_cluster(None, resolution=Resolution.PASSTHROUGH, key=key)["type"] == "EDS"


def test_a_dns_cluster_without_endpoints_is_left_out():
    """Neither the service nor a subset that selects nothing gets a DNS cluster."""
    empty, full = external("empty.example"), external("full.example")
    rules = [rule(host="full.example", subsets=[subset("a", side="a"), subset("z", side="z")])]
    endpoints = {full: [endpoint("full.example", labels={"side": "a"})]}
    names = [name for name in clusters_of([empty, full], rules, endpoints=endpoints) if name.startswith("outbound")]
    assert names == ["outbound|80||full.example", "outbound|80|a|full.example"]


def test_a_port_of_a_service_entry_that_keeps_the_destination_may_be_remapped():
    """Resolution NONE with a targetPort overrides the port of the original destination (networking.md §1.6)."""
    port = ServicePort(80, "http", PortProtocol.HTTP, target=8080)
    api = external("any.example", ports=(port,), resolution=Resolution.PASSTHROUGH)
    cluster = clusters_of([api])["outbound|80||any.example"]
    assert cluster["original_dst_lb_config"] == {"upstream_port_override": 8080}


@pytest.mark.parametrize(("mode", "family"), [(IPMode.IPV4, "V4_ONLY"), (IPMode.IPV6, "V6_ONLY"), (IPMode.DUAL, "ALL")])
def test_the_proxys_addresses_decide_which_addresses_are_looked_up(mode, family):
    """Dual-stack lookups only where the switch is on (it is, here)."""
    api = external("api.example")
    settings = mesh(features={"dual_stack": True})
    endpoints = {api: [endpoint("api.example")]}
    clusters = clusters_of([api], endpoints=endpoints, settings=settings, key=outbound_key(ip_mode=mode))
    assert clusters["outbound|80||api.example"]["dns_lookup_family"] == family


def test_wildcard_names_are_resolved_while_they_are_forwarded():
    """DYNAMIC_DNS: a forward-proxy cluster for ports that name their destination, without subsets."""
    wild = external("*.example", ports=(HTTP, TCP), resolution=Resolution.DYNAMIC_DNS)
    clusters = clusters_of([wild], [rule(host="*.example", subsets=[subset("a")])])
    names = [name for name in clusters if name.startswith("outbound")]
    assert names == ["outbound|80||*.example"]
    cluster = clusters[names[0]]
    assert cluster["cluster_type"]["typed_config"]["dns_cache_config"]["name"] == "*.example_dfp_dns_cache"
    assert "common_lb_config" not in cluster


def test_a_forward_proxy_cluster_with_http_options_is_one_that_envoy_accepts():
    """Envoy wants the server's name checked, or to be told that it is not (istiod does neither)."""
    wild = external("*.example", ports=(HTTP, GRPC), resolution=Resolution.DYNAMIC_DNS)
    clusters = clusters_of([wild])
    configs = {name: clusters[name].get("cluster_type", {}).get("typed_config", {}) for name in clusters}
    assert "allow_insecure_cluster_options" not in configs["outbound|80||*.example"]
    assert configs["outbound|7070||*.example"]["allow_insecure_cluster_options"] is True


# --- levels of a rule ------------------------------------------------------------------------------------------------
def test_port_level_settings_stand_alone():
    """A port with an entry of its own takes nothing from the rule's blocks (networking.md §2.4)."""
    entry = PortTrafficPolicy(
        port=PortSelector(number=80), load_balancer=LoadBalancer(policy=SimpleLoadBalancer.RANDOM)
    )
    policy = TrafficPolicy(outlier_detection=OUTLIER, port_level_settings=(entry,))
    clusters = clusters_of([service(ports=(HTTP, TCP))], [rule(policy)])
    assert "outlier_detection" not in clusters[WEB]
    assert clusters[WEB]["lb_policy"] == "RANDOM"
    assert "outlier_detection" in clusters["outbound|9000||web.shop.svc.cluster.local"]


def test_a_subsets_blocks_replace_the_rules():
    """Block by block, not field by field."""
    policy = TrafficPolicy(connection_pool=ConnectionPool(tcp=TcpPool(max_connections=10)), outlier_detection=OUTLIER)
    own = TrafficPolicy(connection_pool=ConnectionPool(http=HttpPool(max_retries=2)))
    cluster = clusters_of([service()], [rule(policy, subsets=[subset("v2", own, version="v2")])])[
        "outbound|80|v2|web.shop.svc.cluster.local"
    ]
    threshold = cluster["circuit_breakers"]["thresholds"][0]
    assert (threshold["max_connections"], threshold["max_retries"]) == (4294967295, 2)
    assert "outlier_detection" in cluster


def test_what_no_rule_says_the_mesh_says():
    """The mesh's default policy reaches fixed clusters too, but their idle timeout stays."""
    pool = ConnectionPool(tcp=TcpPool(max_connections=77, idle_timeout=5.0))
    settings = mesh(default_traffic_policy=DefaultTrafficPolicy(connection_pool=pool, outlier_detection=OUTLIER))
    clusters = clusters_of([service()], settings=settings)
    for name in (WEB, "PassthroughCluster", "InboundPassthroughCluster"):
        assert clusters[name]["circuit_breakers"]["thresholds"][0]["max_connections"] == 77
    assert http_options(clusters["PassthroughCluster"])["common_http_protocol_options"] == {"idle_timeout": "300s"}
    assert "outlier_detection" in clusters[WEB]


# --- what only Istio's proxy gets ------------------------------------------------------------------------------------
def _istio_metadata(policy=None, **changes):
    cluster = web_cluster(policy, key=outbound_key(capabilities=ISTIO), **changes)
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
    cluster = web_cluster(TrafficPolicy())
    assert "metadata" not in cluster
    assert "filters" not in cluster


def test_switches_of_the_control_plane():
    """Without telemetry labels no `services`, without metadata exchange no filter."""
    settings = mesh(features={"metadata_exchange": False, "telemetry_labels": False})
    cluster = web_cluster(TrafficPolicy(), settings=settings, key=outbound_key(capabilities=ISTIO))
    assert "services" not in cluster["metadata"]["filter_metadata"]["istio"]
    assert "filters" not in cluster


def test_sessions_outlive_draining():
    """A service with the session label keeps using hosts that drain, where the switch is on."""
    settings = mesh(features={"persistent_session": True})
    cluster = web_cluster(None, settings=settings, labels={"istio.io/persistent-session": "cookie"})
    assert "DRAINING" in cluster["common_lb_config"]["override_host_status"]["statuses"]
    other = web_cluster(None, settings=settings, labels={"istio.io/persistent-session": ""})
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
    cluster = clusters_of([], settings=mesh(outbound_traffic_policy=policy))["AllowAnyDynamicDNSCluster"]
    assert cluster["cluster_type"]["typed_config"]["dns_cache_config"]["max_hosts"] == 1024


def test_statistics_may_be_named_by_a_pattern():
    """All placeholders; outbound clusters have no target port."""
    pattern = "%SERVICE%.%SERVICE_NAME%.%SERVICE_FQDN%.%SERVICE_PORT%.%SERVICE_PORT_NAME%.%SUBSET_NAME%.%TARGET_PORT%"
    cluster = web_cluster(None, settings=mesh(outbound_cluster_stat_name=pattern))
    assert cluster["alt_stat_name"] == "web.shop.web.web.shop.svc.cluster.local.80.http..0;"


@pytest.mark.parametrize(("port", "expected"), [(HTTP, True), (DETECTED, True), (GRPC, False), (TCP, False)])
def test_letters_case_of_headers_is_kept_where_they_have_any(port, expected):
    """In HTTP/1.1, towards services and anywhere else, as the mesh or the proxy's own configuration says."""
    config = ProxyConfig(proxy_headers=ProxyHeaders(preserve_http1_header_case=True))
    for options in ({"settings": mesh(default_config=config)}, {"key": outbound_key(headers=config.proxy_headers)}):
        assert ("preserve_case" in str(web_cluster(None, port=port, **options))) is expected
        assert "preserve_case" in str(clusters_of([], **options)["PassthroughCluster"])
    refused = {"settings": mesh(default_config=config), "key": outbound_key(headers=ProxyHeaders())}
    assert "preserve_case" not in str(web_cluster(None, port=port, **refused))


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
