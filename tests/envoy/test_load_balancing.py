"""How clusters choose among their endpoints, and notice those that fail (networking.md §2.7, §2.8)."""

import pytest

from tests.envoy.outbound_clusters import http_options, web_cluster
from tests.envoy.samples import mesh
from trierarch.config.destination_rule import (
    ConsistentHash,
    HashHttpHeader,
    LoadBalancer,
    LocalityDistribute,
    LocalityFailover,
    LocalityLbSetting,
    Maglev,
    OutlierDetection,
    RingHash,
    SimpleLoadBalancer,
    TrafficPolicy,
    Warmup,
    ZoneAwareLbSetting,
)
from trierarch.push.model import TrafficDistribution


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
    cluster = web_cluster(policy)
    found = {key: value for key, value in cluster.items() if key.startswith(("lb_policy", *_LB_CONFIGS))}
    assert found == expected


_LB_CONFIGS = ("ring_hash_lb", "maglev_lb", "least_request_lb", "round_robin_lb")


def test_passthrough_balancing_keeps_the_original_destination():
    """The cluster's type changes, and it has no endpoints to ask for."""
    cluster = web_cluster(_balanced(SimpleLoadBalancer.PASSTHROUGH))
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
    cluster = web_cluster(TrafficPolicy(load_balancer=balancer, outlier_detection=outlier))
    assert cluster["common_lb_config"] == {"healthy_panic_threshold": {}} | expected


def test_a_services_wish_for_near_endpoints_needs_no_outlier_detection():
    """Traffic distribution is a failover priority that is forced; the mesh's setting does not count then."""
    cluster = web_cluster(None, traffic_distribution=TrafficDistribution.SAME_ZONE)
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
    cluster = web_cluster(TrafficPolicy(load_balancer=balancer), settings=settings)
    assert cluster["common_lb_config"] == {"healthy_panic_threshold": {}} | expected


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
    cluster = web_cluster(TrafficPolicy(outlier_detection=outlier))
    assert cluster["outlier_detection"] == {"enforcing_success_rate": 0} | expected


def test_status_codes_that_count_as_errors():
    """Several are alternatives; a single one stands alone, for Envoy wants two rules at least in an "or"."""
    two = http_options(
        web_cluster(TrafficPolicy(outlier_detection=OutlierDetection(outlier_detection_http_error_codes=(503, 429))))
    )
    rules = two["outlier_detection"]["error_matcher"]["or_match"]["rules"]
    headers = [each["http_response_headers_match"]["headers"][0] for each in rules]
    assert [(each["name"], each["string_match"]["exact"]) for each in headers] == [
        (":status", "503"),
        (":status", "429"),
    ]
    one = http_options(
        web_cluster(TrafficPolicy(outlier_detection=OutlierDetection(outlier_detection_http_error_codes=(503,))))
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
    cluster = web_cluster(TrafficPolicy(outlier_detection=outlier), settings=mesh(features=features))
    assert cluster["common_lb_config"] == expected
