"""The virtual hosts of a client from those that anybody sees: a few are others, in the same places.

A client sees otherwise than anybody what is in its own namespace, which it knows by shorter names, and virtual services
that go by who it is. So where nobody wants what another has, and the client's own names take nobody's either, its
virtual hosts are anybody's but for those, and all runs of a configuration that have none of those are shared. What it
has of its own is found by its neighbourhood alone: what comes or changes elsewhere costs a namespace a look-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trierarch.envoy.default_hosts import HOSTS_PER_STEP, default_group
from trierarch.envoy.host_names import claims_of
from trierarch.envoy.routed_hosts import Group, unite
from trierarch.envoy.virtual_host_runs import exchange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trierarch.envoy.host_candidates import Common
    from trierarch.envoy.host_names import Caller, Peace
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.route_tables import Members
    from trierarch.envoy.routed_hosts import Groups
    from trierarch.envoy.virtual_host_runs import Run
    from trierarch.envoy.virtual_hosts import VirtualHostInputs
    from trierarch.push.steps import Steps
    from trierarch.push.traffic import MergedRule


class Selection(NamedTuple):
    """Virtual hosts, sorted by name. `peace`: None if somebody wants what another has."""

    runs: tuple[Run, ...]
    peace: Peace | None


def lay_over(anybody: Selection, caller: Caller, groups: Groups, memo: Memo) -> Steps[tuple[Run, ...] | None]:
    """What the client of these groups has in place of what anybody has.

    None where more is different than some virtual hosts: then all have to be thought of.
    """
    runs, peace = anybody
    if peace is None:
        return None
    theirs, ours = yield from groups.apart()
    view, members, common = groups.own.view, groups.own.names.own, groups.own.common
    rules = tuple(map(view.rule, members.by_host))
    overlay = yield from memo.steps(_select_overlay, Apart(caller, members, rules, common, unite(theirs), unite(ours)))
    if overlay.is_misfit or not peace.taken.isdisjoint(overlay.wanted):
        return None
    return _exchange(runs, peace, overlay.hosts, memo)


class Apart(NamedTuple):
    """All that a client may see differently: services that it knows by other names, with their `rules` beside them, and
    what anybody and what the client makes of virtual services that the two may see differently.
    """

    caller: Caller
    members: Members
    rules: tuple[MergedRule | None, ...]
    common: Common
    theirs: Group
    ours: Group


class Overlay(NamedTuple):
    """Virtual hosts that a client has in the places of others with the same names. `wanted`: domains, in lower case,
    that those did not have. A misfit: theirs are called otherwise, or want what another of them has.
    """

    hosts: tuple[VirtualHostInputs, ...] = ()
    wanted: frozenset[str] = frozenset()
    is_misfit: bool = False


def _select_overlay(apart: Apart, memo: Memo) -> Steps[Overlay]:
    """The same as long as nothing changes in the client's neighbourhood, whatever does elsewhere."""
    caller, members, rules, common, routed_theirs, routed_ours = apart
    theirs, ours, stranger = [routed_theirs], [routed_ours], caller.stranger
    for count, ((host, member), rule) in enumerate(zip(members.by_host.items(), rules, strict=True), start=1):
        if host not in routed_ours.claimed:
            for groups, who in ((theirs, stranger), (ours, caller)):
                groups.append(default_group(claims_of(member, who, memo), member.service, rule, common, memo))
        if count % HOSTS_PER_STEP == 0:
            yield
    return _compare(unite(theirs), unite(ours))


def _compare(theirs: Group, ours: Group) -> Overlay:
    if theirs.claimed != ours.claimed or [each.name for each in theirs.claims] != [each.name for each in ours.claims]:
        return Overlay(is_misfit=True)
    given_up = frozenset().union(*[claim.folded for claim in theirs.claims])
    wanted = frozenset().union(*[claim.folded for claim in ours.claims])
    if len(wanted) < sum([len(claim.domains) for claim in ours.claims]):
        return Overlay(is_misfit=True)
    others = [new for old, new in zip(theirs.hosts, ours.hosts, strict=True) if new is not old]
    return Overlay(tuple(sorted(others, key=lambda host: host.name)), wanted - given_up)


def _exchange(runs: tuple[Run, ...], peace: Peace, hosts: Sequence[VirtualHostInputs], memo: Memo) -> tuple[Run, ...]:
    """The runs with these virtual hosts in the places of those that have the same names."""
    by_run: dict[int, list[tuple[int, VirtualHostInputs]]] = {}
    for host in hosts:
        run, place = peace.places[host.name]
        by_run.setdefault(run, []).append((place, host))
    found = list(runs)
    for run, others in by_run.items():
        found[run] = memo.recall(exchange, (runs[run], tuple(others)))
    return tuple(found)
