"""A gauge that lists things which are so now: each has the value 1, and what is not listed has none.

All of it changes at once. A gauge of the library's is emptied and filled again one by one, and whoever fills it lets
others work meanwhile: somebody who reads it then would think that nearly everything is well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from prometheus_client import Metric


class ListedGauge(Collector):
    """`listed`: the labels' values of each thing, to be replaced as a whole."""

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self._name = name
        self._about = about
        self._labelnames = labels
        self.listed: Collection[tuple[str, ...]] = ()

    def describe(self) -> tuple[Metric]:
        """The metric without what is listed."""
        return (GaugeMetricFamily(self._name, self._about, labels=self._labelnames),)

    def collect(self) -> Iterator[Metric]:
        """The metric with what is listed now."""
        family = GaugeMetricFamily(self._name, self._about, labels=self._labelnames)
        for each in self.listed:
            family.add_metric(each, 1)
        yield family
