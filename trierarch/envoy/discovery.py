"""How a cluster finds its endpoints, in Envoy's words (networking.md §2.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.cluster.v3 import (
    Cluster,
    ClusterCustomClusterType,
    ClusterDiscoveryType,
    ClusterDnsLookupFamily,
    ClusterEdsClusterConfig,
    ClusterLbPolicy,
    ClusterOriginalDstLbConfig,
)
from protocol.proto.envoy.config.core.v3 import (
    AggregatedConfigSource,
    ApiVersion,
    ConfigSource,
    TypedExtensionConfig,
)
from protocol.proto.envoy.extensions.clusters.dynamic_forward_proxy.v3 import ClusterConfig
from protocol.proto.envoy.extensions.common.dynamic_forward_proxy.v3 import DnsCacheConfig
from protocol.proto.envoy.extensions.network.dns_resolver.cares.v3 import CaresDnsResolverConfig
from trierarch.envoy.outline import Discovery
from trierarch.envoy.well_known_types import duration, pack
from trierarch.push.model import Registry, Resolution
from trierarch.push.proxy import IPMode

if TYPE_CHECKING:
    from trierarch.config.mesh_config import MeshConfig
    from trierarch.envoy.outline import ClusterOutline
    from trierarch.envoy.protocol_options import PeerChecks

DEFAULT_DNS_REFRESH_RATE = 60.0
DNS_JITTER = 0.1
"""Spreads the queries of proxies that started together."""
DNS_QUERIES_PER_SOCKET = 100
DNS_CACHE_HOSTS = 1024

_TYPES = {
    Discovery.EDS: ClusterDiscoveryType.EDS,
    Discovery.STRICT_DNS: ClusterDiscoveryType.STRICT_DNS,
    Discovery.LOGICAL_DNS: ClusterDiscoveryType.LOGICAL_DNS,
    Discovery.ORIGINAL_DESTINATION: ClusterDiscoveryType.ORIGINAL_DST,
}


def ads_source() -> ConfigSource:
    """Says: ask on this stream. Without a fetch timeout Envoy waits rather than start with nothing."""
    return ConfigSource(
        ads=AggregatedConfigSource(), initial_fetch_timeout=duration(0), resource_api_version=ApiVersion.V3
    )


def dns_lookup_family(mode: IPMode, dual_stack: bool) -> ClusterDnsLookupFamily:
    """Which addresses of a name are asked for."""
    match mode:
        case IPMode.IPV6:
            return ClusterDnsLookupFamily.V6_ONLY
        case IPMode.DUAL if dual_stack:
            return ClusterDnsLookupFamily.ALL
        case _:
            return ClusterDnsLookupFamily.V4_ONLY


def set_discovery(
    cluster: Cluster,
    outline: ClusterOutline,
    mesh: MeshConfig,
    lookup_family: ClusterDnsLookupFamily,
    checks: PeerChecks,
) -> None:
    """Set the type and all that belongs to it but the endpoints themselves.

    A forward-proxy cluster with HTTP options that do not check the server's name is rejected by Envoy unless it is
    marked as insecure. istiod does not mark it; we do.
    """
    if outline.discovery is Discovery.DYNAMIC_FORWARD_PROXY:
        cache = service_dns_cache(outline.service.hostname, lookup_family)
        unchecked = bool(cluster.typed_extension_protocol_options) and not checks.certificate
        config = ClusterConfig(dns_cache_config=cache, allow_insecure_cluster_options=unchecked)
        set_dynamic_forward_proxy(cluster, config)
        return
    cluster.type = _TYPES[outline.discovery]
    if outline.discovery is Discovery.EDS:
        cluster.eds_cluster_config = ClusterEdsClusterConfig(service_name=outline.name, eds_config=ads_source())
    if outline.is_original_destination:
        _set_original_destination(cluster, outline)
    # A rule can make a DNS service's cluster one of the original destination; the settings stay, without effect.
    if outline.service.resolution in (Resolution.DNS, Resolution.DNS_ROUND_ROBIN):
        _set_dns(cluster, mesh, ClusterDnsLookupFamily.ALL if outline.service.races_addresses else lookup_family)


def service_dns_cache(host: str, family: ClusterDnsLookupFamily) -> DnsCacheConfig:
    """The cache for the names that a wildcard service stands for, shared by its cluster and the filter before it."""
    return DnsCacheConfig(name=f"{host}_dfp_dns_cache", dns_lookup_family=family)


def any_host_dns_cache(family: ClusterDnsLookupFamily) -> DnsCacheConfig:
    """The cache for names that nobody defined. The cluster and the HTTP filter that share it must say the same."""
    return DnsCacheConfig(name="allow_any_dfp_dns_cache", dns_lookup_family=family, max_hosts=DNS_CACHE_HOSTS)


def set_dynamic_forward_proxy(cluster: Cluster, config: ClusterConfig) -> None:
    """Names are resolved while requests for them are forwarded."""
    cluster.cluster_type = ClusterCustomClusterType(
        name="envoy.clusters.dynamic_forward_proxy", typed_config=pack(config)
    )
    cluster.lb_policy = ClusterLbPolicy.CLUSTER_PROVIDED


def _set_original_destination(cluster: Cluster, outline: ClusterOutline) -> None:
    cluster.lb_policy = ClusterLbPolicy.CLUSTER_PROVIDED
    target = outline.port.target
    remaps = outline.service.registry is Registry.EXTERNAL and outline.service.resolution is Resolution.PASSTHROUGH
    if remaps and isinstance(target, int) and target not in (0, outline.port.number):
        cluster.original_dst_lb_config = ClusterOriginalDstLbConfig(upstream_port_override=target)


def _set_dns(cluster: Cluster, mesh: MeshConfig, lookup_family: ClusterDnsLookupFamily) -> None:
    rate = DEFAULT_DNS_REFRESH_RATE if mesh.dns_refresh_rate is None else mesh.dns_refresh_rate
    cluster.dns_lookup_family = lookup_family
    cluster.dns_refresh_rate = duration(rate)
    cluster.dns_jitter = duration(DNS_JITTER)
    cluster.respect_dns_ttl = True
    cluster.typed_dns_resolver_config = TypedExtensionConfig(
        name="envoy.network.dns_resolver.cares",
        typed_config=pack(CaresDnsResolverConfig(udp_max_queries=DNS_QUERIES_PER_SOCKET)),
    )
