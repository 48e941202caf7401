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
    DEFAULT_HTTP_PORT,
    PortService,
    RouteTable,
    index_services,
    select_catch_all,
    select_virtual_hosts,
)
from trierarch.envoy.virtual_service_index import VirtualServiceIndex
from trierarch.push.model import PortProtocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.envoy.units import Plan
    from trierarch.envoy.virtual_hosts import VirtualHostInputs
    from trierarch.push.context import PushContext
    from trierarch.push.sidecar_scope import EgressListener, SidecarScope
    from trierarch.push.steps import Steps
    from trierarch.push.view import OutboundKey


def plan_outbound_routes(key: OutboundKey, scope: SidecarScope, context: PushContext) -> Plan:
    """The route configurations that the outbound listeners of a view ask for, by name."""
    view = OutboundView(key=key, scope=scope, context=context)
    planner = _Planner(view)
    for name in sorted((yield from _route_names(view))):
        yield (yield from planner.plan(name))


def _route_names(view: OutboundView) -> Steps[set[str]]:
    entries = yield from select_entries(view, for_routes=True)
    names = {
        chain.filters.routes
        for entry in entries
        for chain in entry.chains
        if isinstance(chain.filters, HttpConnection) and isinstance(chain.filters.routes, str)
    }
    return names | {HTTP_PROXY_ROUTE} if proxy_port(view) else names


class _EgressIndex(NamedTuple):
    services: Mapping[int, Mapping[str, PortService]]
    virtual_services: VirtualServiceIndex


@dataclass(slots=True)
class _Planner:
    """Plans one configuration after the other; what is searched is indexed once for each egress listener."""

    view: OutboundView
    indexes: dict[EgressListener, _EgressIndex] = field(default_factory=dict)

    def plan(self, name: str) -> Steps[Splice]:
        """The pieces of the configuration of that name."""
        host, port = _parse(name)
        egress = _egress_listener(self.view, name, port)
        hosts: list[VirtualHostInputs] = []
        if egress is not None and host:
            hosts = yield from self._sniffed_hosts(egress, host, port)
        elif egress is not None:
            hosts = yield from select_virtual_hosts(self._table(egress, name, port))
        if not host:
            hosts.append(select_catch_all(self.view))
        return Splice(name, route_configuration_pieces(name, hosts))

    def _table(self, egress: EgressListener, name: str, port: int) -> RouteTable:
        if egress.port is not None and egress.port.protocol is PortProtocol.HTTP_PROXY:
            port = 0
        services = self._index(egress).services.get(port, {})
        return self._table_of(egress, port, services, only_ported=name == HTTP_PROXY_ROUTE)

    def _sniffed_hosts(self, egress: EgressListener, host: str, port: int) -> Steps[list[VirtualHostInputs]]:
        """The one virtual host of a listener that only this service has: whatever name is asked for, it is meant."""
        member = self._index(egress).services.get(port, {}).get(host)
        services = {} if member is None else {host: member}
        found = yield from select_virtual_hosts(self._table_of(egress, port, services))
        return [replace(each, domains=("*",)) for each in found if host in each.domains][:1]

    def _table_of(
        self, egress: EgressListener, port: int, services: Mapping[str, PortService], *, only_ported: bool = False
    ) -> RouteTable:
        """Hosts that are no services are for the default port; elsewhere only what names a service is considered."""
        index = self._index(egress).virtual_services
        considered = index.all if port == DEFAULT_HTTP_PORT else index.covering(services)
        return RouteTable(
            view=self.view,
            port=port,
            services=services,
            virtual_services=considered,
            owners=index.owners,
            only_ported=only_ported,
        )

    def _index(self, egress: EgressListener) -> _EgressIndex:
        if egress not in self.indexes:
            virtual_services = VirtualServiceIndex(egress.virtual_services)
            self.indexes[egress] = _EgressIndex(index_services(egress), virtual_services)
        return self.indexes[egress]


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
