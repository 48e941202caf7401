"""Which outbound listeners a view has and which chains: services take their places on ports, oldest first (§4.4).

First the Sidecar's egress listeners with a port, then, kept out of those, the catch-all: each port of each service on
the address that its class asks for. Conflicts are judged in `listener_conflicts.py`; nothing is encoded here. The names
of the route configurations that a view needs follow from these entries.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.hosts import is_ip_address
from trierarch.envoy.filter_chains import FilterChain, sniffed_http
from trierarch.envoy.http_connection import HttpConnection, HttpProfile, select_profile
from trierarch.envoy.http_filters import ResolvedHosts
from trierarch.envoy.listener_conflicts import CLASSES, ListenerClass, ListenerEntry, merge_chains, settle, stands
from trierarch.envoy.outbound_view import select_outbound_view
from trierarch.envoy.tcp_chains import TcpService, routes_connections, select_tcp_chains
from trierarch.envoy.virtual_service_index import VirtualServiceIndex
from trierarch.push.model import UNSPECIFIED_ADDRESS, PortProtocol, Registry, Resolution
from trierarch.push.proxy import Interception
from trierarch.push.view import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.outlook import Outlook
    from trierarch.push.model import Service, ServicePort
    from trierarch.push.routing import ResolvedVirtualService
    from trierarch.push.sidecar_scope import EgressListener
    from trierarch.push.steps import Steps
    from trierarch.push.traffic import MergedRule

PLACES_PER_STEP = 100
"""After so many ports of services the event loop gets its turn: about a millisecond of work."""

_NO_SCOPE = ScopeKey("", None)
_REMEMBERED = 64


class Place(NamedTuple):
    """A port of a service that asks for a listener. `binds` is empty while nobody has said an address; `port` is the
    listener's. `real`: the listener binds its port itself.
    """

    service: Service
    port: ServicePort
    binds: tuple[str, ...]
    real: bool
    virtual_services: VirtualServiceIndex


@dataclass(slots=True)
class _Draft:
    """The entries so far, by the address and port that they bind."""

    view: OutboundView
    profile: HttpProfile
    entries: dict[tuple[str, int], ListenerEntry] = field(default_factory=dict)

    def lock(self) -> None:
        """Keep everything that comes later off the ports that are taken."""
        self.entries = {key: replace(entry, locked=True) for key, entry in self.entries.items()}

    def refuses(self, bind: str, port: ServicePort) -> bool:
        """Whether an entry at that address would change nothing."""
        existing = self.entries.get((bind, port.number))
        if existing is not None:
            return stands(existing, port.protocol)
        return bind == self.view.wildcard and port.number in self.view.reserved_ports

    def add(self, newcomer: ListenerEntry) -> None:
        """Give an entry that is not refused its place, or what the conflict with its neighbour leaves of it."""
        key = (newcomer.binds[0], newcomer.port)
        existing = self.entries.get(key)
        self.entries[key] = newcomer if existing is None else settle(existing, newcomer, http10=self.sniffs_http10)

    @property
    def sniffs_http10(self) -> bool:
        """Whether HTTP/1.0 is recognised as HTTP; a switch of the mesh, not of the proxy (§4.4)."""
        return self.view.mesh.features.http10


def select_listening_view(outlook: Outlook) -> OutboundView:
    """The view without what no listener shows, so that views share listeners that differ in their routes.

    Virtual services count that route connections, rules that count for a port which may carry anything but HTTP. Only
    routes of connections depend on who the client is, and only names of aliases on the domain that it searches.
    """
    view = outlook.narrowed(select_outbound_view)
    egress = tuple(replace(each, virtual_services=_connecting(each.virtual_services)) for each in view.egress)
    if any(each.virtual_services for each in egress):
        return replace(view, egress=egress)
    aliased = any(_has_aliases(each.services) for each in egress)
    key = replace(view.key, scope=_NO_SCOPE, labels=frozenset(), dns_domain=view.key.dns_domain if aliased else "")
    rules = view.rules
    if all(each.port is None for each in egress):
        reads = outlook.chosen_rules, view.services
        rules = outlook.again("connecting rules", reads, lambda: _connecting_rules(*reads))
    return replace(view, key=key, egress=egress, services=(), rules=rules)


@lru_cache(maxsize=_REMEMBERED)
def _connecting(virtual_services: tuple[ResolvedVirtualService, ...]) -> tuple[ResolvedVirtualService, ...]:
    """Those that route connections. Remembered, as all of these, since every view asks again."""
    return tuple(filter(routes_connections, virtual_services))


@lru_cache(maxsize=_REMEMBERED)
def _has_aliases(services: tuple[Service, ...]) -> bool:
    return any(service.aliases for service in services)


def _connecting_rules(
    rules: Mapping[str, MergedRule], services: tuple[Service, ...]
) -> tuple[tuple[str, MergedRule], ...]:
    return tuple([(host, rules[host]) for host in _connecting_hosts(services) if host in rules])


@lru_cache(maxsize=_REMEMBERED)
def _connecting_hosts(services: tuple[Service, ...]) -> tuple[str, ...]:
    """Services of which some port may carry anything but HTTP."""
    return tuple(
        service.hostname
        for service in services
        if any(CLASSES.get(port.protocol) is not ListenerClass.HTTP for port in service.ports)
    )


def select_entries(view: OutboundView, _memo: Memo) -> Steps[tuple[ListenerEntry, ...]]:
    """All outbound listeners of a view but the virtual one, sorted by name."""
    draft = _Draft(view, outbound_profile(view))
    for egress in view.egress:
        if egress.port is None:
            draft.lock()
        for count, place in enumerate(_places(view, egress), start=1):
            _take_place(draft, place)
            if count % PLACES_PER_STEP == 0:
                yield
    return tuple(sorted(draft.entries.values(), key=lambda entry: entry.name))


def outbound_profile(view: OutboundView) -> HttpProfile:
    """What all outbound connection managers of a view have in common."""
    return select_profile(view.key, view.mesh, inbound=False)


def _places(view: OutboundView, egress: EgressListener) -> Iterator[Place]:
    real = egress.binds or view.key.interception is Interception.NONE
    binds = (egress.bind,) if egress.bind else view.loopbacks if real else ()
    index = VirtualServiceIndex(filter(routes_connections, egress.virtual_services))
    for service in egress.services:
        if service.resolution is Resolution.ALIAS:
            continue
        for port in (egress.port,) if egress.port is not None else service.ports:
            yield Place(service=service, port=port, binds=binds, real=real, virtual_services=index)


def _take_place(draft: _Draft, place: Place) -> None:
    kind = CLASSES.get(place.port.protocol)
    if kind is None:
        return
    if kind is not ListenerClass.HTTP and _is_headless(draft.view, place):
        for bound in _per_endpoint(draft.view, place):
            _add_entry(draft, bound, kind)
    else:
        _add_entry(draft, place, kind)


def _is_headless(view: OutboundView, place: Place) -> bool:
    """Connections to a service without an address of its own go to its endpoints' addresses; each gets a listener."""
    service = place.service
    return (
        not place.binds
        and service.resolution is Resolution.PASSTHROUGH
        and view.addresses(service)[0] == UNSPECIFIED_ADDRESS
    )


def _per_endpoint(view: OutboundView, place: Place) -> Iterator[Place]:
    """A place at each endpoint's address, the proxy's own left out. A ServiceEntry without any takes the wildcard."""
    service = place.service
    found = view.endpoints(service)
    endpoints = [each for each in found if each.port_name == place.port.name]
    if not endpoints and service.registry is not Registry.KUBERNETES and service.selector is None:
        yield place
    for endpoint in endpoints:
        addresses = endpoint.addresses
        if addresses and addresses[0] not in view.key.own_addresses and all(is_ip_address(each) for each in addresses):
            yield place._replace(binds=addresses)


def _add_entry(draft: _Draft, place: Place, kind: ListenerClass) -> None:
    if kind is ListenerClass.HTTP:
        # HTTP services share the wildcard: their virtual hosts tell them apart.
        binds = place.binds or draft.view.wildcards
        if not draft.refuses(binds[0], place.port):
            draft.add(_http_entry(draft, place, binds))
        return
    binds, cidr = _tcp_binds(draft.view, place)
    if not draft.refuses(binds[0], place.port):
        draft.add(_tcp_entry(draft, place._replace(binds=binds), kind, cidr))


def _http_entry(draft: _Draft, place: Place, binds: tuple[str, ...]) -> ListenerEntry:
    shared = binds[0] == draft.view.wildcard
    chain = _http_chain(draft, place, binds, _route_name(place, binds), sniffing=shared)
    recorded = ListenerClass.AUTO if shared else ListenerClass.HTTP
    return _entry(place, binds, recorded, (chain,))


def _route_name(place: Place, binds: tuple[str, ...]) -> str:
    """A Unix socket has no port to be named after."""
    return str(place.port.number) if place.port.number else binds[0]


def _tcp_entry(draft: _Draft, place: Place, kind: ListenerClass, cidr: str) -> ListenerEntry:
    view, service, binds = draft.view, place.service, place.binds
    chains = merge_chains((), select_tcp_chains(_tcp_service(view, place, cidr)))
    if kind is ListenerClass.AUTO:
        shared = binds[0] == view.wildcard
        name = str(place.port.number) if shared else f"{service.hostname}:{place.port.number}"
        chains = (*chains, _http_chain(draft, place, binds, name, sniffing=True))
    return _entry(place, binds, kind, chains)


def _tcp_service(view: OutboundView, place: Place, cidr: str) -> TcpService:
    service, port = place.service, place.port
    routed = place.virtual_services.covering((service.hostname,))
    return TcpService(view=view, service=service, port=port, bind=place.binds[0], cidr=cidr, virtual_services=routed)


def _tcp_binds(view: OutboundView, place: Place) -> tuple[tuple[str, ...], str]:
    """The addresses to bind, and the range to match where the service's address is one."""
    if place.binds:
        return place.binds, ""
    addresses = view.addresses(place.service)
    if "/" in addresses[0]:
        return view.wildcards, addresses[0]
    if addresses[0] == UNSPECIFIED_ADDRESS:
        return view.wildcards if view.dual_stack else (view.wildcard,), ""
    return addresses if view.dual_stack else addresses[:1], ""


def _entry(
    place: Place, binds: tuple[str, ...], recorded: ListenerClass, chains: tuple[FilterChain, ...]
) -> ListenerEntry:
    return ListenerEntry(
        binds=binds,
        port=place.port.number,
        protocol=place.port.protocol,
        recorded=recorded,
        chains=chains,
        real=place.real,
    )


def _http_chain(draft: _Draft, place: Place, binds: tuple[str, ...], route_name: str, *, sniffing: bool) -> FilterChain:
    connection = HttpConnection(
        profile=draft.profile,
        stat_prefix=f"outbound_{binds[0]}_{place.port.number};",
        routes=route_name,
        grpc_web=place.port.protocol is PortProtocol.GRPC_WEB,
        resolves=_resolves(draft.view, place.service),
    )
    match = sniffed_http(http10=draft.sniffs_http10) if sniffing else None
    return FilterChain(match=match, filters=connection, outbound=True)


def _resolves(view: OutboundView, service: Service) -> tuple[ResolvedHosts, ...]:
    own = service.resolution is Resolution.DYNAMIC_DNS
    return (ResolvedHosts(service.hostname, view.dns_lookup_family), *view.resolves) if own else view.resolves
