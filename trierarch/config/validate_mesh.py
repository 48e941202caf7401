"""What istiod's validation demands of the mesh configuration and the networks."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING

from trierarch.config.checks import (
    check_commands,
    check_dns_label,
    check_duration,
    check_export_to,
    check_host,
    check_keepalive,
    check_namespace,
    check_one_line,
    check_optional_duration,
    check_optional_port,
    check_percentage,
    check_port,
    check_wildcard_host,
)
from trierarch.config.destination_rule import OutlierDetection
from trierarch.config.envoy_commands import PATH_WITHOUT_QUERY
from trierarch.config.extension_providers import GrpcAuthorizer, HttpAuthorizer, ProviderService
from trierarch.config.hosts import is_ip_address
from trierarch.config.log_format import read_json_format, texts_of
from trierarch.config.mesh_config import AccessLogEncoding
from trierarch.config.mesh_networks import FromCidr, FromRegistry, GatewayAddress, RegistryServiceName
from trierarch.config.tracing import EnvironmentTag, HeaderTag, LiteralTag
from trierarch.config.validate_authorizers import check_authorizer
from trierarch.config.validate_destination_rule import check_connection_pool, check_outlier_detection
from trierarch.config.validate_locality import check_locality, check_zone_aware
from trierarch.config.validate_virtual_service_http import check_retry
from trierarch.config.violations import Caution, Complaints, Violation

if TYPE_CHECKING:
    from trierarch.config.mesh_config import MeshConfig
    from trierarch.config.mesh_networks import MeshNetworks, NetworkEndpoints, NetworkGateway
    from trierarch.config.objects import ConfigObject
    from trierarch.config.proxy_config import ConnectionSettings, ProxyConfig
    from trierarch.config.tracing import Tracing

_EJECTING = OutlierDetection()
"""Whether endpoints are ejected is decided elsewhere."""


_FASTEST_REFRESH = 0.002
"""Envoy takes what is more than a millisecond."""


def check_mesh_config(subject: ConfigObject[MeshConfig]) -> Complaints:
    """Everything about the mesh configuration."""
    mesh = subject.spec
    yield from check_port("proxyListenPort", mesh.proxy_listen_port)
    yield from check_port("proxyInboundListenPort", mesh.proxy_inbound_listen_port)
    yield from check_optional_port("proxyHttpPort", mesh.proxy_http_port)
    yield from check_duration("connectTimeout", mesh.connect_timeout)
    yield from check_optional_duration("protocolDetectionTimeout", mesh.protocol_detection_timeout)
    yield from check_duration("dnsRefreshRate", mesh.dns_refresh_rate, _FASTEST_REFRESH)
    yield from check_keepalive("tcpKeepalive", mesh.tcp_keepalive)
    yield from _check_trust_domains(mesh)
    yield from _check_export(mesh)
    yield from check_locality("localityLbSetting", mesh.locality_lb_setting, _EJECTING)
    yield from check_zone_aware("zoneAwareLbSetting", mesh.zone_aware_lb_setting, _EJECTING)
    yield from _check_settings(mesh)
    yield from _check_providers(mesh)
    yield from check_retry("defaultHttpRetryPolicy", mesh.default_http_retry_policy)
    yield from check_retry("defaultInboundHttpRetryPolicy", mesh.default_inbound_http_retry_policy)
    yield from _check_access_log(mesh)
    if mesh.discovery_selectors:
        yield Caution("discoverySelectors", "has no effect: all namespaces are looked at")
    if mesh.mesh_mtls is not None and mesh.mesh_mtls.ecdh_curves:
        yield Violation("meshMTLS.ecdhCurves", "curves can be set in tlsDefaults only")
    if mesh.default_traffic_policy is not None:
        policy = mesh.default_traffic_policy
        yield from check_connection_pool("defaultTrafficPolicy.connectionPool", policy.connection_pool)
        yield from check_outlier_detection("defaultTrafficPolicy.outlierDetection", policy.outlier_detection)
    yield from _check_proxy_config("defaultConfig", mesh.default_config)


def _check_access_log(mesh: MeshConfig) -> Complaints:
    """The format, if anything is written in it."""
    text = mesh.access_log_format
    if not (mesh.access_log_file and text):
        return
    if mesh.access_log_encoding is not AccessLogEncoding.JSON:
        yield from check_commands("accessLogFormat", text, PATH_WITHOUT_QUERY)
        return
    fields = read_json_format(text)
    if fields is None:
        yield Caution("accessLogFormat", "is not a JSON object: the default format is used")
    else:
        for value in texts_of(fields):
            yield from check_commands("accessLogFormat", value, PATH_WITHOUT_QUERY)


def _check_trust_domains(mesh: MeshConfig) -> Complaints:
    yield from check_host("trustDomain", mesh.trust_domain)
    for index, alias in enumerate(mesh.trust_domain_aliases):
        yield from check_host(f"trustDomainAliases[{index}]", alias)
    yield from check_namespace("rootNamespace", mesh.root_namespace)


def _check_export(mesh: MeshConfig) -> Complaints:
    yield from check_export_to("defaultServiceExportTo", mesh.default_service_export_to, nobody=True)
    yield from check_export_to("defaultVirtualServiceExportTo", mesh.default_virtual_service_export_to, nobody=True)
    yield from check_export_to("defaultDestinationRuleExportTo", mesh.default_destination_rule_export_to, nobody=True)


def _check_settings(mesh: MeshConfig) -> Complaints:
    for index, settings in enumerate(mesh.service_settings):
        for place, host in enumerate(settings.hosts):
            yield from check_wildcard_host(f"serviceSettings[{index}].hosts[{place}]", host)


def _check_providers(mesh: MeshConfig) -> Complaints:
    for index, each in enumerate(mesh.extension_providers):
        path = f"extensionProviders[{each.name or index}]"
        if not each.name:
            yield Violation(f"{path}.name", "the name of the provider is missing")
        if each.provider is None:
            yield Violation(path, "the provider itself is missing", "such as envoyExtAuthzGrpc or opentelemetry")
        if isinstance(each.provider, ProviderService):
            yield from _check_service(path, each.provider)
        if isinstance(each.provider, HttpAuthorizer | GrpcAuthorizer):
            yield from _check_authorizer(path, each.name, each.provider)


def _check_authorizer(path: str, name: str, authorizer: HttpAuthorizer | GrpcAuthorizer) -> Complaints:
    """An authorizer that cannot be asked makes its policies deny, it does not make the mesh wrong."""
    for fault in check_authorizer(path, name, authorizer):
        yield Caution(fault.path, f"{fault.reason}; policies that name this provider deny what they match", fault.hint)


def _check_service(path: str, provider: ProviderService) -> Complaints:
    namespace, slash, host = provider.service.rpartition("/")
    if slash:
        yield from check_namespace(f"{path}.service", namespace)
    if not is_ip_address(host):
        yield from check_host(f"{path}.service", host)
    yield from check_port(f"{path}.port", provider.port)


def _check_proxy_config(path: str, config: ProxyConfig) -> Complaints:
    for field, seconds in (
        ("drainDuration", config.drain_duration),
        ("parentShutdownDuration", config.parent_shutdown_duration),
    ):
        yield from check_duration(f"{path}.{field}", seconds, 1)
        if seconds is not None and not seconds.is_integer():
            yield Violation(f"{path}.{field}", "only whole seconds are possible")
    yield from check_port(f"{path}.proxyAdminPort", config.proxy_admin_port)
    yield from check_port(f"{path}.statusPort", config.status_port)
    if config.stat_name_length < 0:
        yield Violation(f"{path}.statNameLength", "is negative")
    if config.concurrency is not None and config.concurrency < 0:
        yield Violation(f"{path}.concurrency", "is negative")
    if config.connection_settings is not None:
        yield from check_connection_settings(f"{path}.connectionSettings", config.connection_settings)
    if config.proxy_headers is not None and config.proxy_headers.server is not None:
        yield from check_one_line(f"{path}.proxyHeaders.server.value", config.proxy_headers.server.value)
    if config.tracing is not None:
        yield from _check_tracing(f"{path}.tracing", config.tracing)


def _check_tracing(path: str, tracing: Tracing) -> Complaints:
    """Shares and tags that Envoy takes; it would have no listener otherwise."""
    yield from check_percentage(f"{path}.sampling", tracing.sampling)
    for name, tag in tracing.custom_tags.items():
        here = f"{path}.customTags[{name}]"
        match tag.kind:
            case LiteralTag(value=text) | EnvironmentTag(name=text) | HeaderTag(name=text):
                if not (name and text):
                    yield Violation(here, "a tag has a name, and something that it is made of")
            case None:
                pass


def check_connection_settings(path: str, settings: ConnectionSettings) -> Complaints:
    """Limits that Envoy accepts: buffers not negative, at least one stream, windows of 64 KiB at least."""
    least = {
        "listenerPerConnectionBufferLimitBytes": (settings.listener_per_connection_buffer_limit_bytes, 0),
        "clusterPerConnectionBufferLimitBytes": (settings.cluster_per_connection_buffer_limit_bytes, 0),
        "httpMaxConcurrentStreams": (settings.http_max_concurrent_streams, 1),
        "http2InitialStreamWindowSize": (settings.http2_initial_stream_window_size, 65535),
        "http2InitialConnectionWindowSize": (settings.http2_initial_connection_window_size, 65535),
        "listenerConnectionLimit": (settings.listener_connection_limit, 1),
        "globalDownstreamConnectionLimit": (settings.global_downstream_connection_limit, 1),
        "httpIdleTimeout": (settings.http_idle_timeout, 0),
        "httpMaxConnectionDuration": (settings.http_max_connection_duration, 0),
        "httpDrainTimeout": (settings.http_drain_timeout, 0),
        "httpRequestTimeout": (settings.http_request_timeout, 0),
        "httpRequestHeadersTimeout": (settings.http_request_headers_timeout, 0),
        "httpStreamIdleTimeout": (settings.http_stream_idle_timeout, 0),
        "httpMaxStreamDuration": (settings.http_max_stream_duration, 0),
    }
    for field, (value, minimum) in least.items():
        if value is not None and value < minimum:
            yield Violation(f"{path}.{field}", f"{value:g} is less than {minimum}")


def check_mesh_networks(subject: ConfigObject[MeshNetworks]) -> Complaints:
    """Everything about the networks."""
    for name, network in subject.spec.networks.items():
        path = f"networks[{name}]"
        for index, endpoints in enumerate(network.endpoints):
            yield from _check_members(f"{path}.endpoints[{index}]", endpoints)
        for index, gateway in enumerate(network.gateways):
            yield from _check_gateway(f"{path}.gateways[{index}]", gateway)


def _check_members(path: str, endpoints: NetworkEndpoints) -> Complaints:
    match endpoints.members:
        case FromCidr(value=cidr):
            yield from _check_cidr(f"{path}.fromCidr", cidr)
        case FromRegistry(value=registry):
            yield from check_dns_label(f"{path}.fromRegistry", registry.lower())
        case None:
            yield Violation(path, "one of fromCidr and fromRegistry is required")


def _check_cidr(path: str, cidr: str) -> Complaints:
    try:
        ip_network(cidr, strict=False)
    except ValueError:
        yield Violation(path, f'"{cidr}" is not a range like 10.0.0.0/8')


def _check_gateway(path: str, gateway: NetworkGateway) -> Complaints:
    match gateway.gateway:
        case RegistryServiceName(value=host):
            yield from check_host(f"{path}.registryServiceName", host)
        case GatewayAddress(value=address):
            if not is_ip_address(address):
                yield from check_host(f"{path}.address", address)
        case None:
            yield Violation(path, "one of registryServiceName and address is required")
    yield from check_port(f"{path}.port", gateway.port)
