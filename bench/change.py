"""What one change costs, from the edit to the last ACK: the whole tree of actors in this process, without sockets.

    python bench/change.py [--services 200] [--proxies 100 1000] [--workloads 60 200] [--rounds 5]

First all proxies have equal views. So the difference between many and few of them is what each further proxy costs: to
hand out the push, to step its session, to write a small message, to read its ACK, to log the line. Then each is the
sidecar of another service, of 20 namespaces. So the difference is what each further view costs besides: to judge it,
to look up what its namespace shares, and to see that nothing of its own has changed. Budgets of architecture.md §5:
0.12 ms a proxy for one type, 0.2 ms for two; what the system takes to send a message comes on top here
(bench/fanout.py), for nothing is sent.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio
from common.mesh import endpoint_slice, made, new_service, virtual_service
from common.system import discarded_logs, replica, running, workload
from common.table import Table

from trierarch.config.destination_rule import DestinationRule, OutlierDetection, TrafficPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from common.system import Edited

    from protocol.proto.envoy.config.core.v3 import Node
    from trierarch.config.objects import AnyObject


def ejecting(version: int) -> AnyObject:
    """A rule that makes other clusters of service 0."""
    policy = TrafficPolicy(outlier_detection=OutlierDetection(interval=float(version)))
    return made("DestinationRule", 0, version, DestinationRule(host="svc-0", traffic_policy=policy))


class Fleet(NamedTuple):
    """Who connects, and what is edited then: the edits by version, and milliseconds for each further proxy."""

    name: str
    node: Callable[[int], Node]
    edits: Mapping[str, tuple[Callable[[int], AnyObject], float | None]]


ALIKE = Fleet(
    "equal views",
    replica,
    {
        "one endpoint (EDS)": (partial(endpoint_slice, 0), 0.12),
        "one DestinationRule (CDS, EDS)": (ejecting, 0.2),
    },
)
APART = Fleet(
    "views of their own",
    workload,
    {
        "one VirtualService (RDS)": (partial(virtual_service, 0), None),
        "one DestinationRule (CDS, EDS)": (ejecting, None),
        "a new Service (CDS, RDS)": (lambda version: new_service(version, 0), None),
    },
)


async def measure(fleet: Fleet, services: int, proxies: int, rounds: int) -> dict[str, float]:
    """Milliseconds of CPU time per change, by kind."""
    async with running(services) as system:
        await system.connect(proxies, fleet.node)
        return {kind: await _changes(system, edit, proxies, rounds) for kind, (edit, _) in fleet.edits.items()}


async def _changes(system: Edited, edit: Callable[[int], AnyObject], proxies: int, rounds: int) -> float:
    spent = []
    for version in range(1, rounds + 1):
        start = time.process_time()
        await system.change(edit(version), proxies)
        spent.append((time.process_time() - start) * 1000)
    return min(spent)


def compare(fleet: Fleet, sizes: Sequence[int], services: int, rounds: int) -> int:
    """Print the table of a fleet: few of its proxies, many of them, and the difference; how many budgets are missed."""
    table, (few, many) = Table(f"{services} services, proxies with {fleet.name}"), sizes
    costs = {number: trio.run(measure, fleet, services, number, rounds) for number in sizes}
    for kind, (_, budget) in fleet.edits.items():
        for number in sizes:
            table.value(f"{kind}, {number} proxies", costs[number][kind])
        table.value("  each further proxy", (costs[many][kind] - costs[few][kind]) / (many - few), budget)
    return table.missed


def main() -> int:
    """Measure, print, compare with the budgets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, default=200)
    parser.add_argument("--proxies", type=int, nargs=2, default=(100, 1000))
    parser.add_argument("--workloads", type=int, nargs=2, default=(60, 200))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    gc.disable()
    with discarded_logs():
        missed = compare(ALIKE, arguments.proxies, arguments.services, arguments.rounds)
        missed += compare(APART, arguments.workloads, arguments.services, arguments.rounds)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
