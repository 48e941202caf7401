"""A synthetic mesh: services with pods, slices, routes and rules, edits of them, and proxies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config import kubernetes
from trierarch.config.common import Destination
from trierarch.config.destination_rule import DestinationRule, Subset
from trierarch.config.objects import ConfigObject, ObjectKey, Origin
from trierarch.config.store import ConfigView
from trierarch.config.virtual_service import HttpRoute, HttpRouteDestination, VirtualService
from trierarch.push.processors import ContextSettings, build_push_context
from trierarch.push.proxy import NodeInfo, build_proxy
from trierarch.push.steps import run_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trierarch.config.objects import AnyObject
    from trierarch.push.context import PushContext
    from trierarch.push.proxy import Proxy

NAMESPACES = 20
PODS_PER_SERVICE = 3
NEW = 100_000
"""Numbers of services from here on are not in any mesh."""
ORIGIN = Origin(source="bench")
CLUSTER = "Kubernetes"


def mesh(size: int) -> Iterator[AnyObject]:
    """Services with their pods, slices, routes and rules, spread over namespaces."""
    for index in range(size):
        yield service(index, 0)
        yield from (pod(index, number) for number in range(PODS_PER_SERVICE))
        yield endpoint_slice(index, 0)
        yield virtual_service(index, 0)
        yield destination_rule(index, 0)


def made(kind: str, index: int, version: int, spec: object, **labels: str) -> AnyObject:
    """An object of service number `index`; another version is another object."""
    key = ObjectKey("Kubernetes", kind, f"ns-{index % NAMESPACES}", f"svc-{index}")
    digest = version.to_bytes(4, "big")
    return ConfigObject(key=key, labels=labels, created=float(index), spec=spec, digest=digest, origin=ORIGIN)


def service(index: int, version: int) -> AnyObject:
    """A ClusterIP service with an HTTP port."""
    ports = (kubernetes.ServicePort(name="http", port=80, target_port=8080),)
    address = f"10.{100 + index // 65536}.{index // 256 % 256}.{index % 256}"
    spec = kubernetes.Service(cluster_ip=address, ports=ports, selector={"app": f"svc-{index}"})
    return made("Service", index, version, spec)


def new_service(index: int, version: int) -> AnyObject:
    """One that the mesh did not have."""
    return service(NEW + index, version)


def pod(index: int, number: int) -> AnyObject:
    """A ready Pod."""
    key = ObjectKey("Kubernetes", "Pod", f"ns-{index % NAMESPACES}", f"pod-{index}-{number}")
    spec = kubernetes.Pod(pod_ip=pod_ip(index, number), phase="Running", service_account_name=f"svc-{index}")
    labels = {"app": f"svc-{index}", "version": "v1"}
    return ConfigObject(key=key, labels=labels, spec=spec, digest=b"0", origin=ORIGIN)


def pod_ip(index: int, number: int) -> str:
    """The address of a Pod."""
    place = index * PODS_PER_SERVICE + number
    return f"10.{place // 65536}.{place // 256 % 256}.{place % 256}"


def endpoint_slice(index: int, version: int) -> AnyObject:
    """The slice of a service; in odd versions the first endpoint is gone."""
    endpoints = tuple(
        kubernetes.SliceEndpoint(
            addresses=(pod_ip(index, number),),
            target_ref=kubernetes.TargetReference(kind="Pod", name=f"pod-{index}-{number}"),
        )
        for number in range(version % 2, PODS_PER_SERVICE)
    )
    spec = kubernetes.EndpointSlice(endpoints=endpoints, ports=(kubernetes.EndpointPort(name="http", port=8080),))
    return made("EndpointSlice", index, version, spec, **{"kubernetes.io/service-name": f"svc-{index}"})


def virtual_service(index: int, version: int) -> AnyObject:
    """One route to the service."""
    destination = Destination(host=f"svc-{index}", subset="v1")
    route = HttpRoute(route=(HttpRouteDestination(destination=destination),), timeout=float(version))
    return made("VirtualService", index, version, VirtualService(hosts=(f"svc-{index}",), http=(route,)))


def destination_rule(index: int, version: int) -> AnyObject:
    """Two subsets."""
    subsets = (Subset(name="v1", labels={"version": "v1"}), Subset(name="v2", labels={"version": f"v{version}"}))
    return made("DestinationRule", index, version, DestinationRule(host=f"svc-{index}", subsets=subsets))


EDITS: dict[str, Callable[[int, int], AnyObject]] = {
    "VirtualService": virtual_service,
    "DestinationRule": destination_rule,
    "EndpointSlice": endpoint_slice,
    "new Service": new_service,
}
"""By number of a service and version."""


def snapshot(size: int) -> PushContext:
    """The snapshot of a mesh of so many services."""
    view, _ = ConfigView().apply(mesh(size))
    return rebuilt(view, None)


def rebuilt(view: ConfigView, previous: PushContext | None) -> PushContext:
    """The snapshot of a view, after another one or cold."""
    number = previous.number + 1 if previous else 1
    return run_steps(build_push_context(view, ContextSettings(), previous, number))


def proxy(index: int, number: int = 0) -> Proxy:
    """Istio's sidecar of a pod of service number `index`."""
    namespace = f"ns-{index % NAMESPACES}"
    node = NodeInfo(
        id=f"sidecar~{pod_ip(index, number)}~pod-{index}-{number}.{namespace}~{namespace}.svc.cluster.local",
        metadata={"ISTIO_VERSION": "1.32.0", "NAMESPACE": namespace, "LABELS": {"app": f"svc-{index}"}},
    )
    return build_proxy(node, default_cluster=CLUSTER)
