"""TCP and TLS filter chains of outbound listeners: the service itself, or what virtual services make of it (§4.5).

Two algorithms, one for ports that carry TLS (told apart by server name), one for all others (by destination subnet).
Static conditions (port, source, gateway) are decided here: a view that does not meet them never sees the chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trierarch.config.destination_rule import ConsistentHash, HashSourceIp
from trierarch.config.hosts import MESH_GATEWAY
from trierarch.envoy.database_filters import understood
from trierarch.envoy.filter_chains import ChainMatch, FilterChain
from trierarch.envoy.names import outbound_cluster
from trierarch.envoy.source_metadata import config_path
from trierarch.envoy.stat_names import END, pattern_stat_name
from trierarch.envoy.tcp_proxy import NamedHost, TcpProxy, WeightedCluster
from trierarch.envoy.virtual_host_domains import short_names
from trierarch.push.model import UNSPECIFIED_ADDRESS, Resolution

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.config.virtual_service import RouteDestination, TcpMatch, TcpRoute, TlsMatch, TlsRoute
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.push.model import Service, ServicePort
    from trierarch.push.routing import ResolvedVirtualService
    from trierarch.push.traffic import EffectivePolicy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TcpService:
    """A port of a service as a listener sees it.

    `port` is the listener's; `cidr` is the service's address where that is a range and has to be matched, else "".
    `virtual_services`: those that route connections to the service, by precedence.
    """

    view: OutboundView
    service: Service
    port: ServicePort
    bind: str
    cidr: str
    virtual_services: tuple[ResolvedVirtualService, ...]

    @property
    def ranges(self) -> tuple[str, ...]:
        """The address as destination ranges of a match."""
        return (self.cidr,) if self.cidr else ()


def select_tcp_chains(place: TcpService) -> tuple[FilterChain, ...]:
    """The chains of one service port, in the order in which Envoy is told of them; never empty."""
    chains = _tls_chains(place) if place.port.protocol.is_tls else _tcp_chains(place)
    return tuple(chains)


def routes_connections(virtual_service: ResolvedVirtualService) -> bool:
    """Whether it says anything about connections that are not seen to be HTTP."""
    return bool(virtual_service.spec.tcp or virtual_service.spec.tls)


def _tcp_chains(place: TcpService) -> Iterator[FilterChain]:
    """Routes with subnets add chains; the first without any takes the rest and ends it."""
    covered = False
    for virtual_service, route in _tcp_routes(place):
        subnets = _subnets(place, route)
        if subnets is None:
            yield _routed(place, route.route, virtual_service, prefix_ranges=place.ranges)
            return
        if subnets:
            yield _routed(place, route.route, virtual_service, prefix_ranges=subnets, named=False)
            covered = covered or sorted(subnets) == list(place.ranges)
    if not covered:
        yield _default_chain(place, server_names=())


def _tcp_routes(place: TcpService) -> Iterator[tuple[ResolvedVirtualService, TcpRoute]]:
    for virtual_service in place.virtual_services:
        for route in virtual_service.spec.tcp:
            if route.route:
                yield virtual_service, route


def _subnets(place: TcpService, route: TcpRoute) -> tuple[str, ...] | None:
    """The subnets of all matches that hold; None if one holds for every destination."""
    if not route.match:
        return None
    holding = [match for match in route.match if _holds(place, match)]
    if any(not match.destination_subnets for match in holding):
        return None
    return tuple(subnet for match in holding for subnet in match.destination_subnets)


def _tls_chains(place: TcpService) -> Iterator[FilterChain]:
    """One chain for each distinct pair of server names and subnets that some match names.

    Subnets, once named, stay in force for the matches after them that name none (istiod does so, and meshes rely on
    whatever is generated): [routes/tls-subnets-stick].
    """
    seen: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    subnets: tuple[str, ...] = ()
    for virtual_service, route, match in _tls_matches(place):
        subnets = match.destination_subnets or subnets
        pair = (tuple(sorted(match.sni_hosts)), tuple(sorted(match.destination_subnets)))
        if pair not in seen:
            seen.add(pair)
            yield _routed(
                place,
                route.route,
                virtual_service,
                prefix_ranges=subnets or place.ranges,
                server_names=match.sni_hosts,
            )
    if not seen:
        yield _default_chain(place, server_names=_server_names(place))


def _tls_matches(place: TcpService) -> Iterator[tuple[ResolvedVirtualService, TlsRoute, TlsMatch]]:
    for virtual_service in place.virtual_services:
        for route in virtual_service.spec.tls:
            for match in route.match:
                if route.route and _holds(place, match):
                    yield virtual_service, route, match


def _holds(place: TcpService, match: TcpMatch | TlsMatch) -> bool:
    """Whether the static conditions hold; unlike those of HTTP matches, all that are set must."""
    key = place.view.key
    return (
        (not match.port or match.port == place.port.number)
        and (not match.gateways or MESH_GATEWAY in match.gateways)
        and match.source_labels.items() <= key.labels
        and match.source_namespace in ("", key.scope.namespace)
    )


def _server_names(place: TcpService) -> tuple[str, ...]:
    """The service's names, if the address alone does not say which service is meant."""
    address = place.view.addresses(place.service)[0]
    unnamed = address == UNSPECIFIED_ADDRESS and place.bind == place.view.wildcard
    by_name = place.service.resolution is Resolution.DYNAMIC_DNS
    if not (place.cidr or unnamed or by_name):
        return ()
    names = [place.service.hostname]
    for alias in place.service.aliases:
        names += [alias.host, *short_names(alias.host, place.view.key.dns_domain)]
    return tuple(names)


def _default_chain(place: TcpService, server_names: tuple[str, ...]) -> FilterChain:
    """The chain to the service itself. A service with one port is meant by any port that a Sidecar listens on."""
    ports = place.service.ports
    number = ports[0].number if len(ports) == 1 else place.port.number
    cluster = outbound_cluster(number, "", place.service.hostname)
    policy = place.view.policy(place.service.hostname, "", number)
    proxy = _proxy(place, _stat_prefix(place, cluster, number), cluster, policy, _resolves(place))
    return FilterChain(match=_match(place.ranges, server_names), filters=proxy, outbound=True)


def _resolves(place: TcpService) -> NamedHost | None:
    """A wildcard service whose hosts the proxy resolves by server name."""
    if place.service.resolution is not Resolution.DYNAMIC_DNS or not place.port.protocol.is_tls:
        return None
    return NamedHost(place.service.hostname, place.port.number, place.view.dns_lookup_family)


def _routed(
    place: TcpService,
    destinations: tuple[RouteDestination, ...],
    virtual_service: ResolvedVirtualService,
    *,
    prefix_ranges: tuple[str, ...],
    server_names: tuple[str, ...] = (),
    named: bool = True,
) -> FilterChain:
    return FilterChain(
        match=_match(prefix_ranges, server_names),
        filters=_routed_proxy(place, destinations, virtual_service),
        source=config_path(virtual_service.source) if named else "",
        outbound=True,
    )


def _match(prefix_ranges: tuple[str, ...], server_names: tuple[str, ...]) -> ChainMatch | None:
    if not prefix_ranges and not server_names:
        return None
    return ChainMatch(prefix_ranges=prefix_ranges, server_names=server_names)


def _routed_proxy(
    place: TcpService, destinations: tuple[RouteDestination, ...], virtual_service: ResolvedVirtualService
) -> TcpProxy:
    """One destination is a plain cluster; of several, those without weight are left out."""
    targets = [(_target(place, each), each.weight) for each in destinations]
    (host, subset, port), _ = targets[0]
    policy = place.view.policy(host, subset, port)
    if len(targets) == 1:
        cluster = outbound_cluster(port, subset, host)
        return _proxy(place, _stat_prefix(place, cluster, port, host, subset), cluster, policy)
    clusters = tuple(
        WeightedCluster(outbound_cluster(port, subset, host), weight)
        for (host, subset, port), weight in targets
        if weight > 0
    )
    return _proxy(place, f"{virtual_service.name}.{virtual_service.namespace}", clusters, policy)


def _target(place: TcpService, route: RouteDestination) -> tuple[str, str, int]:
    if route.destination is None:
        return "", "", place.port.number
    service = place.view.service(route.destination.host)
    return place.view.destination(route.destination, place.port.number, () if service is None else service.ports)


def _proxy(
    place: TcpService,
    stat_prefix: str,
    clusters: str | tuple[WeightedCluster, ...],
    policy: EffectivePolicy,
    resolves: NamedHost | None = None,
) -> TcpProxy:
    tcp = policy.connection_pool.tcp if policy.connection_pool is not None else None
    idle = place.view.key.idle_timeout if tcp is None or tcp.idle_timeout is None else tcp.idle_timeout
    return TcpProxy(
        stat_prefix=stat_prefix,
        clusters=clusters,
        idle_timeout=idle,
        max_duration=None if tcp is None else tcp.max_connection_duration,
        hashes_source_ip=_hashes_source_ip(policy),
        tunnel=policy.tunnel,
        resolves=resolves,
        database=understood(place.port.protocol, place.view.mesh.features),
        logs=place.view.logs,
    )


def _stat_prefix(place: TcpService, cluster: str, port: int, host: str = "", subset: str = "") -> str:
    """The cluster's name, or what the mesh's pattern makes of the service (`host` "": the service of this place)."""
    pattern = place.view.mesh.config.outbound_cluster_stat_name
    service = place.view.service(host) if host else place.service
    if not pattern or service is None:
        return cluster
    return pattern_stat_name(pattern, service, port, place.port.name, subset, 0).removesuffix(END)


def _hashes_source_ip(policy: EffectivePolicy) -> bool:
    balancer = policy.load_balancer
    if balancer is None or not isinstance(balancer.policy, ConsistentHash):
        return False
    return isinstance(balancer.policy.key, HashSourceIp) and balancer.policy.key.value
