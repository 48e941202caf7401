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

from trierarch.envoy.host_candidates import build_host, counts_attempts, select_common
from trierarch.envoy.host_names import Contest, arrange, select_caller, select_names
from trierarch.envoy.names import ALLOW_ANY_DNS_CLUSTER, BLACK_HOLE_CLUSTER, outbound_cluster
from trierarch.envoy.route_hash import consistent_hash
from trierarch.envoy.routed_hosts import Group, Groups, batches, unite
from trierarch.envoy.virtual_hosts import CatchAllRoute, DefaultRoute, VirtualHostInputs
from trierarch.push.model import Resolution
from trierarch.push.traffic import effective_policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trierarch.envoy.host_candidates import Common
    from trierarch.envoy.host_names import Claim, Names
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.route_tables import Members, RouteTable
    from trierarch.push.model import Service
    from trierarch.push.steps import Steps
    from trierarch.push.traffic import MergedRule

HOSTS_PER_STEP = 100
"""After so many virtual hosts the event loop gets its turn: about a millisecond of work."""

DYNAMIC_DNS = "allow_any_dynamic_dns"


def select_virtual_hosts(table: RouteTable, memo: Memo) -> Steps[list[VirtualHostInputs]]:
    """All virtual hosts but the catch-all, sorted by name."""
    view = table.view
    names = yield from memo.steps(select_names, (table.members, select_caller(view, table.port)))
    groups = Groups(table, names, memo)
    routed: list[Group] = []
    for some in batches(table.considered):
        routed.append(groups.of(some))
        yield
    unrouted = yield from memo.steps(_select_defaults, Defaults(table.members, names, select_common(view), view.rules))
    claims, hosts, claimed = unite(routed)
    defaults = unite([group for host, group in unrouted.items() if host not in claimed])
    claims, hosts = claims + defaults.claims, hosts + defaults.hosts
    known = names.known if claimed <= names.known else names.known | claimed
    order, left = yield from memo.steps(arrange, Contest(claims, known, only_ported=not table.port))
    if left:
        return [_called(hosts[place], left.get(place), memo) for place in order]
    return [hosts[place] for place in order]


def _called(host: VirtualHostInputs, domains: tuple[str, ...] | None, memo: Memo) -> VirtualHostInputs:
    """The virtual host with those of its domains that are left to it; None: all."""
    return host if domains is None else memo.recall(_renamed, (host, domains))


def _renamed(inputs: tuple[VirtualHostInputs, tuple[str, ...]]) -> VirtualHostInputs:
    host, domains = inputs
    return replace(host, domains=domains)


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


def _select_defaults(inputs: Defaults, memo: Memo) -> Steps[Mapping[str, Group]]:
    """The default virtual hosts of every service, one for each of its HTTP ports, by host."""
    names, members, rules = inputs.names, inputs.members.by_host, dict(inputs.rules)
    strangers: Mapping[str, Group] = {}
    hosts: Iterable[str] = members
    if names.strangers is not None:
        strangers = yield from memo.steps(_select_defaults, inputs._replace(names=names.strangers))
        hosts = names.own
    own: dict[str, Group] = {}
    for count, host in enumerate(hosts, start=1):
        service = members[host].service
        if service.resolution is not Resolution.ALIAS:
            claims = names.claims[host]
            rows = [DefaultHost(claim, service, rules.get(host), inputs.common) for claim in claims]
            own[host] = Group(claims, tuple([memo.recall(_build_default, row) for row in rows]), frozenset())
        if count % HOSTS_PER_STEP == 0:
            yield
    return {**strangers, **own}


def _build_default(row: DefaultHost) -> VirtualHostInputs:
    claim, service, rule, common = row
    route = DefaultRoute(
        cluster=outbound_cluster(claim.port, "", service.hostname),
        operation=f"{service.hostname}:{claim.port}/*",
        consistent_hash=consistent_hash(effective_policy(rule, "", claim.port, common.mesh)),
        retry=common.retry,
    )
    return build_host(claim, service, (route,), common)


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
    return VirtualHostInputs(name=name, domains=("*",), routes=(route,), counts_attempts=counts_attempts(view))
