"""What an API server demands of the Kubernetes kinds, as far as the mesh reads them.

Objects that come from a cluster have passed this already; those in a folder have not, and one address that is none
would make Envoy refuse everything that is sent beside it.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from trierarch.config.checks import check_dns_label, check_namespace, check_port
from trierarch.config.violations import Complaints, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trierarch.config.kubernetes import EndpointPort, Endpoints, EndpointSlice, Pod, Service
    from trierarch.config.objects import ConfigObject

HEADLESS = "None"
_NAMED = "FQDN"


def check_service(subject: ConfigObject[Service]) -> Complaints:
    """Name, addresses and ports of a Service. Its name and its namespace are parts of the host that routes are for."""
    spec = subject.spec
    yield from check_dns_label("metadata.name", subject.key.name)
    yield from check_namespace("metadata.namespace", subject.key.namespace)
    yield from _check_cluster_ip("spec.clusterIP", spec.cluster_ip)
    for index, address in enumerate(spec.cluster_ips):
        yield from _check_cluster_ip(f"spec.clusterIPs[{index}]", address)
    for index, port in enumerate(spec.ports):
        yield from check_port(f"spec.ports[{index}].port", port.port)
        if isinstance(port.target_port, int) and port.target_port:
            yield from check_port(f"spec.ports[{index}].targetPort", port.target_port)
    for index, address in enumerate(spec.external_ips):
        yield from _check_ip(f"spec.externalIPs[{index}]", address)
    for index, ingress in enumerate(spec.load_balancer_ingress):
        yield from _check_optional_ip(f"status.loadBalancer.ingress[{index}].ip", ingress.ip)


def check_endpoint_slice(subject: ConfigObject[EndpointSlice]) -> Complaints:
    """Addresses and ports of an EndpointSlice."""
    spec = subject.spec
    if spec.address_type != _NAMED:
        for index, endpoint in enumerate(spec.endpoints):
            for place, address in enumerate(endpoint.addresses):
                yield from _check_ip(f"endpoints[{index}].addresses[{place}]", address)
    yield from _check_ports("ports", spec.ports)


def check_endpoints(subject: ConfigObject[Endpoints]) -> Complaints:
    """Addresses and ports of an Endpoints object."""
    for index, subset in enumerate(subject.spec.subsets):
        path = f"subsets[{index}]"
        for place, address in enumerate(subset.addresses):
            yield from _check_ip(f"{path}.addresses[{place}].ip", address.ip)
        for place, address in enumerate(subset.not_ready_addresses):
            yield from _check_ip(f"{path}.notReadyAddresses[{place}].ip", address.ip)
        yield from _check_ports(f"{path}.ports", subset.ports)


def check_pod(subject: ConfigObject[Pod]) -> Complaints:
    """Addresses and ports of a Pod. It has no address before it has a place."""
    spec = subject.spec
    yield from _check_optional_ip("status.podIP", spec.pod_ip)
    for index, each in enumerate(spec.pod_ips):
        yield from _check_ip(f"status.podIPs[{index}].ip", each.ip)
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            for place, port in enumerate(container.ports):
                yield from check_port(f"spec.{field}[{index}].ports[{place}].containerPort", port.container_port)


def _check_ports(path: str, ports: Iterable[EndpointPort]) -> Complaints:
    for index, port in enumerate(ports):
        if port.port is not None:
            yield from check_port(f"{path}[{index}].port", port.port)


def _check_cluster_ip(path: str, address: str) -> Complaints:
    if address != HEADLESS:
        yield from _check_optional_ip(path, address)


def _check_optional_ip(path: str, address: str) -> Complaints:
    if address:
        yield from _check_ip(path, address)


def _check_ip(path: str, address: str) -> Complaints:
    try:
        ip_address(address)
    except ValueError:
        yield Violation(path, f'"{address}" is not an IP address')
