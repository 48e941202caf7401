"""Route configurations of a sidecar's outbound listeners (networking.md §5.1, §5.2).

Each is tied from runs of virtual hosts, which are encoded once for all configurations and views that have them; the
catch-all is the last. Inbound routes are part of their listeners: `routes_inbound.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from trierarch.envoy.http_connection import HttpConnection
from trierarch.envoy.listener_entries import select_entries
from trierarch.envoy.listeners import HTTP_PROXY_ROUTE, narrow_outbound_listeners, proxy_port
from trierarch.envoy.outbound_view import select_outbound_view
from trierarch.envoy.route_configuration import encode_route_configuration
from trierarch.envoy.route_hash import may_hash
from trierarch.envoy.route_tables import NO_MEMBERS, Members, build_table, index_services, select_member
from trierarch.envoy.units import Tied
from trierarch.envoy.virtual_host_runs import Run, hosts_of
from trierarch.envoy.virtual_host_selection import select_catch_all, select_virtual_hosts
from trierarch.envoy.virtual_hosts import catch_all_host
from trierarch.push.model import PortProtocol

if TYPE_CHECKING:
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.outlook import Outlook
    from trierarch.envoy.units import Plan
    from trierarch.envoy.virtual_hosts import CatchAll, VirtualHostInputs
    from trierarch.push.sidecar_scope import EgressListener
    from trierarch.push.steps import Steps
    from trierarch.push.traffic import MergedRule


class OutboundRoutes(NamedTuple):
    """All that routes are made of. `listening`: the view of the listeners that ask for them."""

    view: OutboundView
    listening: OutboundView


def narrow_outbound_routes(outlook: Outlook) -> OutboundRoutes:
    """What of an outlook its routes depend on."""
    listening = outlook.narrowed(narrow_outbound_listeners)
    return OutboundRoutes(outlook.narrowed(select_routing_view), listening)


def select_routing_view(outlook: Outlook) -> OutboundView:
    """The view without the rules that no route shows."""
    view = outlook.narrowed(select_outbound_view)
    return replace(view, rules=outlook.again("hashing rules", (view.rules,), lambda: _hashing(view.rules)))


def _hashing(rules: tuple[tuple[str, MergedRule], ...]) -> tuple[tuple[str, MergedRule], ...]:
    return tuple([each for each in rules if may_hash(each[1])])


def plan_outbound_routes(inputs: OutboundRoutes, memo: Memo) -> Plan:
    """The route configurations that the outbound listeners of a view ask for, by name."""
    for name in (yield from select_route_names(inputs, memo)):
        yield (yield from plan_configuration(inputs.view, name, memo))


def plan_configuration(view: OutboundView, name: str, memo: Memo) -> Steps[Tied]:
    """One of them, whole."""
    runs = yield from select_runs(view, name, memo)
    return Tied(name, (yield from encode_route_configuration(name, runs, memo)))


def select_route_names(inputs: OutboundRoutes, memo: Memo) -> Steps[list[str]]:
    """The names of the route configurations that a view needs, sorted."""
    listening = inputs.listening
    entries = yield from memo.steps(select_entries, listening)
    names = {
        chain.filters.routes
        for entry in entries
        for chain in entry.chains
        if isinstance(chain.filters, HttpConnection) and isinstance(chain.filters.routes, str)
    }
    return sorted(names | {HTTP_PROXY_ROUTE} if proxy_port(listening) else names)


def is_for_one_host(name: str) -> bool:
    """Whether a configuration belongs to a listener that only one service has."""
    host, _ = _parse(name)
    return bool(host)


def select_hosts(view: OutboundView, name: str, memo: Memo) -> Steps[list[VirtualHostInputs]]:
    """The virtual hosts of the configuration of that name."""
    return list(hosts_of((yield from select_runs(view, name, memo))))


def select_runs(view: OutboundView, name: str, memo: Memo) -> Steps[tuple[Run, ...]]:
    """The same in runs."""
    host, port = _parse(name)
    egress = _egress_listener(view, name, port)
    if host:
        return () if egress is None else (yield from _sniffed_hosts(view, egress, host, port, memo))
    runs: tuple[Run, ...] = ()
    if egress is not None:
        if egress.port is not None and egress.port.protocol is PortProtocol.HTTP_PROXY:
            port = 0
        members = yield from _members(egress, port, memo)
        yield
        table = build_table(view, egress, port, members)
        runs = yield from select_virtual_hosts(table, memo)
    return *runs, memo.recall(_catch_all_run, select_catch_all(view))


def _catch_all_run(inputs: CatchAll) -> Run:
    return Run((catch_all_host(inputs),))


def _members(egress: EgressListener, port: int, memo: Memo) -> Steps[Members]:
    return (yield from memo.steps(index_services, egress.services)).get(port, NO_MEMBERS)


def _sniffed_hosts(
    view: OutboundView, egress: EgressListener, host: str, port: int, memo: Memo
) -> Steps[tuple[Run, ...]]:
    """The one virtual host of a listener that only this service has: whatever name is asked for, it is meant."""
    members = yield from _members(egress, port, memo)
    member = memo.recall(select_member, (members, host))
    found = yield from select_virtual_hosts(build_table(view, egress, port, member), memo)
    return tuple([memo.recall(_for_any_name, each) for each in hosts_of(found) if host in each.domains][:1])


def _for_any_name(host: VirtualHostInputs) -> Run:
    return Run((replace(host, domains=("*",)),))


def _parse(name: str) -> tuple[str, int]:
    """Host and port of `80`, `web.shop:80`; the host is "" where all services of the port are meant, the port 0 for
    the HTTP proxy and for Unix sockets, which have paths for names.
    """
    host, _, port = name.rpartition(":")
    return (host, int(port)) if port.isdecimal() else ("", 0)


def _egress_listener(view: OutboundView, name: str, port: int) -> EgressListener | None:
    """The egress listener that serves a name: the first with that port (or socket), or without any."""
    for egress in view.egress:
        if egress.port is None:
            return egress
        if egress.port.number == port and (port or egress.bind == name):
            return egress
    return None
