"""What a connection pool of a rule becomes in clusters (networking.md §2.5, §2.6)."""

from datetime import timedelta

import pytest

from tests.envoy.outbound_clusters import http_options, web_cluster
from tests.envoy.samples import DETECTED, GRPC, HTTP, HTTPS, TCP, mesh
from trierarch.config.destination_rule import (
    ConnectionPool,
    H2UpgradePolicy,
    Http2KeepAlive,
    HttpPool,
    RetryBudget,
    TcpKeepalive,
    TcpPool,
    TrafficPolicy,
)
from trierarch.config.mesh_config import MeshH2UpgradePolicy
from trierarch.envoy.connection_pool import build_circuit_breakers


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
    assert web_cluster(policy)["circuit_breakers"]["thresholds"][0][threshold] == value


def test_the_connect_timeout_is_the_rules_else_the_meshs():
    """Milliseconds are kept."""
    assert web_cluster(None, settings=mesh(connect_timeout=3.0))["connect_timeout"] == "3s"
    assert web_cluster(_tcp(connect_timeout=0.25))["connect_timeout"] == "0.250s"


def test_keepalive_of_the_rule_overrides_the_meshs_value_by_value():
    """The rule's time, the mesh's probes and interval."""
    settings = mesh(tcp_keepalive=TcpKeepalive(probes=2, time=60.0, interval=5.0))
    cluster = web_cluster(_tcp(tcp_keepalive=TcpKeepalive(time=9.0)), settings=settings)
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
    assert http_options(web_cluster(policy, port=port)) == expected


def test_the_mesh_upgrades_only_what_is_known_to_be_http():
    """Its policy concerns HTTP ports; a rule may forbid it."""
    settings = mesh(h2_upgrade_policy=MeshH2UpgradePolicy.UPGRADE)
    assert http_options(web_cluster(None, settings=settings)) == EXPLICIT_HTTP2
    assert http_options(web_cluster(None, port=TCP, settings=settings)) == {}
    forbidden = _http(h2_upgrade_policy=H2UpgradePolicy.DO_NOT_UPGRADE)
    assert http_options(web_cluster(forbidden, settings=settings)) == {}


def test_the_http_idle_timeout_beats_that_of_connections():
    """Both may be stated; requests come first."""
    pool = ConnectionPool(tcp=TcpPool(idle_timeout=90.0), http=HttpPool(idle_timeout=55.0))
    options = http_options(web_cluster(TrafficPolicy(connection_pool=pool)))
    assert options["common_http_protocol_options"] == {"idle_timeout": "55s"}
