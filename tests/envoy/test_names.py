"""Names of clusters, there and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trierarch.envoy.names import (
    ClusterName,
    inbound_cluster,
    outbound_cluster,
    parse_cluster_name,
    touched_assignments,
)
from trierarch.push.request import ConfigKey, PushRequest

hosts = st.from_regex(r"(\*\.)?[a-z0-9-]{1,8}(\.[a-z0-9-]{1,8}){0,3}", fullmatch=True)
subsets = st.from_regex(r"([a-z0-9][a-z0-9-]{0,8})?", fullmatch=True)
ports = st.integers(min_value=0, max_value=65535)
names = st.builds(ClusterName, st.just("outbound"), ports, subsets, hosts)


@given(names)
def test_a_formatted_name_parses_to_itself(name):
    """Formatting and parsing are inverse, in both spellings."""
    assert parse_cluster_name(str(name)) == name
    assert parse_cluster_name(name.sni) == name


@pytest.mark.parametrize(
    ("formatted", "expected"),
    [
        (outbound_cluster(80, "v1", "web.shop.svc.cluster.local"), "outbound|80|v1|web.shop.svc.cluster.local"),
        (outbound_cluster(80, "", "web.shop.svc.cluster.local"), "outbound|80||web.shop.svc.cluster.local"),
        (inbound_cluster(8080), "inbound|8080||"),
        (ClusterName("outbound", 80, "", "a.example").sni, "outbound_.80_._.a.example"),
    ],
)
def test_names_are_istiods(formatted, expected):
    """The spellings of networking.md §2.1."""
    assert formatted == expected


@pytest.mark.parametrize(
    "name", ["BlackHoleCluster", "", "outbound|80|v1", "outbound|x|v1|host", "a|1|b|c|d", "outbound_.80_.v1"]
)
def test_a_name_without_four_parts_is_no_cluster_of_a_service(name):
    """Fixed clusters and malformed names parse to None, they do not raise."""
    assert parse_cluster_name(name) is None


def test_which_assignments_a_request_touches():
    """Those of services and endpoints that it names, all ports and subsets of them."""
    names = ("outbound|80||web.shop", "outbound|80|v1|web.shop", "outbound|80||other.shop", "local_cluster")
    for kind in ("ServiceEntry", "Endpoints"):
        request = PushRequest(keys=frozenset({ConfigKey(kind, "shop", "web.shop"), ConfigKey("Sidecar", "shop", "s")}))
        assert touched_assignments(names, request) == {"outbound|80||web.shop", "outbound|80|v1|web.shop"}
    assert touched_assignments(names, PushRequest(keys=frozenset({ConfigKey("Sidecar", "", "web.shop")}))) == set()
