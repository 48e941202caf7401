"""What became of connections and calls at the gRPC ports, as metrics. The servers count; this reads when it is asked.

A port that opens again counts anew, which whoever works with counters expects. Nothing is counted here.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import Metric

    from actors.descriptions import PortDescription


class PortMetrics(Collector):
    """Collects from the ports that are open."""

    def __init__(self, ports: Callable[[], Iterable[PortDescription]]) -> None:
        self._ports = ports

    def describe(self) -> tuple[GaugeMetricFamily, GaugeMetricFamily, CounterMetricFamily]:
        """The metrics without values: no port is asked before there are any."""
        return _families()

    def collect(self) -> Iterator[Metric]:
        """What there is now goes into gauges, what has happened into counters."""
        connections, calls, events = _families()
        for port in self._ports():
            if port.statistics is None:
                continue
            numbers = asdict(port.statistics)
            connections.add_metric((port.name,), numbers.pop("connections_open"))
            calls.add_metric((port.name,), numbers.pop("calls_open"))
            for event, count in numbers.items():
                events.add_metric((port.name, event), count)
        yield from (connections, calls, events)


def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily, CounterMetricFamily]:
    return (
        GaugeMetricFamily("trierarch_grpc_connections", "Open connections", labels=("port",)),
        GaugeMetricFamily("trierarch_grpc_calls", "Calls whose handlers have not ended", labels=("port",)),
        CounterMetricFamily(
            "trierarch_grpc_events", "What became of connections and calls at a port", labels=("port", "event")
        ),
    )
