"""What one change costs, from the edit to the last ACK: the whole tree of actors in this process, without sockets.

    python bench/change.py [--services 200] [--proxies 100 1000] [--rounds 5]

All proxies have equal views. So the difference between many and few of them is what each further proxy costs: to hand
out the push, to step its session, to write a small message, to read its ACK, to log the line. Budgets:
0.12 ms for one type, 0.2 ms for two; what the system takes to send a message comes on top here
(bench/fanout.py), for nothing is sent.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import trio
from common.mesh import endpoint_slice, made
from common.system import discarded_logs, running
from common.table import Table

from trierarch.config.destination_rule import DestinationRule, OutlierDetection, TrafficPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from common.system import Edited

    from trierarch.config.objects import AnyObject


def ejecting(version: int) -> AnyObject:
    """A rule that makes other clusters of service 0."""
    policy = TrafficPolicy(outlier_detection=OutlierDetection(interval=float(version)))
    return made("DestinationRule", 0, version, DestinationRule(host="svc-0", traffic_policy=policy))


KINDS = {
    "one endpoint (EDS)": (partial(endpoint_slice, 0), 0.12),
    "one DestinationRule (CDS, EDS)": (ejecting, 0.2),
}
"""The edits by version, and milliseconds for each further proxy."""


async def measure(services: int, proxies: int, rounds: int) -> dict[str, float]:
    """Milliseconds of CPU time per change, by kind."""
    async with running(services) as system:
        await system.connect(proxies)
        return {kind: await _changes(system, edit, proxies, rounds) for kind, (edit, _) in KINDS.items()}


async def _changes(system: Edited, edit: Callable[[int], AnyObject], proxies: int, rounds: int) -> float:
    spent = []
    for version in range(1, rounds + 1):
        start = time.process_time()
        await system.change(edit(version), proxies)
        spent.append((time.process_time() - start) * 1000)
    return min(spent)


def main() -> int:
    """Measure, print, compare with the budgets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, default=200)
    parser.add_argument("--proxies", type=int, nargs=2, default=(100, 1000))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    few, many = arguments.proxies
    gc.disable()
    with discarded_logs():
        costs = {number: trio.run(measure, arguments.services, number, arguments.rounds) for number in (few, many)}
    table = Table(f"{arguments.services} services")
    for kind, (_, budget) in KINDS.items():
        for number in (few, many):
            table.value(f"{kind}, {number} proxies", costs[number][kind])
        table.value("  each further proxy", (costs[many][kind] - costs[few][kind]) / (many - few), budget)
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
