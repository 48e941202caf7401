"""ProxyConfig: settings of one proxy: the mesh's `defaultConfig`, or the proxy's own metadata (networking.md §9.14).

The defaults of the fields are Istio's (networking.md §0.3). Most settings concern the bootstrap and the agent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeAlias

from trierarch.config.destination_rule import ClientTls, TcpKeepalive
from trierarch.config.readiness_probe import ReadinessProbe
from trierarch.config.tracing import Tracing
from trierarch.config.wire import Bare, Flattened, Int32, OneOf, Seconds, UInt32


class TracingServiceName(StrEnum):
    """How the name of the service in trace spans is made."""

    APP_LABEL_AND_NAMESPACE = "APP_LABEL_AND_NAMESPACE"
    CANONICAL_NAME_ONLY = "CANONICAL_NAME_ONLY"
    CANONICAL_NAME_AND_NAMESPACE = "CANONICAL_NAME_AND_NAMESPACE"


@dataclass(frozen=True, slots=True)
class ServiceCluster(Bare):
    """The name of the service, as it is."""

    value: str


ClusterName: TypeAlias = Annotated[
    ServiceCluster | TracingServiceName,
    OneOf(service_cluster=ServiceCluster, tracing_service_name=TracingServiceName),
]


class AuthenticationPolicy(StrEnum):
    """How the proxy connects to the control plane."""

    NONE = "NONE"
    MUTUAL_TLS = "MUTUAL_TLS"
    INHERIT = "INHERIT"


class InterceptionMode(StrEnum):
    """How traffic reaches the proxy; NONE means that applications connect to it."""

    REDIRECT = "REDIRECT"
    TPROXY = "TPROXY"
    NONE = "NONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class SdsSettings:
    """Obsolete; kept."""

    enabled: bool = False
    k8s_sa_jwt_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RemoteService:
    """A service that receives logs or metrics."""

    address: str = ""
    tls_settings: ClientTls | None = None
    tcp_keepalive: TcpKeepalive | None = None


class ForwardClientCertDetails(StrEnum):
    """What becomes of the header x-forwarded-client-cert."""

    UNDEFINED = "UNDEFINED"
    SANITIZE = "SANITIZE"
    FORWARD_ONLY = "FORWARD_ONLY"
    APPEND_FORWARD = "APPEND_FORWARD"
    SANITIZE_SET = "SANITIZE_SET"
    ALWAYS_FORWARD_ONLY = "ALWAYS_FORWARD_ONLY"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyProxyProtocol:
    """Connections begin with a PROXY header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What stands before a gateway."""

    num_trusted_proxies: UInt32 = 0
    forward_client_cert_details: ForwardClientCertDetails = ForwardClientCertDetails.UNDEFINED
    proxy_protocol: TopologyProxyProtocol | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProxyStatsMatcher:
    """Further statistics that the proxy keeps."""

    inclusion_prefixes: tuple[str, ...] = ()
    inclusion_suffixes: tuple[str, ...] = ()
    inclusion_regexps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyImage:
    """Which image the injector takes, such as "distroless"."""

    image_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CryptoMb:
    """Private keys in Intel's multi-buffer cryptography."""

    poll_delay: Seconds | None = None
    fallback: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Qat:
    """Private keys in Intel's QuickAssist."""

    poll_delay: Seconds | None = None
    fallback: bool | None = None


KeyProvider: TypeAlias = Annotated[CryptoMb | Qat, OneOf(cryptomb=CryptoMb, qat=Qat)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateKeyProvider:
    """What computes with private keys in the proxy's place."""

    provider: Flattened[KeyProvider | None] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertDetails:
    """Which parts of the client's certificate are forwarded; absent is the default of each."""

    subject: bool | None = None
    cert: bool | None = None
    chain: bool | None = None
    dns: bool | None = None
    uri: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHeader:
    """The header `server`."""

    disabled: bool | None = None
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disableable:
    """Something that is done unless it is disabled."""

    disabled: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Enableable:
    """Something that is done only if it is enabled."""

    enabled: bool | None = None


class MetadataExchangeMode(StrEnum):
    """Between whom the headers of the metadata exchange are sent."""

    UNDEFINED = "UNDEFINED"
    IN_MESH = "IN_MESH"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataExchangeHeaders:
    """Headers of the metadata exchange."""

    mode: MetadataExchangeMode = MetadataExchangeMode.UNDEFINED


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyHeaders:
    """Headers that the proxy adds or removes."""

    forwarded_client_cert: ForwardClientCertDetails = ForwardClientCertDetails.UNDEFINED
    set_current_client_cert_details: CertDetails | None = None
    request_id: Disableable | None = None
    server: ServerHeader | None = None
    attempt_count: Disableable | None = None
    envoy_debug_headers: Disableable | None = None
    metadata_exchange_headers: MetadataExchangeHeaders | None = None
    preserve_http1_header_case: bool | None = None
    x_forwarded_host: Enableable | None = None
    x_forwarded_port: Enableable | None = None


class ConnectionProfile(StrEnum):
    """A set of defaults for connections; EDGE is for proxies that face the internet."""

    DEFAULT = "DEFAULT"
    EDGE = "EDGE"


class UnderscoresAction(StrEnum):
    """What becomes of requests with underscores in header names."""

    UNSPECIFIED = "UNSPECIFIED"
    ALLOW = "ALLOW"
    REJECT_REQUEST = "REJECT_REQUEST"
    DROP_HEADER = "DROP_HEADER"


class EscapedSlashesAction(StrEnum):
    """What becomes of requests with escaped slashes in the path."""

    UNSPECIFIED = "UNSPECIFIED"
    IMPLEMENTATION_SPECIFIC_DEFAULT = "IMPLEMENTATION_SPECIFIC_DEFAULT"
    KEEP_UNCHANGED = "KEEP_UNCHANGED"
    REJECT_REQUEST = "REJECT_REQUEST"
    UNESCAPE_AND_REDIRECT = "UNESCAPE_AND_REDIRECT"
    UNESCAPE_AND_FORWARD = "UNESCAPE_AND_FORWARD"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Limits and timeouts of connections that the proxy accepts."""

    profile: ConnectionProfile = ConnectionProfile.DEFAULT
    listener_per_connection_buffer_limit_bytes: Int32 | None = None
    cluster_per_connection_buffer_limit_bytes: Int32 | None = None
    http_idle_timeout: Seconds | None = None
    http_max_connection_duration: Seconds | None = None
    http_drain_timeout: Seconds | None = None
    http_request_timeout: Seconds | None = None
    http_request_headers_timeout: Seconds | None = None
    http_stream_idle_timeout: Seconds | None = None
    http_max_stream_duration: Seconds | None = None
    http_max_concurrent_streams: Int32 | None = None
    http2_initial_stream_window_size: Int32 | None = None
    http2_initial_connection_window_size: Int32 | None = None
    http_headers_with_underscores_action: UnderscoresAction = UnderscoresAction.UNSPECIFIED
    http_merge_slashes: bool | None = None
    http_path_with_escaped_slashes_action: EscapedSlashesAction = EscapedSlashesAction.UNSPECIFIED
    listener_connection_limit: Int32 | None = None
    global_downstream_connection_limit: Int32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProxyConfig:
    """Settings of one proxy. Those without a comment in networking.md §9.14 are kept, and used outside xDS."""

    config_path: str = "./etc/istio/proxy"
    binary_path: str = "/usr/local/bin/envoy"
    cluster_name: Flattened[ClusterName | None] = ServiceCluster("istio-proxy")
    drain_duration: Seconds | None = 45.0
    parent_shutdown_duration: Seconds | None = None
    discovery_address: str = "istiod.istio-system.svc:15012"
    discovery_refresh_delay: Seconds | None = None
    zipkin_address: str = ""
    statsd_udp_address: str = ""
    envoy_metrics_service_address: str = ""
    proxy_admin_port: Int32 = 15000
    availability_zone: str = ""
    control_plane_auth_policy: AuthenticationPolicy = AuthenticationPolicy.MUTUAL_TLS
    custom_config_file: str = ""
    stat_name_length: Int32 = 189
    concurrency: Int32 | None = None
    proxy_bootstrap_template_path: str = ""
    interception_mode: InterceptionMode = InterceptionMode.REDIRECT
    tracing: Tracing | None = None
    sds: SdsSettings | None = None
    envoy_access_log_service: RemoteService | None = None
    envoy_metrics_service: RemoteService | None = None
    proxy_metadata: Mapping[str, str] = field(default_factory=dict)
    runtime_values: Mapping[str, str] = field(default_factory=dict)
    status_port: Int32 = 15020
    extra_stat_tags: tuple[str, ...] = ()
    gateway_topology: Topology | None = None
    termination_drain_duration: Seconds | None = 5.0
    mesh_id: str = ""
    readiness_probe: ReadinessProbe | None = None
    proxy_stats_matcher: ProxyStatsMatcher | None = None
    hold_application_until_proxy_starts: bool | None = None
    ca_certificates_pem: tuple[str, ...] = ()
    image: ProxyImage | None = None
    private_key_provider: PrivateKeyProvider | None = None
    proxy_headers: ProxyHeaders | None = None
    file_flush_interval: Seconds | None = None
    file_flush_min_size_kb: UInt32 | None = None
    stats_compression: bool | None = None
    connection_settings: ConnectionSettings | None = None
