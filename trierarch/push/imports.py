"""What an egress listener imports: services, virtual services and the services that those send to.

Implements xds-server.md §8.5.4 and §8.5.5. A service may be imported only in part (one port, some aliases) or be put
together from two of one name (`directory.py`); such a derived service is the same object as in the scope before as long
as what it is derived from is (`Derived`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from trierarch.config.hosts import MESH_GATEWAY
from trierarch.push.directory import list_undisputed
from trierarch.push.model import Hostname, PortProtocol, Registry, Service, ServicePort
from trierarch.push.visibility import NOBODY, is_visible

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from trierarch.push.egress_hosts import EgressHosts, HostSet
    from trierarch.push.routing import ResolvedVirtualService, VirtualServices
    from trierarch.push.services import Services

Reached = Mapping["ResolvedVirtualService", tuple[Service, ...]]
"""The services that each virtual service sends to."""


class Derived:
    """Services made from others, by what they were made from.

    Lives as long as one scope is built; its dictionary is handed to the next build.
    """

    __slots__ = ("_before", "made")

    def __init__(self, before: Mapping[Hashable, Service]) -> None:
        self._before = before
        self.made: dict[Hashable, Service] = {}

    def get(self, key: Hashable, make: Callable[[], Service]) -> Service:
        """The service derived under that key: from before, or made now. The key holds all that `make` reads."""
        if key not in self.made:
            self.made[key] = self._before.get(key) or make()
        return self.made[key]

    def with_ports(self, service: Service, ports: tuple[ServicePort, ...]) -> Service:
        """The service with just these ports; the service itself if they are all."""
        if ports == service.ports:
            return service
        return self.get((service, ports), lambda: replace(service, ports=ports))

    def with_aliases(self, service: Service, aliases: tuple[Hostname, ...]) -> Service:
        """The service with just these aliases."""
        if aliases == service.aliases:
            return service
        return self.get((service, "aliases", aliases), lambda: replace(service, aliases=aliases))


def trims(port: ServicePort | None) -> bool:
    """Whether a listener with this port imports only services that have it, and of those only that port."""
    return port is not None and port.number != 0 and port.protocol is not PortProtocol.HTTP_PROXY


def imported_services(
    hosts: EgressHosts, port: ServicePort | None, namespace: str, services: Services, derived: Derived
) -> tuple[Service, ...]:
    """The services of a listener of a proxy in `namespace`, in the order of the candidates."""
    candidates = _candidates(hosts, namespace, services)
    found = candidates if hosts.everything and not trims(port) else tuple(_matching(hosts, port, candidates, derived))
    if list_undisputed(found) is not None:
        return found
    chosen = _namespace_by_host(found, namespace)
    return tuple(service for service in found if chosen[service.hostname] == service.namespace)


def _candidates(hosts: EgressHosts, namespace: str, services: Services) -> tuple[Service, ...]:
    """All that the namespace sees; if every import is exact, just those named, which are then in order of age."""
    names = hosts.exact_names
    if names is None:
        return services.visible(namespace)
    named = (service for service in services.ordered if (service.namespace, service.hostname) in names)
    return tuple([service for service in named if is_visible(service, namespace)])


def _matching(
    hosts: EgressHosts, port: ServicePort | None, candidates: Iterable[Service], derived: Derived
) -> Iterator[Service]:
    for service in candidates:
        entry = hosts.entry_for(service.namespace, service.hostname)
        if entry is not None and (trimmed := _trimmed(service, entry, port, derived)) is not None:
            yield trimmed


def _trimmed(service: Service, entry: HostSet, port: ServicePort | None, derived: Derived) -> Service | None:
    if service.aliases:
        aliases = tuple(alias for alias in service.aliases if entry.covers(alias.host))
        service = derived.with_aliases(service, aliases)
    return service_on_port(service, port, derived) if port is not None and trims(port) else service


def service_on_port(service: Service, port: ServicePort, derived: Derived) -> Service | None:
    """The service with the listener's port alone, or None if it has no such port."""
    own = service.port(port.number)
    return None if own is None else derived.with_ports(service, (own,))


def _namespace_by_host(services: Iterable[Service], namespace: str) -> dict[str, str]:
    """The namespace that a host is taken from: the proxy's own, else the first of Kubernetes, else the first."""
    chosen: dict[str, Service] = {}
    for service in services:
        current = chosen.setdefault(service.hostname, service)
        if current.namespace == namespace or current.namespace == service.namespace:
            continue
        better = service.registry is Registry.KUBERNETES and current.registry is not Registry.KUBERNETES
        if service.namespace == namespace or better:
            chosen[service.hostname] = service
    return {host: service.namespace for host, service in chosen.items()}


def imported_virtual_services(
    hosts: EgressHosts, namespace: str, virtual_services: VirtualServices
) -> tuple[ResolvedVirtualService, ...]:
    """The virtual services of a listener, in order of precedence."""
    visible = virtual_services.visible(namespace, MESH_GATEWAY)
    if hosts.everything:
        return visible
    return tuple(each for each in visible if hosts.touches(each.namespace, each.spec.hosts))


def destination_services(
    virtual_services: tuple[ResolvedVirtualService, ...],
    port: ServicePort | None,
    namespace: str,
    services: Services,
    derived: Derived,
    before: Reached,
    changed: frozenset[str],
) -> Reached:
    """The services that imported virtual services send to, with the ports that they name. `before`: the same for some
    of them, found with the same port and namespace, where the services of all hosts but the `changed` ones were as now.
    """
    touched = _touched(virtual_services, changed) if changed else frozenset()
    if not touched and tuple(before) == virtual_services:
        return before
    return {
        each: before[each]
        if each in before and each not in touched
        else tuple(_destinations(each, port, namespace, services, derived))
        for each in virtual_services
    }


@lru_cache(maxsize=16)
def _touched(
    virtual_services: tuple[ResolvedVirtualService, ...], changed: frozenset[str]
) -> frozenset[ResolvedVirtualService]:
    """Those that may send to a changed host; where that depends on the caller, it may be any. Remembered, since the
    scopes of all namespaces ask again.
    """
    return frozenset(
        each for each in virtual_services if each.namespaced or any(host in changed for host, _ in each.destinations)
    )


@lru_cache(maxsize=2)
def changed_hosts(old: Services, new: Services) -> frozenset[str]:
    """The hosts that mean other services now. Remembered, since the scopes of all namespaces ask again."""
    hosts = old.by_host.keys() | new.by_host.keys()
    return frozenset(host for host in hosts if old.by_host.get(host) != new.by_host.get(host))


def _destinations(
    virtual_service: ResolvedVirtualService,
    port: ServicePort | None,
    namespace: str,
    services: Services,
    derived: Derived,
) -> Iterator[Service]:
    for host, numbers in virtual_service.destinations_for(namespace):
        service = _service_of_host(host, namespace, services)
        if service is not None and (trimmed := _referenced(service, numbers, port, derived)) is not None:
            yield trimmed


def _service_of_host(host: str, namespace: str, services: Services) -> Service | None:
    """The namespace's own service of that host, else a visible one: Kubernetes' before others, then the oldest."""
    by_namespace = services.by_host.get(host, {})
    own = by_namespace.get(namespace)
    if own is not None and NOBODY not in own.export_to:
        return own
    visible = [service for service in by_namespace.values() if is_visible(service, namespace)]
    return min(visible, key=_preference, default=None)


def _preference(service: Service) -> tuple[bool, tuple[float, str, str]]:
    return (service.registry is not Registry.KUBERNETES, service.age)


def _referenced(
    service: Service, numbers: frozenset[int], listener_port: ServicePort | None, derived: Derived
) -> Service | None:
    if listener_port is not None and trims(listener_port):
        return service_on_port(service, listener_port, derived)
    if 0 in numbers:
        return service
    ports = tuple(port for port in service.ports if port.number in numbers)
    return derived.with_ports(service, ports) if ports else None
