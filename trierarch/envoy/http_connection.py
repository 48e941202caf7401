"""HTTP connection managers: the skeleton that every HTTP filter chain of a sidecar shares (networking.md §4.0).

What differs between them is the value `HttpConnection`; the order of HTTP filters is in `http_filters.py`. No filter
chain match and no route is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from trierarch.config.mesh_networks import FromCidr
from trierarch.config.proxy_config import (
    CertDetails,
    ConnectionSettings,
    ForwardClientCertDetails,
    MetadataExchangeMode,
    ProxyHeaders,
)
from trierarch.envoy.access_log import NO_LOGS, AccessLogs, Place, build_access_logs, select_access_logs
from trierarch.envoy.addresses import build_range
from trierarch.envoy.connection_settings import UNSTATED, apply_connection_settings, connection_settings
from trierarch.envoy.discovery import ads_source
from trierarch.envoy.http_filters import FilterSettings, ResolvedHosts, build_http_filters
from trierarch.envoy.network_filters import metadata_exchange
from trierarch.envoy.packing import duration, pack
from trierarch.envoy.rbac import OPEN, Access
from trierarch.envoy.route_configuration import build_route_configuration
from trierarch.envoy.routes_inbound import InboundRoute, build_inbound_routes
from trierarch.envoy.tracing import build_tracing
from trierarch.envoy.virtual_hosts import VirtualHostInputs
from trierarch.push.telemetry import SILENT

if TYPE_CHECKING:
    from trierarch.push.mesh import Mesh
    from trierarch.push.request_authentication import TokenRules
    from trierarch.push.telemetry import Telemetry
    from trierarch.push.view import InboundKey, OutboundKey

HTTP_CONNECTION_MANAGER = "envoy.filters.network.http_connection_manager"
SERVER_NAME = "istio-envoy"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProfile:
    """What all connection managers of one direction of a view have in common. `access`: who may do what there,
    `tokens`: whose tokens are understood.
    """

    inbound: bool
    istio: bool
    metadata_exchange: bool
    headers: ProxyHeaders
    normalization: Normalization
    connections: ConnectionSettings = UNSTATED
    use_remote_address: bool = False
    internal_ranges: tuple[str, ...] = ()
    http10: bool = False
    idle_timeout: float | None = None
    sessions: bool = False
    logs: AccessLogs = NO_LOGS
    access: Access = OPEN
    tokens: TokenRules = ()
    telemetry: Telemetry = SILENT


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConnection:
    """One connection manager.

    `routes`: the name of a route configuration to ask for, or routes that are built in. `resolves`: hosts that the
    proxy itself looks up when they are asked for.
    """

    profile: HttpProfile
    stat_prefix: str
    routes: str | InboundRoute | VirtualHostInputs
    grpc_web: bool = False
    http2: bool = False
    absolute_urls: bool = False
    resolves: tuple[ResolvedHosts, ...] = ()


def build_http_connection(connection: HttpConnection) -> list[Filter]:
    """The network filters of an HTTP chain: the connection manager, inbound after the exchange of metadata."""
    manager = Filter(name=HTTP_CONNECTION_MANAGER, typed_config=pack(_build_manager(connection)))
    profile = connection.profile
    exchange = profile.inbound and profile.istio and profile.metadata_exchange
    return [metadata_exchange(), manager] if exchange else [manager]


def select_profile(key: OutboundKey | InboundKey, mesh: Mesh, *, inbound: bool) -> HttpProfile:
    """What the mesh and the proxy say about connection managers of one direction."""
    remote = mesh.features.sidecar_use_remote_address and not inbound
    return HttpProfile(
        inbound=inbound,
        istio=key.capabilities.istio,
        metadata_exchange=mesh.features.metadata_exchange,
        headers=proxy_headers(key, mesh),
        normalization=mesh.config.path_normalization.normalization,
        connections=connection_settings(key, mesh),
        use_remote_address=remote,
        internal_ranges=_internal_ranges(mesh) if remote else (),
        http10=key.http10 or mesh.features.http10,
        idle_timeout=key.idle_timeout,
        sessions=mesh.features.persistent_session,
        logs=select_access_logs(mesh.config, istio=key.capabilities.istio),
        telemetry=key.telemetry,
    )


def proxy_headers(key: OutboundKey | InboundKey, mesh: Mesh) -> ProxyHeaders:
    """Headers that the proxy adds or removes: as its own configuration says, or as the mesh's does."""
    return key.headers or mesh.config.default_config.proxy_headers or ProxyHeaders()


def _internal_ranges(mesh: Mesh) -> tuple[str, ...]:
    """The address ranges of the mesh's networks: requests from there are not from outside."""
    members = (each.members for network in mesh.networks.networks.values() for each in network.endpoints)
    return tuple(sorted(each.value for each in members if isinstance(each, FromCidr)))


def _build_internal(ranges: tuple[str, ...]) -> HttpConnectionManagerInternalAddressConfig:
    return HttpConnectionManagerInternalAddressConfig(cidr_ranges=[build_range(each) for each in ranges])


def _build_manager(connection: HttpConnection) -> HttpConnectionManager:
    manager = _skeleton(connection)
    match connection.routes:
        case str() as name:
            manager.rds = Rds(config_source=ads_source(), route_config_name=name)
        case InboundRoute() as route:
            manager.route_config = build_inbound_routes(route)
        case VirtualHostInputs() as host:
            manager.route_config = build_route_configuration(host.name, (host,))
    _apply_normalization(manager, connection.profile.normalization)
    apply_connection_settings(manager, connection.profile.connections)
    _apply_proxy_headers(manager, connection.profile)
    return manager


def _skeleton(connection: HttpConnection) -> HttpConnectionManager:
    profile = connection.profile
    idle = profile.idle_timeout
    return HttpConnectionManager(
        stat_prefix=connection.stat_prefix,
        http_protocol_options=_http1_options(connection),
        http2_protocol_options=Http2ProtocolOptions() if connection.http2 else None,
        common_http_protocol_options=None if idle is None else HttpProtocolOptions(idle_timeout=duration(idle)),
        use_remote_address=profile.use_remote_address,
        internal_address_config=_build_internal(profile.internal_ranges) if profile.internal_ranges else None,
        upgrade_configs=[HttpConnectionManagerUpgradeConfig(upgrade_type="websocket")],
        stream_idle_timeout=duration(0),
        access_log=build_access_logs(profile.logs, Place.REQUEST),
        tracing=build_tracing(profile.telemetry),
        http_filters=build_http_filters(_filter_settings(connection)),
        request_id_extension=RequestIdExtension(
            typed_config=pack(UuidRequestIdConfig(use_request_id_for_trace_sampling=True))
        ),
        proxy_100_continue=True,
    )


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


def _http1_options(connection: HttpConnection) -> Http1ProtocolOptions | None:
    profile = connection.profile
    preserve_case = bool(profile.headers.preserve_http1_header_case)
    if not (profile.http10 or preserve_case or connection.absolute_urls):
        return None
    return Http1ProtocolOptions(
        allow_absolute_url=True if connection.absolute_urls else None,
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
