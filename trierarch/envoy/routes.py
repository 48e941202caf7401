"""Route configurations of a sidecar's outbound listeners (networking.md §5.1, §5.2).

Each is spliced from its virtual hosts, which are built once for all configurations and views that have equal ones; the
catch-all is the last. Inbound routes are part of their listeners: `routes_inbound.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from trierarch.envoy.http_connection import HttpConnection
from trierarch.envoy.listener_entries import select_entries
from trierarch.envoy.listeners import HTTP_PROXY_ROUTE, proxy_port
from trierarch.envoy.outbound_view import OutboundView
from trierarch.envoy.route_configuration import route_configuration_pieces
from trierarch.envoy.units import Splice
from trierarch.envoy.virtual_host_selection import (
    PortService,
    RouteTable,
    index_owners,
    index_services,
    select_catch_all,
    select_virtual_hosts,
)
from trierarch.push.model import PortProtocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trierarch.envoy.units import Plan
    from trierarch.envoy.virtual_hosts import VirtualHostInputs
    from trierarch.push.context import PushContext
    from trierarch.push.routing import ResolvedVirtualService
    from trierarch.push.sidecar_scope import EgressListener, SidecarScope
    from trierarch.push.view import OutboundKey


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
        return Splice(name, route_configuration_pieces(name, self._hosts(name)))

    def _hosts(self, name: str) -> Iterator[VirtualHostInputs]:
        host, port = _parse(name)
        egress = _egress_listener(self.view, name, port)
        if egress is not None:
            table = self._table(name, port, egress)
            yield from _sniffed_hosts(table, host) if host else select_virtual_hosts(table)
        if not host:
            yield select_catch_all(self.view)

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
