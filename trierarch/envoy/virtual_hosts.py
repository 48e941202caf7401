"""The virtual hosts of a route configuration: which there are, under which domains, with which routes (§5.3, §5.4).

Virtual services come first, in order of precedence: their own hosts, and the services that they name. Every other
service of the port gets a default route. A name or domain that is taken stays with its first owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from protocol.proto.envoy.config.route.v3 import (
    Decorator,
    DirectResponseAction,
    Route,
    RouteAction,
    RouteMatch,
    VirtualHost,
)
from protocol.wire import length_delimited
from trierarch.envoy.packing import duration, encode, pack
from trierarch.envoy.route_action import RouteInputs, build_route
from trierarch.envoy.route_hash import build_hash_policy
from trierarch.envoy.route_retry import build_retry_policy
from trierarch.envoy.stateful_session import STATEFUL_SESSION, build_session

if TYPE_CHECKING:
    from protocol.proto.google.protobuf import Any
    from trierarch.config.destination_rule import ConsistentHash
    from trierarch.config.virtual_service import HttpRetry
    from trierarch.envoy.stateful_session import Session


_VIRTUAL_HOSTS = 2
"""RouteConfiguration.virtual_hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultRoute:
    """The route of a service that no VirtualService speaks of."""

    cluster: str
    operation: str
    consistent_hash: ConsistentHash | None
    retry: HttpRetry


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchAllRoute:
    """What happens to requests for unknown hosts: forwarded to `cluster`, or refused with 502 if that is ""."""

    cluster: str
    forwards_host: bool = False


@dataclass(frozen=True, kw_only=True)
class VirtualHostInputs:
    """All that a virtual host is built from.

    `counts_attempts`: the server is told how often a request was tried; `session`: what keeps a client's requests with
    one endpoint. Without slots, so that it is hashed and encoded once, however many configurations it stands in.
    """

    name: str
    domains: tuple[str, ...]
    routes: tuple[RouteInputs | DefaultRoute | CatchAllRoute, ...]
    counts_attempts: bool = True
    session: Session | None = None

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.domains, self.routes, self.counts_attempts, self.session))

    @cached_property
    def encoded(self) -> bytes:
        """The virtual host as one field of a route configuration."""
        return virtual_host_field(encode(VirtualHost(name=self.name)) + self.nameless)

    @cached_property
    def nameless(self) -> bytes:
        """The message without its name, which is its first field: so it can be put together under any name."""
        message = build_virtual_host(self)
        message.name = ""
        return encode(message)

    @property
    def is_encoded(self) -> bool:
        """Whether that costs nothing any more."""
        return "nameless" in self.__dict__


def virtual_host_field(body: bytes) -> bytes:
    """An encoded virtual host as a field of a route configuration."""
    return length_delimited(_VIRTUAL_HOSTS, body)


def build_virtual_host(inputs: VirtualHostInputs) -> VirtualHost:
    """The message."""
    return VirtualHost(
        name=inputs.name,
        domains=list(inputs.domains),
        include_request_attempt_count=inputs.counts_attempts,
        typed_per_filter_config=_filter_settings(inputs),
        routes=[_build_route(inputs.name, route) for route in inputs.routes],
    )


def _filter_settings(inputs: VirtualHostInputs) -> dict[str, Any]:
    return {STATEFUL_SESSION: pack(build_session(inputs.session))} if inputs.session is not None else {}


def _build_route(host: str, route: RouteInputs | DefaultRoute | CatchAllRoute) -> Route:
    match route:
        case RouteInputs():
            return build_route(route)
        case DefaultRoute():
            return _build_default(route)
        case CatchAllRoute():
            return _build_catch_all(host, route)


def _build_default(default: DefaultRoute) -> Route:
    action = _forward(default.cluster)
    action.retry_policy = build_retry_policy(default.retry)
    if default.consistent_hash is not None:
        action.hash_policy = build_hash_policy(default.consistent_hash)
    decorator = Decorator(operation=default.operation)
    return Route(name="default", match=RouteMatch(prefix="/"), decorator=decorator, route=action)


def _build_catch_all(name: str, catch_all: CatchAllRoute) -> Route:
    route = Route(name=name, match=RouteMatch(prefix="/"))
    if catch_all.cluster:
        route.route = _forward(catch_all.cluster)
        route.route.append_x_forwarded_host = catch_all.forwards_host
    else:
        route.direct_response = DirectResponseAction(status=502)
    return route


def _forward(cluster: str) -> RouteAction:
    """Forwarding without a limit of time."""
    return RouteAction(cluster=cluster, timeout=duration(0), max_grpc_timeout=duration(0))
