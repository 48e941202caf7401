"""The virtual hosts of a route configuration: which there are, under which domains, with which routes (§5.3, §5.4).

Virtual services come first, in order of precedence: their own hosts, and the services that they name. Every other
service of the port gets a default route. A name or domain that is taken stays with its first owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.route.v3 import (
    Decorator,
    DirectResponseAction,
    Route,
    RouteAction,
    RouteMatch,
    VirtualHost,
)
from protocol.wire import length_delimited
from trierarch.envoy.route_action import RouteInputs, build_route
from trierarch.envoy.route_hash import build_hash_policy
from trierarch.envoy.route_retry import build_retry_policy
from trierarch.envoy.stateful_session import STATEFUL_SESSION, build_session
from trierarch.envoy.well_known_types import duration, encode, pack

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

    name: str
    cluster: str
    forwards_host: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Treatment:
    """What becomes of requests to a virtual host, whatever it is called.

    `counts_attempts`: the server is told how often a request was tried; `session`: what keeps a client's requests with
    one endpoint. Compared by identity. Without slots, so that it is encoded once for all virtual hosts.
    """

    routes: tuple[RouteInputs | DefaultRoute | CatchAllRoute, ...]
    counts_attempts: bool
    session: Session | None = None

    @cached_property
    def encoded(self) -> bytes:
        """A virtual host without name and domains, which are its first fields."""
        return encode(_build_treated(self))


@dataclass(frozen=True, kw_only=True, eq=False)
class VirtualHostInputs:
    """All that a virtual host is built from. Compared by identity, and encoded once likewise."""

    name: str
    domains: tuple[str, ...]
    treatment: Treatment

    @cached_property
    def encoded(self) -> bytes:
        """The virtual host as one field of a route configuration."""
        return virtual_host_field(encode(VirtualHost(name=self.name)) + self.nameless)

    @cached_property
    def nameless(self) -> bytes:
        """The message without its name, which is its first field: so it can be put together under any name."""
        return encode(VirtualHost(domains=list(self.domains))) + self.treatment.encoded

    @property
    def is_encoded(self) -> bool:
        """Whether that costs nothing any more."""
        return "nameless" in self.__dict__


class CatchAll(NamedTuple):
    """All that the virtual host for hosts that nobody defined is built from, compared by value."""

    route: CatchAllRoute
    counts_attempts: bool


def catch_all_host(inputs: CatchAll) -> VirtualHostInputs:
    """That virtual host, which is called like its route."""
    treatment = Treatment(routes=(inputs.route,), counts_attempts=inputs.counts_attempts)
    return VirtualHostInputs(name=inputs.route.name, domains=("*",), treatment=treatment)


def virtual_host_field(body: bytes) -> bytes:
    """An encoded virtual host as a field of a route configuration."""
    return length_delimited(_VIRTUAL_HOSTS, body)


def build_virtual_host(inputs: VirtualHostInputs) -> VirtualHost:
    """The message."""
    message = _build_treated(inputs.treatment)
    message.name = inputs.name
    message.domains = list(inputs.domains)
    return message


def _build_treated(treatment: Treatment) -> VirtualHost:
    return VirtualHost(
        include_request_attempt_count=treatment.counts_attempts,
        typed_per_filter_config=_filter_settings(treatment),
        routes=list(map(_build_route, treatment.routes)),
    )


def _filter_settings(treatment: Treatment) -> dict[str, Any]:
    return {STATEFUL_SESSION: pack(build_session(treatment.session))} if treatment.session is not None else {}


def _build_route(route: RouteInputs | DefaultRoute | CatchAllRoute) -> Route:
    match route:
        case RouteInputs():
            return build_route(route)
        case DefaultRoute():
            return _build_default(route)
        case CatchAllRoute():
            return _build_catch_all(route)


def _build_default(default: DefaultRoute) -> Route:
    action = _forward(default.cluster)
    action.retry_policy = build_retry_policy(default.retry)
    if default.consistent_hash is not None:
        action.hash_policy = build_hash_policy(default.consistent_hash)
    decorator = Decorator(operation=default.operation)
    return Route(name="default", match=RouteMatch(prefix="/"), decorator=decorator, route=action)


def _build_catch_all(catch_all: CatchAllRoute) -> Route:
    route = Route(name=catch_all.name, match=RouteMatch(prefix="/"))
    if catch_all.cluster:
        route.route = _forward(catch_all.cluster)
        route.route.append_x_forwarded_host = catch_all.forwards_host
    else:
        route.direct_response = DirectResponseAction(status=502)
    return route


def _forward(cluster: str) -> RouteAction:
    """Forwarding without a limit of time."""
    return RouteAction(cluster=cluster, timeout=duration(0), max_grpc_timeout=duration(0))
