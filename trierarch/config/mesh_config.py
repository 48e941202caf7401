"""MeshConfig: settings of the whole mesh (networking.md §0.3, §9.1). The defaults of the fields are Istio's."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeAlias

from trierarch.config.common import LabelSelector
from trierarch.config.destination_rule import (
    ClientTls,
    ConnectionPool,
    LocalityLbSetting,
    OutlierDetection,
    TcpKeepalive,
    ZoneAwareLbSetting,
)
from trierarch.config.extension_providers import (
    ExtensionProvider,
    FileAccessLog,
    PrometheusProvider,
    StackdriverProvider,
)
from trierarch.config.proxy_config import ProxyConfig
from trierarch.config.virtual_service import HttpRetry
from trierarch.config.wire import Bare, Flattened, Int32, Named, OneOf, Seconds


class IngressControllerMode(StrEnum):
    """Which Ingress objects are taken: none, also those without a class, or only those of our class."""

    UNSPECIFIED = "UNSPECIFIED"
    OFF = "OFF"
    DEFAULT = "DEFAULT"
    STRICT = "STRICT"


class AccessLogEncoding(StrEnum):
    """How `access_log_format` is meant."""

    TEXT = "TEXT"
    JSON = "JSON"


class MeshOutboundMode(StrEnum):
    """What happens to traffic for destinations that nobody defined."""

    REGISTRY_ONLY = "REGISTRY_ONLY"
    ALLOW_ANY = "ALLOW_ANY"
    ALLOW_ANY_DYNAMIC_DNS = "ALLOW_ANY_DYNAMIC_DNS"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeshOutboundTrafficPolicy:
    """The mode for unknown destinations; `tls` concerns ALLOW_ANY_DYNAMIC_DNS alone."""

    mode: MeshOutboundMode = MeshOutboundMode.REGISTRY_ONLY
    tls: ClientTls | None = None


class MeshInboundMode(StrEnum):
    """Whether inbound traffic keeps its destination or goes to localhost."""

    PASSTHROUGH = "PASSTHROUGH"
    LOCALHOST = "LOCALHOST"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshInboundTrafficPolicy:
    """Where inbound traffic goes."""

    mode: MeshInboundMode = MeshInboundMode.PASSTHROUGH


class SubscribedResource(StrEnum):
    """What is read from a source."""

    SERVICE_REGISTRY = "SERVICE_REGISTRY"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConfigSource:
    """A further source of configuration: `xds://`, `k8s://` or `fs:///`."""

    address: str = ""
    tls_settings: ClientTls | None = None
    subscribed_resources: tuple[SubscribedResource, ...] = ()


@dataclass(frozen=True, slots=True)
class CertificatePem(Bare):
    """A root certificate."""

    value: str


@dataclass(frozen=True, slots=True)
class SpiffeBundleUrl(Bare):
    """Where a SPIFFE bundle is."""

    value: str


CertificateSource: TypeAlias = Annotated[
    CertificatePem | SpiffeBundleUrl, OneOf(pem=CertificatePem, spiffe_bundle_url=SpiffeBundleUrl)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateData:
    """A further root, for some signers and trust domains or for all."""

    source: Flattened[CertificateSource | None] = None
    cert_signers: tuple[str, ...] = ()
    trust_domains: tuple[str, ...] = ()


class MeshH2UpgradePolicy(StrEnum):
    """Whether HTTP/1.1 is carried over HTTP/2 unless a DestinationRule says otherwise."""

    DO_NOT_UPGRADE = "DO_NOT_UPGRADE"
    UPGRADE = "UPGRADE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Obsolete; kept."""

    secret_name: str = ""
    dns_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLocality:
    """Whether endpoints of other clusters are dropped."""

    cluster_local: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Settings for the services of these hosts, which may be wildcards."""

    settings: ClusterLocality | None = None
    hosts: tuple[str, ...] = ()


class ServiceScope(StrEnum):
    """Whether a service of an ambient mesh is visible to other clusters."""

    LOCAL = "LOCAL"
    GLOBAL = "GLOBAL"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServiceScopeConfig:
    """The scope of the services that both selectors select."""

    namespace_selector: LabelSelector | None = None
    services_selector: LabelSelector | None = None
    scope: ServiceScope = ServiceScope.LOCAL


class Visibility(StrEnum):
    """How far ServiceEntries of a namespace are seen."""

    PUBLIC = "PUBLIC"
    NAMESPACE = "NAMESPACE"
    NONE = "NONE"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VisibilityRule:
    """Namespaces that a policy is about."""

    namespace_selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VisibilityPolicy:
    """A visibility for namespaces that match one of the rules."""

    visibility: Visibility = Visibility.PUBLIC
    matching_rules: tuple[VisibilityRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServiceEntryVisibility:
    """A cap on the exportTo of ServiceEntries."""

    default_visibility: Visibility = Visibility.PUBLIC
    apply_to_sidecars: bool = False
    policies: tuple[VisibilityPolicy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CertificateAuthority:
    """An external CA that signs in our place."""

    address: str = ""
    tls_settings: ClientTls | None = None
    request_timeout: Seconds | None = None
    istiod_side: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultProviders:
    """Providers in force where no Telemetry says otherwise."""

    tracing: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    access_logging: tuple[str, ...] = ()


class Normalization(StrEnum):
    """How far request paths are normalised. DEFAULT is BASE."""

    DEFAULT = "DEFAULT"
    NONE = "NONE"
    BASE = "BASE"
    MERGE_SLASHES = "MERGE_SLASHES"
    DECODE_AND_MERGE_SLASHES = "DECODE_AND_MERGE_SLASHES"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathNormalization:
    """How request paths are normalised before anything looks at them."""

    normalization: Normalization = Normalization.DEFAULT


class MeshTlsProtocol(StrEnum):
    """The oldest TLS version that is spoken."""

    AUTO = "TLS_AUTO"
    TLSV1_2 = "TLSV1_2"
    TLSV1_3 = "TLSV1_3"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshTls:
    """TLS parameters."""

    min_protocol_version: MeshTlsProtocol = MeshTlsProtocol.AUTO
    ecdh_curves: tuple[str, ...] = ()
    cipher_suites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DefaultTrafficPolicy:
    """What DestinationRules leave open."""

    connection_pool: ConnectionPool | None = None
    outlier_detection: OutlierDetection | None = None


BUILT_IN_PROVIDERS = (
    ExtensionProvider(name="prometheus", provider=PrometheusProvider()),
    ExtensionProvider(name="stackdriver", provider=StackdriverProvider()),
    ExtensionProvider(name="envoy", provider=FileAccessLog(path="/dev/stdout")),
)
"""Providers that every mesh has; a provider of the user's with the same name takes the place."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeshConfig:
    """Settings of the whole mesh. `MeshConfig()` is the mesh without any configuration."""

    proxy_listen_port: Int32 = 15001
    proxy_inbound_listen_port: Int32 = 15006
    proxy_http_port: Int32 = 0
    connect_timeout: Seconds | None = 10.0
    protocol_detection_timeout: Seconds | None = 0.0
    tcp_keepalive: TcpKeepalive | None = None
    hbone_idle_timeout: Seconds | None = None
    ingress_class: str = "istio"
    ingress_service: str = "istio-ingressgateway"
    ingress_controller_mode: IngressControllerMode = IngressControllerMode.STRICT
    ingress_selector: str = ""
    enable_tracing: bool = True
    access_log_file: str = ""
    access_log_format: str = ""
    access_log_encoding: AccessLogEncoding = AccessLogEncoding.TEXT
    enable_envoy_access_log_service: bool = False
    disable_envoy_listener_log: bool = False
    default_config: ProxyConfig = field(default_factory=ProxyConfig)
    outbound_traffic_policy: MeshOutboundTrafficPolicy = field(
        default_factory=lambda: MeshOutboundTrafficPolicy(mode=MeshOutboundMode.ALLOW_ANY)
    )
    inbound_traffic_policy: MeshInboundTrafficPolicy = field(default_factory=MeshInboundTrafficPolicy)
    config_sources: tuple[ConfigSource, ...] = ()
    enable_auto_mtls: bool | None = True
    trust_domain: str = "cluster.local"
    trust_domain_aliases: tuple[str, ...] = ()
    ca_certificates: tuple[CertificateData, ...] = ()
    default_service_export_to: tuple[str, ...] = ("*",)
    default_virtual_service_export_to: tuple[str, ...] = ("*",)
    default_destination_rule_export_to: tuple[str, ...] = ("*",)
    root_namespace: str = "istio-system"
    locality_lb_setting: LocalityLbSetting | None = field(default_factory=lambda: LocalityLbSetting(enabled=True))
    zone_aware_lb_setting: ZoneAwareLbSetting | None = None
    dns_refresh_rate: Seconds | None = 60.0
    h2_upgrade_policy: MeshH2UpgradePolicy = MeshH2UpgradePolicy.DO_NOT_UPGRADE
    inbound_cluster_stat_name: str = ""
    outbound_cluster_stat_name: str = ""
    certificates: tuple[Certificate, ...] = ()
    service_settings: tuple[ServiceSettings, ...] = ()
    service_scope_configs: tuple[ServiceScopeConfig, ...] = ()
    service_entry_visibility: ServiceEntryVisibility | None = None
    enable_prometheus_merge: bool | None = True
    verify_certificate_at_client: bool | None = None
    ca: CertificateAuthority | None = None
    extension_providers: tuple[ExtensionProvider, ...] = BUILT_IN_PROVIDERS
    default_providers: DefaultProviders = field(default_factory=DefaultProviders)
    discovery_selectors: tuple[LabelSelector, ...] = ()
    path_normalization: PathNormalization = field(default_factory=PathNormalization)
    default_http_retry_policy: HttpRetry | None = None
    default_inbound_http_retry_policy: HttpRetry | None = None
    default_traffic_policy: DefaultTrafficPolicy | None = None
    mesh_mtls: Annotated[MeshTls | None, Named("meshMTLS")] = None
    tls_defaults: MeshTls | None = None
    compliance_policy: str = ""


def with_built_in_providers(providers: tuple[ExtensionProvider, ...]) -> tuple[ExtensionProvider, ...]:
    """The built-in providers and the user's, each name once: the user's provider wins (networking.md §0.3)."""
    merged = {each.name: each for each in (*BUILT_IN_PROVIDERS, *providers)}
    return tuple(merged.values())
