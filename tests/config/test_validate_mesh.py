"""What is refused of the mesh's settings and networks: each rule is broken once and told by its path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.config.reading import ORIGIN
from trierarch.config.admission import check
from trierarch.config.decode import Decoded, decode_mesh_config, decode_mesh_networks

if TYPE_CHECKING:
    from collections.abc import Mapping

_TAGS = "defaultConfig.tracing.customTags"
_LOG = {"accessLogFile": "/dev/stdout"}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"proxyListenPort": 0}, "proxyListenPort"),
        ({"connectTimeout": "0s"}, "connectTimeout"),
        ({"dnsRefreshRate": "1ms"}, "dnsRefreshRate"),
        ({"defaultConfig": {"tracing": {"sampling": 101}}}, "defaultConfig.tracing.sampling"),
        ({"defaultConfig": {"tracing": {"customTags": {"": {"literal": {"value": "a"}}}}}}, f"{_TAGS}[]"),
        ({"defaultConfig": {"tracing": {"customTags": {"a": {"header": {}}}}}}, f"{_TAGS}[a]"),
        ({"defaultConfig": {"proxyHeaders": {"server": {"value": "a\n"}}}}, "defaultConfig.proxyHeaders.server.value"),
        ({"trustDomain": "a:b"}, "trustDomain"),
        ({"discoverySelectors": [{"matchLabels": {"a": "b"}}]}, "discoverySelectors"),
        ({**_LOG, "accessLogFormat": "%REQUEST%"}, "accessLogFormat"),
        ({**_LOG, "accessLogFormat": '{"a": ["5%"]}', "accessLogEncoding": "JSON"}, "accessLogFormat"),
        ({**_LOG, "accessLogFormat": "5", "accessLogEncoding": "JSON"}, "accessLogFormat"),
        ({"defaultServiceExportTo": ["*", "a"]}, "defaultServiceExportTo"),
        ({"extensionProviders": [{"name": "x"}]}, "extensionProviders[x]"),
        ({"extensionProviders": [{"name": "x", "zipkin": {"service": "a/b"}}]}, "extensionProviders[x].port"),
        ({"defaultConfig": {"drainDuration": "1.5s"}}, "defaultConfig.drainDuration"),
        ({"meshMTLS": {"ecdhCurves": ["P-256"]}}, "meshMTLS.ecdhCurves"),
    ],
)
def test_mesh_configs(fields: Mapping[str, object], path: str):
    """Each rule about the mesh configuration, broken once."""
    decoded = decode_mesh_config(fields, ORIGIN, "k")
    assert isinstance(decoded, Decoded)
    assert [each.path for each in check(decoded).findings] == [path]


def test_networks():
    """Networks: ranges, names of registries, gateways with an address and a port."""
    gateways = [{"address": "1.1.1.1"}, {"port": 1}]
    networks = {"n": {"endpoints": [{"fromCidr": "x"}, {"fromRegistry": "a.b"}, {}], "gateways": gateways}}
    decoded = decode_mesh_networks({"networks": networks}, ORIGIN, "k")
    assert isinstance(decoded, Decoded)
    assert [each.path for each in check(decoded).findings] == [
        "networks[n].endpoints[0].fromCidr",
        "networks[n].endpoints[1].fromRegistry",
        "networks[n].endpoints[2]",
        "networks[n].gateways[0].port",
        "networks[n].gateways[1]",
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {**_LOG, "accessLogFormat": "%REQ_WITHOUT_QUERY(:PATH)% %CEL(f(g(x)))% %START_TIME(%s)% %LISTENER_NAME%"},
        {**_LOG, "accessLogFormat": '{"5%": {"a": ["%PROTOCOL()%", 1, null]}}', "accessLogEncoding": "JSON"},
        {"accessLogFormat": "5%"},
    ],
)
def test_formats_of_logs(fields: Mapping[str, object]):
    """One command more than in headers, and parentheses in parentheses; keys are just names, and without a file the
    format is for nothing.
    """
    decoded = decode_mesh_config(fields, ORIGIN, "k")
    assert isinstance(decoded, Decoded)
    assert check(decoded).findings == ()
