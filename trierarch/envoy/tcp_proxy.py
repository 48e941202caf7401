"""The TCP proxy filter: connections to one cluster, or to several by weight (networking.md §4.5).

`TcpProxy` is the value that says everything about one; which chains have which is planned in `tcp_chains.py` for
outbound and in `listeners_inbound.py` for inbound listeners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.listener.v3 import Filter
from protocol.proto.envoy.extensions.filters.network.sni_dynamic_forward_proxy.v3 import (
    FilterConfig as SniDynamicForwardProxy,
)
from protocol.proto.envoy.extensions.filters.network.tcp_proxy.v3 import (
    TcpProxy as TcpProxyMessage,
)
from protocol.proto.envoy.extensions.filters.network.tcp_proxy.v3 import (
    TcpProxyTunnelingConfig,
    TcpProxyWeightedCluster,
    TcpProxyWeightedClusterClusterWeight,
)
from protocol.proto.envoy.type.v3 import HashPolicy, HashPolicySourceIp
from trierarch.envoy.access_log import NO_LOGS, AccessLogs, Place, build_access_logs
from trierarch.envoy.database_filters import build_reader, build_redis_proxy
from trierarch.envoy.discovery import service_dns_cache
from trierarch.envoy.network_filters import metadata_exchange
from trierarch.envoy.rbac import OPEN, Access, build_network_access
from trierarch.envoy.well_known_types import duration, pack
from trierarch.push.model import PortProtocol

if TYPE_CHECKING:
    from protocol.proto.envoy.config.cluster.v3 import ClusterDnsLookupFamily as DnsLookupFamily
    from trierarch.config.destination_rule import Tunnel

TCP_PROXY = "envoy.filters.network.tcp_proxy"
SNI_DYNAMIC_FORWARD_PROXY = "envoy.extensions.filters.network.sni_dynamic_forward_proxy"


class WeightedCluster(NamedTuple):
    """A cluster's share of the connections, relative to the others' weights."""

    name: str
    weight: int


class NamedHost(NamedTuple):
    """The host that a connection's server name says is resolved by the proxy; `pattern` is the service's wildcard."""

    pattern: str
    port: int
    family: DnsLookupFamily


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpProxy:
    """One TCP proxy.

    `clusters`: the one cluster, or several by weight. Times in seconds. What may stand before it: `exchanges_metadata`
    (Istio's exchange of who the peers are), what decides about `access`, a filter of a `database`, `resolves`. Redis
    has a proxy of its own, which knows the first of the clusters only.
    """

    stat_prefix: str
    clusters: str | tuple[WeightedCluster, ...]
    idle_timeout: float | None = None
    max_duration: float | None = None
    hashes_source_ip: bool = False
    tunnel: Tunnel | None = None
    resolves: NamedHost | None = None
    database: PortProtocol | None = None
    exchanges_metadata: bool = False
    access: Access = OPEN
    logs: AccessLogs = NO_LOGS

    @property
    def first_cluster(self) -> str:
        """The cluster, or the first of several."""
        return self.clusters if isinstance(self.clusters, str) else self.clusters[0].name


def build_tcp_filters(proxy: TcpProxy) -> list[Filter]:
    """The network filters of a TCP chain."""
    filters = []
    if proxy.exchanges_metadata:
        filters.append(metadata_exchange())
    filters.extend(build_network_access(proxy.access))
    if proxy.database is PortProtocol.REDIS:
        return [*filters, build_redis_proxy(proxy.stat_prefix, proxy.first_cluster)]
    reader = build_reader(proxy.database, proxy.stat_prefix)
    if reader is not None:
        filters.append(reader)
    if proxy.resolves is not None:
        filters.append(_build_resolver(proxy.resolves))
    return [*filters, Filter(name=TCP_PROXY, typed_config=pack(_build_proxy(proxy)))]


def _build_resolver(host: NamedHost) -> Filter:
    cache = service_dns_cache(host.pattern, host.family)
    config = SniDynamicForwardProxy(dns_cache_config=cache, port_value=host.port)
    return Filter(name=SNI_DYNAMIC_FORWARD_PROXY, typed_config=pack(config))


def _build_proxy(proxy: TcpProxy) -> TcpProxyMessage:
    message = TcpProxyMessage(
        stat_prefix=proxy.stat_prefix,
        access_log=build_access_logs(proxy.logs, Place.CONNECTION),
        idle_timeout=None if proxy.idle_timeout is None else duration(proxy.idle_timeout),
        max_downstream_connection_duration=None if proxy.max_duration is None else duration(proxy.max_duration),
        hash_policy=[HashPolicy(source_ip=HashPolicySourceIp())] if proxy.hashes_source_ip else [],
        tunneling_config=None if proxy.tunnel is None else _build_tunnel(proxy.tunnel),
    )
    match proxy.clusters:
        case str() as cluster:
            message.cluster = cluster
        case weighted:
            message.weighted_clusters = TcpProxyWeightedCluster(
                clusters=[TcpProxyWeightedClusterClusterWeight(name=each.name, weight=each.weight) for each in weighted]
            )
    return message


def _build_tunnel(tunnel: Tunnel) -> TcpProxyTunnelingConfig:
    """Connections are carried in requests to the target; by CONNECT unless POST is asked for."""
    return TcpProxyTunnelingConfig(
        hostname=f"{tunnel.target_host}:{tunnel.target_port}", use_post=tunnel.protocol.upper() == "POST"
    )
