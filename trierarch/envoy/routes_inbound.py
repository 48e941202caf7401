"""Routes of a workload's own ports: part of the listener, everything to the one local cluster (networking.md §5.8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.proto.envoy.config.route.v3 import (
    Decorator,
    Route,
    RouteAction,
    RouteActionMaxStreamDuration,
    RouteConfiguration,
    RouteMatch,
    VirtualHost,
)
from trierarch.envoy.route_retry import build_inbound_retry_policy
from trierarch.envoy.well_known_types import duration

if TYPE_CHECKING:
    from trierarch.config.virtual_service import HttpRetry

DEFAULT_ROUTE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundRoute:
    """The route of one port.

    `port` is the one in the virtual host's name (0 for traffic to no known port), `operation` names the requests in
    traces. `retry`: the mesh's own policy, or None for the default. gRPC is not tried again.
    """

    cluster: str
    port: int
    operation: str
    grpc: bool = False
    retry: HttpRetry | None = None


def build_inbound_routes(inbound: InboundRoute) -> RouteConfiguration:
    """The whole configuration; its name is the cluster's. Nothing limits how long a stream may last."""
    retry = None if inbound.grpc else build_inbound_retry_policy(inbound.retry)
    unlimited = RouteActionMaxStreamDuration(max_stream_duration=duration(0), grpc_timeout_header_max=duration(0))
    action = RouteAction(
        cluster=inbound.cluster, timeout=duration(0), max_stream_duration=unlimited, retry_policy=retry
    )
    route = Route(
        name=DEFAULT_ROUTE,
        match=RouteMatch(prefix="/"),
        decorator=Decorator(operation=inbound.operation),
        route=action,
    )
    host = VirtualHost(name=f"inbound|http|{inbound.port}", domains=["*"], routes=[route])
    return RouteConfiguration(name=inbound.cluster, virtual_hosts=[host], validate_clusters=False)
