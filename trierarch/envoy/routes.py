"""Route configurations of a sidecar's outbound listeners (networking.md §5.1, §5.2).

Each is spliced from a head, one piece for each virtual host (built once for all configurations and views that have an
equal one), the catch-all, and a tail. The pieces stand in the order of their fields, so the bytes are those that
encoding the whole message would give. Inbound routes are part of their listeners: `routes_inbound.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.route.v3 import RouteConfiguration
from trierarch.envoy.http_connection import HttpConnection
from trierarch.envoy.listener_entries import select_entries
from trierarch.envoy.listeners import HTTP_PROXY_ROUTE, proxy_port
from trierarch.envoy.names import ALLOW_ANY_DNS_CLUSTER, BLACK_HOLE_CLUSTER
from trierarch.envoy.outbound_view import OutboundView
from trierarch.envoy.packing import encode
from trierarch.envoy.units import Piece, Plan, Splice
from trierarch.envoy.virtual_host_selection import (
    PortService,
    RouteTable,
    index_owners,
    index_services,
    select_virtual_hosts,
)
from trierarch.envoy.virtual_hosts import CatchAllRoute, VirtualHostInputs, virtual_host_piece
from trierarch.push.model import PortProtocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trierarch.push.context import PushContext
    from trierarch.push.routing import ResolvedVirtualService
    from trierarch.push.sidecar_scope import EgressListener, SidecarScope
    from trierarch.push.view import OutboundKey

_DIRECT_RESPONSE_LIMIT = 1 << 20
"""Bytes that a route's own answer may have."""


def plan_outbound_routes(key: OutboundKey, scope: SidecarScope, context: PushContext) -> Plan:
    """The route configurations that the outbound listeners of a view ask for, by name."""
    view = OutboundView(key=key, scope=scope, context=context)
    planner = _Planner(view)
    for name in sorted(_route_names(view)):
        yield planner.plan(name)


def _route_names(view: OutboundView) -> set[str]:
    names = {
        chain.filters.routes
        for entry in select_entries(view)
        for chain in entry.chains
        if isinstance(chain.filters, HttpConnection) and isinstance(chain.filters.routes, str)
    }
    return names | {HTTP_PROXY_ROUTE} if proxy_port(view) else names


class _EgressIndex(NamedTuple):
    services: Mapping[int, Mapping[str, PortService]]
    owners: Mapping[str, ResolvedVirtualService]


@dataclass(slots=True)
class _Planner:
    """Plans one configuration after the other; services are indexed once for each egress listener."""

    view: OutboundView
    indexes: dict[EgressListener, _EgressIndex] = field(default_factory=dict)

    def plan(self, name: str) -> Splice:
        """The pieces of the configuration of that name."""
        pieces = [Piece(_encode_head, name)]
        pieces += [virtual_host_piece(host) for host in self._hosts(name)]
        return Splice(name, (*pieces, _TAIL))

    def _hosts(self, name: str) -> Iterator[VirtualHostInputs]:
        host, port = _parse(name)
        egress = _egress_listener(self.view, name, port)
        if egress is not None:
            table = self._table(name, port, egress)
            yield from _sniffed_hosts(table, host) if host else select_virtual_hosts(table)
        if not host:
            yield _catch_all(self.view)

    def _table(self, name: str, port: int, egress: EgressListener) -> RouteTable:
        if egress not in self.indexes:
            self.indexes[egress] = _EgressIndex(index_services(egress), index_owners(egress))
        index = self.indexes[egress]
        if egress.port is not None and egress.port.protocol is PortProtocol.HTTP_PROXY:
            port = 0
        return RouteTable(
            view=self.view,
            port=port,
            services=index.services.get(port, {}),
            virtual_services=egress.virtual_services,
            owners=index.owners,
            only_ported=name == HTTP_PROXY_ROUTE,
        )


def _parse(name: str) -> tuple[str, int]:
    """Host and port of `80`, `web.shop:80`; the host is "" where all services of the port are meant, the port 0 for
    the HTTP proxy and for Unix sockets, which have paths for names.
    """
    host, _, port = name.rpartition(":")
    return (host, int(port)) if port.isdecimal() else ("", 0)


def _egress_listener(view: OutboundView, name: str, port: int) -> EgressListener | None:
    """The egress listener that serves a name: the first with that port (or socket), or without any."""
    for egress in view.scope.egress:
        if egress.port is None:
            return egress
        if egress.port.number == port and (port or egress.bind == name):
            return egress
    return None


def _sniffed_hosts(table: RouteTable, host: str) -> list[VirtualHostInputs]:
    """The one virtual host of a listener that only this service has: whatever name is asked for, it is meant."""
    member = table.services.get(host)
    narrowed = replace(table, services={} if member is None else {host: member})
    found = [each for each in select_virtual_hosts(narrowed) if host in each.domains]
    return [replace(each, domains=("*",)) for each in found[:1]]


def _catch_all(view: OutboundView) -> VirtualHostInputs:
    """What happens to hosts that nobody defined (networking.md §4.8)."""
    name, cluster = "allow_any", view.fall_through
    if view.resolves_unknown_names:
        name, cluster = "allow_any_dynamic_dns", ALLOW_ANY_DNS_CLUSTER
    elif cluster == BLACK_HOLE_CLUSTER:
        name, cluster = "block_all", ""
    headers = view.context.mesh.config.default_config.proxy_headers
    forwards_host = headers is not None and headers.x_forwarded_host is not None and headers.x_forwarded_host.enabled
    route = CatchAllRoute(cluster=cluster, forwards_host=bool(forwards_host))
    return VirtualHostInputs(name=name, domains=("*",), routes=(route,), counts_attempts=view.counts_attempts)


def _encode_head(name: str) -> bytes:
    return encode(RouteConfiguration(name=name))


def _encode_tail(_nothing: None) -> bytes:
    """The rest of the message. Hosts match with and without their port, so no domain has to repeat it."""
    return encode(
        RouteConfiguration(
            validate_clusters=False,
            max_direct_response_body_size_bytes=_DIRECT_RESPONSE_LIMIT,
            ignore_port_in_host_matching=True,
        )
    )


_TAIL = Piece(_encode_tail, None)
