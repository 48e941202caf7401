"""Pods, nodes and workload entries of a snapshot: who runs where, with which labels and which identity.

A Pod and a WorkloadEntry become the same neutral thing, a `WorkloadInstance`, which says all that endpoints, service
targets and views want to know. It is a value: a Pod whose status merely ticked leaves the instance, and everything made
from it, as it was (networking.md §1.4, §1.6).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trierarch.config import labels as names
from trierarch.push.model import NOWHERE, Locality
from trierarch.push.networks import (
    NetworkIndex,
    augmented,
    build_networks,
    locality_of_labels,
    parse_locality,
    topology_of_labels,
)
from trierarch.push.reuse import Groups, Units, build_units, kept, regroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trierarch.config.kubernetes import Namespace, Node, Pod
    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.config.workload_entry import Workload, WorkloadEntry
    from trierarch.push.mesh import Mesh
    from trierarch.push.steps import Steps

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
_CRON_SUFFIX = re.compile(r"-\d{8,10}$")

PlaceT = TypeVar("PlaceT")
ClusterAddress = tuple[str, str]
"""A cluster and an IP in it, or a cluster and a node in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadInstance:
    """A workload: a Pod or a WorkloadEntry. `labels` are its own, `all_labels` with those of its place added.

    `service_account` is a SPIFFE identity or "". `ports` maps names of its ports to numbers. `ready`: it may be
    selected by a ServiceEntry. `draining`: a label takes it out of use while it still answers. `weight` 0 is unset.
    """

    key: ObjectKey
    addresses: tuple[str, ...]
    labels: Mapping[str, str]
    all_labels: Mapping[str, str]
    service_account: str
    network: str
    tls_mode: str
    workload_name: str
    ready: bool
    draining: bool = False
    locality: Locality = NOWHERE
    ports: Mapping[str, int] = field(default_factory=dict)
    node_name: str = ""
    host_name: str = ""
    subdomain: str = ""
    weight: int = 0

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.key.namespace

    @property
    def cluster(self) -> str:
        """The cluster that it is known in."""
        return self.key.cluster

    def matches(self, selector: Mapping[str, str]) -> bool:
        """Whether its own labels have all pairs of the selector."""
        return selector.items() <= self.labels.items()


@dataclass(frozen=True, slots=True, eq=False)
class WorkloadsMemo:
    """What the next build reuses."""

    localities: Units[ObjectKey, Locality] = field(default_factory=dict)
    pods: Units[ObjectKey, WorkloadInstance | None] = field(default_factory=dict)
    entries: Units[ObjectKey, WorkloadInstance] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workloads:
    """The section of the snapshot. Finished Pods are left out.

    `pods` and `entries` by object; `pods_by_ip`: (cluster, ip) -> Pod. `entries_at` holds entries by address, `pods_in`
    and `entries_in` hold them by namespace.
    """

    pods: Mapping[ObjectKey, WorkloadInstance] = field(default_factory=dict)
    entries: Mapping[ObjectKey, WorkloadInstance] = field(default_factory=dict)
    pods_by_ip: Mapping[ClusterAddress, WorkloadInstance] = field(default_factory=dict)
    entries_at: Groups[str, WorkloadInstance] = field(default_factory=lambda: Groups())
    pods_in: Groups[str, WorkloadInstance] = field(default_factory=lambda: Groups())
    entries_in: Groups[str, WorkloadInstance] = field(default_factory=lambda: Groups())
    networks: NetworkIndex = field(default_factory=NetworkIndex)
    memo: WorkloadsMemo = field(default_factory=WorkloadsMemo)


class WorkloadsInputs(NamedTuple):
    """All that the section may read."""

    mesh: Mesh
    pods: Mapping[ObjectKey, ConfigObject[Pod]]
    nodes: Mapping[ObjectKey, ConfigObject[Node]]
    namespaces: Mapping[ObjectKey, ConfigObject[Namespace]]
    entries: Mapping[ObjectKey, ConfigObject[WorkloadEntry]]


def build_workloads(inputs: WorkloadsInputs, previous: Workloads) -> Steps[Workloads]:
    """Every workload of every cluster. Each mapping that holds the same as before is the same mapping as before."""
    memo, mesh = previous.memo, inputs.mesh
    networks = build_networks(mesh.networks, mesh.root_namespace, inputs.namespaces.values())
    wanted_nodes = ((key, (node,)) for key, node in inputs.nodes.items())
    localities = yield from build_units(wanted_nodes, _node_locality, memo.localities)
    by_node = {(key.cluster, key.name): unit.value for key, unit in localities.items()}
    pods = yield from build_units(_wanted_pods(inputs, by_node, networks), _pod_instance, memo.pods)
    wanted_entries = ((key, (entry, networks, mesh)) for key, entry in inputs.entries.items())
    entries = yield from build_units(wanted_entries, _entry_instance, memo.entries)
    yield
    running = kept(previous.pods, {key: unit.value for key, unit in pods.items() if unit.value is not None})
    known = kept(previous.entries, {key: unit.value for key, unit in entries.items()})
    yield
    pods_by_ip = kept(previous.pods_by_ip, _pods_by_ip(running))
    yield
    pods_in = regroup(running, _namespace, previous.pods_in)
    yield
    return Workloads(
        pods=running,
        entries=known,
        pods_by_ip=pods_by_ip,
        entries_at=regroup(known, _addresses, previous.entries_at),
        pods_in=pods_in,
        entries_in=regroup(known, _namespace, previous.entries_in),
        networks=previous.networks if networks == previous.networks else networks,
        memo=WorkloadsMemo(localities, pods, entries),
    )


def _namespace(instance: WorkloadInstance) -> tuple[str]:
    return (instance.namespace,)


def _addresses(instance: WorkloadInstance) -> tuple[str, ...]:
    return instance.addresses


def _pods_by_ip(pods: Mapping[ObjectKey, WorkloadInstance]) -> dict[ClusterAddress, WorkloadInstance]:
    return _first_by_key(((key.cluster, address), pod) for key, pod in pods.items() for address in pod.addresses)


def _first_by_key(claims: Iterable[tuple[PlaceT, WorkloadInstance]]) -> dict[PlaceT, WorkloadInstance]:
    """Whoever claims a place; of several (Pods on the network of their host) the first by key."""
    first: dict[PlaceT, WorkloadInstance] = {}
    for place, instance in claims:
        if place not in first or instance.key < first[place].key:
            first[place] = instance
    return first


def _node_locality(inputs: tuple[ConfigObject[Node]]) -> Locality:
    return topology_of_labels(inputs[0].labels)


PodInputs = tuple["ConfigObject[Pod]", Locality, NetworkIndex, "Mesh"]


def _wanted_pods(
    inputs: WorkloadsInputs, by_node: Mapping[ClusterAddress, Locality], networks: NetworkIndex
) -> Iterator[tuple[ObjectKey, PodInputs]]:
    for key, pod in inputs.pods.items():
        yield key, (pod, by_node.get((key.cluster, pod.spec.node_name), NOWHERE), networks, inputs.mesh)


def _pod_instance(inputs: PodInputs) -> WorkloadInstance | None:
    """The instance of a Pod, or None for one that finished or has no address yet."""
    pod, node_locality, networks, mesh = inputs
    spec, cluster = pod.spec, pod.key.cluster
    addresses = tuple(each.ip for each in spec.pod_ips if each.ip) or ((spec.pod_ip,) if spec.pod_ip else ())
    if spec.phase in FINISHED_PHASES or not addresses:
        return None
    locality = locality_of_labels(pod.labels)
    if locality == NOWHERE:
        locality = node_locality
    network = networks.network_of(addresses[0], pod.labels, cluster)
    return WorkloadInstance(
        key=pod.key,
        addresses=addresses,
        labels=pod.labels,
        all_labels=augmented(pod.labels, locality, cluster, spec.node_name, network),
        service_account=spiffe_identity(mesh, pod.key.namespace, spec.service_account_name),
        locality=locality,
        network=network,
        tls_mode=pod.labels.get(names.TLS_MODE, names.TLS_MODE_DISABLED),
        workload_name=_workload_name(pod),
        ready=any(condition.type == "Ready" and condition.status == "True" for condition in spec.conditions),
        draining=_is_draining(pod.labels, mesh),
        ports=_container_ports(spec),
        node_name=spec.node_name,
        host_name=spec.hostname,
        subdomain=spec.subdomain,
    )


def _is_draining(labels: Mapping[str, str], mesh: Mesh) -> bool:
    return bool(labels.get(mesh.features.draining_label))


def _container_ports(pod: Pod) -> dict[str, int]:
    """Named ports of the containers that run beside each other: ordinary ones and sidecars (networking.md §1.5)."""
    sidecars = [container for container in pod.init_containers if container.restart_policy == "Always"]
    ports = [port for container in (*pod.containers, *sidecars) for port in container.ports]
    return {port.name: port.container_port for port in reversed(ports) if port.name}


def _workload_name(pod: ConfigObject[Pod]) -> str:
    """The name of what made the Pod; its own if it was made by hand (networking.md §1.4)."""
    owner = next((owner for owner in pod.spec.owner_references if owner.controller), None)
    if not pod.spec.generate_name or owner is None:
        return pod.key.name
    match owner.kind:
        case "ReplicaSet":
            return _without_template_hash(owner.name, pod.labels)
        case "ReplicationController":
            return pod.labels.get("deploymentconfig") or owner.name
        case "Job":
            return _CRON_SUFFIX.sub("", owner.name)
        case _:
            return owner.name


def _without_template_hash(name: str, labels: Mapping[str, str]) -> str:
    for label in (names.POD_TEMPLATE_HASH, "rollouts-pod-template-hash"):
        if (template_hash := labels.get(label)) and name.endswith("-" + template_hash):
            return name.removesuffix("-" + template_hash)
    return name


def spiffe_identity(mesh: Mesh, namespace: str, account: str) -> str:
    """The SPIFFE identity of a service account; "" without one."""
    return f"spiffe://{mesh.config.trust_domain}/ns/{namespace}/sa/{account}" if account else ""


def _entry_instance(inputs: tuple[ConfigObject[WorkloadEntry], NetworkIndex, Mesh]) -> WorkloadInstance:
    entry, networks, mesh = inputs
    labels = {**entry.spec.labels, **entry.labels}
    return instance_of_workload(entry.key, entry.spec, labels, networks, mesh, ready=_is_healthy(entry))


def _is_healthy(entry: ConfigObject[WorkloadEntry]) -> bool:
    """An entry whose health is checked counts only once it was found healthy (networking.md §1.6)."""
    if entry.annotations.get(names.HEALTH_CHECKS_ENABLED, "").lower() != "true":
        return True
    return any(each.type == names.HEALTHY_CONDITION and each.status == "True" for each in entry.spec.conditions)


def instance_of_workload(
    key: ObjectKey,
    workload: Workload,
    labels: Mapping[str, str],
    networks: NetworkIndex,
    mesh: Mesh,
    *,
    ready: bool = True,
) -> WorkloadInstance:
    """The instance of a WorkloadEntry or of an inline endpoint of a ServiceEntry (`key` then names the endpoint)."""
    locality = parse_locality(workload.locality) if workload.locality else locality_of_labels(labels)
    network = workload.network or networks.network_of(workload.address, labels, key.cluster)
    tls_mode = names.TLS_MODE_ISTIO if workload.service_account else names.TLS_MODE_DISABLED
    return WorkloadInstance(
        key=key,
        addresses=(workload.address,) if workload.address else (),
        labels=labels,
        all_labels=augmented(labels, locality, key.cluster, "", network),
        service_account=spiffe_identity(mesh, key.namespace, workload.service_account),
        locality=locality,
        network=network,
        tls_mode=labels.get(names.TLS_MODE) or tls_mode,
        workload_name=key.name,
        ready=ready,
        draining=_is_draining(labels, mesh),
        ports=workload.ports,
        weight=workload.weight,
    )
