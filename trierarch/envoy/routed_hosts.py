"""What virtual services make of the hosts of a route configuration (networking.md §5.4, §5.5).

A virtual service names hosts: services that the listener reaches, and hosts that are no services. All of them get its
routes, as far as they apply to the client.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.common import Destination
from trierarch.config.hosts import MESH_GATEWAY, hosts_overlap, is_wildcard, most_specific_cover
from trierarch.envoy.host_candidates import build_host, find_session, treat
from trierarch.envoy.host_names import claim_host
from trierarch.envoy.names import outbound_cluster
from trierarch.envoy.outbound_view import destination_port
from trierarch.envoy.route_action import RouteInputs, Target, leads_somewhere
from trierarch.envoy.route_filters import mirrors
from trierarch.envoy.route_hash import consistent_hash
from trierarch.envoy.route_match import RouteClient, applies, is_catch_all
from trierarch.envoy.route_tables import DEFAULT_HTTP_PORT
from trierarch.envoy.source_metadata import config_path
from trierarch.envoy.surroundings import narrow_to_hosts
from trierarch.envoy.virtual_service_index import index_virtual_services
from trierarch.push.routing import Semantics
from trierarch.push.traffic import effective_policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trierarch.config.virtual_service import HttpMatch, HttpRoute
    from trierarch.envoy.host_candidates import Common
    from trierarch.envoy.host_names import Claim
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.route_tables import Members, PortService
    from trierarch.envoy.stateful_session import Session
    from trierarch.envoy.surroundings import Surroundings
    from trierarch.envoy.virtual_hosts import Treatment, VirtualHostInputs
    from trierarch.envoy.virtual_service_index import VirtualServiceIndex
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Service, ServicePort
    from trierarch.push.routing import ResolvedVirtualService
    from trierarch.push.steps import Steps
    from trierarch.push.traffic import MergedRule

_BATCH = 40
"""Virtual services that are thought of together: less than a millisecond's work."""


class Batch(NamedTuple):
    """Some virtual services; those that are `personal` are to be seen by the client as itself, the others as anybody
    would see them.
    """

    own: Surroundings
    common: Surroundings
    personal: frozenset[ResolvedVirtualService]
    some: tuple[ResolvedVirtualService, ...]


class Groups:
    """What virtual services make of their hosts in the surroundings of a client, `own`.

    Where neither the client nor the names by which it knows hosts make a difference, that is what they make of them in
    anybody's surroundings, `common`, and all clients share it.
    """

    def __init__(self, own: Surroundings, common: Surroundings, index: VirtualServiceIndex, memo: Memo) -> None:
        self.own = own
        self.common = common
        self._index = index
        self._memo = memo
        self._personal = index.personal.union(index.covering(own.names.own.by_host))

    def of(self, some: tuple[ResolvedVirtualService, ...]) -> Group:
        """What some of them make of their hosts, together. What a wildcard stands for, others have a say in."""
        personal = self._personal.intersection(some)
        if self._index.wild.isdisjoint(some):
            common = self._narrowed(self.common, some)
            own = self._narrowed(self.own, some) if personal else common
            return self._memo.think(_think_of_batch, Batch(own, common, personal, some))
        return unite([self._of_one(self.own if each in personal else self.common, each) for each in some])

    def apart(self) -> Steps[tuple[list[Group], list[Group]]]:
        """What anybody and what the client makes of those that the two may see differently."""
        theirs: list[Group] = []
        ours: list[Group] = []
        for some in batches(tuple(self._personal)):
            theirs += self._of_each(self.common, some)
            ours += self._of_each(self.own, some)
            yield
        return theirs, ours

    def _of_each(self, around: Surroundings, some: tuple[ResolvedVirtualService, ...]) -> Sequence[Group]:
        if self._index.wild.isdisjoint(some):
            return self._memo.think(_think_of_groups, (self._narrowed(around, some), some))
        return [self._of_one(around, each) for each in some]

    def _narrowed(self, around: Surroundings, some: tuple[ResolvedVirtualService, ...]) -> Surroundings:
        return self._memo.think(_narrow, (around, some))

    def _of_one(self, around: Surroundings, virtual_service: ResolvedVirtualService) -> Group:
        if virtual_service in self._index.wild:
            return self._memo.think(_think_of_wild, (around, virtual_service, self._index.all))
        return self._memo.think(_think_of_group, (around, virtual_service))


def _narrow(inputs: tuple[Surroundings, tuple[ResolvedVirtualService, ...]], memo: Memo) -> Surroundings:
    """Surroundings as far as these look about: at what they name or send to. Those with wildcards look everywhere."""
    around, some = inputs
    reads = [memo.recall(_reads, each) for each in some]
    hosts = dict.fromkeys([host for each in reads for host in (*each.own, *each.hosts)])
    return narrow_to_hosts(around, tuple(hosts), memo)


def _think_of_batch(batch: Batch, memo: Memo) -> Group:
    anybody = memo.think(_think_of_groups, (batch.common, batch.some))
    personal = {each: memo.think(_think_of_group, (batch.own, each)) for each in batch.personal}
    return unite([personal.get(each, group) for each, group in zip(batch.some, anybody, strict=True)])


def _think_of_groups(inputs: tuple[Surroundings, tuple[ResolvedVirtualService, ...]], memo: Memo) -> tuple[Group, ...]:
    around, some = inputs
    return tuple([memo.think(_think_of_group, (around, each)) for each in some])


def batches(virtual_services: tuple[ResolvedVirtualService, ...]) -> Iterator[tuple[ResolvedVirtualService, ...]]:
    """Virtual services in the same few batches as long as none comes or goes: so one that changes costs the thinking
    about its neighbours, and all the others a look-up a batch.
    """
    return (virtual_services[start : start + _BATCH] for start in range(0, len(virtual_services), _BATCH))


class Callee(NamedTuple):
    """Where requests to a host go: `concrete` is the host at the end of a chain of aliases, `rule` that one's rule."""

    concrete: str
    ports: tuple[ServicePort, ...]
    rule: MergedRule | None


class Routing(NamedTuple):
    """All that the routes of a virtual service are made of, whatever its hosts are called.

    `client` without what the virtual service does not ask for; `callees` are by the hosts that it sends to.
    """

    virtual_service: ResolvedVirtualService
    client: RouteClient
    callees: tuple[tuple[str, Callee], ...]
    common: Common


class RoutedHosts(NamedTuple):
    """All that a virtual service makes of hosts: those that are no services come with None."""

    hosts: tuple[tuple[Claim, Service | None], ...]
    routing: Routing


class Group(NamedTuple):
    """The virtual hosts of a virtual service or of several, beside their claims, and the services among them."""

    claims: tuple[Claim, ...]
    hosts: tuple[VirtualHostInputs, ...]
    claimed: frozenset[str]


NO_GROUP = Group((), (), frozenset())


def unite(groups: Sequence[Group]) -> Group:
    """All of these in one."""
    return Group(
        tuple(chain.from_iterable([group.claims for group in groups])),
        tuple(chain.from_iterable([group.hosts for group in groups])),
        frozenset().union(*[group.claimed for group in groups]),
    )


def _think_of_group(inputs: tuple[Surroundings, ResolvedVirtualService], memo: Memo) -> Group:
    around, virtual_service = inputs
    return memo.think(_build_group, _select_hosts(around, virtual_service, {}, memo))


def _think_of_wild(
    inputs: tuple[Surroundings, ResolvedVirtualService, tuple[ResolvedVirtualService, ...]], memo: Memo
) -> Group:
    around, virtual_service, beside = inputs
    owners = index_virtual_services(beside).owners
    return memo.think(_build_group, _select_hosts(around, virtual_service, owners, memo))


def _select_hosts(
    around: Surroundings,
    virtual_service: ResolvedVirtualService,
    owners: Mapping[str, ResolvedVirtualService],
    memo: Memo,
) -> RoutedHosts:
    """What one VirtualService is about: in each port its own hosts, then services."""
    reads = memo.recall(_reads, virtual_service)
    hosts, members = _split_hosts(around.members, virtual_service, reads.own, owners)
    ports: dict[int, list[tuple[Claim, Service | None]]] = {}
    for host, member in members.items():
        for claim in around.names.of(host):
            ports.setdefault(claim.port, []).append((claim, member.service))
    if not ports and around.port == DEFAULT_HTTP_PORT:
        ports = {DEFAULT_HTTP_PORT: []}
    claims = [each for port, services in ports.items() for each in (*_hosts_of_their_own(hosts, port, memo), *services)]
    callees = tuple((host, _callee(around, host)) for host in reads.hosts)
    return RoutedHosts(tuple(claims), Routing(virtual_service, _client(around, reads), callees, around.common))


def _client(around: Surroundings, reads: Reads) -> RouteClient:
    key = around.view.key
    return RouteClient(
        gateway=MESH_GATEWAY,
        port=around.port,
        labels=key.labels if reads.labels else frozenset(),
        namespace=key.scope.namespace if reads.namespace else "",
    )


def _hosts_of_their_own(hosts: tuple[str, ...], port: int, memo: Memo) -> Iterator[tuple[Claim, None]]:
    for host in hosts:
        yield memo.recall(claim_host, (host, port)), None


def _callee(around: Surroundings, host: str) -> Callee:
    member = around.members.by_host.get(host)
    concrete = around.view.concrete(host)
    return Callee(concrete, () if member is None else member.ports, around.view.rule(concrete))


class Reads(NamedTuple):
    """What a virtual service asks for: `labels` and the `namespace` of clients or not; its `own` hosts, wildcards last,
    and the `hosts` that it sends to.
    """

    labels: bool
    namespace: bool
    own: tuple[str, ...]
    hosts: tuple[str, ...]


def _reads(virtual_service: ResolvedVirtualService) -> Reads:
    rules = virtual_service.spec.http
    matches = [match for rule in rules for match in rule.match]
    labels = any(match.source_labels for match in matches)
    namespace = any(match.source_namespace for match in matches)
    routed = (each.destination.host if each.destination else "" for rule in rules for each in rule.route)
    mirrored = (destination.host for rule in rules for destination, _ in mirrors(rule))
    own = sorted((host.lower() for host in virtual_service.spec.hosts), key=is_wildcard)
    return Reads(labels, namespace, tuple(own), tuple(dict.fromkeys((*routed, *mirrored))))


def _split_hosts(
    members: Members,
    virtual_service: ResolvedVirtualService,
    own: tuple[str, ...],
    owners: Mapping[str, ResolvedVirtualService],
) -> tuple[tuple[str, ...], Mapping[str, PortService]]:
    """The hosts that are no services, and the services that the others mean. HTTPRoutes mean no others by wildcards."""
    expands = virtual_service.semantics is not Semantics.GATEWAY_API
    hosts: list[str] = []
    meant: dict[str, PortService] = {}
    for host in own:
        wild = expands and is_wildcard(host)
        found = _expand(members, virtual_service, host, owners) if wild else _named(members, host)
        meant.update(found)
        if not found:
            hosts.append(host)
    return tuple(hosts), meant


def _named(members: Members, host: str) -> dict[str, PortService]:
    member = members.by_host.get(host)
    return {} if member is None else {host: member}


def _expand(
    members: Members,
    virtual_service: ResolvedVirtualService,
    wildcard: str,
    owners: Mapping[str, ResolvedVirtualService],
) -> dict[str, PortService]:
    """The services that a wildcard stands for, unless another virtual service is more specific about them."""
    return {
        host: member
        for host, member in members.by_host.items()
        if hosts_overlap(wildcard, host) and _owner(host, owners) is virtual_service
    }


def _owner(host: str, owners: Mapping[str, ResolvedVirtualService]) -> ResolvedVirtualService | None:
    """The virtual service with the most specific host for a service."""
    cover = most_specific_cover(host, owners)
    return None if cover is None else owners[cover]


def _build_group(inputs: RoutedHosts, memo: Memo) -> Group:
    """Nothing where none of the routes applies (§5.4.3)."""
    hosts, routing = inputs
    if not hosts or not memo.recall(_treat, (routing, None)).routes:
        return NO_GROUP
    return Group(
        tuple([claim for claim, _ in hosts]),
        tuple([_build_routed(claim, service, routing, memo) for claim, service in hosts]),
        frozenset(claim.host for claim, service in hosts if service is not None),
    )


def _build_routed(claim: Claim, service: Service | None, routing: Routing, memo: Memo) -> VirtualHostInputs:
    return build_host(claim, memo.recall(_treat, (routing, find_session(service, routing.common))))


def _treat(inputs: tuple[Routing, Session | None]) -> Treatment:
    routing, session = inputs
    return treat(_select_routes(routing), session, routing.common)


def _select_routes(inputs: Routing) -> tuple[RouteInputs, ...]:
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
    inputs: Routing, callees: Mapping[str, Callee], rule: HttpRoute, match: HttpMatch | None
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
