"""A gauge that says how many there are of each sort, where it is strangers who say what sorts there are.

A gauge of the library's keeps the name of each sort that it ever counted, and shows it for ever: whoever calls again
and again and says each time that he is of another sort would fill memory with them, and every scrape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric


class Tally(Collector):
    """Counts by one label. Invariant: no count is zero."""

    def __init__(self, name: str, about: str, label: str) -> None:
        self._name = name
        self._about = about
        self._labelnames = (label,)
        self._counts: dict[str, int] = {}

    def count(self, sort: str, change: int) -> None:
        """So many more of this sort, or fewer."""
        counted = self._counts.get(sort, 0) + change
        if counted:
            self._counts[sort] = counted
        else:
            self._counts.pop(sort, None)

    def clear(self) -> None:
        """There is none of any sort."""
        self._counts.clear()

    def describe(self) -> tuple[Metric]:
        """The metric without values."""
        return (GaugeMetricFamily(self._name, self._about, labels=self._labelnames),)

    def collect(self) -> Iterator[Metric]:
        """The metric as it is now."""
        (family,) = self.describe()
        for sort, count in tuple(self._counts.items()):
            family.add_sample(self._name, {self._labelnames[0]: sort}, count)
        yield family
