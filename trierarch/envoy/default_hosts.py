"""The virtual hosts of services of which no virtual service speaks: one route each, to the service (§5.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trierarch.envoy.host_candidates import build_host, find_session, treat
from trierarch.envoy.names import outbound_cluster
from trierarch.envoy.route_hash import consistent_hash
from trierarch.envoy.routed_hosts import NO_GROUP, Group
from trierarch.envoy.virtual_hosts import DefaultRoute
from trierarch.push.model import Resolution
from trierarch.push.traffic import effective_policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trierarch.envoy.host_candidates import Common
    from trierarch.envoy.host_names import Claim, Names
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.route_tables import Members
    from trierarch.envoy.virtual_hosts import Treatment, VirtualHostInputs
    from trierarch.push.model import Service
    from trierarch.push.steps import Steps
    from trierarch.push.traffic import MergedRule

HOSTS_PER_STEP = 100
"""After so many virtual hosts the event loop gets its turn: about a millisecond of work."""


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


def select_defaults(inputs: Defaults, memo: Memo) -> Steps[Mapping[str, Group]]:
    """The default virtual hosts of every service, one for each of its HTTP ports, by host."""
    names, members, rules = inputs.names, inputs.members.by_host, dict(inputs.rules)
    strangers: Mapping[str, Group] = {}
    hosts: Iterable[str] = members
    if names.strangers is not None:
        strangers = yield from memo.steps(select_defaults, inputs._replace(names=names.strangers))
        hosts = names.own.by_host
    own: dict[str, Group] = {}
    for count, host in enumerate(hosts, start=1):
        own[host] = default_group(names.of(host), members[host].service, rules.get(host), inputs.common, memo)
        if count % HOSTS_PER_STEP == 0:
            yield
    return {**strangers, **own}


def default_group(
    claims: tuple[Claim, ...], service: Service, rule: MergedRule | None, common: Common, memo: Memo
) -> Group:
    """Those of one service. An alias has none: its names are those of what it stands for."""
    if service.resolution is Resolution.ALIAS:
        return NO_GROUP
    rows = [DefaultHost(claim, service, rule, common) for claim in claims]
    return Group(claims, tuple([memo.think(_build_default, row) for row in rows]), frozenset())


def _build_default(row: DefaultHost, memo: Memo) -> VirtualHostInputs:
    claim, service, rule, common = row
    return build_host(claim, memo.recall(_treat_by_default, (service, claim.port, rule, common)))


def _treat_by_default(inputs: tuple[Service, int, MergedRule | None, Common]) -> Treatment:
    service, port, rule, common = inputs
    route = DefaultRoute(
        cluster=outbound_cluster(port, "", service.hostname),
        operation=f"{service.hostname}:{port}/*",
        consistent_hash=consistent_hash(effective_policy(rule, "", port, common.mesh)),
        retry=common.retry,
    )
    return treat((route,), find_session(service, common), common)
