"""Virtual services by host, so that a mesh of thousands is not searched for each service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config.hosts import hosts_overlap, is_wildcard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trierarch.push.routing import ResolvedVirtualService


class VirtualServiceIndex:
    """Virtual services in order of precedence, found by the hosts that they name (in lower case).

    `owners`: host -> the first that names it.
    """

    __slots__ = ("_by_host", "_wildcards", "all", "owners")

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

    def covering(self, hosts: Iterable[str]) -> tuple[ResolvedVirtualService, ...]:
        """Those with a host that is, or overlaps, one of these; in order of precedence."""
        if not self.all:
            return ()
        places = {place for host in hosts for named in self._overlapping(host) for place in self._by_host[named]}
        return tuple(self.all[place] for place in sorted(places))

    def _overlapping(self, host: str) -> list[str]:
        named = self._by_host if is_wildcard(host) else self._wildcards
        found = [each for each in named if hosts_overlap(each, host)]
        return [*found, host] if host in self._by_host and host not in found else found
