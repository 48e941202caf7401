"""Routes of proxyless gRPC clients: a configuration for each port of each service (networking.md §4.11, §5.1).

The virtual hosts are those that a sidecar would have, narrowed to the one that the configuration is for; it is found
by the name of the target as the client wrote it, so domains stand with and without the port.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.envoy.names import outbound_cluster
from trierarch.envoy.outbound_view import OutboundView
from trierarch.envoy.route_configuration import proxyless_pieces
from trierarch.envoy.units import Plan, Splice
from trierarch.envoy.virtual_host_selection import PortService, RouteTable, index_services, select_virtual_hosts
from trierarch.envoy.virtual_service_index import VirtualServiceIndex

if TYPE_CHECKING:
    from trierarch.push.context import PushContext
    from trierarch.push.sidecar_scope import EgressListener, SidecarScope
    from trierarch.push.steps import Steps
    from trierarch.push.view import OutboundKey


def plan_grpc_routes(key: OutboundKey, scope: SidecarScope, context: PushContext) -> Plan:
    """The route configurations that the listeners of a view ask for."""
    view = OutboundView(key=key, scope=scope, context=context)
    for egress in scope.egress:
        index = VirtualServiceIndex(egress.virtual_services)
        for member in _services(egress):
            for port in member.ports:
                yield (yield from _plan_port(view, index, member._replace(ports=(port,))))


def _services(egress: EgressListener) -> list[PortService]:
    """Under port 0 are all services with all their ports."""
    return list(index_services(egress)[0].values())


def _plan_port(view: OutboundView, index: VirtualServiceIndex, member: PortService) -> Steps[Splice]:
    """The configuration of one port of a service."""
    host, port = member.service.hostname, member.ports[0].number
    services = {host: member}
    considered = index.covering(services)
    table = RouteTable(view=view, port=port, services=services, virtual_services=considered, owners=index.owners)
    hosts = yield from select_virtual_hosts(table)
    name = outbound_cluster(port, "", host)
    return Splice(name, proxyless_pieces(name, [each for each in hosts if each.name == f"{host}:{port}"]))
