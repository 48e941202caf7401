"""Which virtual hosts a route configuration has (networking.md §5.4), and their domains without repetition (§5.3).

Virtual services come first, in order of precedence: their own hosts, and the services that they name. Every other
service of the port gets a default route. A name or domain that is taken stays with its first owner. Nothing is built
here: the result is the inputs of `virtual_hosts.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.common import Destination
from trierarch.config.hosts import MESH_GATEWAY, hosts_overlap, is_wildcard, most_specific_cover
from trierarch.envoy.names import ALLOW_ANY_DNS_CLUSTER, BLACK_HOLE_CLUSTER, outbound_cluster
from trierarch.envoy.route_action import RouteInputs, Target, leads_somewhere
from trierarch.envoy.route_filters import mirrors
from trierarch.envoy.route_hash import consistent_hash
from trierarch.envoy.route_match import RouteClient, applies, is_catch_all
from trierarch.envoy.route_retry import DEFAULT_RETRY
from trierarch.envoy.source_metadata import config_path
from trierarch.envoy.stateful_session import select_session
from trierarch.envoy.virtual_host_domains import bracketed, service_domains, with_port
from trierarch.envoy.virtual_hosts import CatchAllRoute, DefaultRoute, VirtualHostInputs
from trierarch.push.model import Resolution

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trierarch.config.virtual_service import HttpMatch, HttpRetry, HttpRoute
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.stateful_session import Session
    from trierarch.push.model import Service, ServicePort
    from trierarch.push.routing import ResolvedVirtualService
    from trierarch.push.sidecar_scope import EgressListener
    from trierarch.push.steps import Steps

HOSTS_PER_STEP = 100
"""After so many virtual services or virtual hosts the event loop gets its turn: about a millisecond of work."""

DYNAMIC_DNS = "allow_any_dynamic_dns"
DEFAULT_HTTP_PORT = 80
"""Hosts that are no services are served on this port alone."""


class PortService(NamedTuple):
    """A service as one listener sees it: with the ports that can be reached through it."""

    service: Service
    ports: tuple[ServicePort, ...]

    @property
    def http_ports(self) -> Iterator[int]:
        """Those that are HTTP, or may turn out to be."""
        return (port.number for port in self.ports if port.protocol.is_http or port.protocol.is_auto)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RouteTable:
    """What a route configuration is made for. `port` is the listener's, 0 for a proxy's or a Unix socket's.

    `services`: hostname -> service, those that can be reached. `virtual_services`: those that are considered, by
    precedence; `owners`: host -> the first of them. `only_ported`: domains must name their port unless it is the
    default one, for nothing else tells the ports apart.
    """

    view: OutboundView
    port: int
    services: Mapping[str, PortService]
    virtual_services: tuple[ResolvedVirtualService, ...]
    owners: Mapping[str, ResolvedVirtualService]
    only_ported: bool = False


def index_services(egress: EgressListener) -> dict[int, dict[str, PortService]]:
    """Services by port and hostname, under port 0 all of them. Of two with one hostname the later counts (§5.4.8)."""
    index: dict[int, dict[str, PortService]] = {0: {}}
    for service in egress.services:
        index[0][service.hostname] = PortService(service, service.ports)
        for port in reversed(service.ports):  # of two ports with one number the first counts
            index.setdefault(port.number, {})[service.hostname] = PortService(service, (port,))
    return index


def select_virtual_hosts(table: RouteTable) -> Steps[list[VirtualHostInputs]]:
    """All virtual hosts but the catch-all, sorted by name."""
    groups: list[_Group] = []
    for count, each in enumerate(table.virtual_services, start=1):
        groups += _groups_of(table, each)
        if count % HOSTS_PER_STEP == 0:
            yield
    claimed = {member.service.hostname for group in groups for member in group.members}
    others = [
        member
        for host, member in table.services.items()
        if host not in claimed and member.service.resolution is not Resolution.ALIAS
    ]
    draft = _Draft(table, known=frozenset((*claimed, *(member.service.hostname for member in others))))
    sources: list[_Group | PortService] = [*groups, *others]
    for count, source in enumerate(sources, start=1):
        draft.add(source)
        if count % HOSTS_PER_STEP == 0:
            yield
    return sorted(draft.hosts, key=lambda host: host.name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Group:
    """What a VirtualService makes of one port: hosts that are no services, services, and the routes of all of them."""

    port: int
    hosts: tuple[str, ...]
    members: tuple[PortService, ...]
    routes: tuple[RouteInputs, ...]


@dataclass(slots=True)
class _Draft:
    """The virtual hosts so far, and the names and domains (in lower case) that are taken. `known`: services' hosts."""

    table: RouteTable
    known: frozenset[str]
    hosts: list[VirtualHostInputs] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    domains: set[str] = field(default_factory=set)

    def add(self, source: _Group | PortService) -> None:
        """The virtual hosts that a group has, or a service that no group claims."""
        if isinstance(source, PortService):
            self._add_unclaimed(source)
        else:
            self._add_group(source)

    def _add_group(self, group: _Group) -> None:
        """One virtual host for each host and each service of the group."""
        for host in group.hosts:
            self._add(host, group.port, (bracketed(host),), group.routes)
        for member in group.members:
            self._add_service(member.service, group.port, group.routes)

    def _add_unclaimed(self, member: PortService) -> None:
        """One virtual host for each HTTP port of a service, with the default route."""
        for port in member.http_ports:
            self._add_service(member.service, port, (_default_route(self.table, member.service, port),))

    def _add_service(self, service: Service, port: int, routes: tuple[RouteInputs | DefaultRoute, ...]) -> None:
        view = self.table.view
        domains = service_domains(service, view.addresses(service), view.key.dns_domain)
        if self.table.port == 0 or view.key.is_proxyless:
            domains = with_port(domains, port)
        self._add(service.hostname, port, domains, routes, select_session(service, view.context.mesh.features))

    def _add(
        self,
        host: str,
        port: int,
        domains: tuple[str, ...],
        routes: tuple[RouteInputs | DefaultRoute, ...],
        session: Session | None = None,
    ) -> None:
        name = f"{host}:{port}"
        if name in self.names:
            return
        self.names.add(name)
        free = self._take(host, domains)
        if self.table.only_ported and port != DEFAULT_HTTP_PORT:
            free = tuple(domain for domain in free if ":" in domain)
        if free:
            counts = _counts_attempts(self.table.view)
            self.hosts.append(
                VirtualHostInputs(name=name, domains=free, routes=routes, counts_attempts=counts, session=session)
            )

    def _take(self, host: str, domains: tuple[str, ...]) -> tuple[str, ...]:
        """The domains that are still free. A short name never takes what is the full name of another service."""
        free = []
        for domain in domains:
            folded = domain.lower()
            if folded not in self.domains and (domain == host or domain not in self.known):
                self.domains.add(folded)
                free.append(domain)
        return tuple(free)


def _groups_of(table: RouteTable, virtual_service: ResolvedVirtualService) -> Iterator[_Group]:
    """What one VirtualService contributes: nothing where none of its routes applies (§5.4.3)."""
    hosts, members = _split_hosts(table, virtual_service)
    ports: dict[int, list[PortService]] = {}
    for member in members:
        for port in member.http_ports:
            ports.setdefault(port, []).append(member)
    if not ports and table.port == DEFAULT_HTTP_PORT:
        ports = {DEFAULT_HTTP_PORT: []}
    routes = _select_routes(table, virtual_service) if ports else ()
    if routes:
        for port, grouped in ports.items():
            yield _Group(port=port, hosts=hosts, members=tuple(grouped), routes=routes)


def _split_hosts(
    table: RouteTable, virtual_service: ResolvedVirtualService
) -> tuple[tuple[str, ...], tuple[PortService, ...]]:
    """The hosts that are no services, and the services that the others mean."""
    hosts: list[str] = []
    members: dict[str, PortService] = {}
    for host in sorted((host.lower() for host in virtual_service.spec.hosts), key=is_wildcard):
        found = _expand(table, virtual_service, host) if is_wildcard(host) else _named(table, host)
        members.update(found)
        if not found:
            hosts.append(host)
    return tuple(hosts), tuple(members.values())


def _named(table: RouteTable, host: str) -> dict[str, PortService]:
    member = table.services.get(host)
    return {} if member is None else {host: member}


def _expand(table: RouteTable, virtual_service: ResolvedVirtualService, wildcard: str) -> dict[str, PortService]:
    """The services that a wildcard stands for, unless another virtual service is more specific about them."""
    return {
        host: member
        for host, member in table.services.items()
        if hosts_overlap(wildcard, host) and _owner(table, host) is virtual_service
    }


def _owner(table: RouteTable, host: str) -> ResolvedVirtualService | None:
    """The virtual service with the most specific host for a service."""
    cover = most_specific_cover(host, table.owners)
    return None if cover is None else table.owners[cover]


def _select_routes(table: RouteTable, virtual_service: ResolvedVirtualService) -> tuple[RouteInputs, ...]:
    """The routes that apply, up to the first that takes everything."""
    client = _client(table)
    routes: list[RouteInputs] = []
    for rule in filter(leads_somewhere, virtual_service.spec.http):
        for match in rule.match or (None,):
            if match is not None and not applies(match, client):
                continue
            routes.append(_route_inputs(table, virtual_service, rule, match))
            if is_catch_all(match):
                return tuple(routes)
    return tuple(routes)


def _client(table: RouteTable) -> RouteClient:
    key = table.view.key
    return RouteClient(gateway=MESH_GATEWAY, port=table.port, labels=key.labels, namespace=key.scope.namespace)


def _route_inputs(
    table: RouteTable, virtual_service: ResolvedVirtualService, rule: HttpRoute, match: HttpMatch | None
) -> RouteInputs:
    targets = (_target(table, each.destination or Destination()) for each in rule.route)
    return RouteInputs(
        rule=rule,
        match=match,
        owner=virtual_service.name,
        source=config_path(virtual_service.source),
        port=table.port,
        targets=tuple(targets),
        mirrors=tuple(_target(table, destination).cluster for destination, _ in mirrors(rule)),
        retry=rule.retries or _default_retry(table.view),
        limits_streams=table.view.key.is_proxyless,
    )


def _target(table: RouteTable, destination: Destination) -> Target:
    member = table.services.get(destination.host)
    ports = () if member is None else member.ports
    host, subset, port = table.view.destination(destination, table.port, ports)
    policy = table.view.policy(host, subset, port)
    return Target(outbound_cluster(port, subset, host), consistent_hash(policy))


def _default_route(table: RouteTable, service: Service, port: int) -> DefaultRoute:
    return DefaultRoute(
        cluster=outbound_cluster(port, "", service.hostname),
        operation=f"{service.hostname}:{port}/*",
        consistent_hash=consistent_hash(table.view.policy(service.hostname, "", port)),
        retry=_default_retry(table.view),
    )


def _default_retry(view: OutboundView) -> HttpRetry:
    return view.context.mesh.config.default_http_retry_policy or DEFAULT_RETRY


def select_catch_all(view: OutboundView) -> VirtualHostInputs:
    """What happens to hosts that nobody defined (networking.md §4.8)."""
    name, cluster = "allow_any", view.fall_through
    if view.resolves_unknown_names:
        name, cluster = DYNAMIC_DNS, ALLOW_ANY_DNS_CLUSTER
    elif cluster == BLACK_HOLE_CLUSTER:
        name, cluster = "block_all", ""
    forwarded = view.headers.x_forwarded_host
    route = CatchAllRoute(cluster=cluster, forwards_host=forwarded is not None and bool(forwarded.enabled))
    return VirtualHostInputs(name=name, domains=("*",), routes=(route,), counts_attempts=_counts_attempts(view))


def _counts_attempts(view: OutboundView) -> bool:
    """Whether servers are told how often a request was tried."""
    attempts = view.headers.attempt_count
    return attempts is None or not attempts.disabled
