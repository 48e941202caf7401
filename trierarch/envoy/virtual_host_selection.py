"""Which virtual hosts a route configuration has (networking.md §5.4).

Virtual services come first, in order of precedence: their own hosts, and the services that they name. Every other
service of the port gets a default route. Who may be called what is settled in `host_names.py`. Nothing is built here:
the result is the inputs of `virtual_hosts.py`, in runs.

A configuration of thousands of hosts is planned anew when one of them changes, for every namespace. So it is thought of
once, as anybody would see it, and for a client only of what it sees otherwise (`own_hosts.py`). What is thought about
each host is remembered by what decides it, and what is thought about all together by what decides that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from trierarch.envoy.default_hosts import Defaults, select_defaults
from trierarch.envoy.host_candidates import counts_attempts
from trierarch.envoy.host_names import Contest, arrange, select_caller, select_names
from trierarch.envoy.names import ALLOW_ANY_DNS_CLUSTER, BLACK_HOLE_CLUSTER
from trierarch.envoy.own_hosts import Selection, lay_over
from trierarch.envoy.route_tables import DEFAULT_HTTP_PORT
from trierarch.envoy.routed_hosts import Group, Groups, batches, unite
from trierarch.envoy.surroundings import Surroundings, see_as_anybody, see_as_client
from trierarch.envoy.virtual_host_runs import Run
from trierarch.envoy.virtual_hosts import CatchAll, CatchAllRoute
from trierarch.envoy.virtual_service_index import index_virtual_services

if TYPE_CHECKING:
    from trierarch.envoy.host_names import Arrangement
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.route_tables import Members, RouteTable
    from trierarch.envoy.virtual_hosts import VirtualHostInputs
    from trierarch.push.routing import ResolvedVirtualService
    from trierarch.push.steps import Steps

DYNAMIC_DNS = "allow_any_dynamic_dns"


def select_virtual_hosts(table: RouteTable, memo: Memo) -> Steps[tuple[Run, ...]]:
    """All virtual hosts but the catch-all, sorted by name."""
    caller = select_caller(table.view, table.port)
    names = yield from memo.steps(select_names, (table.members, caller))
    own = see_as_client(table, names, memo)
    common = see_as_anybody(own, memo)
    runs: tuple[Run, ...] | None = None
    if 2 * len(names.own.by_host) <= len(table.members.by_host):
        anybody = yield from memo.steps(think_of_all, Scene(common, table.virtual_services))
        if own is common:
            return anybody.runs
        groups = Groups(own, common, index_virtual_services(table.virtual_services), memo)
        runs = yield from lay_over(anybody, caller, groups, memo)
    if runs is None:
        runs, _ = yield from think_of_all(Scene(own, table.virtual_services), memo)
    return runs


class Scene(NamedTuple):
    """All that virtual hosts are selected by. The virtual services are in order of precedence."""

    around: Surroundings
    virtual_services: tuple[ResolvedVirtualService, ...]


def think_of_all(scene: Scene, memo: Memo) -> Steps[Selection]:
    """Think of all of them."""
    around, virtual_services = scene
    groups = Groups(around, see_as_anybody(around, memo), index_virtual_services(virtual_services), memo)
    considered = memo.recall(_considered, (virtual_services, around.port, around.members))
    yield
    routed: list[Group] = []
    for some in batches(considered):
        routed.append(groups.of(some))
        yield
    names = around.names
    defaults = Defaults(around.members, names, around.common, around.view.rules)
    unrouted = yield from memo.steps(select_defaults, defaults)
    claims, hosts, claimed = unite(routed)
    rest = unite([group for host, group in unrouted.items() if host not in claimed])
    claims, hosts = claims + rest.claims, hosts + rest.hosts
    known = names.known if claimed <= names.known else names.known | claimed
    arrangement = yield from memo.steps(arrange, Contest(claims, known, only_ported=not around.port))
    return Selection((yield from _arranged(hosts, arrangement, memo)), arrangement.peace)


def _considered(
    inputs: tuple[tuple[ResolvedVirtualService, ...], int, Members],
) -> tuple[ResolvedVirtualService, ...]:
    """Those that can matter. Hosts that are no services are for the default port; elsewhere only what names a service
    is considered.
    """
    virtual_services, port, members = inputs
    if port == DEFAULT_HTTP_PORT:
        return virtual_services
    return index_virtual_services(virtual_services).covering(members.by_host)


def _arranged(hosts: tuple[VirtualHostInputs, ...], arrangement: Arrangement, memo: Memo) -> Steps[tuple[Run, ...]]:
    """The hosts in their runs. What is there already is not made again."""
    left = arrangement.left
    runs: list[Run] = []
    for places in arrangement.runs:
        found = [hosts[place] for place in places]
        if left:
            found = [_called(host, left.get(place), memo) for place, host in zip(places, found, strict=True)]
        runs.append(memo.recall(Run, tuple(found)))
        yield
    return tuple(runs)


def _called(host: VirtualHostInputs, domains: tuple[str, ...] | None, memo: Memo) -> VirtualHostInputs:
    """The virtual host with those of its domains that are left to it; None: all."""
    return host if domains is None else memo.recall(_renamed, (host, domains))


def _renamed(inputs: tuple[VirtualHostInputs, tuple[str, ...]]) -> VirtualHostInputs:
    host, domains = inputs
    return replace(host, domains=domains)


# --- hosts that nobody defined ---------------------------------------------------------------------------------------
def select_catch_all(view: OutboundView) -> CatchAll:
    """What happens to hosts that nobody defined (networking.md §4.8)."""
    name, cluster = "allow_any", view.fall_through
    if view.resolves_unknown_names:
        name, cluster = DYNAMIC_DNS, ALLOW_ANY_DNS_CLUSTER
    elif cluster == BLACK_HOLE_CLUSTER:
        name, cluster = "block_all", ""
    forwarded = view.headers.x_forwarded_host
    forwards_host = forwarded is not None and bool(forwarded.enabled)
    return CatchAll(CatchAllRoute(name=name, cluster=cluster, forwards_host=forwards_host), counts_attempts(view))
