"""What the patterns of our bootstrap find in the names of statistics."""

import re

import pytest

from trierarch.envoy.stats_tags import build_stats_config

NAMES = {
    "cluster.outbound|80|v1|web.shop.svc.cluster.local;.upstream_rq_503": {
        "cluster_name": "outbound|80|v1|web.shop.svc.cluster.local",
        "direction": "outbound",
        "port": "80",
        "subset": "v1",
        "service": "web.shop.svc.cluster.local",
        "response_code": "503",
    },
    "cluster.outbound|443||api.example.com;.ssl.handshake": {
        "cluster_name": "outbound|443||api.example.com",
        "direction": "outbound",
        "port": "443",
        "service": "api.example.com",
    },
    "cluster.inbound|8080||;.upstream_rq_2xx": {
        "cluster_name": "inbound|8080||",
        "direction": "inbound",
        "port": "8080",
        "response_code_class": "2xx",
    },
    "cluster.PassthroughCluster;.upstream_cx_total": {"cluster_name": "PassthroughCluster"},
    "cluster.xds-grpc.upstream_cx_total": {},
    "http.outbound_0.0.0.0_80;.downstream_rq_4xx": {
        "connection_manager": "outbound_0.0.0.0_80",
        "response_code_class": "4xx",
    },
    "http.admin.downstream_cx_total": {},
    "tcp.outbound|9000||db.shop.svc.cluster.local.downstream_cx_total": {
        "tcp_prefix": "outbound|9000||db.shop.svc.cluster.local"
    },
    "listener.10.96.0.7_9000.downstream_cx_total": {"listener": "10.96.0.7_9000"},
    "listener.[__1]_9000.http.outbound_x;.downstream_rq_2xx": {"listener": "[__1]_9000", "response_code_class": "2xx"},
    "listener.admin.downstream_cx_total": {},
    "server.live": {},
}


def tags(name):
    """The tags of a statistic: the values of the patterns that fit."""
    found = {each["tag_name"]: re.search(each["regex"], name) for each in build_stats_config()["stats_tags"]}
    return {tag: match[2] for tag, match in found.items() if match}


@pytest.mark.parametrize(("name", "expected"), NAMES.items(), ids=str)
def test_tags(name, expected):
    """Host names are whole, and a name that is not ours is left alone."""
    assert tags(name) == expected


def test_no_pattern_is_one_that_envoy_has_already():
    """It rejects a bootstrap in which a tag is there twice, so its own are off."""
    config = build_stats_config()
    names = [each["tag_name"] for each in config["stats_tags"]]
    assert len(set(names)) == len(names)
    assert config["use_all_default_tags"] is False
