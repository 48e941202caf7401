"""What generation costs: a first view, further views, and one change, for each type in a mesh of 1,000 services.

    python bench/generation.py [--services 1000] [--rounds 10]

"first": with nothing remembered. "further": a view of another namespace, after that. "one ...": what a change of one
object costs for a view of each of 20 namespaces, per view, narrowing and planning and joining included; the budget of
architecture.md §5 is 0.5 ms a view beside encoding (0.36 ms for each route configuration of 280 KB).
The last column but one is the longest step between two turns of the event loop, which may take 5 ms.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from common.mesh import EDITS, NAMESPACES, mesh, proxy, rebuilt
from common.table import Table
from common.timing import timed

from trierarch.config.store import ConfigView
from trierarch.envoy.generate import generate_set
from trierarch.envoy.memo import Memo
from trierarch.envoy.outlook import Outlooks
from trierarch.envoy.part_cache import PartCache
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE, TYPE_RULES
from trierarch.push.sidecar_scope import build_scope
from trierarch.push.steps import run_steps
from trierarch.push.view import select_view

if TYPE_CHECKING:
    from common.timing import Timing

    from protocol.xds.resources import ResourceSet
    from trierarch.push.context import PushContext
    from trierarch.push.proxy import Proxy
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.steps import Steps
    from trierarch.push.view import ScopeKey

TYPES = (CLUSTER, ENDPOINT, LISTENER, ROUTE)
LONGEST_STEP = 5.0
BUDGET = {CLUSTER: 0.5, ENDPOINT: 0.5, LISTENER: 0.5, ROUTE: 0.5 + 0.36}


class Generator:
    """What the actor of that name holds."""

    def __init__(self) -> None:
        self.memo, self.parts, self.outlooks = Memo(200_000), PartCache(), Outlooks()
        self.scopes: dict[ScopeKey, SidecarScope] = {}
        self.held: dict[tuple[Proxy, str], ResourceSet] = {}

    def scope(self, key: ScopeKey, context: PushContext) -> SidecarScope:
        """The scope of that key, built on the one before."""
        scope = self.scopes[key] = run_steps(build_scope(key, context, self.scopes.get(key)))
        return scope

    def time(self, client: Proxy, context: PushContext, type_url: str) -> Timing[ResourceSet]:
        """Generate one set; it is held as if a client had it."""
        view = select_view(client, context)
        scope = self.scope(view.outbound.scope, context)

        def steps() -> Steps[ResourceSet]:
            outlook = self.outlooks.find(view.outbound, scope, context)
            return generate_set(view, outlook, type_url, self.memo, self.parts)

        timing = timed(steps)
        self.held[client, type_url] = timing.result
        return timing


def main() -> int:
    """Measure, print, compare with the budgets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    return 1 if measure(arguments.services, arguments.rounds) else 0


def measure(services: int, rounds: int) -> int:
    """Print the tables; how many budgets are missed."""
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
