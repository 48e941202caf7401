"""Services of a snapshot from every registry, indexed by visibility (xds-server.md §8.2, networking.md §1).

`registries.py` makes services from single objects; here are those that follow from several together (one service in
several clusters, aliases), their order, and the indexes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from trierarch.push.model import Hostname, Listing, Registry, Resolution, Service
from trierarch.push.registries import (
    distribution_of_namespace,
    service_hostname,
    service_of_kubernetes,
    services_of_entry,
)
from trierarch.push.reuse import Units, build_units, same_fields, same_members
from trierarch.push.visibility import NOBODY, PUBLIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trierarch.config.kubernetes import Namespace
    from trierarch.config.kubernetes import Service as KubernetesService
    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.config.service_entry import ServiceEntry
    from trierarch.push.mesh import Mesh
    from trierarch.push.steps import Steps


class Definitions(NamedTuple):
    """The objects that define a service. `name`: namespace and name of the Kubernetes Services among them."""

    name: tuple[str, str]
    kubernetes: tuple[ConfigObject[KubernetesService], ...] = ()
    entries: tuple[ConfigObject[ServiceEntry], ...] = ()


_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class ServicesMemo:
    """What the next build reuses: services of single objects, and those that follow from several."""

    kubernetes: Units[ObjectKey, Service] = field(default_factory=dict)
    entries: Units[ObjectKey, tuple[Service, ...]] = field(default_factory=dict)
    merged: Units[Hostname, Service] = field(default_factory=dict)
    aliased: Units[tuple[Hostname, str], Service] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Services:
    """The section of the snapshot.

    `ordered`: all, oldest first; it may hold several of one hostname and namespace (a ServiceEntry with several
    addresses, a ServiceEntry beside a Kubernetes Service). `by_id` has the one that counts: Kubernetes' before others,
    then the oldest. `by_host`: hostname -> namespace -> that one. `kubernetes_in`: namespace -> Kubernetes Services.
    `direct`: services whose endpoints callers reach directly (headless); `external`: those that ServiceEntries define;
    `unselected`: Kubernetes Services that select no workloads, so that only their endpoints tell who serves them.
    """

    ordered: tuple[Service, ...] = ()
    by_id: Mapping[Hostname, Service] = field(default_factory=dict)
    by_host: Mapping[str, Mapping[str, Service]] = field(default_factory=dict)
    public: tuple[Service, ...] = ()
    exported_to: Mapping[str, tuple[Service, ...]] = field(default_factory=dict)
    kubernetes_in: Mapping[str, tuple[Service, ...]] = field(default_factory=dict)
    definitions: Mapping[Hostname, Definitions] = field(default_factory=dict)
    direct: frozenset[Hostname] = frozenset()
    external: frozenset[Hostname] = frozenset()
    unselected: frozenset[Hostname] = frozenset()
    memo: ServicesMemo = field(default_factory=ServicesMemo)

    def visible(self, namespace: str) -> tuple[Service, ...]:
        """All that a namespace sees: what is exported to it, then what is public (each oldest first)."""
        exported = self.exported_to.get(namespace)
        return self.public if exported is None else exported + self.public


class ServicesInputs(NamedTuple):
    """All that the section may read."""

    mesh: Mesh
    services: Mapping[ObjectKey, ConfigObject[KubernetesService]]
    entries: Mapping[ObjectKey, ConfigObject[ServiceEntry]]
    namespaces: Mapping[ObjectKey, ConfigObject[Namespace]]


def build_services(inputs: ServicesInputs, previous: Services) -> Steps[Services]:
    """All services. A service that says the same as before is the same object as before."""
    memo, mesh = previous.memo, inputs.mesh
    kubernetes = yield from build_units(_wanted(inputs), service_of_kubernetes, memo.kubernetes, same=same_fields)
    entries = yield from build_units(_wanted_entries(inputs), services_of_entry, memo.entries, same=same_members)
    yield
    by_cluster = _by_cluster(kubernetes, mesh.cluster)
    merged = yield from build_units(by_cluster.items(), _merged, memo.merged, same=same_fields)
    external = (service for key in sorted(entries) for service in entries[key].value)
    yield
    plain = sorted([*(unit.value for unit in merged.values()), *external], key=_age)
    aliased = yield from build_units(_aliased_ones(plain), _with_aliases, memo.aliased, same=same_fields)
    ordered = [aliased[_place(service)].value if _place(service) in aliased else service for service in plain]
    yield
    definitions = _definitions(inputs)
    yield
    return (yield from _indexed(ordered, definitions, ServicesMemo(kubernetes, entries, merged, aliased)))


def _age(service: Service) -> tuple[float, str, str, str]:
    """Of services that are equal here, the one whose entry's name comes first goes first."""
    return (*service.age, service.default_address)


def _wanted(inputs: ServicesInputs) -> Iterator[tuple[ObjectKey, tuple[ConfigObject[KubernetesService], str, Mesh]]]:
    wishes = {
        (key.cluster, key.name): distribution_of_namespace(each.annotations) for key, each in inputs.namespaces.items()
    }
    for key, service in inputs.services.items():
        yield key, (service, wishes.get((key.cluster, key.namespace), ""), inputs.mesh)


def _wanted_entries(
    inputs: ServicesInputs,
) -> Iterator[tuple[ObjectKey, tuple[ConfigObject[ServiceEntry], Mapping[str, str], Mesh]]]:
    labels = {(key.cluster, key.name): namespace.labels for key, namespace in inputs.namespaces.items()}
    for key, entry in inputs.entries.items():
        yield key, (entry, labels.get((key.cluster, key.namespace), _NO_LABELS), inputs.mesh)


def _by_cluster(parts: Units[ObjectKey, Service], config_cluster: str) -> dict[Hostname, tuple[Service, ...]]:
    """The services of one name in all clusters: the config cluster's first, then by cluster."""
    grouped: dict[Hostname, list[tuple[bool, str, Service]]] = {}
    for key, unit in parts.items():
        grouped.setdefault(unit.value.id, []).append((key.cluster != config_cluster, key.cluster, unit.value))
    return {
        host: tuple(service for _, _, service in (sorted(each, key=_by_place) if len(each) > 1 else each))
        for host, each in grouped.items()
    }


def _by_place(part: tuple[bool, str, Service]) -> tuple[bool, str]:
    return part[:2]


def _merged(parts: tuple[Service, ...]) -> Service:
    """One service that is defined in several clusters: the first definition, with the addresses of all."""
    if len(parts) == 1:
        return parts[0]
    addresses = {cluster: ips for part in reversed(parts) for cluster, ips in part.addresses.items()}
    return replace(parts[0], addresses=addresses)


def _place(service: Service) -> tuple[Hostname, str]:
    """Tells apart the services of one id: those of a ServiceEntry with several addresses."""
    return (service.id, service.default_address)


def _aliased_ones(
    services: Iterable[Service],
) -> Iterator[tuple[tuple[Hostname, str], tuple[Service, tuple[Hostname, ...]]]]:
    """The services that others are aliases of, with those others (xds-server.md §8.2)."""
    targets = {
        service.hostname: service.external_name for service in services if service.resolution is Resolution.ALIAS
    }
    if not targets:
        return
    aliases: dict[str, set[Hostname]] = {}
    for service in services:
        if service.resolution is Resolution.ALIAS:
            aliases.setdefault(_end_of_chain(service.hostname, targets), set()).add(service.id)
    for service in services:
        if service.hostname in aliases and service.resolution is not Resolution.ALIAS:
            yield _place(service), (service, tuple(sorted(aliases[service.hostname])))


def _end_of_chain(host: str, targets: Mapping[str, str]) -> str:
    """The host that an alias stands for in the end; a loop ends where it would repeat, at an alias."""
    seen = set()
    while host in targets and host not in seen:
        seen.add(host)
        host = targets[host]
    return host


def _with_aliases(inputs: tuple[Service, tuple[Hostname, ...]]) -> Service:
    service, aliases = inputs
    return replace(service, aliases=aliases)


def _definitions(inputs: ServicesInputs) -> dict[Hostname, Definitions]:
    """Which objects define each service, in the order in which their endpoints are listed."""
    kubernetes: dict[Hostname, tuple[ConfigObject[KubernetesService], ...]] = {}
    entries: dict[Hostname, tuple[ConfigObject[ServiceEntry], ...]] = {}
    names: dict[Hostname, tuple[str, str]] = {}
    for key in sorted(inputs.services):
        host = Hostname(key.namespace, service_hostname(key.name, key.namespace, inputs.mesh.domain))
        kubernetes[host] = (*kubernetes.get(host, ()), inputs.services[key])
        names[host] = (key.namespace, key.name)
    for entry in sorted(inputs.entries.values(), key=lambda entry: entry.age):
        for name in dict.fromkeys(entry.spec.hosts):
            host = Hostname(entry.key.namespace, name)
            entries[host] = (*entries.get(host, ()), entry)
            names.setdefault(host, ("", ""))
    return {host: Definitions(name, kubernetes.get(host, ()), entries.get(host, ())) for host, name in names.items()}


def _indexed(
    services: list[Service], definitions: Mapping[Hostname, Definitions], memo: ServicesMemo
) -> Steps[Services]:
    by_id: dict[Hostname, Service] = {}
    kubernetes_in: dict[str, list[Service]] = {}
    for service in services:
        current = by_id.get(service.id)
        if current is None or (_from_kubernetes(service) and not _from_kubernetes(current)):
            by_id[service.id] = service
        if _from_kubernetes(service):
            kubernetes_in.setdefault(service.namespace, []).append(service)
    yield
    by_host: dict[str, dict[str, Service]] = {}
    for (namespace, host), service in by_id.items():
        by_host.setdefault(host, {})[namespace] = service
    public, exported = _by_visibility(services)
    yield
    return Services(
        ordered=tuple(services),
        by_id=by_id,
        by_host=by_host,
        public=Listing(public),
        exported_to=exported,
        kubernetes_in={namespace: tuple(each) for namespace, each in kubernetes_in.items()},
        definitions=definitions,
        direct=frozenset(name for name, service in by_id.items() if service.resolution is Resolution.PASSTHROUGH),
        external=frozenset(name for name, each in definitions.items() if each.entries),
        unselected=frozenset(service.id for service in services if _from_kubernetes(service) and not service.selector),
        memo=memo,
    )


def _from_kubernetes(service: Service) -> bool:
    return service.registry is Registry.KUBERNETES


def _by_visibility(services: Iterable[Service]) -> tuple[tuple[Service, ...], dict[str, tuple[Service, ...]]]:
    """Public services, and those exported to single namespaces; "*" beats everything, then "~" (xds-server.md §8.2)."""
    public: list[Service] = []
    exported: dict[str, list[Service]] = {}
    for service in services:
        if PUBLIC in service.export_to:
            public.append(service)
        elif NOBODY not in service.export_to:
            for namespace in service.export_to:
                exported.setdefault(namespace, []).append(service)
    return tuple(public), {namespace: tuple(each) for namespace, each in exported.items()}
