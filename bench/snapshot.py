"""What a snapshot costs: the cold build, and one changed object after it, for meshes of 100 and 1,000 services.

    python bench/snapshot.py [--services 100 1000] [--rounds 30]

Prints milliseconds of this thread's CPU time (median and worst of the rounds), the longest time between two yields
apart from garbage collection, and the budgets of architecture.md §5: a VirtualService or DestinationRule 10 ms, an
endpoint 2 ms. Scopes are those of a namespace without a Sidecar, which import everything.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from trierarch.config import kubernetes
from trierarch.config.common import Destination
from trierarch.config.destination_rule import DestinationRule, Subset
from trierarch.config.objects import ConfigObject, ObjectKey, Origin
from trierarch.config.store import ConfigView
from trierarch.config.virtual_service import HttpRoute, HttpRouteDestination, VirtualService
from trierarch.push.processors import ContextSettings, build_push_context
from trierarch.push.proxy import NodeInfo, build_proxy
from trierarch.push.request import PushRequest
from trierarch.push.scope import affects
from trierarch.push.sidecar_scope import build_scope
from trierarch.push.view import ScopeKey, select_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trierarch.config.objects import AnyObject
    from trierarch.push.context import PushContext
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.steps import Steps

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)
BUDGETS = {"VirtualService": 10.0, "DestinationRule": 10.0, "EndpointSlice": 2.0}
NAMESPACES = 20
PODS_PER_SERVICE = 3
ORIGIN = Origin(source="bench")


def main() -> None:
    """Measure each size that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    for size in arguments.services:
        measure(size, arguments.rounds)


def measure(size: int, rounds: int) -> None:
    """Print one table."""
    view, _ = ConfigView().apply(mesh(size))
    cold = timed(partial(build_push_context, view, ContextSettings(), None, 1))
    context = cold.result
    scope = timed(partial(build_scope, ScopeKey("ns-0", None), context))
    print(f"\n{size} services, {size * PODS_PER_SERVICE} pods, a VirtualService and a DestinationRule each")
    print(f"{'':34}{'median':>9}{'worst':>9}{'step':>9}{'budget':>9}   (ms)")
    row("snapshot, cold", [cold])
    row("scope of everything, cold", [scope])
    for kind, edit in EDITS.items():
        builds, scopes = edits(view, context, scope.result, edit, rounds)
        row(f"snapshot, one {kind}", builds, BUDGETS.get(kind))
        row("  and the scope after it", scopes)
    verdicts(context, scope.result, rounds)


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


def verdicts(context: PushContext, scope: SidecarScope, rounds: int) -> None:
    """Who is affected, and where a proxy stands."""
    node = NodeInfo(id="sidecar~10.0.0.0~pod-0-0.ns-0~ns-0.svc.cluster.local")
    proxy = build_proxy(node, default_cluster="Kubernetes")
    view = select_view(proxy, context)
    request = PushRequest(keys=frozenset(list(context.changed)[:1]))
    row("view of a proxy", [timed_call(partial(select_view, proxy, context)) for _ in range(rounds)])
    asked = partial(affects, view, scope, scope, request, context)
    row("verdict on one key", [timed_call(asked) for _ in range(rounds)])


@dataclass(frozen=True, slots=True)
class Timing(Generic[ResultT_co]):
    """Milliseconds of one run, of its longest step, and what it built."""

    total: float
    longest: float
    result: ResultT_co


def timed(make: Callable[[], Steps[ResultT]]) -> Timing[ResultT]:
    """Drive a builder to its end, garbage collection apart."""
    gc.collect()
    gc.disable()
    steps, total, longest = make(), 0.0, 0.0
    while True:
        start = time.thread_time()
        try:
            next(steps)
        except StopIteration as stop:
            spent = (time.thread_time() - start) * 1000
            gc.enable()
            return Timing(total + spent, max(longest, spent), stop.value)
        spent = (time.thread_time() - start) * 1000
        total, longest = total + spent, max(longest, spent)


def timed_call(call: Callable[[], ResultT]) -> Timing[ResultT]:
    """Time a plain function."""
    start = time.thread_time()
    result = call()
    spent = (time.thread_time() - start) * 1000
    return Timing(spent, spent, result)


def row(name: str, timings: Sequence[Timing[object]], budget: float | None = None) -> None:
    """Print one line."""
    totals = [timing.total for timing in timings]
    longest = max(timing.longest for timing in timings)
    limit = "" if budget is None else f"{budget:9.1f}"
    verdict = "" if budget is None else ("   ok" if statistics.median(totals) <= budget else "   OVER")
    print(f"{name:34}{statistics.median(totals):9.3f}{max(totals):9.3f}{longest:9.3f}{limit}{verdict}")


# --- a synthetic mesh ------------------------------------------------------------------------------------------------
def mesh(size: int) -> Iterator[AnyObject]:
    """Services with their pods, slices, routes and rules, spread over namespaces."""
    for index in range(size):
        yield service(index, 0)
        yield from (pod(index, number) for number in range(PODS_PER_SERVICE))
        yield endpoint_slice(index, 0)
        yield virtual_service(index, 0)
        yield destination_rule(index, 0)


def made(kind: str, index: int, version: int, spec: object, **labels: str) -> AnyObject:
    """An object of service number `index`; another version is another object."""
    key = ObjectKey("Kubernetes", kind, f"ns-{index % NAMESPACES}", f"svc-{index}")
    digest = version.to_bytes(4, "big")
    return ConfigObject(key=key, labels=labels, created=float(index), spec=spec, digest=digest, origin=ORIGIN)


def service(index: int, version: int) -> AnyObject:
    """A ClusterIP service with an HTTP port."""
    ports = (kubernetes.ServicePort(name="http", port=80 + version % 2, target_port=8080),)
    address = f"10.{100 + index // 65536}.{index // 256 % 256}.{index % 256}"
    spec = kubernetes.Service(cluster_ip=address, ports=ports, selector={"app": f"svc-{index}"})
    return made("Service", index, version, spec)


def pod(index: int, number: int) -> AnyObject:
    """A ready Pod."""
    key = ObjectKey("Kubernetes", "Pod", f"ns-{index % NAMESPACES}", f"pod-{index}-{number}")
    spec = kubernetes.Pod(pod_ip=pod_ip(index, number), phase="Running", service_account_name=f"svc-{index}")
    labels = {"app": f"svc-{index}", "version": "v1"}
    return ConfigObject(key=key, labels=labels, spec=spec, digest=b"0", origin=ORIGIN)


def pod_ip(index: int, number: int) -> str:
    """The address of a Pod."""
    place = index * PODS_PER_SERVICE + number
    return f"10.{place // 65536}.{place // 256 % 256}.{place % 256}"


def endpoint_slice(index: int, version: int) -> AnyObject:
    """The slice of a service; in odd versions the first endpoint is gone."""
    endpoints = tuple(
        kubernetes.SliceEndpoint(
            addresses=(pod_ip(index, number),),
            target_ref=kubernetes.TargetReference(kind="Pod", name=f"pod-{index}-{number}"),
        )
        for number in range(version % 2, PODS_PER_SERVICE)
    )
    spec = kubernetes.EndpointSlice(endpoints=endpoints, ports=(kubernetes.EndpointPort(name="http", port=8080),))
    return made("EndpointSlice", index, version, spec, **{"kubernetes.io/service-name": f"svc-{index}"})


def virtual_service(index: int, version: int) -> AnyObject:
    """One route to the service."""
    destination = Destination(host=f"svc-{index}", subset="v1")
    route = HttpRoute(route=(HttpRouteDestination(destination=destination),), timeout=float(version))
    return made("VirtualService", index, version, VirtualService(hosts=(f"svc-{index}",), http=(route,)))


def destination_rule(index: int, version: int) -> AnyObject:
    """Two subsets."""
    subsets = (Subset(name="v1", labels={"version": "v1"}), Subset(name="v2", labels={"version": f"v{version}"}))
    return made("DestinationRule", index, version, DestinationRule(host=f"svc-{index}", subsets=subsets))


EDITS: dict[str, Callable[[int, int], AnyObject]] = {
    "VirtualService": virtual_service,
    "DestinationRule": destination_rule,
    "EndpointSlice": endpoint_slice,
    "Service": service,
}

if __name__ == "__main__":
    main()
