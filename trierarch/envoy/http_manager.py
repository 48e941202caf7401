"""HTTP connection managers, which every HTTP filter chain of a sidecar ends with (networking.md §4.0).

Theory. A manager is joined from stretches of its fields, in the order of their numbers, which is that of all encoded
messages: where requests go (up to field 4), the HTTP filters (5), what is traced (7), and all the rest (from 8 on).
Each is remembered by what it is made of. Hardly any two of a thousand workloads have the first in common, and nearly
all of them the last, which is most of the work.

The order of HTTP filters is in `http_filters.py`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from protocol.codec import pack_encoded
from protocol.proto.envoy.config.core.v3 import (
    Http1ProtocolOptions,
    Http1ProtocolOptionsHeaderKeyFormat,
    Http2ProtocolOptions,
    HttpProtocolOptions,
    TypedExtensionConfig,
)
from protocol.proto.envoy.config.listener.v3 import Filter
from protocol.proto.envoy.extensions.filters.network.http_connection_manager.v3 import (
    HttpConnectionManager,
    HttpConnectionManagerForwardClientCertDetails,
    HttpConnectionManagerInternalAddressConfig,
    HttpConnectionManagerPathWithEscapedSlashesAction,
    HttpConnectionManagerServerHeaderTransformation,
    HttpConnectionManagerSetCurrentClientCertDetails,
    HttpConnectionManagerUpgradeConfig,
    Rds,
    RequestIdExtension,
)
from protocol.proto.envoy.extensions.http.header_formatters.preserve_case.v3 import PreserveCaseFormatterConfig
from protocol.proto.envoy.extensions.request_id.uuid.v3 import UuidRequestIdConfig
from trierarch.config.mesh_config import Normalization
from trierarch.config.proxy_config import CertDetails, ForwardClientCertDetails, MetadataExchangeMode, ProxyHeaders
from trierarch.envoy.access_log import Place, build_access_logs
from trierarch.envoy.addresses import build_range
from trierarch.envoy.connection_settings import apply_connection_settings
from trierarch.envoy.discovery import ads_source
from trierarch.envoy.http_filters import FilterSettings, build_http_filters
from trierarch.envoy.network_filters import metadata_exchange
from trierarch.envoy.rbac import OPEN
from trierarch.envoy.route_configuration import build_route_configuration
from trierarch.envoy.routes_inbound import InboundRoute, build_inbound_routes
from trierarch.envoy.tracing import build_tracing
from trierarch.envoy.virtual_hosts import CatchAll, catch_all_host
from trierarch.envoy.well_known_types import duration, encode, pack
from trierarch.push.telemetry import SILENT

if TYPE_CHECKING:
    from trierarch.envoy.http_connection import HttpConnection, HttpProfile
    from trierarch.push.telemetry import Telemetry

HTTP_CONNECTION_MANAGER = "envoy.filters.network.http_connection_manager"
SERVER_NAME = "istio-envoy"

_REMEMBERED = 256


@lru_cache(maxsize=_REMEMBERED)
def build_http_connection(connection: HttpConnection) -> tuple[Filter, ...]:
    """The network filters of an HTTP chain: the connection manager, inbound after the exchange of metadata.

    Remembered, for a port has a chain with TLS and one without.
    """
    packed = pack_encoded(HttpConnectionManager, _encode_manager(connection))
    manager = Filter(name=HTTP_CONNECTION_MANAGER, typed_config=packed)
    profile = connection.profile
    exchange = profile.inbound and profile.istio and profile.metadata_exchange
    return (metadata_exchange(), manager) if exchange else (manager,)


def _encode_manager(connection: HttpConnection) -> bytes:
    common = replace(connection.profile, access=OPEN, tokens=(), telemetry=SILENT)
    return (
        encode(_with_routes(connection))
        + _encode_filters(_filter_settings(connection))
        + _encode_tracing(connection.profile.telemetry)
        + _encode_common(common, http2=connection.http2, absolute_urls=connection.absolute_urls)
    )


# --- fields up to 7 --------------------------------------------------------------------------------------------------
def _with_routes(connection: HttpConnection) -> HttpConnectionManager:
    manager = HttpConnectionManager(stat_prefix=connection.stat_prefix)
    match connection.routes:
        case str() as name:
            manager.rds = Rds(config_source=ads_source(), route_config_name=name)
        case InboundRoute() as route:
            manager.route_config = build_inbound_routes(route)
        case CatchAll() as catch_all:
            host = catch_all_host(catch_all)
            manager.route_config = build_route_configuration(host.name, (host,))
    return manager


@lru_cache(maxsize=_REMEMBERED)
def _encode_filters(settings: FilterSettings) -> bytes:
    return encode(HttpConnectionManager(http_filters=build_http_filters(settings)))


def _filter_settings(connection: HttpConnection) -> FilterSettings:
    profile = connection.profile
    debug_headers = profile.headers.envoy_debug_headers
    exchange_headers = profile.headers.metadata_exchange_headers
    return FilterSettings(
        inbound=profile.inbound,
        istio=profile.istio,
        metadata_exchange=profile.metadata_exchange,
        access=profile.access,
        tokens=profile.tokens,
        exchange_in_mesh_only=(exchange_headers is not None and exchange_headers.mode is MetadataExchangeMode.IN_MESH),
        grpc_web=connection.grpc_web,
        sessions=profile.sessions,
        resolves=connection.resolves,
        suppress_envoy_headers=debug_headers is not None and bool(debug_headers.disabled),
    )


@lru_cache(maxsize=_REMEMBERED)
def _encode_tracing(telemetry: Telemetry) -> bytes:
    return encode(HttpConnectionManager(tracing=build_tracing(telemetry)))


# --- fields from 8 on ------------------------------------------------------------------------------------------------
@lru_cache(maxsize=_REMEMBERED)
def _encode_common(profile: HttpProfile, *, http2: bool, absolute_urls: bool) -> bytes:
    manager = _skeleton(profile, absolute_urls=absolute_urls)
    manager.http2_protocol_options = Http2ProtocolOptions() if http2 else None
    _apply_normalization(manager, profile.normalization)
    apply_connection_settings(manager, profile.connections)
    _apply_proxy_headers(manager, profile)
    return encode(manager)


def _skeleton(profile: HttpProfile, *, absolute_urls: bool) -> HttpConnectionManager:
    idle = profile.idle_timeout
    return HttpConnectionManager(
        http_protocol_options=_http1_options(profile, absolute_urls=absolute_urls),
        common_http_protocol_options=None if idle is None else HttpProtocolOptions(idle_timeout=duration(idle)),
        use_remote_address=profile.use_remote_address,
        internal_address_config=_build_internal(profile.internal_ranges) if profile.internal_ranges else None,
        upgrade_configs=[HttpConnectionManagerUpgradeConfig(upgrade_type="websocket")],
        stream_idle_timeout=duration(0),
        access_log=build_access_logs(profile.logs, Place.REQUEST),
        request_id_extension=RequestIdExtension(
            typed_config=pack(UuidRequestIdConfig(use_request_id_for_trace_sampling=True))
        ),
        proxy_100_continue=True,
    )


def _build_internal(ranges: tuple[str, ...]) -> HttpConnectionManagerInternalAddressConfig:
    return HttpConnectionManagerInternalAddressConfig(cidr_ranges=[build_range(each) for each in ranges])


def _http1_options(profile: HttpProfile, *, absolute_urls: bool) -> Http1ProtocolOptions | None:
    preserve_case = bool(profile.headers.preserve_http1_header_case)
    if not (profile.http10 or preserve_case or absolute_urls):
        return None
    return Http1ProtocolOptions(
        allow_absolute_url=True if absolute_urls else None,
        accept_http_10=profile.http10,
        header_key_format=_preserve_case() if preserve_case else None,
    )


def _preserve_case() -> Http1ProtocolOptionsHeaderKeyFormat:
    formatter = TypedExtensionConfig(name="preserve_case", typed_config=pack(PreserveCaseFormatterConfig()))
    return Http1ProtocolOptionsHeaderKeyFormat(stateful_formatter=formatter)


def _apply_normalization(manager: HttpConnectionManager, normalization: Normalization) -> None:
    """How paths are made comparable before routes and policies look at them (networking.md §4.0 normalize_path)."""
    actions = HttpConnectionManagerPathWithEscapedSlashesAction
    decode = normalization is Normalization.DECODE_AND_MERGE_SLASHES
    manager.normalize_path = normalization is not Normalization.NONE
    manager.merge_slashes = decode or normalization is Normalization.MERGE_SLASHES
    manager.path_with_escaped_slashes_action = actions.UNESCAPE_AND_FORWARD if decode else actions.KEEP_UNCHANGED


def _apply_proxy_headers(manager: HttpConnectionManager, profile: HttpProfile) -> None:
    """Headers that the proxy adds, passes on or leaves alone (networking.md §4.0, `proxyHeaders`)."""
    headers = profile.headers
    manager.append_x_forwarded_port = headers.x_forwarded_port is not None and bool(headers.x_forwarded_port.enabled)
    if headers.request_id is not None and headers.request_id.disabled:
        manager.generate_request_id = False
    _apply_server_header(manager, profile)
    if profile.inbound:
        _apply_client_certificate(manager, headers)


def _apply_server_header(manager: HttpConnectionManager, profile: HttpProfile) -> None:
    server = profile.headers.server
    if server is not None and server.disabled:
        manager.server_header_transformation = HttpConnectionManagerServerHeaderTransformation.PASS_THROUGH
    else:
        default = SERVER_NAME if profile.inbound else ""
        manager.server_name = server.value if server is not None and server.value else default


def _apply_client_certificate(manager: HttpConnectionManager, headers: ProxyHeaders) -> None:
    """What the workload is told about the client's certificate, in the header x-forwarded-client-cert."""
    forward = headers.forwarded_client_cert
    if forward is ForwardClientCertDetails.UNDEFINED:
        forward = ForwardClientCertDetails.APPEND_FORWARD
    manager.forward_client_cert_details = HttpConnectionManagerForwardClientCertDetails[forward.value]
    if forward is not ForwardClientCertDetails.FORWARD_ONLY:
        manager.set_current_client_cert_details = _certificate_details(headers.set_current_client_cert_details)


def _certificate_details(wanted: CertDetails | None) -> HttpConnectionManagerSetCurrentClientCertDetails:
    if wanted is None:
        wanted = CertDetails()
    return HttpConnectionManagerSetCurrentClientCertDetails(
        subject=True if wanted.subject is None else wanted.subject,
        cert=bool(wanted.cert),
        chain=bool(wanted.chain),
        dns=True if wanted.dns is None else wanted.dns,
        uri=True if wanted.uri is None else wanted.uri,
    )
