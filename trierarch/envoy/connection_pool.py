"""Limits and timeouts of connections to a cluster (networking.md §2.5). HTTP settings are in `protocol_options.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.cluster.v3 import (
    CircuitBreakers,
    CircuitBreakersThresholds,
    CircuitBreakersThresholdsRetryBudget,
    UpstreamConnectionOptions,
)
from protocol.proto.envoy.config.core.v3 import TcpKeepalive as EnvoyTcpKeepalive
from protocol.proto.envoy.type.v3 import Percent
from trierarch.config.destination_rule import HttpPool, TcpPool
from trierarch.envoy.well_known_types import duration

if TYPE_CHECKING:
    from datetime import timedelta

    from trierarch.config.destination_rule import ConnectionPool, RetryBudget, TcpKeepalive
    from trierarch.config.mesh_config import MeshConfig

UNLIMITED = 2**32 - 1
"""Envoy's own defaults (1,024 connections and the like) would surprise in a mesh: without a rule nothing is limited."""
DEFAULT_CONNECT_TIMEOUT = 10.0
DEFAULT_RETRY_BUDGET_PERCENT = 20.0
DEFAULT_MIN_RETRY_CONCURRENCY = 3

_NO_TCP = TcpPool()
_NO_HTTP = HttpPool()


def tcp_pool(pool: ConnectionPool | None) -> TcpPool:
    """The pool's settings of connections; all unset if there are none."""
    return (pool.tcp if pool is not None else None) or _NO_TCP


def http_pool(pool: ConnectionPool | None) -> HttpPool:
    """The pool's settings of requests; all unset if there are none."""
    return (pool.http if pool is not None else None) or _NO_HTTP


def build_circuit_breakers(pool: ConnectionPool | None, budget: RetryBudget | None = None) -> CircuitBreakers:
    """The thresholds; what is 0 or unset is unlimited."""
    tcp, http = tcp_pool(pool), http_pool(pool)
    thresholds = CircuitBreakersThresholds(
        max_connections=tcp.max_connections or UNLIMITED,
        max_pending_requests=http.http1_max_pending_requests or UNLIMITED,
        max_requests=http.http2_max_requests or UNLIMITED,
        max_retries=http.max_retries or UNLIMITED,
        retry_budget=_retry_budget(budget) if budget is not None else None,
    )
    return CircuitBreakers(thresholds=[thresholds])


def _retry_budget(budget: RetryBudget) -> CircuitBreakersThresholdsRetryBudget:
    percent = DEFAULT_RETRY_BUDGET_PERCENT if budget.percent is None else budget.percent
    return CircuitBreakersThresholdsRetryBudget(
        budget_percent=Percent(value=percent),
        min_retry_concurrency=budget.min_retry_concurrency or DEFAULT_MIN_RETRY_CONCURRENCY,
        budget_interval=None if budget.budget_interval is None else duration(budget.budget_interval),
    )


def connect_timeout(pool: ConnectionPool | None, mesh: MeshConfig) -> timedelta:
    """The rule's, else the mesh's."""
    stated = tcp_pool(pool).connect_timeout
    if stated is None:
        stated = DEFAULT_CONNECT_TIMEOUT if mesh.connect_timeout is None else mesh.connect_timeout
    return duration(stated)


def build_connection_options(pool: ConnectionPool | None, mesh: MeshConfig) -> UpstreamConnectionOptions | None:
    """TCP keepalive: the mesh's values, each overridden by the rule's. None if neither wants any."""
    layers = [layer for layer in (tcp_pool(pool).tcp_keepalive, mesh.tcp_keepalive) if layer is not None]
    return UpstreamConnectionOptions(tcp_keepalive=_merged_keepalive(layers)) if layers else None


def _merged_keepalive(layers: list[TcpKeepalive]) -> EnvoyTcpKeepalive:
    """The first layer that sets a value wins."""
    return EnvoyTcpKeepalive(
        keepalive_probes=next((layer.probes for layer in layers if layer.probes), None),
        keepalive_time=next((int(layer.time) for layer in layers if layer.time is not None), None),
        keepalive_interval=next((int(layer.interval) for layer in layers if layer.interval is not None), None),
    )
