"""From the objects that define services, Kubernetes Services and ServiceEntries, to the neutral `Service`.

One object at a time, without a look at any other: what follows from several objects together is in `services.py`.
"""

from __future__ import annotations

from ipaddress import ip_network
from types import MappingProxyType
from typing import TYPE_CHECKING

from trierarch.config import labels as names
from trierarch.config.hosts import is_wildcard
from trierarch.config.service_entry import Location, ResolutionMode
from trierarch.push.model import (
    UNSPECIFIED_ADDRESS,
    Registry,
    Resolution,
    Service,
    ServicePort,
    TrafficDistribution,
)
from trierarch.push.port_protocols import parse_protocol, select_protocol
from trierarch.push.visibility import entry_exported_to, exported_to
from trierarch.push.workloads import spiffe_identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trierarch.config.kubernetes import Service as KubernetesService
    from trierarch.config.objects import ConfigObject
    from trierarch.config.service_entry import ServiceEntry
    from trierarch.push.mesh import Mesh

HEADLESS_ADDRESS = "None"

RESOLUTIONS = MappingProxyType(
    {
        ResolutionMode.NONE: Resolution.PASSTHROUGH,
        ResolutionMode.STATIC: Resolution.CLIENT_SIDE,
        ResolutionMode.DNS: Resolution.DNS,
        ResolutionMode.DNS_ROUND_ROBIN: Resolution.DNS_ROUND_ROBIN,
        ResolutionMode.DYNAMIC_DNS: Resolution.DYNAMIC_DNS,
    }
)

DISTRIBUTIONS = MappingProxyType(
    {
        "preferclose": TrafficDistribution.SAME_ZONE,
        "prefersamezone": TrafficDistribution.SAME_ZONE,
        "prefersamenode": TrafficDistribution.SAME_NODE,
    }
)
"""`spec.trafficDistribution` and the annotation, in lower case (networking.md §1.2)."""


def service_hostname(name: str, namespace: str, domain: str) -> str:
    """The full host name of a Kubernetes Service."""
    return f"{name}.{namespace}.svc.{domain}"


def service_of_kubernetes(
    inputs: tuple[ConfigObject[KubernetesService], str, Mesh],
) -> Service:
    """The service that a Kubernetes Service defines (networking.md §1.2).

    The second input is the namespace's wish for traffic distribution, which counts if the Service has none.
    """
    source, namespace_distribution, mesh = inputs
    key, spec = source.key, source.spec
    headless = spec.cluster_ip == HEADLESS_ADDRESS
    addresses = tuple(ip for ip in spec.cluster_ips or (spec.cluster_ip,) if ip and ip != HEADLESS_ADDRESS)
    alias = spec.type == "ExternalName"
    stated = spec.traffic_distribution or source.annotations.get(names.TRAFFIC_DISTRIBUTION, "")
    return Service(
        hostname=service_hostname(key.name, key.namespace, mesh.domain),
        namespace=key.namespace,
        name=key.name,
        registry=Registry.KUBERNETES,
        created=source.created,
        resolution=_kubernetes_resolution(alias=alias, headless=headless),
        ports=tuple(_kubernetes_ports(spec)),
        addresses={key.cluster: addresses} if addresses and not alias else {},
        default_address=addresses[0] if addresses and not alias else UNSPECIFIED_ADDRESS,
        mesh_external=alias,
        export_to=exported_to(_comma_list(source.annotations.get(names.EXPORT_TO, "")), key.namespace, mesh),
        subject_alt_names=_stated_identities(source, mesh),
        labels=source.labels,
        selector=spec.selector or None,
        node_local=spec.internal_traffic_policy == "Local",
        traffic_distribution=DISTRIBUTIONS.get((stated or namespace_distribution).lower(), TrafficDistribution.ANY),
        external_name=spec.external_name if alias else "",
        publish_not_ready=spec.publish_not_ready_addresses,
        headless=headless,
    )


def _kubernetes_resolution(*, alias: bool, headless: bool) -> Resolution:
    if alias:
        return Resolution.ALIAS
    return Resolution.PASSTHROUGH if headless else Resolution.CLIENT_SIDE


def _kubernetes_ports(spec: KubernetesService) -> Iterator[ServicePort]:
    for port in spec.ports:
        protocol = select_protocol(port.port, port.name, port.protocol, port.app_protocol)
        yield ServicePort(port.port, port.name, protocol, port.target_port or 0)


def _stated_identities(source: ConfigObject[KubernetesService], mesh: Mesh) -> tuple[str, ...]:
    """Identities that annotations name: as they are, or as service accounts of the namespace."""
    verbatim = _comma_list(source.annotations.get(names.CANONICAL_SERVICE_ACCOUNTS, ""))
    accounts = _comma_list(source.annotations.get(names.KUBERNETES_SERVICE_ACCOUNTS, ""))
    return (*verbatim, *(spiffe_identity(mesh, source.key.namespace, account) for account in accounts))


def services_of_entry(inputs: tuple[ConfigObject[ServiceEntry], Mapping[str, str], Mesh]) -> tuple[Service, ...]:
    """The services that a ServiceEntry defines: one for each host and address (networking.md §1.6).

    The second input is the labels of its namespace.
    """
    source, namespace_labels, mesh = inputs
    visible_to = entry_exported_to(source.spec.export_to, source.key.namespace, namespace_labels, mesh)
    addresses = tuple(_without_host_mask(address) for address in source.spec.addresses) or (UNSPECIFIED_ADDRESS,)
    hosts = source.spec.hosts
    return tuple(_service_of_host(source, host, address, visible_to) for host in hosts for address in addresses)


def _service_of_host(
    source: ConfigObject[ServiceEntry], host: str, address: str, visible_to: frozenset[str]
) -> Service:
    spec = source.spec
    ports = (ServicePort(p.number, p.name, parse_protocol(p.protocol), p.target_port) for p in spec.ports)
    stated = source.annotations.get(names.TRAFFIC_DISTRIBUTION, "")
    return Service(
        hostname=host,
        namespace=source.key.namespace,
        name=host,
        registry=Registry.EXTERNAL,
        created=source.created,
        resolution=RESOLUTIONS[spec.resolution],
        ports=tuple(ports),
        default_address=address,
        auto_addresses=_allocated(source, host),
        mesh_external=spec.location is Location.MESH_EXTERNAL,
        export_to=visible_to,
        subject_alt_names=spec.subject_alt_names,
        labels=source.labels,
        traffic_distribution=DISTRIBUTIONS.get(stated.lower(), TrafficDistribution.ANY),
        races_addresses=_races_addresses(source),
    )


def _races_addresses(source: ConfigObject[ServiceEntry]) -> bool:
    """Whether its author wants that, and there is one name: Envoy races the addresses of one name only."""
    spec = source.spec
    wanted = source.annotations.get(names.CONNECT_STRATEGY, "") == names.RACE_FIRST_TCP_CONNECT
    is_dns = spec.resolution in (ResolutionMode.DNS, ResolutionMode.DNS_ROUND_ROBIN)
    return wanted and is_dns and spec.workload_selector is None and len(spec.endpoints) <= 1


def _without_host_mask(address: str) -> str:
    """A range of one address is that address."""
    if "/" not in address:
        return address
    network = ip_network(address, strict=False)
    return str(network.network_address) if network.num_addresses == 1 else address


def _allocated(source: ConfigObject[ServiceEntry], host: str) -> tuple[str, ...]:
    """The addresses that a controller allocated to a host, if it may have any (networking.md §1.7)."""
    spec = source.spec
    wildcard = is_wildcard(host) and spec.resolution is not ResolutionMode.DYNAMIC_DNS
    refused = source.labels.get(names.ENABLE_AUTO_ALLOCATE_IP, "").lower() == "false"
    if spec.addresses or spec.resolution is ResolutionMode.NONE or wildcard or refused:
        return ()
    return tuple(each.value for each in spec.allocated_addresses if each.host in ("", host))


def _comma_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def distribution_of_namespace(annotations: Mapping[str, str]) -> str:
    """The wish that a namespace has for its services; "" if none."""
    return annotations.get(names.TRAFFIC_DISTRIBUTION, "")
