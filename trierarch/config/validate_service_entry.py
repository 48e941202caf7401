"""What istiod's validation demands of ServiceEntry and WorkloadEntry (networking.md §1.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config.checks import (
    UNIX,
    check_address,
    check_distinct,
    check_dns_label,
    check_export_to,
    check_host,
    check_labels,
    check_optional_port,
    check_port,
    check_protocol,
    check_selector,
    check_unix_address,
    check_wildcard_host,
)
from trierarch.config.hosts import is_ip_address, is_wildcard
from trierarch.config.service_entry import ResolutionMode
from trierarch.config.violations import Caution, Complaints, Violation

if TYPE_CHECKING:
    from trierarch.config.objects import ConfigObject
    from trierarch.config.service_entry import ServiceEntry, ServiceEntryPort
    from trierarch.config.workload_entry import Workload, WorkloadEntry

_DNS = (ResolutionMode.DNS, ResolutionMode.DNS_ROUND_ROBIN)


def check_service_entry(subject: ConfigObject[ServiceEntry]) -> Complaints:
    """Everything about one ServiceEntry."""
    spec = subject.spec
    yield from _check_hosts(spec)
    for index, address in enumerate(spec.addresses):
        yield from check_address(f"spec.addresses[{index}]", address)
    yield from check_distinct("spec.ports", (port.number for port in spec.ports), "number")
    yield from check_distinct("spec.ports", (port.name for port in spec.ports if port.name), "name")
    for index, port in enumerate(spec.ports):
        yield from _check_port(f"spec.ports[{index}]", port)
    if spec.workload_selector is not None:
        yield from check_selector("spec.workloadSelector.labels", spec.workload_selector.labels)
        if spec.endpoints:
            yield Violation("spec.endpoints", "only one of endpoints and workloadSelector is possible")
    for index, endpoint in enumerate(spec.endpoints):
        yield from _check_endpoint(f"spec.endpoints[{index}]", endpoint, spec)
    yield from _check_resolution(spec)
    yield from _check_ambiguity(spec)
    yield from check_export_to("spec.exportTo", spec.export_to, subject.key.namespace, nobody=True)


def _check_hosts(spec: ServiceEntry) -> Complaints:
    if not spec.hosts:
        yield Violation("spec.hosts", "a host is missing")
    for index, host in enumerate(spec.hosts):
        if host == "*":
            yield Violation(f"spec.hosts[{index}]", "the host * is not possible")
        else:
            yield from check_wildcard_host(f"spec.hosts[{index}]", host)


def _check_port(path: str, port: ServiceEntryPort) -> Complaints:
    yield from check_port(f"{path}.number", port.number)
    yield from check_optional_port(f"{path}.targetPort", port.target_port)
    yield from check_protocol(f"{path}.protocol", port.protocol)
    if port.name:
        yield from check_dns_label(f"{path}.name", port.name.lower().replace("_", "-"))
    else:
        yield Violation(f"{path}.name", "the name of the port is missing")


def _check_ambiguity(spec: ServiceEntry) -> Complaints:
    """Without an address of its own, traffic of unknown protocol to a port can only be told apart by that port."""
    for index, port in enumerate(spec.ports):
        if not spec.addresses and port.protocol.lower() in ("", "tcp"):
            hint = "give the entry addresses, or the port a protocol with names"
            yield Caution(f"spec.ports[{index}]", f"takes all traffic to port {port.number}, wherever it goes", hint)
    for index, host in enumerate(spec.hosts):
        if is_wildcard(host) and host != "*" and not host.startswith("*."):
            yield Caution(f"spec.hosts[{index}]", "a wildcard that is part of a label is not matched by TLS routes")


def _check_resolution(spec: ServiceEntry) -> Complaints:
    match spec.resolution:
        case ResolutionMode.NONE:
            if spec.endpoints:
                yield Violation("spec.endpoints", "endpoints are not possible with resolution NONE")
            if spec.workload_selector is not None:
                yield Caution("spec.workloadSelector", "resolution NONE does not use the workloads' addresses")
        case ResolutionMode.STATIC:
            if not spec.endpoints and spec.workload_selector is None:
                yield Caution("spec.endpoints", "resolution STATIC without endpoints has nowhere to go")
        case ResolutionMode.DNS | ResolutionMode.DNS_ROUND_ROBIN:
            yield from _check_dns(spec)
        case ResolutionMode.DYNAMIC_DNS:
            yield from _check_dynamic_dns(spec)


def _check_dns(spec: ServiceEntry) -> Complaints:
    for index, address in enumerate(spec.addresses):
        if "/" in address:
            yield Violation(f"spec.addresses[{index}]", "ranges are possible with resolution NONE and STATIC only")
    if spec.resolution is ResolutionMode.DNS_ROUND_ROBIN and len(spec.endpoints) > 1:
        yield Violation("spec.endpoints", "only one endpoint is possible with resolution DNS_ROUND_ROBIN")
    if not spec.endpoints and spec.workload_selector is None:
        for index, host in enumerate(spec.hosts):
            if is_wildcard(host):
                hint = "list endpoints, or use resolution NONE"
                yield Violation(f"spec.hosts[{index}]", "a wildcard cannot be resolved by DNS", hint)
    if len(spec.hosts) > 1 and spec.addresses and not all(map(_is_http, spec.ports)):
        yield Caution("spec.hosts", "hosts that share an address can only be told apart by HTTP")


def _is_http(port: ServiceEntryPort) -> bool:
    return port.protocol.lower() in ("http", "http2", "grpc", "grpc-web", "http_proxy")


def _check_dynamic_dns(spec: ServiceEntry) -> Complaints:
    for index, host in enumerate(spec.hosts):
        if not is_wildcard(host):
            yield Violation(f"spec.hosts[{index}]", "resolution DYNAMIC_DNS needs a wildcard")
    for field, given in (("endpoints", spec.endpoints), ("addresses", spec.addresses)):
        if given:
            yield Violation(f"spec.{field}", "not possible with resolution DYNAMIC_DNS")
    for index, port in enumerate(spec.ports):
        if not (_is_http(port) or port.protocol.lower() in ("https", "tls")):
            yield Violation(f"spec.ports[{index}].protocol", "resolution DYNAMIC_DNS takes the host from HTTP or TLS")


def _check_endpoint(path: str, endpoint: Workload, spec: ServiceEntry) -> Complaints:
    names = {port.name for port in spec.ports}
    for name in endpoint.ports:
        if name not in names:
            yield Violation(f"{path}.ports[{name}]", "no port of the entry has this name")
    address = endpoint.address
    if address.startswith(UNIX) and spec.resolution in _DNS:
        yield Violation(f"{path}.address", f"sockets are not possible with resolution {spec.resolution}")
    elif address and spec.resolution is ResolutionMode.STATIC and not _is_static(address):
        yield Violation(f"{path}.address", "resolution STATIC needs an IP address or a socket")
    yield from check_workload(path, endpoint)


def _is_static(address: str) -> bool:
    return address.startswith(UNIX) or is_ip_address(address)


def check_workload(path: str, workload: Workload) -> Complaints:
    """An address of any of the three kinds, and ports that fit it."""
    yield from check_labels(f"{path}.labels", workload.labels)
    if workload.address.startswith(UNIX):
        yield from check_unix_address(f"{path}.address", workload.address)
        if workload.ports:
            yield Violation(f"{path}.ports", "a socket has no ports")
        return
    if not workload.address:
        complaint = Caution if workload.network else Violation
        yield complaint(f"{path}.address", "the address is missing")
    elif not is_ip_address(workload.address):
        yield from check_host(f"{path}.address", workload.address)
    for name, number in workload.ports.items():
        yield from check_dns_label(f"{path}.ports", name.lower().replace("_", "-"))
        yield from check_port(f"{path}.ports[{name}]", number)


def check_workload_entry(subject: ConfigObject[WorkloadEntry]) -> Complaints:
    """Everything about one WorkloadEntry."""
    yield from check_workload("spec", subject.spec)
