"""The gRPC ports' numbers as metrics."""

from __future__ import annotations

from dataclasses import fields

from prometheus_client import CollectorRegistry, generate_latest

from actors.descriptions import PortDescription
from actors.grpc import ServerStatistics
from actors.port_metrics import PortMetrics


def port(name, **counts):
    """An open port; what is not named has not happened."""
    numbers = {each.name: 0 for each in fields(ServerStatistics)} | counts
    return PortDescription(name=name, address="127.0.0.1:1", encrypted=False, statistics=ServerStatistics(**numbers))


def page(ports):
    """The lines of the metrics page, asked now."""
    registry = CollectorRegistry()
    registry.register(PortMetrics(lambda: tuple(ports)))
    return generate_latest(registry).decode().splitlines()


def test_what_is_and_what_has_happened():
    """Open connections and calls are gauges; all else only grows, and is one metric by port and event."""
    plain, secure = port("grpc", connections_open=3, calls_open=2, connections_refused=5), port("secure", peers_dead=1)
    found = page([plain, secure])
    assert 'trierarch_grpc_connections{port="grpc"} 3.0' in found
    assert 'trierarch_grpc_calls{port="grpc"} 2.0' in found
    assert 'trierarch_grpc_events_total{event="connections_refused",port="grpc"} 5.0' in found
    assert 'trierarch_grpc_events_total{event="peers_dead",port="secure"} 1.0' in found
    assert not [line for line in found if "_open" in line]


def test_a_port_that_is_not_open_has_no_numbers():
    """The metrics are there all the same."""
    closed = PortDescription(name="grpc", address="127.0.0.1:1", encrypted=False, statistics=None)
    found = page([closed])
    assert [line for line in found if not line.startswith("#")] == []
    assert "# TYPE trierarch_grpc_connections gauge" in found
