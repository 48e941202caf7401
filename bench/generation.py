"""What generation costs: a first view, further views, and one change, for each type in a mesh of 1,000 services.

    python bench/generation.py [--services 1000] [--rounds 6]

"first": with nothing remembered. "further": a view of another namespace, after that. "one ...": what a change of one
object costs for a view of each of 20 namespaces, per view, narrowing and planning and joining included; the median is
that of a view which finds built what has changed. The budget is 0.5 ms a view, and for routes 0.36 ms more for each
280 KB of a configuration (it has 576 KB here): so long it takes to join and digest it whole.
The last column but one is the longest step between two turns of the event loop, which may take 5 ms.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from common.generating import Generator
from common.mesh import EDITS, NAMESPACES, mesh, proxy, rebuilt
from common.table import Table

from trierarch.config.store import ConfigView
from trierarch.envoy.preparation import prepare_codec
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE, TYPE_RULES
from trierarch.push.steps import run_steps

if TYPE_CHECKING:
    from common.timing import Timing

    from protocol.xds.resources import ResourceSet

TYPES = (CLUSTER, ENDPOINT, LISTENER, ROUTE)
LONGEST_STEP = 5.0
BUDGET = {CLUSTER: 0.5, ENDPOINT: 0.5, LISTENER: 0.5, ROUTE: 0.5 + 0.36 * 576 / 280}


def main() -> int:
    """Measure, print, compare with the budgets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=6)
    arguments = parser.parse_args()
    return 1 if measure(arguments.services, arguments.rounds) else 0


def measure(services: int, rounds: int) -> int:
    """Print the tables; how many budgets are missed."""
    run_steps(prepare_codec())
    generator = Generator()
    view, _ = ConfigView().apply(mesh(services))
    context = rebuilt(view, None)
    clients = [proxy(index) for index in range(NAMESPACES)]
    table = Table(f"{services} services, a VirtualService and a DestinationRule each")
    longest = 0.0
    for url in TYPES:
        first, *further = (generator.time(client, context, url) for client in clients)
        table.row(f"{TYPE_RULES[url].short}, first view", [first])
        table.row(f"{TYPE_RULES[url].short}, further views", further)
        longest = max(longest, *(timing.longest for timing in (first, *further)))
    for kind, edit in EDITS.items():
        timings: dict[str, list[Timing[ResourceSet]]] = {url: [] for url in TYPES}
        for index in range(rounds):
            view, _ = view.apply([edit(index, index + 1)])
            context = rebuilt(view, context)
            for url in TYPES:
                timings[url] += map(partial(generator.time, context=context, type_url=url), clients)
        for url in TYPES:
            table.row(f"{TYPE_RULES[url].short}, one {kind}", timings[url], BUDGET[url])
            longest = max(longest, *(timing.longest for timing in timings[url]))
    table.value("the longest step of all", longest, LONGEST_STEP)
    return table.missed


if __name__ == "__main__":
    sys.exit(main())
