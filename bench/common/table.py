"""Tables with budgets beside the numbers."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from common.timing import Timing


class Table:
    """Prints measurements as they come, each beside its budget, and counts those that exceed it."""

    def __init__(self, title: str, unit: str = "ms") -> None:
        self.missed = 0
        print(f"\n{title}")
        print(f"{'':44}{'median':>10}{'worst':>10}{'step':>9}{'budget':>9}   ({unit})")

    def row(self, name: str, timings: Sequence[Timing[object]], budget: float | None = None) -> None:
        """Print one line; the budget is the median's."""
        totals = [timing.total for timing in timings]
        step = f"{max(timing.longest for timing in timings):9.3f}"
        self._print(name, statistics.median(totals), max(totals), step, budget)

    def value(self, name: str, value: float, budget: float | None = None) -> None:
        """Print a line of one number."""
        self._print(name, value, value, f"{'':9}", budget)

    def _print(self, name: str, median: float, worst: float, step: str, budget: float | None) -> None:
        limit, verdict = "", ""
        if budget is not None:
            limit, verdict = f"{budget:9.2f}", "   ok" if median <= budget else "   OVER"
            self.missed += median > budget
        print(f"{name:44}{_number(median)}{_number(worst)}{step}{limit}{verdict}", flush=True)


def _number(value: float) -> str:
    return f"{value:10.3f}" if value < 1000 else f"{value:10.0f}"
