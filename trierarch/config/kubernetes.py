"""The Kubernetes kinds that describe services and workloads, as far as the mesh reads them (networking.md §1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trierarch.config.wire import Int32, elsewhere


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

    type: str = elsewhere("spec", "type", default="ClusterIP")
    cluster_ip: str = elsewhere("spec", "clusterIP", default="")
    cluster_ips: tuple[str, ...] = elsewhere("spec", "clusterIPs", default=())
    ports: tuple[ServicePort, ...] = elsewhere("spec", "ports", default=())
    selector: Mapping[str, str] = elsewhere("spec", "selector", default_factory=dict)
    external_name: str = elsewhere("spec", "externalName", default="")
    external_ips: tuple[str, ...] = elsewhere("spec", "externalIPs", default=())
    internal_traffic_policy: str = elsewhere("spec", "internalTrafficPolicy", default="")
    external_traffic_policy: str = elsewhere("spec", "externalTrafficPolicy", default="")
    traffic_distribution: str = elsewhere("spec", "trafficDistribution", default="")
    publish_not_ready_addresses: bool = elsewhere("spec", "publishNotReadyAddresses", default=False)
    load_balancer_ingress: tuple[LoadBalancerIngress, ...] = elsewhere("status", "loadBalancer", "ingress", default=())


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

    address_type: str = elsewhere("addressType", default="IPv4")
    endpoints: tuple[SliceEndpoint, ...] = elsewhere("endpoints", default=())
    ports: tuple[EndpointPort, ...] = elsewhere("ports", default=())


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

    subsets: tuple[EndpointSubset, ...] = elsewhere("subsets", default=())


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

    generate_name: str = elsewhere("metadata", "generateName", default="")
    owner_references: tuple[OwnerReference, ...] = elsewhere("metadata", "ownerReferences", default=())
    deletion_timestamp: str = elsewhere("metadata", "deletionTimestamp", default="")
    node_name: str = elsewhere("spec", "nodeName", default="")
    service_account_name: str = elsewhere("spec", "serviceAccountName", default="")
    hostname: str = elsewhere("spec", "hostname", default="")
    subdomain: str = elsewhere("spec", "subdomain", default="")
    host_network: bool = elsewhere("spec", "hostNetwork", default=False)
    containers: tuple[Container, ...] = elsewhere("spec", "containers", default=())
    init_containers: tuple[Container, ...] = elsewhere("spec", "initContainers", default=())
    phase: str = elsewhere("status", "phase", default="")
    pod_ip: str = elsewhere("status", "podIP", default="")
    pod_ips: tuple[PodIp, ...] = elsewhere("status", "podIPs", default=())
    conditions: tuple[PodCondition, ...] = elsewhere("status", "conditions", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddress:
    """An address of a Node; `type` is such as "ExternalIP"."""

    type: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A Node. Its locality is in its labels."""

    addresses: tuple[NodeAddress, ...] = elsewhere("status", "addresses", default=())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Namespace:
    """A namespace. All that matters is in its labels and annotations."""
