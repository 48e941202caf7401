"""The Kubernetes kinds that describe services and workloads, as far as the mesh reads them (networking.md §1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from trierarch.config.wire import At, Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePort:
    """A port of a Service. `target_port` is a number, the name of a container's port, or absent (the same number)."""

    name: str = ""
    port: Int32 = 0
    protocol: str = "TCP"
    app_protocol: str | None = None
    target_port: int | str | None = None
    node_port: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancerIngress:
    """An address of the load balancer before a Service."""

    ip: str = ""
    hostname: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Service:
    """A Service. `cluster_ip` is "None" if headless, "" if it was never assigned."""

    type: Annotated[str, At("spec", "type")] = "ClusterIP"
    cluster_ip: Annotated[str, At("spec", "clusterIP")] = ""
    cluster_ips: Annotated[tuple[str, ...], At("spec", "clusterIPs")] = ()
    ports: Annotated[tuple[ServicePort, ...], At("spec", "ports")] = ()
    selector: Annotated[Mapping[str, str], At("spec", "selector")] = field(default_factory=dict)
    external_name: Annotated[str, At("spec", "externalName")] = ""
    external_ips: Annotated[tuple[str, ...], At("spec", "externalIPs")] = ()
    internal_traffic_policy: Annotated[str, At("spec", "internalTrafficPolicy")] = ""
    external_traffic_policy: Annotated[str, At("spec", "externalTrafficPolicy")] = ""
    traffic_distribution: Annotated[str, At("spec", "trafficDistribution")] = ""
    publish_not_ready_addresses: Annotated[bool, At("spec", "publishNotReadyAddresses")] = False
    load_balancer_ingress: Annotated[tuple[LoadBalancerIngress, ...], At("status", "loadBalancer", "ingress")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReference:
    """The object behind an address."""

    kind: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointConditions:
    """State of an endpoint; an absent `ready` counts as true (networking.md §1.4)."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SliceEndpoint:
    """Addresses of one endpoint; all but the first are only of interest to dual stack."""

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = field(default_factory=EndpointConditions)
    hostname: str = ""
    node_name: str = ""
    zone: str = ""
    target_ref: TargetReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPort:
    """A port of endpoints, by the name of the Service's port. An absent number means all ports."""

    name: str = ""
    port: Int32 | None = None
    protocol: str = "TCP"
    app_protocol: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndpointSlice:
    """Endpoints of a Service (named by the label `kubernetes.io/service-name`)."""

    address_type: Annotated[str, At("addressType")] = "IPv4"
    endpoints: Annotated[tuple[SliceEndpoint, ...], At("endpoints")] = ()
    ports: Annotated[tuple[EndpointPort, ...], At("ports")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointAddress:
    """One address of an Endpoints object."""

    ip: str = ""
    hostname: str = ""
    node_name: str = ""
    target_ref: TargetReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndpointSubset:
    """Addresses that share ports."""

    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Endpoints:
    """The older form of EndpointSlice, of the Service with the same name."""

    subsets: Annotated[tuple[EndpointSubset, ...], At("subsets")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerReference:
    """The object that made this one."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPort:
    """A port that a container declares."""

    name: str = ""
    container_port: Int32 = 0
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Container:
    """A container of a Pod; an init container with `restart_policy` "Always" is a sidecar."""

    name: str = ""
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIp:
    """One of a Pod's addresses."""

    ip: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCondition:
    """A condition of a Pod; `status` is "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pod:
    """A Pod: who it is, where it runs, what it listens to and how it is. `deletion_timestamp` "" means it stays."""

    uid: Annotated[str, At("metadata", "uid")] = ""
    generate_name: Annotated[str, At("metadata", "generateName")] = ""
    owner_references: Annotated[tuple[OwnerReference, ...], At("metadata", "ownerReferences")] = ()
    deletion_timestamp: Annotated[str, At("metadata", "deletionTimestamp")] = ""
    node_name: Annotated[str, At("spec", "nodeName")] = ""
    service_account_name: Annotated[str, At("spec", "serviceAccountName")] = ""
    hostname: Annotated[str, At("spec", "hostname")] = ""
    subdomain: Annotated[str, At("spec", "subdomain")] = ""
    host_network: Annotated[bool, At("spec", "hostNetwork")] = False
    containers: Annotated[tuple[Container, ...], At("spec", "containers")] = ()
    init_containers: Annotated[tuple[Container, ...], At("spec", "initContainers")] = ()
    phase: Annotated[str, At("status", "phase")] = ""
    pod_ip: Annotated[str, At("status", "podIP")] = ""
    pod_ips: Annotated[tuple[PodIp, ...], At("status", "podIPs")] = ()
    conditions: Annotated[tuple[PodCondition, ...], At("status", "conditions")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddress:
    """An address of a Node; `type` is such as "ExternalIP"."""

    type: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A Node. Its locality is in its labels."""

    addresses: Annotated[tuple[NodeAddress, ...], At("status", "addresses")] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Namespace:
    """A namespace. All that matters is in its labels and annotations."""
