"""`connectionSettings` of proxy configurations: limits and timeouts of connections that a sidecar accepts."""

from __future__ import annotations

import pytest

from tests.envoy.meshes import STOCK, http, inbound_listeners, listeners, mesh_of, service
from tests.envoy.samples import inbound_key, mesh, outbound_key, snapshot
from trierarch.config.mesh_config import Normalization, PathNormalization
from trierarch.config.proxy_config import (
    ConnectionProfile,
    ConnectionSettings,
    EscapedSlashesAction,
    ProxyConfig,
    UnderscoresAction,
)
from trierarch.push.model import Hostname, PortProtocol, ServiceTarget

WEB = service("web", "80/HTTP")
GRPC = ServiceTarget(Hostname("shop", WEB.hostname), 80, 8080, PortProtocol.GRPC)
EVERYTHING = ConnectionSettings(
    http_idle_timeout=60.0,
    http_max_connection_duration=600.0,
    http_drain_timeout=7.0,
    http_request_timeout=8.0,
    http_request_headers_timeout=9.0,
    http_stream_idle_timeout=10.0,
    http_max_stream_duration=11.0,
    http_max_concurrent_streams=12,
    http2_initial_stream_window_size=65536,
    http2_initial_connection_window_size=1048576,
    http_headers_with_underscores_action=UnderscoresAction.DROP_HEADER,
    http_merge_slashes=True,
    http_path_with_escaped_slashes_action=EscapedSlashesAction.UNESCAPE_AND_REDIRECT,
    listener_per_connection_buffer_limit_bytes=32768,
    listener_connection_limit=5,
)
EXPECTED = {
    "drain_timeout": "7s",
    "request_timeout": "8s",
    "request_headers_timeout": "9s",
    "stream_idle_timeout": "10s",
    "merge_slashes": True,
    "path_with_escaped_slashes_action": "UNESCAPE_AND_REDIRECT",
    "common_http_protocol_options": {
        "idle_timeout": "60s",
        "max_connection_duration": "600s",
        "max_stream_duration": "11s",
        "headers_with_underscores_action": "DROP_HEADER",
    },
    "http2_protocol_options": {
        "max_concurrent_streams": 12,
        "initial_stream_window_size": 65536,
        "initial_connection_window_size": 1048576,
    },
}
DEFAULT = {"path_with_escaped_slashes_action": "KEEP_UNCHANGED", "stream_idle_timeout": "0s"}


def of_the_mesh(settings, **config):
    """A mesh whose proxies have these connection settings."""
    return snapshot(settings=mesh(default_config=ProxyConfig(connection_settings=settings), **config))


def told(chain):
    """What a chain's connection manager says of the fields in question."""
    manager = http(chain)
    return {field: manager[field] for field in EXPECTED if field in manager}


def outbound(found, key=STOCK):
    """Of connections from the workload."""
    return told(listeners(mesh_of(WEB), key, found)["0.0.0.0_80"]["filter_chains"][0])


def inbound(found, **changes):
    """Of connections to the workload's gRPC port."""
    key = inbound_key(targets=(GRPC,), **changes)
    return told(inbound_listeners(mesh_of(), key, found)["virtualInbound"]["filter_chains"][-1])


@pytest.mark.parametrize("direction", [outbound, inbound])
def test_every_setting_is_that_of_the_connection_manager(direction):
    """But limits of the listener are for gateways."""
    assert direction(of_the_mesh(EVERYTHING)) == EXPECTED


def test_nothing_is_said_unless_it_is_stated():
    """The profile EDGE has other defaults for gateways only."""
    edge = ConnectionSettings(profile=ConnectionProfile.EDGE)
    assert outbound(of_the_mesh(None)) == outbound(of_the_mesh(edge)) == DEFAULT
    assert inbound(of_the_mesh(edge)) == DEFAULT | {"http2_protocol_options": {}}


def test_a_stated_setting_goes_before_the_normalization_of_paths():
    """Also where it switches something off."""
    decoding = PathNormalization(normalization=Normalization.DECODE_AND_MERGE_SLASHES)
    stated = ConnectionSettings(http_merge_slashes=False)
    found = outbound(of_the_mesh(stated, path_normalization=decoding))
    assert "merge_slashes" not in found
    assert found["path_with_escaped_slashes_action"] == "UNESCAPE_AND_FORWARD"


def test_a_proxys_own_configuration_goes_before_the_meshs():
    """As a whole; and what the node's metadata says stays beside it."""
    own = ConnectionSettings(http_max_stream_duration=1.0)
    found = outbound(of_the_mesh(EVERYTHING), outbound_key(connections=own, idle_timeout=75.0))
    assert found["common_http_protocol_options"] == {"idle_timeout": "75s", "max_stream_duration": "1s"}
    assert inbound(of_the_mesh(EVERYTHING), connections=ConnectionSettings()) == DEFAULT | {
        "http2_protocol_options": {}
    }
