"""The directory of a scope: the services that it reaches, one a hostname (xds-server.md §8.5.5).

Where no two services want one hostname, as a rule, it does not matter whose scope it is: then namespaces that see the
same services have the very same directory, and what has changed between two of them is worked out once for all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from trierarch.push.model import Listing, Registry, Service

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trierarch.push.imports import Derived
    from trierarch.push.steps import Steps

SERVICES_PER_STEP = 2000
"""After so many services the event loop gets its turn: about a millisecond of work."""


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """Services by hostname, in service order. `contested`: not all that were to be in it are."""

    by_host: Mapping[str, Service] = field(default_factory=dict)
    contested: bool = False
    services: tuple[Service, ...] = field(init=False)
    namespaces: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "services", Listing(self.by_host.values()))
        object.__setattr__(self, "namespaces", frozenset([service.namespace for service in self.services]))


def unite(services: Iterable[Service], derived: Derived) -> Steps[Directory]:
    """One service a hostname: what comes first wins, Kubernetes' before others; equal ones merge their ports."""
    wanted = tuple(dict.fromkeys(services))
    yield
    peaceful = list_undisputed(wanted)
    if peaceful is not None:
        return peaceful
    by_host: dict[str, Service] = {}
    for count, service in enumerate(wanted, start=1):
        present = by_host.get(service.hostname)
        by_host[service.hostname] = service if present is None else _united(present, service, derived)
        if count % SERVICES_PER_STEP == 0:
            yield
    return Directory(by_host, contested=True)


@lru_cache(maxsize=16)
def list_undisputed(services: tuple[Service, ...]) -> Directory | None:
    """The directory of services that have a hostname each, else None. Remembered, since all namespaces ask again."""
    by_host = {service.hostname: service for service in services}
    return Directory(by_host) if len(by_host) == len(services) else None


def _united(present: Service, added: Service, derived: Derived) -> Service:
    if _rank(present) != _rank(added):
        return min(present, added, key=_rank)
    if present.ports == added.ports or not _alike(present, added):
        return present
    numbers = {port.number for port in present.ports}
    more = tuple(port for port in added.ports if port.number not in numbers)
    return derived.with_ports(present, (*present.ports, *more)) if more else present


def _rank(service: Service) -> bool:
    return service.registry is not Registry.KUBERNETES


def _alike(one: Service, other: Service) -> bool:
    """Whether two services of one hostname may be put together."""
    return (
        one.namespace == other.namespace
        and one.resolution is other.resolution
        and one.labels == other.labels
        and one.selector == other.selector
        and one.export_to == other.export_to
    )


class Difference(NamedTuple):
    """What is other in a directory than in one before: services that it did not have, and hosts that it has no more."""

    came: tuple[Service, ...]
    gone: frozenset[str]


@lru_cache(maxsize=16)
def compare(before: Directory, now: Directory) -> Difference:
    """The difference. Remembered, since the scopes of all namespaces ask again."""
    old = before.by_host
    came = tuple([service for host, service in now.by_host.items() if old.get(host) is not service])
    return Difference(came, frozenset(old.keys() - now.by_host.keys()))
