"""Service targets: the ports that a proxy serves itself (networking.md §1.5, xds-server.md §4.11).

Two registries answer. ServiceEntries: every endpoint with an address of the proxy. Kubernetes: the services that select
the proxy's workload; if none does, services without a selector that list its address; if the workload is not known, the
services of the proxy's namespace that select the labels that the proxy claims.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trierarch.push.model import ServiceTarget
from trierarch.push.node_metadata import HIGHEST_PORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from trierarch.push.context import PushContext
    from trierarch.push.model import PortProtocol, Service, ServicePort
    from trierarch.push.proxy import Proxy
    from trierarch.push.workloads import WorkloadInstance


LONGEST_POD_PORTS = 64 * 1024
"""Characters of POD_PORTS that are read, a millisecond's work: a thousand ports."""


def select_targets(
    proxy: Proxy, workload: WorkloadInstance | None, labels: Mapping[str, str], context: PushContext
) -> tuple[ServiceTarget, ...]:
    """The targets of a proxy: those of the oldest service first. `workload` is its Pod or workload entry, if known.

    Ports of one service that share target port and protocol are one target; those of several services are not, for
    each service is named where the port is served.
    """
    found = {
        **_of_entries(proxy, context),
        **_of_kubernetes(proxy, workload, labels, context),
    }
    oldest_first = sorted(found, key=lambda service: (service.created, service.hostname))
    return tuple(target for service in oldest_first for target in found[service])


def _of_entries(proxy: Proxy, context: PushContext) -> dict[Service, tuple[ServiceTarget, ...]]:
    """Targets of ServiceEntries: their endpoints at one of the proxy's addresses."""
    hosts = dict.fromkeys(host for ip in proxy.ips for host in context.endpoints.external_at.get(ip, ()))
    targets: dict[Service, tuple[ServiceTarget, ...]] = {}
    for host in hosts:
        service = context.services.by_id.get(host)
        if service is not None:
            own = [each for each in context.endpoints.of(host).endpoints if set(each.addresses) & set(proxy.ips)]
            numbers = {endpoint.port_name: endpoint.port for endpoint in reversed(own)}
            targets[service] = _targets(service, _by_name(numbers))
    return targets


def _of_kubernetes(
    proxy: Proxy, workload: WorkloadInstance | None, labels: Mapping[str, str], context: PushContext
) -> dict[Service, tuple[ServiceTarget, ...]]:
    if workload is None:
        ports = _claimed_ports(proxy)
        services = _selecting(proxy.namespace, labels, proxy.cluster, context)
        return {service: _targets(service, _at_pod(ports)) for service in services}
    services = _selecting(workload.namespace, workload.labels, proxy.cluster, context)
    at_workload = _at_pod(workload.ports) if workload.key.kind == "Pod" else _at_entry(workload.ports)
    selected = {service: _targets(service, at_workload) for service in services}
    return selected or _of_listing(proxy, workload.namespace, context)


def _selecting(namespace: str, labels: Mapping[str, str], cluster: str, context: PushContext) -> Iterator[Service]:
    """Kubernetes Services of a namespace that select these labels."""
    for service in context.services.kubernetes_in.get(namespace, ()):
        if service.selector and service.selector.items() <= labels.items() and _is_in(service, cluster, context):
            yield service


def _of_listing(proxy: Proxy, namespace: str, context: PushContext) -> dict[Service, tuple[ServiceTarget, ...]]:
    """Targets of services without a selector whose slices list an address of the proxy."""
    targets: dict[Service, tuple[ServiceTarget, ...]] = {}
    for service in context.services.kubernetes_in.get(namespace, ()):
        if not service.selector and _is_in(service, proxy.cluster, context):
            own = [e for e in context.endpoints.of(service.id).endpoints if set(e.addresses) & set(proxy.ips)]
            if own:
                targets[service] = _targets(service, _by_name({each.port_name: each.port for each in reversed(own)}))
    return targets


def _is_in(service: Service, cluster: str, context: PushContext) -> bool:
    """Whether the service is defined in a proxy's cluster; a proxy that names none is in all of them."""
    definitions = context.services.definitions[service.id].kubernetes
    return not cluster or any(definition.key.cluster == cluster for definition in definitions)


def _targets(service: Service, target_port: Callable[[ServicePort], int | None]) -> tuple[ServiceTarget, ...]:
    """One target for each target port and protocol; the first service port that leads there gives its number."""
    first: dict[tuple[int, PortProtocol], ServiceTarget] = {}
    for port in service.ports:
        number = target_port(port)
        if number is not None:
            first.setdefault((number, port.protocol), ServiceTarget(service.id, port.number, number, port.protocol))
    return tuple(first.values())


def _by_name(numbers: Mapping[str, int]) -> Callable[[ServicePort], int | None]:
    """Target ports as endpoints state them."""
    return lambda port: numbers.get(port.name)


def _at_pod(ports: Mapping[str, int]) -> Callable[[ServicePort], int | None]:
    """Target ports at a Pod: a name is that of a container's port."""
    return lambda port: ports.get(port.target) if isinstance(port.target, str) else port.target or port.number


def _at_entry(ports: Mapping[str, int]) -> Callable[[ServicePort], int | None]:
    """Target ports at a workload entry: its own port of the service port's name goes first."""
    at_pod = _at_pod(ports)
    return lambda port: ports.get(port.name) or at_pod(port)


def _claimed_ports(proxy: Proxy) -> Mapping[str, int]:
    """Named container ports as the proxy's metadata states them (POD_PORTS); none if that cannot be read, and none with
    a number that no port has.
    """
    try:
        stated = str(proxy.metadata.get("POD_PORTS") or "[]")
        claimed = json.loads(stated) if len(stated) <= LONGEST_POD_PORTS else []
    except (ValueError, RecursionError):
        return {}
    ports = claimed if isinstance(claimed, list) else []
    named = [port for port in ports if isinstance(port, dict) and port.get("name")]
    return {str(port["name"]): int(port["containerPort"]) for port in named if _is_port(port.get("containerPort"))}


def _is_port(number: object) -> bool:
    return isinstance(number, int) and 0 < number <= HIGHEST_PORT
