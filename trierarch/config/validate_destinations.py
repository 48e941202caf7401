"""What istiod's validation demands of destinations and of what the matches of HTTP, TLS and TCP routes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config.checks import (
    check_address,
    check_host,
    check_labels,
    check_namespace,
    check_optional_port,
    check_port,
    check_service_host,
    check_subset_name,
)
from trierarch.config.hosts import MESH_GATEWAY
from trierarch.config.violations import Complaints, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trierarch.config.common import Destination
    from trierarch.config.virtual_service import HttpMatch, HttpRouteDestination, RouteDestination, TcpMatch, TlsMatch


_MOST_WEIGHT = 2**32 - 1
"""Envoy counts no further, and would refuse all routes of the port."""


def check_destination(path: str, destination: Destination | None) -> Complaints:
    """A destination has a host, and if it names a port or a subset these are names that exist."""
    if destination is None:
        yield Violation(path, "a destination is missing")
        return
    yield from check_service_host(f"{path}.host", destination.host)
    if destination.subset:
        yield from check_subset_name(f"{path}.subset", destination.subset)
    if destination.port is not None:
        yield from check_port(f"{path}.port.number", destination.port.number)


def check_weighted(path: str, routes: Sequence[HttpRouteDestination | RouteDestination]) -> Complaints:
    """Destinations that share traffic: no negative weight, and not all of them zero."""
    for index, route in enumerate(routes):
        yield from check_destination(f"{path}[{index}].destination", route.destination)
        if route.weight < 0:
            yield Violation(f"{path}[{index}].weight", f"{route.weight} is negative")
    if len(routes) > 1 and all(route.weight == 0 for route in routes):
        yield Violation(path, "the weights add up to 0", "give each destination its share as weight")
    if sum(route.weight for route in routes) > _MOST_WEIGHT:
        yield Violation(path, f"the weights add up to more than {_MOST_WEIGHT}", "shares of 100 do")


def check_source(path: str, match: HttpMatch | TlsMatch | TcpMatch) -> Complaints:
    """Conditions about the caller, which all kinds of routes have."""
    yield from check_optional_port(f"{path}.port", match.port)
    yield from check_labels(f"{path}.sourceLabels", match.source_labels)
    yield from check_gateways(f"{path}.gateways", match.gateways)


def check_subnets(path: str, subnets: Sequence[str]) -> Complaints:
    """Addresses and ranges."""
    for index, subnet in enumerate(subnets):
        yield from check_address(f"{path}[{index}]", subnet)


def check_gateways(path: str, gateways: Sequence[str]) -> Complaints:
    """References to gateways: `name`, `namespace/name`, or the word `mesh`."""
    for index, gateway in enumerate(gateways):
        here = f"{path}[{index}]"
        namespace, slash, name = gateway.rpartition("/")
        if gateway == MESH_GATEWAY:
            continue
        if slash:
            yield from check_namespace(here, namespace)
        yield from check_host(here, name)
