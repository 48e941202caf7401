"""Which virtual hosts a route configuration has (networking.md §5.4).

Virtual services come first, in order of precedence: their own hosts, and the services that they name. Every other
service of the port gets a default route. Who may be called what is settled in `host_names.py`. Nothing is built here:
the result is the inputs of `virtual_hosts.py`.

A configuration of thousands of hosts is planned anew when one of them changes. So what is thought about each host is
remembered by what decides it, and what is thought about all together by what decides that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.common import Destination
from trierarch.config.hosts import MESH_GATEWAY, hosts_overlap, is_wildcard, most_specific_cover
from trierarch.envoy.host_names import Contest, arrange, claim_host, select_caller, select_names
from trierarch.envoy.names import ALLOW_ANY_DNS_CLUSTER, BLACK_HOLE_CLUSTER, outbound_cluster
from trierarch.envoy.outbound_view import destination_port
from trierarch.envoy.route_action import RouteInputs, Target, leads_somewhere
from trierarch.envoy.route_filters import mirrors
from trierarch.envoy.route_hash import consistent_hash
from trierarch.envoy.route_match import RouteClient, applies, is_catch_all
from trierarch.envoy.route_retry import DEFAULT_RETRY
from trierarch.envoy.route_tables import DEFAULT_HTTP_PORT
from trierarch.envoy.source_metadata import config_path
from trierarch.envoy.stateful_session import select_session
from trierarch.envoy.virtual_hosts import CatchAllRoute, DefaultRoute, VirtualHostInputs
from trierarch.push.model import Resolution
from trierarch.push.routing import Semantics
from trierarch.push.traffic import effective_policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trierarch.config.virtual_service import HttpMatch, HttpRetry, HttpRoute
    from trierarch.envoy.host_names import Claim, Names
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.route_tables import Members, PortService, RouteTable
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Service, ServicePort
    from trierarch.push.routing import ResolvedVirtualService
    from trierarch.push.steps import Steps
    from trierarch.push.traffic import MergedRule

HOSTS_PER_STEP = 100
"""After so many virtual services or virtual hosts the event loop gets its turn: about a millisecond of work."""

DYNAMIC_DNS = "allow_any_dynamic_dns"


class Candidate(NamedTuple):
    """A virtual host as it is if it gets all the domains that it claims."""

    claim: Claim
    host: VirtualHostInputs


def select_virtual_hosts(table: RouteTable, memo: Memo) -> Steps[list[VirtualHostInputs]]:
    """All virtual hosts but the catch-all, sorted by name."""
    view = table.view
    names = yield from memo.steps(select_names, (table.members, select_caller(view, table.port)))
    routed: list[Candidate] = []
    claimed: set[str] = set()
    for count, each in enumerate(table.virtual_services, start=1):
        group = memo.recall(_build_group, _select_hosts(table, names, each, memo))
        routed += group.candidates
        claimed |= group.claimed
        if count % HOSTS_PER_STEP == 0:
            yield
    unrouted = yield from memo.steps(_select_defaults, Defaults(table.members, names, _common(view), view.rules))
    candidates = [*routed, *(each for host, own in unrouted.items() if host not in claimed for each in own)]
    known = names.known if claimed <= names.known else names.known | claimed
    contest = Contest(tuple([each.claim for each in candidates]), known, only_ported=not table.port)
    arrangement = yield from memo.steps(arrange, contest)
    return [_called(candidates[index].host, domains, memo) for index, domains in arrangement]


def _called(host: VirtualHostInputs, domains: tuple[str, ...], memo: Memo) -> VirtualHostInputs:
    """The virtual host with those of its domains that are left to it."""
    return host if host.domains is domains else memo.recall(_renamed, (host, domains))


def _renamed(inputs: tuple[VirtualHostInputs, tuple[str, ...]]) -> VirtualHostInputs:
    host, domains = inputs
    return replace(host, domains=domains)


class Common(NamedTuple):
    """What shows in all virtual hosts of a view.

    `counts_attempts`: servers are told how often a request was tried; `limits_streams`: see `RouteInputs`.
    """

    mesh: Mesh
    counts_attempts: bool
    limits_streams: bool

    @property
    def retry(self) -> HttpRetry:
        """The policy of routes that have none of their own."""
        return self.mesh.config.default_http_retry_policy or DEFAULT_RETRY


def _common(view: OutboundView) -> Common:
    return Common(view.mesh, _counts_attempts(view), view.key.is_proxyless)


# --- services of which no virtual service speaks ---------------------------------------------------------------------
class Defaults(NamedTuple):
    """All that the default routes of a configuration are made of. `rules` are by host."""

    members: Members
    names: Names
    common: Common
    rules: tuple[tuple[str, MergedRule], ...]


class DefaultHost(NamedTuple):
    """All that one virtual host with a default route is made of."""

    claim: Claim
    service: Service
    rule: MergedRule | None
    common: Common


def _select_defaults(inputs: Defaults, memo: Memo) -> Steps[Mapping[str, tuple[Candidate, ...]]]:
    """The default virtual hosts of every service, one for each of its HTTP ports, by host."""
    rules = dict(inputs.rules)
    candidates: dict[str, tuple[Candidate, ...]] = {}
    for count, (host, member) in enumerate(inputs.members.by_host.items(), start=1):
        if member.service.resolution is not Resolution.ALIAS:
            rule, claims = rules.get(host), inputs.names.claims[host]
            rows = (DefaultHost(claim, member.service, rule, inputs.common) for claim in claims)
            candidates[host] = tuple([memo.recall(_build_default, row) for row in rows])
        if count % HOSTS_PER_STEP == 0:
            yield
    return candidates


def _build_default(row: DefaultHost) -> Candidate:
    claim, service, rule, common = row
    route = DefaultRoute(
        cluster=outbound_cluster(claim.port, "", service.hostname),
        operation=f"{service.hostname}:{claim.port}/*",
        consistent_hash=consistent_hash(effective_policy(rule, "", claim.port, common.mesh)),
        retry=common.retry,
    )
    return Candidate(claim, _virtual_host(claim, service, (route,), common))


def _virtual_host(
    claim: Claim, service: Service | None, routes: tuple[RouteInputs | DefaultRoute, ...], common: Common
) -> VirtualHostInputs:
    return VirtualHostInputs(
        name=claim.name,
        domains=claim.domains,
        routes=routes,
        counts_attempts=common.counts_attempts,
        session=None if service is None else select_session(service, common.mesh.features),
    )


# --- what virtual services say ---------------------------------------------------------------------------------------
class Callee(NamedTuple):
    """Where requests to a host go: `concrete` is the host at the end of a chain of aliases, `rule` that one's rule."""

    concrete: str
    ports: tuple[ServicePort, ...]
    rule: MergedRule | None


class RoutedHosts(NamedTuple):
    """All that a virtual service makes of hosts: those that are no services come with None.

    `client` without what the virtual service does not ask for; `callees` are by the hosts that it sends to.
    """

    virtual_service: ResolvedVirtualService
    hosts: tuple[tuple[Claim, Service | None], ...]
    client: RouteClient
    callees: tuple[tuple[str, Callee], ...]
    common: Common


class Group(NamedTuple):
    """The virtual hosts of a virtual service, and the services among them."""

    candidates: tuple[Candidate, ...]
    claimed: frozenset[str]


_NO_GROUP = Group((), frozenset())


def _select_hosts(table: RouteTable, names: Names, virtual_service: ResolvedVirtualService, memo: Memo) -> RoutedHosts:
    """What one VirtualService is about: in each port its own hosts, then services."""
    view, reads = table.view, memo.recall(_reads, virtual_service)
    hosts, members = _split_hosts(table, virtual_service)
    ports: dict[int, list[tuple[Claim, Service | None]]] = {}
    for host, member in members.items():
        for claim in names.claims[host]:
            ports.setdefault(claim.port, []).append((claim, member.service))
    if not ports and table.port == DEFAULT_HTTP_PORT:
        ports = {DEFAULT_HTTP_PORT: []}
    claims = [each for port, services in ports.items() for each in (*_hosts_of_their_own(hosts, port, memo), *services)]
    client = RouteClient(
        gateway=MESH_GATEWAY,
        port=table.port,
        labels=view.key.labels if reads.labels else frozenset(),
        namespace=view.key.scope.namespace if reads.namespace else "",
    )
    callees = tuple((host, _callee(table, host)) for host in reads.hosts)
    return RoutedHosts(virtual_service, tuple(claims), client, callees, _common(view))


def _hosts_of_their_own(hosts: tuple[str, ...], port: int, memo: Memo) -> Iterator[tuple[Claim, None]]:
    for host in hosts:
        yield memo.recall(claim_host, (host, port)), None


def _callee(table: RouteTable, host: str) -> Callee:
    member = table.members.by_host.get(host)
    concrete = table.view.concrete(host)
    return Callee(concrete, () if member is None else member.ports, table.view.rule(concrete))


class Reads(NamedTuple):
    """What a virtual service asks for: `labels` and the `namespace` of clients or not, and `hosts` that it sends to."""

    labels: bool
    namespace: bool
    hosts: tuple[str, ...]


def _reads(virtual_service: ResolvedVirtualService) -> Reads:
    rules = virtual_service.spec.http
    matches = [match for rule in rules for match in rule.match]
    labels = any(match.source_labels for match in matches)
    namespace = any(match.source_namespace for match in matches)
    routed = (each.destination.host if each.destination else "" for rule in rules for each in rule.route)
    mirrored = (destination.host for rule in rules for destination, _ in mirrors(rule))
    return Reads(labels, namespace, tuple(dict.fromkeys((*routed, *mirrored))))


def _split_hosts(
    table: RouteTable, virtual_service: ResolvedVirtualService
) -> tuple[tuple[str, ...], Mapping[str, PortService]]:
    """The hosts that are no services, and the services that the others mean. HTTPRoutes mean no others by wildcards."""
    expands = virtual_service.semantics is not Semantics.GATEWAY_API
    hosts: list[str] = []
    members: dict[str, PortService] = {}
    for host in sorted((host.lower() for host in virtual_service.spec.hosts), key=is_wildcard):
        found = _expand(table, virtual_service, host) if expands and is_wildcard(host) else _named(table, host)
        members.update(found)
        if not found:
            hosts.append(host)
    return tuple(hosts), members


def _named(table: RouteTable, host: str) -> dict[str, PortService]:
    member = table.members.by_host.get(host)
    return {} if member is None else {host: member}


def _expand(table: RouteTable, virtual_service: ResolvedVirtualService, wildcard: str) -> dict[str, PortService]:
    """The services that a wildcard stands for, unless another virtual service is more specific about them."""
    return {
        host: member
        for host, member in table.members.by_host.items()
        if hosts_overlap(wildcard, host) and _owner(table, host) is virtual_service
    }


def _owner(table: RouteTable, host: str) -> ResolvedVirtualService | None:
    """The virtual service with the most specific host for a service."""
    cover = most_specific_cover(host, table.owners)
    return None if cover is None else table.owners[cover]


def _build_group(inputs: RoutedHosts) -> Group:
    """Nothing where none of the routes applies (§5.4.3)."""
    routes = _select_routes(inputs) if inputs.hosts else ()
    if not routes:
        return _NO_GROUP
    made = (Candidate(claim, _virtual_host(claim, service, routes, inputs.common)) for claim, service in inputs.hosts)
    return Group(tuple(made), frozenset(claim.host for claim, service in inputs.hosts if service is not None))


def _select_routes(inputs: RoutedHosts) -> tuple[RouteInputs, ...]:
    """The routes that apply, up to the first that takes everything."""
    routes: list[RouteInputs] = []
    callees = dict(inputs.callees)
    for rule in filter(leads_somewhere, inputs.virtual_service.spec.http):
        for match in rule.match or (None,):
            if match is not None and not applies(match, inputs.client):
                continue
            routes.append(_route_inputs(inputs, callees, rule, match))
            if is_catch_all(match):
                return tuple(routes)
    return tuple(routes)


def _route_inputs(
    inputs: RoutedHosts, callees: Mapping[str, Callee], rule: HttpRoute, match: HttpMatch | None
) -> RouteInputs:
    virtual_service, port = inputs.virtual_service, inputs.client.port

    def target(destination: Destination) -> Target:
        return _target(callees[destination.host], destination, port, inputs.common.mesh)

    return RouteInputs(
        rule=rule,
        match=match,
        owner=virtual_service.name,
        source=config_path(virtual_service.source),
        port=port,
        targets=tuple(target(each.destination or Destination()) for each in rule.route),
        mirrors=tuple(target(destination).cluster for destination, _ in mirrors(rule)),
        retry=rule.retries or inputs.common.retry,
        limits_streams=inputs.common.limits_streams,
        is_gateway_api=virtual_service.semantics is Semantics.GATEWAY_API,
    )


def _target(callee: Callee, destination: Destination, listener_port: int, mesh: Mesh) -> Target:
    port = destination_port(destination, listener_port, callee.ports)
    policy = effective_policy(callee.rule, destination.subset, port, mesh)
    return Target(outbound_cluster(port, destination.subset, callee.concrete), consistent_hash(policy))


# --- hosts that nobody defined ---------------------------------------------------------------------------------------
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
