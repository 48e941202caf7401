"""Virtual services by host, so that a mesh of thousands is not searched for each service."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from trierarch.config.hosts import hosts_overlap, is_wildcard

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from trierarch.push.routing import ResolvedVirtualService


class VirtualServiceIndex:
    """Virtual services in order of precedence, found by the hosts that they name (in lower case).

    `owners`: host -> the first that names it. `wild`: those that name a wildcard. `personal`: those with HTTP routes
    that depend on who the client is.
    """

    __slots__ = ("_by_host", "_wildcards", "all", "owners", "personal", "wild")

    def __init__(self, virtual_services: Iterable[ResolvedVirtualService]) -> None:
        self.all = tuple(virtual_services)
        self._by_host: dict[str, list[int]] = {}
        for place, each in enumerate(self.all):
            for host in each.spec.hosts:
                self._by_host.setdefault(host.lower(), []).append(place)
        self._wildcards = tuple(host for host in self._by_host if is_wildcard(host))
        self.owners: Mapping[str, ResolvedVirtualService] = {
            host: self.all[places[0]] for host, places in self._by_host.items()
        }
        self.wild = self.naming(self._wildcards)
        self.personal = frozenset(filter(_is_personal, self.all))

    def naming(self, hosts: Iterable[str]) -> frozenset[ResolvedVirtualService]:
        """Those that name one of these hosts just so."""
        return frozenset(self.all[place] for host in hosts for place in self._by_host.get(host, ()))

    def covering(self, hosts: Collection[str]) -> tuple[ResolvedVirtualService, ...]:
        """Those with a host that is, or overlaps, one of these; in order of precedence."""
        if not self.all:
            return ()
        named = [host for host in hosts if host in self._by_host]
        wild = (each for host in hosts for each in self._overlapping(host)) if self._may_overlap(hosts) else ()
        places = {place for host in (*named, *wild) for place in self._by_host[host]}
        return tuple(self.all[place] for place in sorted(places))

    def _may_overlap(self, hosts: Collection[str]) -> bool:
        return bool(self._wildcards) or any(map(is_wildcard, hosts))

    def _overlapping(self, host: str) -> Iterator[str]:
        named = self._by_host if is_wildcard(host) else self._wildcards
        return (each for each in named if hosts_overlap(each, host))


@lru_cache(maxsize=64)
def index_virtual_services(virtual_services: tuple[ResolvedVirtualService, ...]) -> VirtualServiceIndex:
    """The index of these. Remembered, since all ports and namespaces ask again; not in the memo, for each change of one
    makes another, of 200 KB where there are a thousand.
    """
    return VirtualServiceIndex(virtual_services)


def _is_personal(virtual_service: ResolvedVirtualService) -> bool:
    matches = (match for rule in virtual_service.spec.http for match in rule.match)
    return any(match.source_labels or match.source_namespace for match in matches)
