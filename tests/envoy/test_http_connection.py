"""Connection managers: what the mesh's settings and the proxy's own change in them, and the order of HTTP filters."""

from __future__ import annotations

import pytest

from protocol.codec import decode, encode
from protocol.proto.envoy.extensions.filters.network.http_connection_manager.v3 import HttpConnectionManager
from tests.envoy.meshes import STOCK, http, inbound_listeners, listeners, mesh_of, service
from tests.envoy.samples import ISTIO, inbound_key, mesh, outbound_key, snapshot
from trierarch.config.mesh_config import Normalization, PathNormalization
from trierarch.config.mesh_networks import FromCidr, MeshNetworks, Network, NetworkEndpoints
from trierarch.config.proxy_config import (
    CertDetails,
    ConnectionSettings,
    Disableable,
    Enableable,
    ForwardClientCertDetails,
    MetadataExchangeHeaders,
    MetadataExchangeMode,
    ProxyConfig,
    ProxyHeaders,
    ServerHeader,
)
from trierarch.envoy.http_connection import HttpConnection, HttpProfile
from trierarch.envoy.http_manager import build_http_connection
from trierarch.envoy.routes_inbound import InboundRoute
from trierarch.push.mesh import Features, Mesh
from trierarch.push.model import Hostname, PortProtocol, ServiceTarget
from trierarch.push.telemetry import Reporter, Telemetry, TracingSettings

WEB = service("web", "80/HTTP")
TARGET = ServiceTarget(Hostname("shop", WEB.hostname), 80, 8080, PortProtocol.HTTP)


def outbound(key=STOCK, settings=None) -> dict:
    """The connection manager of an outbound HTTP listener."""
    found = listeners(mesh_of(WEB), key, snapshot(settings=settings or mesh()))["0.0.0.0_80"]
    return http(found["filter_chains"][0])


def inbound(settings=None, **changes) -> dict:
    """The connection manager of the workload's HTTP port."""
    key = inbound_key(targets=(TARGET,), **changes)
    found = inbound_listeners(mesh_of(), key, snapshot(settings=settings or mesh()))["virtualInbound"]
    return http(found["filter_chains"][-1])


def with_headers(**headers) -> Mesh:
    """A mesh whose default proxy configuration has these proxyHeaders."""
    return mesh(default_config=ProxyConfig(proxy_headers=ProxyHeaders(**headers)))


def filters(manager: dict) -> list[str]:
    """The names of the HTTP filters, in order, without what all begin with."""
    return [each["name"].removeprefix("envoy.filters.http.") for each in manager["http_filters"]]


def test_a_stock_envoy_is_sent_none_of_istios_filters():
    """One that it does not have would make it refuse the whole listener."""
    assert filters(outbound()) == ["grpc_stats", "fault", "cors", "router"]
    assert filters(inbound()) == ["grpc_stats", "fault", "cors", "router"]


def test_istios_proxy_has_its_own_filters_in_their_places():
    """The exchange of metadata comes first; ALPN is for upstreams, so outbound only."""
    common = ["grpc_stats", "fault", "cors", "router"]
    assert filters(outbound(outbound_key(capabilities=ISTIO))) == [
        "istio.metadata_exchange",
        "grpc_stats",
        "istio.alpn",
        *common[1:],
    ]
    assert filters(inbound(capabilities=ISTIO)) == ["istio.metadata_exchange", *common]


def test_the_exchange_of_metadata_can_be_switched_off():
    """It then stands on no chain, HTTP or TCP."""
    settings = mesh(features={"metadata_exchange": False})
    assert "istio.metadata_exchange" not in filters(outbound(outbound_key(capabilities=ISTIO), settings))
    key = inbound_key(targets=(TARGET,), capabilities=ISTIO)
    chains = inbound_listeners(mesh_of(), key, snapshot(settings=settings))["virtualInbound"]["filter_chains"]
    assert {each["name"] for chain in chains for each in chain["filters"]} == {
        "envoy.filters.network.tcp_proxy",
        "envoy.filters.network.http_connection_manager",
    }


def test_grpc_web_is_translated_on_its_ports():
    """Before anything that looks at gRPC."""
    web = service("web", "80/GRPC_WEB")
    found = listeners(mesh_of(web))["0.0.0.0_80"]["filter_chains"][0]
    assert filters(http(found)) == ["grpc_web", "grpc_stats", "fault", "cors", "router"]


NORMALIZATIONS = {
    Normalization.DEFAULT: (True, False, "KEEP_UNCHANGED"),
    Normalization.NONE: (False, False, "KEEP_UNCHANGED"),
    Normalization.BASE: (True, False, "KEEP_UNCHANGED"),
    Normalization.MERGE_SLASHES: (True, True, "KEEP_UNCHANGED"),
    Normalization.DECODE_AND_MERGE_SLASHES: (True, True, "UNESCAPE_AND_FORWARD"),
}


@pytest.mark.parametrize("normalization", Normalization)
def test_paths_are_normalised_as_the_mesh_says(normalization):
    """How far, and what becomes of escaped slashes."""
    manager = outbound(settings=mesh(path_normalization=PathNormalization(normalization=normalization)))
    assert (
        manager["normalize_path"],
        manager.get("merge_slashes", False),
        manager["path_with_escaped_slashes_action"],
    ) == NORMALIZATIONS[normalization]


def test_the_server_header_is_overwritten_or_left_alone():
    """Inbound it says istio-envoy unless the mesh names another; outbound it says nothing."""
    assert inbound()["server_name"] == "istio-envoy"
    assert "server_name" not in outbound()
    named = with_headers(server=ServerHeader(value="edge"))
    assert (inbound(named)["server_name"], outbound(settings=named)["server_name"]) == ("edge", "edge")
    off = inbound(with_headers(server=ServerHeader(disabled=True)))
    assert off["server_header_transformation"] == "PASS_THROUGH"
    assert "server_name" not in off


def test_the_clients_certificate_is_told_inbound():
    """Subject, DNS names and URI by default; what a proxy only forwards it does not describe."""
    assert inbound()["forward_client_cert_details"] == "APPEND_FORWARD"
    assert inbound()["set_current_client_cert_details"] == {"subject": True, "dns": True, "uri": True}
    assert "forward_client_cert_details" not in outbound()
    details = CertDetails(subject=False, cert=True, dns=False)
    own = inbound(
        with_headers(
            forwarded_client_cert=ForwardClientCertDetails.SANITIZE_SET, set_current_client_cert_details=details
        )
    )
    assert own["set_current_client_cert_details"] == {"subject": False, "cert": True, "uri": True}
    forwards = inbound(with_headers(forwarded_client_cert=ForwardClientCertDetails.FORWARD_ONLY))
    assert "set_current_client_cert_details" not in forwards


def test_further_headers_are_switched_by_the_mesh():
    """Request id, Envoy's debug headers, the port that was asked for, letters' case in HTTP/1."""
    manager = outbound(
        settings=with_headers(
            request_id=Disableable(disabled=True),
            envoy_debug_headers=Disableable(disabled=True),
            x_forwarded_port=Enableable(enabled=True),
            preserve_http1_header_case=True,
        )
    )
    assert manager["generate_request_id"] is False
    assert manager["http_filters"][-1]["typed_config"]["suppress_envoy_headers"] is True
    assert manager["append_x_forwarded_port"] is True
    formatter = manager["http_protocol_options"]["header_key_format"]["stateful_formatter"]
    assert formatter["name"] == "preserve_case"


def test_metadata_is_kept_from_external_clusters_if_the_mesh_says_so():
    """IN_MESH concerns what is propagated upstream alone."""
    settings = with_headers(metadata_exchange_headers=MetadataExchangeHeaders(mode=MetadataExchangeMode.IN_MESH))
    exchange = outbound(outbound_key(capabilities=ISTIO), settings)["http_filters"][0]["typed_config"]["value"]
    assert exchange["upstream_propagation"] == [{"istio_headers": {"skip_external_clusters": True}}]
    inward = inbound(settings, capabilities=ISTIO)["http_filters"][0]["typed_config"]["value"]
    assert inward["downstream_propagation"] == [{"istio_headers": {}}]


def test_a_proxys_own_configuration_goes_before_the_meshs():
    """It replaces the mesh's as a whole."""
    settings = with_headers(server=ServerHeader(value="mesh"))
    own = ProxyHeaders(request_id=Disableable(disabled=True))
    manager = inbound(settings, headers=own)
    assert manager["server_name"] == "istio-envoy"
    assert manager["generate_request_id"] is False


def test_times_and_versions_come_from_the_node():
    """IDLE_TIMEOUT and HTTP10."""
    manager = outbound(outbound_key(idle_timeout=75.0, http10=True))
    assert manager["common_http_protocol_options"] == {"idle_timeout": "75s"}
    assert manager["http_protocol_options"] == {"accept_http_10": True}


def test_http10_is_recognised_only_by_a_switch_of_the_mesh():
    """The node's wish lets the connection manager accept it, but not the inspector look for it."""
    switched = listeners(mesh_of(WEB), STOCK, snapshot(settings=mesh(features={"http10": True})))["0.0.0.0_80"]
    wished = listeners(mesh_of(WEB), outbound_key(http10=True))["0.0.0.0_80"]
    protocols = [each["filter_chains"][0]["filter_chain_match"]["application_protocols"] for each in (switched, wished)]
    assert protocols == [["http/1.0", "http/1.1", "h2c"], ["http/1.1", "h2c"]]


def test_remote_addresses_are_used_by_a_switch():
    """Then addresses of the mesh's networks count as internal."""
    networks = MeshNetworks(
        networks={"n": Network(endpoints=(NetworkEndpoints(members=FromCidr("10.2.0.0/16")),), gateways=())}
    )
    settings = Mesh(networks=networks, features=Features(sidecar_use_remote_address=True))
    manager = outbound(settings=settings)
    assert manager["use_remote_address"] is True
    ranges = manager["internal_address_config"]["cidr_ranges"]
    assert ranges == [{"address_prefix": "10.2.0.0", "prefix_len": 16}]
    assert inbound(settings)["use_remote_address"] is False


def test_threads_share_connections_exactly_if_the_node_asks():
    """Of each direction apart; virtualOutbound hands on what it accepts."""
    found = listeners(mesh_of(WEB), outbound_key(exact_balance=True))
    assert found["0.0.0.0_80"]["connection_balance_config"] == {"exact_balance": {}}
    assert "connection_balance_config" not in found["virtualOutbound"]


def test_ports_of_the_proxy_itself_are_left_alone():
    """On all addresses; a service's own address is another matter."""
    busy = service("busy", "15001/HTTP", "15021/HTTP", "15006/TCP", address="10.0.0.8")
    found = listeners(mesh_of(busy), outbound_key(own_ports=frozenset({15021})))
    assert list(found) == ["10.0.0.8_15006", "virtualOutbound"]


# --- encoding --------------------------------------------------------------------------------------------------------
PROFILES = {
    "outbound": {"inbound": False},
    "stock": {"inbound": True, "istio": False},
    "all": {
        "inbound": True,
        "http10": True,
        "idle_timeout": 5.0,
        "use_remote_address": True,
        "internal_ranges": ("10.0.0.0/8",),
        "headers": ProxyHeaders(preserve_http1_header_case=True, request_id=Disableable(disabled=True)),
        "connections": ConnectionSettings(http_drain_timeout=1.0, http_max_concurrent_streams=7),
        "telemetry": Telemetry(TracingSettings(), Reporter("web", "v1", "mesh", "shop", "Kubernetes")),
    },
}


@pytest.mark.parametrize("settings", PROFILES.values(), ids=PROFILES)
@pytest.mark.parametrize("routes", ["80", InboundRoute(cluster="inbound|80||", port=80, operation="web:80/*")])
def test_a_manager_that_is_joined_from_stretches_is_encoded_as_a_whole_would_be(settings, routes):
    """Its fields come in the order of their numbers, so equal managers have equal bytes however they are made."""
    common = {"istio": True, "metadata_exchange": True, "headers": ProxyHeaders(), "normalization": Normalization.BASE}
    profile = HttpProfile(**{**common, **settings})
    connection = HttpConnection(
        profile=profile, stat_prefix="web;", routes=routes, grpc_web=True, http2=True, absolute_urls=True
    )
    body = build_http_connection(connection)[-1].typed_config.value
    assert encode(decode(HttpConnectionManager, body)) == body
