"""What a snapshot costs: the cold build, and one changed object after it, for meshes of 100 and 1,000 services.

    python bench/snapshot.py [--services 100 1000] [--rounds 30]

Prints milliseconds of this thread's CPU time (median and worst of the rounds), the longest time between two yields
apart from garbage collection, and the budgets: a VirtualService or DestinationRule 10 ms, an
endpoint 2 ms, a verdict 0.1 ms. Scopes are those of a namespace without a Sidecar, which import everything.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from common.mesh import EDITS, PODS_PER_SERVICE, mesh, proxy
from common.table import Table
from common.timing import timed, timed_call

from trierarch.config.store import ConfigView
from trierarch.push.processors import ContextSettings, build_push_context
from trierarch.push.request import PushRequest
from trierarch.push.scope import affects
from trierarch.push.sidecar_scope import build_scope
from trierarch.push.view import ScopeKey, select_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from common.timing import Timing

    from trierarch.config.objects import AnyObject
    from trierarch.push.context import PushContext
    from trierarch.push.sidecar_scope import SidecarScope

BUDGETS = {"VirtualService": 10.0, "DestinationRule": 10.0, "EndpointSlice": 2.0}


def main() -> int:
    """Measure each size that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    return 1 if sum(measure(size, arguments.rounds) for size in arguments.services) else 0


def measure(size: int, rounds: int) -> int:
    """Print one table; how many budgets are missed."""
    view, _ = ConfigView().apply(mesh(size))
    cold = timed(partial(build_push_context, view, ContextSettings(), None, 1))
    context = cold.result
    scope = timed(partial(build_scope, ScopeKey("ns-0", None), context))
    table = Table(f"{size} services, {size * PODS_PER_SERVICE} pods, a VirtualService and a DestinationRule each")
    table.row("snapshot, cold", [cold])
    table.row("scope of everything, cold", [scope])
    for kind, edit in EDITS.items():
        builds, scopes = edits(view, context, scope.result, edit, rounds)
        table.row(f"snapshot, one {kind}", builds, BUDGETS.get(kind))
        table.row("  and the scope after it", scopes)
    verdicts(table, context, scope.result, rounds)
    return table.missed


def edits(
    view: ConfigView, context: PushContext, scope: SidecarScope, edit: Callable[[int, int], AnyObject], rounds: int
) -> tuple[list[Timing[PushContext]], list[Timing[SidecarScope]]]:
    """Change one object after another, each on top of the snapshot before."""
    builds: list[Timing[PushContext]] = []
    scopes: list[Timing[SidecarScope]] = []
    for index in range(rounds):
        view, _ = view.apply([edit(index, index + 1)])
        builds.append(timed(partial(build_push_context, view, ContextSettings(), context, 2)))
        context = builds[-1].result
        scopes.append(timed(partial(build_scope, ScopeKey("ns-0", None), context, scope)))
        scope = scopes[-1].result
    return builds, scopes


def verdicts(table: Table, context: PushContext, scope: SidecarScope, rounds: int) -> None:
    """Who is affected, and where a proxy stands."""
    client = proxy(0)
    view = select_view(client, context)
    request = PushRequest(keys=frozenset(list(context.changed)[:1]))
    table.row("view of a proxy", [timed_call(partial(select_view, client, context)) for _ in range(rounds)])
    asked = partial(affects, view, scope, scope, request, context)
    table.row("verdict on one key", [timed_call(asked) for _ in range(rounds)], 0.1)


if __name__ == "__main__":
    sys.exit(main())
