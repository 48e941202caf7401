"""A proxy from its Node: what is read, what ends the stream."""

from __future__ import annotations

from math import inf, nan

import pytest

from protocol.errors import RemoteError
from trierarch.config.proxy_config import ConnectionSettings, ProxyHeaders, ServerHeader
from trierarch.push.model import Locality
from trierarch.push.node_metadata import READ
from trierarch.push.proxy import (
    LONGEST_VERSION,
    MOST_ADDRESSES,
    Interception,
    IPMode,
    NodeInfo,
    ProxyType,
    SecretSource,
    build_proxy,
)

ID = "sidecar~10.1.2.3~web-7d.shop~shop.svc.cluster.local"


def proxy(node_id=ID, *, extensions=None, **metadata):
    """The proxy of a Node with this metadata."""
    return build_proxy(NodeInfo(id=node_id, metadata=metadata, extensions=extensions))


class Recorded(dict):
    """Metadata that remembers what was looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at = set()

    def get(self, key, default=None):
        """None, whatever it is."""
        self.looked_at.add(key)
        return default


def test_which_metadata_is_read():
    """Other keys do not even reach a proxy, so the list must be whole, and name nothing that nobody reads."""
    metadata = Recorded()
    for extensions in (("istio.stats",), ()):
        build_proxy(NodeInfo(id=ID, metadata=metadata, extensions=extensions))
    build_proxy(NodeInfo(id=ID, metadata=metadata))
    assert metadata.looked_at | {"POD_PORTS"} == READ  # which is read when the proxy is placed


def test_the_parts_of_the_id():
    """TYPE~IP~NAME.NAMESPACE~DOMAIN; the namespace is the domain's first label unless metadata says otherwise."""
    plain = proxy()
    assert (plain.type, plain.ips, plain.id) == (ProxyType.SIDECAR, ("10.1.2.3",), "web-7d.shop")
    assert (plain.dns_domain, plain.namespace) == ("shop.svc.cluster.local", "shop")
    assert proxy(NAMESPACE="other").namespace == "other"
    assert proxy("sidecar~10.1.2.3~a.b~local").namespace == ""


@pytest.mark.parametrize(
    "node_id",
    ["", "sidecar~10.1.2.3~a.b", "sidecar~10.1.2.3~a.b~c~d", "stranger~10.1.2.3~a.b~c.d", "sidecar~nowhere~a.b~c.d"],
)
def test_an_id_that_cannot_be_understood(node_id):
    """Ends the stream with INVALID_ARGUMENT (xds-server.md §4.5)."""
    with pytest.raises(RemoteError) as caught:
        proxy(node_id)
    assert caught.value.code == 3


@pytest.mark.parametrize(
    ("instance_ips", "expected", "mode"),
    [
        ("", ("10.1.2.3",), IPMode.IPV4),
        ("10.9.9.9,fd00::1", ("10.9.9.9", "fd00::1"), IPMode.DUAL),
        ("fd00::1", ("fd00::1",), IPMode.IPV6),
        ("10.9.9.9,nonsense", ("10.1.2.3",), IPMode.IPV4),
    ],
)
def test_addresses(instance_ips, expected, mode):
    """INSTANCE_IPS counts if each of them is an address."""
    found = proxy(INSTANCE_IPS=instance_ips)
    assert (found.ips, found.ip_mode) == (expected, mode)


LONG = "x" * 400_000


@pytest.mark.parametrize(
    "said",
    [
        {"HTTP_PROXY_PORT": LONG},
        {"LABELS": LONG},
        {"TRIERARCH_SDS": LONG},
        {"PROXY_CONFIG": {"tracing": LONG}},
        {"node_id": LONG},
        {"node_id": f"{LONG}~1.1.1.1~a.b~c"},
        {"node_id": f"sidecar~{LONG}~a.b~c"},
        {"node_id": f"sidecar~1.1.1.1~{LONG}.b~c"},
        {"NAMESPACE": LONG},
    ],
    ids=lambda said: next(iter(said)),
)
def test_what_is_wrong_is_said_in_short(said):
    """A Node may have half a megabyte: the status and the log have the beginning of what was wrong in it."""
    with pytest.raises(RemoteError) as caught:
        proxy(**said)
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("timeout", ["-1s", "9999999999999999999h"])
def test_a_time_that_nothing_can_express(timeout):
    """It ends the stream, as what is no duration does."""
    with pytest.raises(RemoteError):
        proxy(IDLE_TIMEOUT=timeout)


def test_of_a_version_only_the_beginning_is_read():
    """Metrics have it as a label."""
    assert proxy(ISTIO_VERSION="1" * 10_000).istio_version == "1" * LONGEST_VERSION


def test_there_is_an_end_to_addresses():
    """Somebody could have us read forty thousand, and look for each among all workloads."""
    assert len(proxy(INSTANCE_IPS=",".join(["::"] * MOST_ADDRESSES)).ips) == MOST_ADDRESSES
    with pytest.raises(RemoteError):
        proxy(INSTANCE_IPS=",".join(["::"] * (MOST_ADDRESSES + 1)))


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("LABELS", {"b": "1", "a": "2"}, "labels", (("a", "2"), ("b", "1"))),
        ("REQUESTED_NETWORK_VIEW", "a, b", "network_view", frozenset({"a", "b"})),
        ("INTERCEPTION_MODE", "NONE", "interception", Interception.NONE),
        ("INTERCEPTION_MODE", "whatever", "interception", Interception.REDIRECT),
        ("DNS_CAPTURE", "true", "dns_capture", True),
        ("DNS_CAPTURE", True, "dns_capture", True),
        ("HTTP10", "1", "http10", True),
        ("HTTP_PROXY_PORT", "15007", "http_proxy_port", 15007),
        ("HTTP_PROXY_PORT", 15007.0, "http_proxy_port", 15007),
        ("IDLE_TIMEOUT", "1m", "idle_timeout", 60.0),
        ("CLUSTER_ID", "c1", "cluster", "c1"),
        ("CLUSTER_ID", inf, "cluster", "inf"),
        ("CLUSTER_ID", nan, "cluster", "nan"),
        ("CLUSTER_ID", 1.5, "cluster", "1.5"),
        ("NODE_NAME", None, "node_name", ""),
    ],
)
def test_metadata(key, value, field, expected):
    """Booleans and numbers come as themselves or as strings."""
    assert getattr(proxy(**{key: value}), field) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("LABELS", "a=b"),
        ("LABELS", {"a": 1}),
        ("NAMESPACE", ["a"]),
        ("DNS_CAPTURE", "maybe"),
        ("HTTP_PROXY_PORT", "many"),
        ("HTTP_PROXY_PORT", "65536"),
        ("HTTP_PROXY_PORT", "9" * 5000),
        ("HTTP_PROXY_PORT", 1e308),
        ("HTTP_PROXY_PORT", inf),
        ("ENVOY_STATUS_PORT", -1.0),
        ("IDLE_TIMEOUT", "soon"),
        ("TRIERARCH_SDS", "somewhere"),
    ],
)
def test_metadata_of_the_wrong_type(key, value):
    """Ends the stream, and the message names the key."""
    with pytest.raises(RemoteError, match=key):
        proxy(**{key: value})


@pytest.mark.parametrize(
    ("extensions", "metadata", "istio", "secrets"),
    [
        (None, {}, False, SecretSource.NONE),
        (None, {"ISTIO_VERSION": "1.32.0"}, True, SecretSource.AGENT),
        (("istio.stats",), {}, True, SecretSource.AGENT),
        (("envoy.filters.http.router",), {"ISTIO_VERSION": "1.32.0"}, False, SecretSource.NONE),
        (None, {"TRIERARCH_SDS": "ads"}, False, SecretSource.ADS),
        (None, {"TRIERARCH_SDS": "files"}, False, SecretSource.FILES),
    ],
)
def test_capabilities(extensions, metadata, istio, secrets):
    """What a proxy lists, else what its version implies; where its certificates come from."""
    found = proxy(extensions=extensions, **metadata).capabilities
    assert (found.istio, found.secrets) == (istio, secrets)


def test_a_proxy_may_bring_its_own_configuration():
    """What it does not say is then the default, not the mesh's; without one it is the mesh's."""
    own = {"connectionSettings": {"httpIdleTimeout": "30s"}, "proxyHeaders": {"server": {"value": "shop"}}}
    brought, empty, none = proxy(PROXY_CONFIG=own), proxy(PROXY_CONFIG={}), proxy()
    assert brought.connections == ConnectionSettings(http_idle_timeout=30.0)
    assert brought.headers == ProxyHeaders(server=ServerHeader(value="shop"))
    assert (empty.connections, empty.headers) == (ConnectionSettings(), ProxyHeaders())
    assert (none.connections, none.headers) == (None, None)


def test_one_virtual_host_at_a_time_is_opted_into():
    """By metadata TRIERARCH_VHDS."""
    assert not proxy().capabilities.vhds
    assert proxy(TRIERARCH_VHDS="true").capabilities.vhds


def test_defaults_of_the_caller():
    """The cluster of a proxy that names none; its locality as the Node states it."""
    node = NodeInfo(id=ID, locality=Locality("r", "z"))
    found = build_proxy(node, default_cluster="here")
    assert (found.cluster, found.locality) == ("here", Locality("r", "z"))
