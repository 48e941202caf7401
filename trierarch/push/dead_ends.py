"""Routes that lead nowhere: destinations of VirtualServices that no service of the mesh has.

A section of remarks and nothing else. The routes are generated all the same, as by istiod: the service may come later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.findings import Remark
from trierarch.config.hosts import is_wildcard, most_specific_cover, resolve_short_name
from trierarch.push.reuse import Units, build_units

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from trierarch.config.common import Destination
    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.config.virtual_service import VirtualService
    from trierarch.push.mesh import Mesh
    from trierarch.push.services import Services
    from trierarch.push.steps import Steps

_WILDCARDS = "*"
"""Stands for all wildcard services among the reads."""


@dataclass(frozen=True, slots=True, eq=False)
class DeadEndsMemo:
    """What the next build reuses; `hosts` are those that the units looked for."""

    units: Units[ObjectKey, tuple[Remark, ...]] = field(default_factory=dict)
    hosts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeadEnds:
    """The section of the snapshot."""

    remarks: tuple[Remark, ...] = ()
    memo: DeadEndsMemo = field(default_factory=DeadEndsMemo)


class DeadEndsInputs(NamedTuple):
    """All that the section may read."""

    mesh: Mesh
    services: Services
    table: Mapping[ObjectKey, ConfigObject[VirtualService]]


_Inputs = tuple["ConfigObject[VirtualService]", "Mesh"]


def build_dead_ends(inputs: DeadEndsInputs, previous: DeadEnds) -> Steps[DeadEnds]:
    """A remark for each destination that is no service's host, delegates included."""
    known = frozenset(inputs.services.by_host)
    wildcards = frozenset(filter(is_wildcard, known))

    def build(each: _Inputs) -> tuple[Remark, ...]:
        return tuple(_dead_ends(*each, known, wildcards))

    came_or_went = known ^ previous.memo.hosts
    stale = came_or_went | ({_WILDCARDS} if any(map(is_wildcard, came_or_went)) else frozenset())
    wanted = ((key, (source, inputs.mesh)) for key, source in inputs.table.items())
    units = yield from build_units(wanted, build, previous.memo.units, reads=_hosts_of, stale=frozenset(stale))
    remarks = tuple(remark for unit in units.values() for remark in unit.value)
    return DeadEnds(remarks=remarks, memo=DeadEndsMemo(units, known))


def _hosts_of(inputs: _Inputs) -> frozenset[Hashable]:
    source, mesh = inputs
    return frozenset((_WILDCARDS, *(_full_name(source, mesh, each) for _, each in _destinations(source.spec))))


def _dead_ends(
    source: ConfigObject[VirtualService], mesh: Mesh, known: frozenset[str], wildcards: frozenset[str]
) -> Iterator[Remark]:
    for path, destination in _destinations(source.spec):
        host = _full_name(source, mesh, destination)
        if host and host not in known and most_specific_cover(host, wildcards) is None:
            reason = f"no service has the host {host}: requests that are sent there fail"
            yield Remark(origin=source.origin, key=source.key, path=f"{path}.host", reason=reason)


def _full_name(source: ConfigObject[VirtualService], mesh: Mesh, destination: Destination) -> str:
    return resolve_short_name(destination.host, source.key.namespace, mesh.domain)


def _destinations(spec: VirtualService) -> Iterator[tuple[str, Destination]]:
    """All destinations with their places in the object."""
    for index, route in enumerate(spec.http):
        place = f"spec.http[{index}]"
        for number, share in enumerate(route.route):
            if share.destination is not None:
                yield f"{place}.route[{number}].destination", share.destination
        if route.mirror is not None:
            yield f"{place}.mirror", route.mirror
        for number, mirror in enumerate(route.mirrors):
            if mirror.destination is not None:
                yield f"{place}.mirrors[{number}].destination", mirror.destination
    connections = [("tls", index, tls.route) for index, tls in enumerate(spec.tls)]
    connections += [("tcp", index, tcp.route) for index, tcp in enumerate(spec.tcp)]
    for kind, index, shares in connections:
        for number, part in enumerate(shares):
            if part.destination is not None:
                yield f"spec.{kind}[{index}].route[{number}].destination", part.destination
