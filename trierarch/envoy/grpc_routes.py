"""Routes of proxyless gRPC clients: a configuration for each port of each service (networking.md §4.11, §5.1).

The virtual hosts are those that a sidecar would have, narrowed to the one that the configuration is for; it is found
by the name of the target as the client wrote it, so domains stand with and without the port.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.envoy.names import outbound_cluster
from trierarch.envoy.route_configuration import encode_proxyless_configuration
from trierarch.envoy.route_tables import NO_MEMBERS, build_table, index_services, select_member
from trierarch.envoy.units import Joined
from trierarch.envoy.virtual_host_runs import hosts_of
from trierarch.envoy.virtual_host_selection import select_virtual_hosts

if TYPE_CHECKING:
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.units import Plan
    from trierarch.push.sidecar_scope import EgressListener
    from trierarch.push.steps import Steps


def plan_grpc_routes(view: OutboundView, memo: Memo) -> Plan:
    """The route configurations that the listeners of a view ask for."""
    for egress in view.egress:
        for service in dict.fromkeys(egress.services):
            for number in dict.fromkeys(port.number for port in service.ports):
                yield (yield from _plan_port(view, egress, service.hostname, number, memo))


def _plan_port(view: OutboundView, egress: EgressListener, host: str, port: int, memo: Memo) -> Steps[Joined]:
    """The configuration of one port of a service."""
    index = yield from memo.steps(index_services, egress.services)
    member = memo.recall(select_member, (index.get(port, NO_MEMBERS), host))
    table = build_table(view, egress, port, member)
    runs = yield from select_virtual_hosts(table, memo)
    name = outbound_cluster(port, "", host)
    own = [each for each in hosts_of(runs) if each.name == f"{host}:{port}"]
    return Joined(name, (yield from encode_proxyless_configuration(name, own)))
