"""What istiod's validation demands of a VirtualService. Its HTTP routes: `validate_virtual_service_http.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config.checks import check_address, check_export_to, check_wildcard_host
from trierarch.config.hosts import MESH_GATEWAY, host_covers, hosts_overlap, is_ip_address
from trierarch.config.validate_destinations import check_gateways, check_source, check_subnets, check_weighted
from trierarch.config.validate_virtual_service_http import check_http_route
from trierarch.config.violations import Complaints, Violation

if TYPE_CHECKING:
    from trierarch.config.objects import ConfigObject
    from trierarch.config.virtual_service import TcpRoute, TlsMatch, TlsRoute, VirtualService

SNI_PREFIX = "outbound_."
"""Begins the names by which gateways of several networks tell each other the destination."""


def check_virtual_service(subject: ConfigObject[VirtualService]) -> Complaints:
    """Everything about one VirtualService. Without hosts it is a delegate: HTTP routes for another one."""
    spec = subject.spec
    is_delegate = not spec.hosts
    yield from _check_delegate(spec) if is_delegate else _check_hosts(spec)
    yield from check_gateways("spec.gateways", spec.gateways)
    yield from check_export_to("spec.exportTo", spec.export_to, subject.key.namespace)
    if not (spec.http or spec.tls or spec.tcp):
        yield Violation("spec", "one of http, tls and tcp is required")
    at_gateway_only = bool(spec.gateways) and MESH_GATEWAY not in spec.gateways
    for index, http in enumerate(spec.http):
        path = f"spec.http[{index}]"
        yield from check_http_route(path, http, is_delegate=is_delegate, at_gateway_only=at_gateway_only or is_delegate)
    for index, tls in enumerate(spec.tls):
        yield from _check_tls(f"spec.tls[{index}]", tls, spec)
    for index, tcp in enumerate(spec.tcp):
        yield from _check_tcp(f"spec.tcp[{index}]", tcp)


def _check_delegate(spec: VirtualService) -> Complaints:
    if spec.gateways:
        yield Violation("spec.gateways", "a delegate (a VirtualService without hosts) has no gateways")
    for field, routes in (("tls", spec.tls), ("tcp", spec.tcp)):
        if routes:
            yield Violation(f"spec.{field}", "a delegate (a VirtualService without hosts) has only HTTP routes")


def _check_hosts(spec: VirtualService) -> Complaints:
    in_mesh = not spec.gateways or MESH_GATEWAY in spec.gateways
    for index, host in enumerate(spec.hosts):
        path = f"spec.hosts[{index}]"
        if host == "*" and in_mesh:
            yield Violation(path, "the host * is not possible in the mesh", "list gateways other than mesh")
        elif not is_ip_address(host):
            yield from _check_domain(path, host, sni=not in_mesh)
        for other in spec.hosts[:index]:
            if hosts_overlap(host, other):
                yield Violation(path, f'"{host}" and "{other}" have hosts in common')


def _check_domain(path: str, host: str, *, sni: bool) -> Complaints:
    if not (sni and _is_sni_name(host)):
        yield from check_wildcard_host(path, host)


def _is_sni_name(host: str) -> bool:
    """`outbound_.PORT_.SUBSET_.HOST` (networking.md §2.1)."""
    port, _, rest = host.removeprefix(SNI_PREFIX).partition("_.")
    return host.startswith(SNI_PREFIX) and port.isascii() and port.isdigit() and "_." in rest


def _check_tls(path: str, route: TlsRoute, spec: VirtualService) -> Complaints:
    if not route.match:
        yield Violation(f"{path}.match", "a TLS route needs a match with sniHosts")
    for index, match in enumerate(route.match):
        here = f"{path}.match[{index}]"
        yield from _check_sni(f"{here}.sniHosts", match, spec)
        yield from check_subnets(f"{here}.destinationSubnets", match.destination_subnets)
        yield from check_source(here, match)
    if not route.route:
        yield Violation(f"{path}.route", "a destination is missing")
    yield from check_weighted(f"{path}.route", route.route)


def _check_sni(path: str, match: TlsMatch, spec: VirtualService) -> Complaints:
    if not match.sni_hosts:
        yield Violation(path, "a match of a TLS route needs sniHosts")
    for index, host in enumerate(match.sni_hosts):
        here = f"{path}[{index}]"
        yield from _check_domain(here, host, sni=True)
        if not any(host_covers(pattern, host) for pattern in spec.hosts):
            yield Violation(here, f'"{host}" is not among the hosts of the VirtualService')


def _check_tcp(path: str, route: TcpRoute) -> Complaints:
    for index, match in enumerate(route.match):
        here = f"{path}.match[{index}]"
        yield from check_subnets(f"{here}.destinationSubnets", match.destination_subnets)
        if match.source_subnet:
            yield from check_address(f"{here}.sourceSubnet", match.source_subnet)
        yield from check_source(here, match)
    if not route.route:
        yield Violation(f"{path}.route", "a destination is missing")
    yield from check_weighted(f"{path}.route", route.route)
