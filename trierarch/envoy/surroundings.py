"""What virtual hosts are thought of in: all that they meet in a route configuration, virtual services apart.

A client sees most of it as anybody would, whose namespace and labels are not known. What is thought of in anybody's
surroundings is shared by all clients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trierarch.envoy.host_candidates import select_common
from trierarch.envoy.host_names import Names
from trierarch.envoy.route_tables import build_members

if TYPE_CHECKING:
    from trierarch.envoy.host_candidates import Common
    from trierarch.envoy.host_names import Claim
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.route_tables import Members, RouteTable


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """One object as long as it is equal, so that what was thought of a virtual service in it is found at once. The view
    has no egress listeners.
    """

    view: OutboundView
    port: int
    members: Members
    names: Names
    common: Common


def see_as_client(table: RouteTable, names: Names, memo: Memo) -> Surroundings:
    """The surroundings of a table, to whose client services have these names."""
    return memo.recall(_build_surroundings, (table.view.unheard, table.port, table.members, names))


def see_as_anybody(around: Surroundings, memo: Memo) -> Surroundings:
    """The same for anybody; these very ones where they are anybody's."""
    strangers = around.names.strangers
    if strangers is None:
        return around
    return memo.recall(_build_surroundings, (around.view.anonymous, around.port, around.members, strangers))


def narrow_to_hosts(around: Surroundings, hosts: tuple[str, ...], memo: Memo) -> Surroundings:
    """Nothing of them but these hosts, and what these are aliases of: the same however many others come and go."""
    known, view = around.members.by_host, around.view
    members = memo.recall(build_members, tuple([known[host] for host in hosts if host in known]))
    names = memo.recall(_name_members, (members, tuple(map(around.names.of, members.by_host))))
    meant = dict.fromkeys([each for host in hosts for each in view.chain(host)])
    services = tuple([service for host in meant if (service := view.service(host)) is not None])
    rules = tuple([(host, rule) for host in meant if (rule := view.rule(host)) is not None])
    view = replace(view, services=services, rules=rules, headless=())
    return memo.recall(_build_surroundings, (view, around.port, members, names))


def _name_members(inputs: tuple[Members, tuple[tuple[Claim, ...], ...]]) -> Names:
    members, claims = inputs
    return Names(dict(zip(members.by_host, claims, strict=True)), frozenset(members.by_host))


def _build_surroundings(inputs: tuple[OutboundView, int, Members, Names]) -> Surroundings:
    view, port, members, names = inputs
    return Surroundings(view, port, members, names, select_common(view))
