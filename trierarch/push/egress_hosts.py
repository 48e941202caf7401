"""The host lists of Sidecar egress listeners: `namespace/dnsName`, and `~` for exclusions (xds-server.md §8.5.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trierarch.config.hosts import host_covers, hosts_overlap, is_wildcard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ANY_NAMESPACE = "*"
EXCLUDED = "~"


@dataclass(frozen=True, slots=True)
class HostSet:
    """Hosts, exact and wildcard apart."""

    exact: frozenset[str] = frozenset()
    wildcards: tuple[str, ...] = ()

    def covers(self, host: str) -> bool:
        """Whether every host that `host` stands for is in the set."""
        return host in self.exact or any(host_covers(wildcard, host) for wildcard in self.wildcards)

    def overlaps(self, host: str) -> bool:
        """Whether some host that `host` stands for is in the set."""
        if host in self.exact or any(hosts_overlap(wildcard, host) for wildcard in self.wildcards):
            return True
        return is_wildcard(host) and any(host_covers(host, exact) for exact in self.exact)


NO_HOSTS = HostSet()


@dataclass(frozen=True, slots=True)
class EgressHosts:
    """What a listener imports, and what not, by namespace; "*" is any namespace."""

    imported: Mapping[str, HostSet] = field(default_factory=dict)
    excluded: Mapping[str, HostSet] = field(default_factory=dict)

    @property
    def everything(self) -> bool:
        """Whether nothing that is visible is left out."""
        return not self.excluded and "*" in self.imported.get(ANY_NAMESPACE, NO_HOSTS).wildcards

    @property
    def exact_names(self) -> frozenset[tuple[str, str]] | None:
        """All imports as (namespace, host) if each is exact and names its namespace, else None."""
        if ANY_NAMESPACE in self.imported or any(hosts.wildcards for hosts in self.imported.values()):
            return None
        return frozenset((namespace, host) for namespace, hosts in self.imported.items() for host in hosts.exact)

    def entry_for(self, namespace: str, host: str) -> HostSet | None:
        """The entry by which a service is imported: its namespace's own before that of any namespace, or None."""
        if self._excludes(namespace, host):
            return None
        entries = (self.imported.get(namespace, NO_HOSTS), self.imported.get(ANY_NAMESPACE, NO_HOSTS))
        return next((entry for entry in entries if entry.covers(host)), None)

    def touches(self, namespace: str, hosts: Iterable[str]) -> bool:
        """Whether one of a virtual service's hosts overlaps an import and is not excluded (xds-server.md §8.3.6)."""
        entries = (self.imported.get(namespace, NO_HOSTS), self.imported.get(ANY_NAMESPACE, NO_HOSTS))
        return any(
            any(entry.overlaps(host) for entry in entries) and not self._excludes(namespace, host) for host in hosts
        )

    def _excludes(self, namespace: str, host: str) -> bool:
        if not self.excluded:
            return False
        entries = (self.excluded.get(namespace, NO_HOSTS), self.excluded.get(ANY_NAMESPACE, NO_HOSTS))
        return any(entry.covers(host) for entry in entries)


EVERYTHING = EgressHosts(imported={ANY_NAMESPACE: HostSet(wildcards=("*",))})
"""What a workload without a Sidecar imports."""


def parse_egress_hosts(hosts: Iterable[str], namespace: str) -> EgressHosts:
    """Parse a listener's hosts as they are meant in `namespace`, the proxy's. Malformed ones count for nothing."""
    imported: dict[str, list[str]] = {}
    excluded: dict[str, list[str]] = {}
    for text in filter(is_egress_host, hosts):
        scope, _, name = text.partition("/")
        target = excluded if scope.startswith(EXCLUDED) else imported
        place = scope.removeprefix(EXCLUDED) or ANY_NAMESPACE
        target.setdefault(namespace if place == "." else place, []).append(name)
    return EgressHosts(imported=_host_sets(imported), excluded=_host_sets(excluded))


def is_egress_host(text: str) -> bool:
    """Whether this is `namespace/dnsName`, with exactly one slash."""
    return text.count("/") == 1


def _host_sets(names: Mapping[str, list[str]]) -> dict[str, HostSet]:
    return {
        namespace: HostSet(
            exact=frozenset(name for name in each if not is_wildcard(name)),
            wildcards=tuple(dict.fromkeys(name for name in each if is_wildcard(name))),
        )
        for namespace, each in names.items()
    }
