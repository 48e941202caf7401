"""From what lists endpoints (EndpointSlices, Endpoints, WorkloadEntries, ServiceEntries) to the neutral `Endpoint`.

One service at a time, from its own objects and from the workloads that they name; `reads_of` says which of those, so
that a change of any other workload leaves the service's endpoints alone (networking.md §1.4, §1.6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trierarch.config import labels as names
from trierarch.config.kubernetes import (
    EndpointAddress,
    EndpointConditions,
    EndpointSlice,
    EndpointSubset,
    SliceEndpoint,
)
from trierarch.config.service_entry import ResolutionMode
from trierarch.push.model import Endpoint, Health
from trierarch.push.workloads import WorkloadInstance, instance_of_workload

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

    from trierarch.config.kubernetes import Endpoints as EndpointsSpec
    from trierarch.config.kubernetes import Service as KubernetesService
    from trierarch.config.kubernetes import ServicePort as KubernetesPort
    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.config.service_entry import ServiceEntry, ServiceEntryPort
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Hostname
    from trierarch.push.networks import NetworkIndex
    from trierarch.push.services import Definitions
    from trierarch.push.workloads import Workloads

UNIX_PREFIX = "unix://"
POD_KIND = "Pod"
_DNS = frozenset({ResolutionMode.DNS, ResolutionMode.DNS_ROUND_ROBIN})


class EndpointSources(NamedTuple):
    """All objects that list or select endpoints of one service, in whatever cluster."""

    service: Hostname
    definitions: Definitions
    slices: tuple[ConfigObject[EndpointSlice], ...]
    legacy: tuple[ConfigObject[EndpointsSpec], ...]
    mesh: Mesh
    networks: NetworkIndex


class _Listed(NamedTuple):
    """A slice and the object that it stands in."""

    key: ObjectKey
    spec: EndpointSlice


def _listed(sources: EndpointSources) -> Iterator[_Listed]:
    """What lists endpoints in the clusters where the service is defined: an Endpoints object only without slices."""
    clusters = {definition.key.cluster for definition in sources.definitions.kubernetes}
    sliced = {each.key.cluster for each in sources.slices}
    for each in sources.slices:
        if each.key.cluster in clusters:
            yield _Listed(each.key, each.spec)
    for legacy in sources.legacy:
        if legacy.key.cluster in clusters - sliced:
            yield from (_Listed(legacy.key, _as_slice(subset)) for subset in legacy.spec.subsets)


def _as_slice(subset: EndpointSubset) -> EndpointSlice:
    """A subset of an Endpoints object, as Kubernetes mirrors it into a slice."""
    ready = [_as_endpoint(address, ready=True) for address in subset.addresses]
    not_ready = [_as_endpoint(address, ready=False) for address in subset.not_ready_addresses]
    return EndpointSlice(endpoints=(*ready, *not_ready), ports=subset.ports)


def _as_endpoint(address: EndpointAddress, *, ready: bool) -> SliceEndpoint:
    return SliceEndpoint(
        addresses=(address.ip,),
        conditions=EndpointConditions(ready=ready),
        hostname=address.hostname,
        node_name=address.node_name,
        target_ref=address.target_ref,
    )


def pods_in(namespace: str) -> Hashable:
    """Stands for all Pods of a namespace among the reads."""
    return ("pods", namespace, "")


def entries_in(namespace: str) -> Hashable:
    """Stands for all workload entries of a namespace among the reads."""
    return ("entries", namespace, "")


def reads_of(sources: EndpointSources) -> frozenset[Hashable]:
    """The workloads that the service's endpoints depend on: Pods by key or address, selections by namespace."""
    reads: set[Hashable] = set()
    for key, spec in _listed(sources):
        for endpoint in spec.endpoints:
            pod = _referenced_pod(endpoint, key)
            reads.update([pod] if pod else [(key.cluster, address) for address in endpoint.addresses])
    if any(service.spec.selector for service in sources.definitions.kubernetes):
        reads.add(entries_in(sources.service.namespace))
    if any(entry.spec.workload_selector for entry in sources.definitions.entries):
        reads |= {pods_in(sources.service.namespace), entries_in(sources.service.namespace)}
    return frozenset(reads)


def endpoints_of(sources: EndpointSources, workloads: Workloads) -> Iterator[Endpoint]:
    """All endpoints of a service: those of ServiceEntries, then those of Kubernetes (xds-server.md §9.1)."""
    for entry in sources.definitions.entries:
        yield from _of_entry(sources, entry, workloads)
    yield from _of_slices(sources, workloads)
    for service in sources.definitions.kubernetes:
        yield from _of_selected_entries(service, workloads)


def _of_slices(sources: EndpointSources, workloads: Workloads) -> Iterable[Endpoint]:
    """Endpoints that slices list. An address and port name that overlapping slices list twice is one endpoint."""
    definitions = {service.key.cluster: service for service in sources.definitions.kubernetes}
    session_label = sources.mesh.features.session_cookie_label
    found: dict[tuple[str, str, str], Endpoint] = {}
    for listed in _listed(sources):
        drains = bool(definitions[listed.key.cluster].labels.get(session_label))
        for endpoint in _of_slice(listed, sources, workloads, drains=drains):
            found.setdefault((endpoint.cluster, endpoint.addresses[0], endpoint.port_name), endpoint)
    return found.values()


def _of_slice(listed: _Listed, sources: EndpointSources, workloads: Workloads, *, drains: bool) -> Iterator[Endpoint]:
    if listed.spec.address_type == "FQDN":
        return
    for endpoint in listed.spec.endpoints:
        health = _health(endpoint.conditions, drains=drains)
        for address in endpoint.addresses:
            pod = _pod_behind(endpoint, address, listed.key, workloads)
            if pod is None and _referenced_pod(endpoint, listed.key):
                continue  # withheld until its Pod is known
            for port in listed.spec.ports:
                if port.port is None:
                    continue
                if pod is None:
                    yield _bare_endpoint(listed.key, address, port.port, port.name, health, sources.networks)
                else:
                    both = sources.mesh.features.dual_stack and len(pod.addresses) > 1
                    addresses = pod.addresses if both else (address,)
                    yield _endpoint(pod, addresses, port.port, port.name, health)


def _health(conditions: EndpointConditions, *, drains: bool) -> Health:
    """The health that conditions state (networking.md §1.4): an unknown condition counts as true."""
    if conditions.ready is not False:
        return Health.HEALTHY
    serving, terminating = conditions.serving is not False, conditions.terminating is not False
    if serving and terminating and drains:
        return Health.DRAINING
    return Health.TERMINATING if terminating else Health.UNHEALTHY


def _referenced_pod(endpoint: SliceEndpoint, listed_in: ObjectKey) -> ObjectKey | None:
    """The Pod that an endpoint names as its own, or None."""
    target = endpoint.target_ref
    if target is None or target.kind != POD_KIND:
        return None
    return listed_in._replace(kind=POD_KIND, namespace=target.namespace or listed_in.namespace, name=target.name)


def _pod_behind(
    endpoint: SliceEndpoint, address: str, listed_in: ObjectKey, workloads: Workloads
) -> WorkloadInstance | None:
    """The Pod that an endpoint names, or the one of the same namespace with its address."""
    key = _referenced_pod(endpoint, listed_in)
    if key is not None:
        return workloads.pods.get(key)
    pod = workloads.pods_by_ip.get((listed_in.cluster, address))
    return pod if pod is not None and pod.namespace == listed_in.namespace else None


def _endpoint(
    instance: WorkloadInstance, addresses: tuple[str, ...], port: int, port_name: str, health: Health
) -> Endpoint:
    return Endpoint(
        addresses=addresses,
        port=port,
        port_name=port_name,
        namespace=instance.namespace,
        labels=instance.all_labels,
        service_account=instance.service_account,
        locality=instance.locality,
        network=instance.network,
        cluster=instance.cluster,
        tls_mode=instance.tls_mode,
        workload_name=instance.workload_name,
        node_name=instance.node_name,
        host_name=instance.host_name if instance.subdomain else "",
        subdomain=instance.subdomain,
        weight=instance.weight,
        health=_unless_draining(health, instance),
    )


def _unless_draining(health: Health, instance: WorkloadInstance) -> Health:
    """What terminates is past draining (xds-server.md §9.3)."""
    return Health.DRAINING if instance.draining and health is not Health.TERMINATING else health


def _bare_endpoint(
    listed_in: ObjectKey, address: str, port: int, port_name: str, health: Health, networks: NetworkIndex
) -> Endpoint:
    """An endpoint of which nothing is known but its address."""
    network = networks.network_of(address, {}, listed_in.cluster)
    return Endpoint(
        addresses=(address,),
        port=port,
        port_name=port_name,
        namespace=listed_in.namespace,
        network=network,
        cluster=listed_in.cluster,
        health=health,
    )


def _of_selected_entries(service: ConfigObject[KubernetesService], workloads: Workloads) -> Iterator[Endpoint]:
    """Workload entries that a Kubernetes Service selects (networking.md §1.6)."""
    if not service.spec.selector:
        return
    for entry in workloads.entries_in.of(service.key.namespace):
        if entry.ready and entry.matches(service.spec.selector):
            for port in service.spec.ports:
                number = target_port(port, entry.ports)
                if number is not None and port.protocol != "UDP":
                    yield _endpoint(entry, entry.addresses, number, port.name, Health.UNKNOWN)


def target_port(port: KubernetesPort, named_ports: Mapping[str, int]) -> int | None:
    """The number of a Service's target port at a workload with those named ports; None if it names one in vain."""
    if by_own_name := named_ports.get(port.name):
        return by_own_name
    if isinstance(port.target_port, str):
        return named_ports.get(port.target_port)
    return port.target_port or port.port


def _of_entry(sources: EndpointSources, entry: ConfigObject[ServiceEntry], workloads: Workloads) -> Iterator[Endpoint]:
    """A ServiceEntry's endpoints, once for each of its addresses (networking.md §1.6)."""
    instances = list(_instances_of_entry(sources, entry, workloads))
    for _ in entry.spec.addresses or ("",):
        for port in entry.spec.ports:
            for instance, health in instances:
                yield _entry_endpoint(instance, port, health)


def _instances_of_entry(
    sources: EndpointSources, entry: ConfigObject[ServiceEntry], workloads: Workloads
) -> Iterator[tuple[WorkloadInstance, Health]]:
    spec, namespace = entry.spec, entry.key.namespace
    if spec.workload_selector is not None:
        yield from _selected(spec.workload_selector.labels, namespace, workloads)
        return
    for index, workload in enumerate(spec.endpoints):
        key = entry.key._replace(name=f"{entry.key.name}-{index}")
        yield instance_of_workload(key, workload, workload.labels, sources.networks, sources.mesh), Health.UNKNOWN
    if not spec.endpoints and spec.resolution in _DNS:
        yield _host_itself(entry.key, sources.service.host), Health.UNKNOWN


def _selected(
    selector: Mapping[str, str], namespace: str, workloads: Workloads
) -> Iterator[tuple[WorkloadInstance, Health]]:
    for instance in workloads.entries_in.of(namespace):
        if instance.ready and instance.matches(selector):
            yield instance, Health.UNKNOWN
    for instance in workloads.pods_in.of(namespace):
        if instance.ready and instance.matches(selector):
            yield instance, Health.HEALTHY


def _host_itself(entry: ObjectKey, host: str) -> WorkloadInstance:
    """The endpoint of a DNS service that lists none: the name of the service."""
    return WorkloadInstance(
        key=entry,
        addresses=(host,),
        labels={},
        all_labels={},
        service_account="",
        network="",
        tls_mode=names.TLS_MODE_DISABLED,
        workload_name=entry.name,
        ready=True,
    )


def _entry_endpoint(instance: WorkloadInstance, port: ServiceEntryPort, health: Health) -> Endpoint:
    if instance.addresses and (address := instance.addresses[0]).startswith(UNIX_PREFIX):
        return _endpoint(instance, (address.removeprefix(UNIX_PREFIX),), 0, port.name, health)
    number = instance.ports.get(port.name) or port.target_port or port.number
    return _endpoint(instance, instance.addresses[:1], number, port.name, health)
