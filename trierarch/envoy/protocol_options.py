"""Which HTTP a cluster speaks, and its settings of HTTP connections (networking.md §2.6)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.core.v3 import (
    Http1ProtocolOptions,
    Http1ProtocolOptionsHeaderKeyFormat,
    Http2ProtocolOptions,
    KeepaliveSettings,
    TypedExtensionConfig,
    UpstreamHttpProtocolOptions,
)
from protocol.proto.envoy.config.core.v3 import HttpProtocolOptions as CommonHttpProtocolOptions
from protocol.proto.envoy.extensions.http.header_formatters.preserve_case.v3 import PreserveCaseFormatterConfig
from protocol.proto.envoy.extensions.upstreams.http.v3 import (
    HttpProtocolOptions,
    HttpProtocolOptionsExplicitHttpConfig,
    HttpProtocolOptionsOutlierDetection,
    HttpProtocolOptionsUseDownstreamHttpConfig,
)
from trierarch.config.destination_rule import H2UpgradePolicy
from trierarch.config.mesh_config import MeshH2UpgradePolicy
from trierarch.envoy.connection_pool import http_pool, tcp_pool
from trierarch.envoy.outlier import build_error_matcher
from trierarch.envoy.well_known_types import duration, pack
from trierarch.push.proxy import ProxyType

if TYPE_CHECKING:
    from protocol.proto.google.protobuf import Any as PackedMessage
    from trierarch.config.destination_rule import ConnectionPool, Http2KeepAlive, HttpPool
    from trierarch.config.mesh_config import MeshConfig
    from trierarch.push.model import PortProtocol

EXTENSION = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
PASSTHROUGH_IDLE_TIMEOUT = 300.0
DEFAULT_PING_TIMEOUT = 10.0


class Version(Enum):
    """What is spoken to the endpoints. NOT_STATED: Envoy takes HTTP/1.1 if it is HTTP at all."""

    NOT_STATED = "not stated"
    HTTP2 = "http/2"
    AS_CLIENT = "as the client"


class PeerChecks(NamedTuple):
    """What Envoy takes from the request: the server name to ask for, and to check the certificate against."""

    sni: bool = False
    certificate: bool = False


NO_CHECKS = PeerChecks()


class HttpSettings(NamedTuple):
    """What decides the options of one cluster."""

    version: Version
    pool: ConnectionPool | None
    error_codes: tuple[int, ...] = ()
    keeps_header_case: bool = False
    checks: PeerChecks = NO_CHECKS


def outbound_version(
    protocol: PortProtocol, pool: ConnectionPool | None, mesh: MeshConfig, proxy_type: ProxyType
) -> Version:
    """The version towards a service: by the port's protocol, upgraded or not as the rule and the mesh say."""
    http = http_pool(pool)
    detects = protocol.is_auto and proxy_type is not ProxyType.ROUTER
    if http.use_client_protocol or detects:
        return Version.AS_CLIENT
    return Version.HTTP2 if protocol.is_http2 or _upgrades(protocol, http, mesh) else Version.NOT_STATED


def inbound_version(protocol: PortProtocol, pool: ConnectionPool | None) -> Version:
    """The version towards the workload itself: upgrades do not concern it."""
    if protocol.is_auto or http_pool(pool).use_client_protocol:
        return Version.AS_CLIENT
    return Version.HTTP2 if protocol.is_http2 else Version.NOT_STATED


def _upgrades(protocol: PortProtocol, http: HttpPool, mesh: MeshConfig) -> bool:
    """A rule may upgrade any port, the mesh only those that are known to be HTTP."""
    match http.h2_upgrade_policy:
        case H2UpgradePolicy.UPGRADE:
            return True
        case H2UpgradePolicy.DO_NOT_UPGRADE:
            return False
        case H2UpgradePolicy.DEFAULT:
            return protocol.is_http and mesh.h2_upgrade_policy is MeshH2UpgradePolicy.UPGRADE


def build_protocol_options(settings: HttpSettings) -> dict[str, PackedMessage]:
    """The entry for `typed_extension_protocol_options`; empty if there is nothing to say."""
    common = _common_options(settings.pool)
    states_more = settings.error_codes or settings.keeps_header_case or settings.checks.sni
    if settings.version is Version.NOT_STATED and common is None and not states_more:
        return {}
    options = HttpProtocolOptions(common_http_protocol_options=common)
    _set_version(options, settings)
    if settings.error_codes:
        matcher = build_error_matcher(settings.error_codes)
        options.outlier_detection = HttpProtocolOptionsOutlierDetection(error_matcher=matcher)
    _set_checks(options, settings.checks)
    return {EXTENSION: pack(options)}


def _set_checks(options: HttpProtocolOptions, checks: PeerChecks) -> None:
    if checks.sni:
        options.upstream_http_protocol_options = UpstreamHttpProtocolOptions(
            auto_sni=True, auto_san_validation=checks.certificate
        )


def _set_version(options: HttpProtocolOptions, settings: HttpSettings) -> None:
    http1 = _http1_options(settings.keeps_header_case)
    match settings.version:
        case Version.AS_CLIENT:
            options.use_downstream_protocol_config = HttpProtocolOptionsUseDownstreamHttpConfig(
                http_protocol_options=http1, http2_protocol_options=Http2ProtocolOptions()
            )
        case Version.HTTP2:
            http2 = _http2_options(http_pool(settings.pool))
            options.explicit_http_config = HttpProtocolOptionsExplicitHttpConfig(http2_protocol_options=http2)
        case Version.NOT_STATED:  # the message is not valid without a version
            options.explicit_http_config = HttpProtocolOptionsExplicitHttpConfig(http_protocol_options=http1)


def build_passthrough_options(checks: PeerChecks = NO_CHECKS, *, preserves_case: bool) -> dict[str, PackedMessage]:
    """The options of clusters that carry whatever comes (networking.md §2.11)."""
    options = HttpProtocolOptions(
        common_http_protocol_options=CommonHttpProtocolOptions(idle_timeout=duration(PASSTHROUGH_IDLE_TIMEOUT))
    )
    _set_version(options, HttpSettings(Version.AS_CLIENT, pool=None, keeps_header_case=preserves_case))
    _set_checks(options, checks)
    return {EXTENSION: pack(options)}


def may_speak_http1(protocol: PortProtocol) -> bool:
    """Whether it matters how HTTP/1.1 headers are written."""
    return protocol.is_auto or (protocol.is_http and not protocol.is_http2)


def _http1_options(keeps_case: bool) -> Http1ProtocolOptions:
    if not keeps_case:
        return Http1ProtocolOptions()
    formatter = TypedExtensionConfig(name="preserve_case", typed_config=pack(PreserveCaseFormatterConfig()))
    return Http1ProtocolOptions(header_key_format=Http1ProtocolOptionsHeaderKeyFormat(stateful_formatter=formatter))


def _common_options(pool: ConnectionPool | None) -> CommonHttpProtocolOptions | None:
    """Timeouts of connections. Present, perhaps empty, as soon as any setting of HTTP connections is."""
    tcp, http = tcp_pool(pool), http_pool(pool)
    idle_timeout = tcp.idle_timeout if http.idle_timeout is None else http.idle_timeout
    states_any = (
        idle_timeout is not None
        or tcp.max_connection_duration is not None
        or http.max_requests_per_connection > 0
        or http.max_concurrent_streams > 0
        or http.http2_keep_alive is not None
    )
    if not states_any:
        return None
    return CommonHttpProtocolOptions(
        idle_timeout=None if idle_timeout is None else duration(idle_timeout),
        max_connection_duration=None if tcp.max_connection_duration is None else duration(tcp.max_connection_duration),
        max_requests_per_connection=http.max_requests_per_connection or None,
    )


def _http2_options(http: HttpPool) -> Http2ProtocolOptions:
    return Http2ProtocolOptions(
        max_concurrent_streams=http.max_concurrent_streams or None,
        connection_keepalive=_pings(http.http2_keep_alive) if http.http2_keep_alive is not None else None,
    )


def _pings(keep_alive: Http2KeepAlive) -> KeepaliveSettings:
    """Envoy rejects pings without a timeout, so there is one whatever the rule says."""
    timeout = DEFAULT_PING_TIMEOUT if keep_alive.timeout is None else keep_alive.timeout
    interval = None if keep_alive.interval is None else duration(keep_alive.interval)
    return KeepaliveSettings(interval=interval, timeout=duration(timeout))
