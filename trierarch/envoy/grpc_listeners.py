"""Listeners of proxyless gRPC clients: one for each name under which a service may be called (networking.md §4.11).

`xds:///web:7070` asks for the listener `web:7070`. It binds nothing: it says which filters a call passes and where its
routes are. A client asks for few names; but all that it might ask for are ready, for they are few too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.core.v3 import AggregatedConfigSource, ConfigSource
from protocol.proto.envoy.config.listener.v3 import ApiListener, Listener
from protocol.proto.envoy.extensions.filters.http.fault.v3 import HttpFault
from protocol.proto.envoy.extensions.filters.http.router.v3 import Router
from protocol.proto.envoy.extensions.filters.network.http_connection_manager.v3 import (
    HttpConnectionManager,
    HttpFilter,
    Rds,
)
from trierarch.envoy.addresses import build_address
from trierarch.envoy.http_filters import FAULT, ROUTER
from trierarch.envoy.names import outbound_cluster
from trierarch.envoy.stateful_session import STATEFUL_SESSION, build_session_filter, select_session
from trierarch.envoy.units import Unit
from trierarch.envoy.well_known_types import encode_resource, pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.xds.resources import Resource
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.stateful_session import Session
    from trierarch.envoy.units import Plan
    from trierarch.push.model import Service


class CalledService(NamedTuple):
    """All that the listeners of a service are made of. `names`: those by which the client may call it."""

    service: Service
    names: tuple[str, ...]
    address: str
    session: Session | None


def plan_grpc_listeners(view: OutboundView, _memo: Memo) -> Plan:
    """One unit for each service that an egress listener imports."""
    key = view.key
    for egress in view.egress:
        for service in egress.services:
            names = tuple(callable_names(service.hostname, key.scope.namespace, key.dns_domain))
            session = select_session(service, view.mesh.features)
            inputs = CalledService(service, names, view.addresses(service)[0], session)
            yield Unit(build_called_service, inputs)


def callable_names(host: str, namespace: str, dns_domain: str) -> Iterator[str]:
    """The full name, and what a client of that namespace may leave out of it (§4.11, "which names")."""
    yield host
    name = host.removesuffix(f".{dns_domain}")
    if name == host:
        return
    if "." not in name:
        yield name
    for ending in (namespace, f"{namespace}.svc"):
        if dns_domain.startswith(ending):
            yield f"{name}.{ending}"


def build_called_service(called: CalledService) -> tuple[Resource, ...]:
    """The listeners of all ports under all names."""
    return tuple(_build_listeners(called))


def _build_listeners(called: CalledService) -> Iterator[Resource]:
    for port in called.service.ports:
        manager = HttpConnectionManager(
            http_filters=_build_filters(called.session),
            rds=Rds(
                config_source=ConfigSource(ads=AggregatedConfigSource()),
                route_config_name=outbound_cluster(port.number, "", called.service.hostname),
            ),
        )
        address, api = build_address(called.address, port.number), ApiListener(api_listener=pack(manager))
        for name in called.names:
            listener = Listener(name=f"{name}:{port.number}", address=address, api_listener=api)
            yield encode_resource(listener.name, listener)


def _build_filters(session: Session | None) -> list[HttpFilter]:
    """What a gRPC client can do itself: keep to an endpoint, inject faults, route."""
    filters = [
        HttpFilter(name=FAULT, typed_config=pack(HttpFault())),
        HttpFilter(name=ROUTER, typed_config=pack(Router())),
    ]
    if session is not None:
        filters.insert(0, HttpFilter(name=STATEFUL_SESSION, typed_config=pack(build_session_filter(session))))
    return filters
