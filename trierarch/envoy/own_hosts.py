"""The virtual hosts of a client from those that anybody sees: a few are others, in the same places.

A client sees otherwise than anybody what is in its own namespace, which it knows by shorter names, and virtual services
that go by who it is. So where nobody wants what another has, and the client's own names take nobody's either, its
virtual hosts are anybody's but for those, and all runs of a configuration that have none of those are shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trierarch.envoy.default_hosts import HOSTS_PER_STEP, default_group
from trierarch.envoy.routed_hosts import unite
from trierarch.envoy.virtual_host_runs import exchange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trierarch.envoy.host_names import Peace
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.routed_hosts import Group, Groups
    from trierarch.envoy.virtual_host_runs import Run
    from trierarch.envoy.virtual_hosts import VirtualHostInputs
    from trierarch.push.steps import Steps


class Selection(NamedTuple):
    """Virtual hosts, sorted by name. `peace`: None if somebody wants what another has."""

    runs: tuple[Run, ...]
    peace: Peace | None


def lay_over(anybody: Selection, groups: Groups, memo: Memo) -> Steps[tuple[Run, ...] | None]:
    """What the client of these groups has in place of what anybody has.

    None where more is different than some virtual hosts: then all have to be thought of.
    """
    runs, peace = anybody
    if peace is None:
        return None
    theirs, ours = yield from _apart(groups, memo)
    if theirs.claimed != ours.claimed or [each.name for each in theirs.claims] != [each.name for each in ours.claims]:
        return None
    if not peace.lasts(theirs.claims, ours.claims):
        return None
    others = [new for old, new in zip(theirs.hosts, ours.hosts, strict=True) if new is not old]
    return _exchange(runs, peace, others, memo)


def _apart(groups: Groups, memo: Memo) -> Steps[tuple[Group, Group]]:
    """What anybody and what the client makes of all that they may see differently."""
    theirs, ours = yield from groups.apart()
    claimed = unite(ours).claimed
    for count, host in enumerate(groups.own.names.own, start=1):
        if host not in claimed:
            theirs.append(default_group(groups.common, host, memo))
            ours.append(default_group(groups.own, host, memo))
        if count % HOSTS_PER_STEP == 0:
            yield
    return unite(theirs), unite(ours)


def _exchange(runs: tuple[Run, ...], peace: Peace, others: Sequence[VirtualHostInputs], memo: Memo) -> tuple[Run, ...]:
    """The runs with these virtual hosts in the places of those that have the same names."""
    by_run: dict[int, list[tuple[int, VirtualHostInputs]]] = {}
    for host in sorted(others, key=lambda host: host.name):
        run, place = peace.places[host.name]
        by_run.setdefault(run, []).append((place, host))
    found = list(runs)
    for run, hosts in by_run.items():
        found[run] = memo.recall(exchange, (runs[run], tuple(hosts)))
    return tuple(found)
