"""Full names in VirtualServices: hosts, destinations and gateways as the author's namespace means them.

Implements xds-server.md §8.3.2. Also: which hosts a VirtualService sends to (§8.3.7).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from trierarch.config.hosts import resolve_gateway_name, resolve_short_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.config.common import Destination
    from trierarch.config.virtual_service import (
        HttpMatch,
        HttpMirror,
        HttpRoute,
        HttpRouteDestination,
        RouteDestination,
        TcpMatch,
        TlsMatch,
        VirtualService,
    )

    SharedT = TypeVar("SharedT", HttpRouteDestination, RouteDestination, HttpMirror)
    MatchT = TypeVar("MatchT", HttpMatch, TlsMatch, TcpMatch)


def with_full_names(spec: VirtualService, namespace: str, domain: str) -> VirtualService:
    """The same VirtualService without short names. `domain` is the DNS suffix of services."""
    return _Resolver(namespace, domain).virtual_service(spec)


class _Resolver:
    """Short names as one namespace means them."""

    __slots__ = ("_domain", "_namespace")

    def __init__(self, namespace: str, domain: str) -> None:
        self._namespace = namespace
        self._domain = domain

    def virtual_service(self, spec: VirtualService) -> VirtualService:
        return replace(
            spec,
            hosts=tuple(map(self._host, spec.hosts)),
            gateways=self._gateways(spec.gateways),
            http=tuple(map(self._http_route, spec.http)),
            tls=tuple(replace(tls, match=self._matches(tls.match), route=self._shared(tls.route)) for tls in spec.tls),
            tcp=tuple(replace(tcp, match=self._matches(tcp.match), route=self._shared(tcp.route)) for tcp in spec.tcp),
        )

    def _host(self, host: str) -> str:
        return resolve_short_name(host, self._namespace, self._domain)

    def _gateways(self, gateways: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(resolve_gateway_name(gateway, self._namespace) for gateway in gateways)

    def _http_route(self, route: HttpRoute) -> HttpRoute:
        return replace(
            route,
            match=self._matches(route.match),
            route=self._shared(route.route),
            mirror=self._destination(route.mirror),
            mirrors=self._shared(route.mirrors),
        )

    def _matches(self, matches: tuple[MatchT, ...]) -> tuple[MatchT, ...]:
        return tuple(replace(each, gateways=self._gateways(each.gateways)) for each in matches)

    def _shared(self, shares: tuple[SharedT, ...]) -> tuple[SharedT, ...]:
        return tuple(replace(each, destination=self._destination(each.destination)) for each in shares)

    def _destination(self, destination: Destination | None) -> Destination | None:
        return None if destination is None else replace(destination, host=self._host(destination.host))


def destinations(spec: VirtualService, source_namespace: str) -> tuple[tuple[str, frozenset[int]], ...]:
    """Hosts that callers in a namespace may be sent to, and the ports (0: any) that are named there."""
    ports: dict[str, set[int]] = {}
    for each in _destinations(spec, source_namespace):
        if each is not None:
            ports.setdefault(each.host, set()).add(each.port.number if each.port else 0)
    return tuple((host, frozenset(numbers)) for host, numbers in ports.items())


def is_namespaced(spec: VirtualService) -> bool:
    """Whether the destinations depend on the caller's namespace."""
    return any(match.source_namespace for route in spec.http for match in route.match)


def _destinations(spec: VirtualService, source_namespace: str) -> Iterator[Destination | None]:
    for route in spec.http:
        if not _is_for_others(route, source_namespace):
            yield from (share.destination for share in route.route)
            yield route.mirror
            yield from (mirror.destination for mirror in route.mirrors)
    shares = [*(tcp.route for tcp in spec.tcp), *(tls.route for tls in spec.tls)]
    yield from (share.destination for each in shares for share in each)


def _is_for_others(route: HttpRoute, namespace: str) -> bool:
    """Whether some match names another namespace and none names this one; a match without one rescues nothing."""
    sources = {match.source_namespace for match in route.match} - {""}
    return bool(sources) and namespace not in sources
