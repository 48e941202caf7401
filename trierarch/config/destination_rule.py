"""DestinationRule: what happens after a destination is chosen: pools, balancing, ejection, TLS (networking.md §9.5)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeAlias

from trierarch.config.common import PolicySelector, PortSelector
from trierarch.config.wire import Bare, Flattened, Int32, OneOf, Seconds, UInt32, UInt64


class SimpleLoadBalancer(StrEnum):
    """Algorithms without settings. LEAST_CONN is the old name of LEAST_REQUEST."""

    UNSPECIFIED = "UNSPECIFIED"
    LEAST_CONN = "LEAST_CONN"
    RANDOM = "RANDOM"
    PASSTHROUGH = "PASSTHROUGH"
    ROUND_ROBIN = "ROUND_ROBIN"
    LEAST_REQUEST = "LEAST_REQUEST"


@dataclass(frozen=True, slots=True)
class HashHttpHeader(Bare):
    """Hash a request header."""

    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CookieAttribute:
    """A further attribute of the cookie that is set."""

    name: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HashHttpCookie:
    """Hash a cookie; it is set if absent and there is a `ttl` (0: a session cookie)."""

    name: str = ""
    path: str = ""
    ttl: Seconds | None = None
    attributes: tuple[CookieAttribute, ...] = ()


@dataclass(frozen=True, slots=True)
class HashSourceIp(Bare):
    """Hash the address of the caller, if true."""

    value: bool


@dataclass(frozen=True, slots=True)
class HashQueryParameter(Bare):
    """Hash a parameter of the query."""

    value: str


HashKey: TypeAlias = Annotated[
    HashHttpHeader | HashHttpCookie | HashSourceIp | HashQueryParameter,
    OneOf(
        http_header_name=HashHttpHeader,
        http_cookie=HashHttpCookie,
        use_source_ip=HashSourceIp,
        http_query_parameter_name=HashQueryParameter,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RingHash:
    """A ring with at least so many entries (0 is unset: 1024)."""

    minimum_ring_size: UInt64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Maglev:
    """A Maglev table of that size, a prime (0 is unset: 65537)."""

    table_size: UInt64 = 0


HashAlgorithm: TypeAlias = Annotated[RingHash | Maglev, OneOf(ring_hash=RingHash, maglev=Maglev)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConsistentHash:
    """Equal keys go to the same endpoint. `minimum_ring_size` is the old place of the ring's setting."""

    key: Flattened[HashKey | None] = None
    algorithm: Flattened[HashAlgorithm | None] = None
    minimum_ring_size: UInt64 = 0


LoadBalancerPolicy: TypeAlias = Annotated[
    SimpleLoadBalancer | ConsistentHash, OneOf(simple=SimpleLoadBalancer, consistent_hash=ConsistentHash)
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalityDistribute:
    """Percentages of the traffic from one locality to others, by `region/zone/subzone` patterns."""

    from_: str = ""
    to: Mapping[str, UInt32] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalityFailover:
    """The region that takes over for another."""

    from_: str = ""
    to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalityLbSetting:
    """Preference for endpoints nearby. Exactly one of distribute, failover and failover_priority, or none."""

    distribute: tuple[LocalityDistribute, ...] = ()
    failover: tuple[LocalityFailover, ...] = ()
    failover_priority: tuple[str, ...] = ()
    enabled: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ZoneAwareLbSetting:
    """Envoy's own zone-aware routing instead of ours."""

    enabled: bool | None = None
    failover: tuple[LocalityFailover, ...] = ()
    failover_priority: tuple[str, ...] = ()
    min_cluster_size: UInt32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmup:
    """How the share of a new endpoint grows over `duration`."""

    duration: Seconds | None = None
    minimum_percent: float | None = None
    aggression: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BackendUtilization:
    """Kept, but nothing is generated from it."""

    metric_names_for_computing_utilization: tuple[str, ...] = ()
    error_utilization_penalty_percent: UInt32 | None = None
    weight_update_period: Seconds | None = None
    weight_expiration_period: Seconds | None = None
    weight_stabilization_period: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadBalancer:
    """How an endpoint is chosen. `warmup_duration_secs` is the old spelling of `warmup.duration`."""

    policy: Flattened[LoadBalancerPolicy | None] = None
    locality_lb_setting: LocalityLbSetting | None = None
    zone_aware_lb_setting: ZoneAwareLbSetting | None = None
    warmup_duration_secs: Seconds | None = None
    warmup: Warmup | None = None
    backend_utilization: BackendUtilization | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpKeepalive:
    """Probes of idle connections; a value absent (0 for `probes`) is the system's default."""

    probes: UInt32 = 0
    time: Seconds | None = None
    interval: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2KeepAlive:
    """PING frames on idle HTTP/2 connections."""

    interval: Seconds | None = None
    timeout: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TcpPool:
    """Limits of connections. A `max_connections` of 0 is unset."""

    max_connections: Int32 = 0
    connect_timeout: Seconds | None = None
    tcp_keepalive: TcpKeepalive | None = None
    max_connection_duration: Seconds | None = None
    idle_timeout: Seconds | None = None


class H2UpgradePolicy(StrEnum):
    """Whether HTTP/1.1 is carried over HTTP/2. DEFAULT leaves it to the mesh."""

    DEFAULT = "DEFAULT"
    DO_NOT_UPGRADE = "DO_NOT_UPGRADE"
    UPGRADE = "UPGRADE"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpPool:
    """Limits of requests. Numbers of 0 are unset."""

    http1_max_pending_requests: Int32 = 0
    http2_max_requests: Int32 = 0
    max_requests_per_connection: Int32 = 0
    max_retries: Int32 = 0
    idle_timeout: Seconds | None = None
    h2_upgrade_policy: H2UpgradePolicy = H2UpgradePolicy.DEFAULT
    use_client_protocol: bool = False
    max_concurrent_streams: Int32 = 0
    http2_keep_alive: Http2KeepAlive | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConnectionPool:
    """Limits of connections and requests to a destination."""

    tcp: TcpPool | None = None
    http: HttpPool | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutlierDetection:
    """When an endpoint is ejected. `consecutive_errors` is kept, but nothing is generated from it."""

    consecutive_errors: Int32 = 0
    split_external_local_origin_errors: bool = False
    consecutive_local_origin_failures: UInt32 | None = None
    consecutive_gateway_errors: UInt32 | None = None
    consecutive_5xx_errors: UInt32 | None = None
    interval: Seconds | None = None
    base_ejection_time: Seconds | None = None
    max_ejection_percent: Int32 = 0
    min_health_percent: Int32 = 0
    outlier_detection_http_error_codes: tuple[UInt32, ...] = ()


class ClientTlsMode(StrEnum):
    """How connections to the destination are secured."""

    DISABLE = "DISABLE"
    SIMPLE = "SIMPLE"
    MUTUAL = "MUTUAL"
    ISTIO_MUTUAL = "ISTIO_MUTUAL"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClientTls:
    """TLS towards the destination; file names or the name of a Secret."""

    mode: ClientTlsMode = ClientTlsMode.DISABLE
    client_certificate: str = ""
    private_key: str = ""
    ca_certificates: str = ""
    credential_name: str = ""
    subject_alt_names: tuple[str, ...] = ()
    sni: str = ""
    insecure_skip_verify: bool | None = None
    ca_crl: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnel:
    """Connections are carried inside CONNECT or POST requests to the destination."""

    protocol: str = ""
    target_host: str = ""
    target_port: UInt32 = 0


class ProxyProtocolVersion(StrEnum):
    """Version of the PROXY header."""

    V1 = "V1"
    V2 = "V2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyProtocol:
    """A PROXY header at the start of each connection."""

    version: ProxyProtocolVersion = ProxyProtocolVersion.V1


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget:
    """Retries as a share of the active requests. `percent` is 0 to 100, absent 20."""

    percent: float | None = None
    min_retry_concurrency: UInt32 = 0
    budget_interval: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PortTrafficPolicy:
    """The policy for one port; it replaces the others wholly."""

    port: PortSelector | None = None
    load_balancer: LoadBalancer | None = None
    connection_pool: ConnectionPool | None = None
    outlier_detection: OutlierDetection | None = None
    tls: ClientTls | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrafficPolicy:
    """The policy for all ports, and exceptions for some."""

    load_balancer: LoadBalancer | None = None
    connection_pool: ConnectionPool | None = None
    outlier_detection: OutlierDetection | None = None
    tls: ClientTls | None = None
    port_level_settings: tuple[PortTrafficPolicy, ...] = ()
    tunnel: Tunnel | None = None
    proxy_protocol: ProxyProtocol | None = None
    retry_budget: RetryBudget | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subset:
    """The endpoints that have these labels, with a policy of their own."""

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    traffic_policy: TrafficPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DestinationRule:
    """Policy and subsets of a host (perhaps a short name or a wildcard)."""

    host: str = ""
    traffic_policy: TrafficPolicy | None = None
    subsets: tuple[Subset, ...] = ()
    export_to: tuple[str, ...] = ()
    workload_selector: PolicySelector | None = None
