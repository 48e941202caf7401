"""From a view of a snapshot to its `ResourceSet`s: which plan makes which part of which type, memoised.

Theory. Each type is a chain of parts; the outbound key of a view decides some of them, its inbound key the others, so
that two proxies that differ in what they serve still share everything that they may call. A plan narrows the snapshot
to units (`units.py`), the memo builds each unit once for all views that ask with equal inputs, and a part whose
resources came out the same as before *is* the part from before: sets of successive snapshots then differ only in the
parts that really changed, and that is seen by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from protocol.xds.resources import EMPTY, Part, Resource, ResourceSet, build_resource
from trierarch.envoy.clusters import plan_outbound_clusters
from trierarch.envoy.clusters_fixed import plan_fixed_clusters
from trierarch.envoy.clusters_inbound import plan_inbound_clusters
from trierarch.envoy.endpoints import plan_endpoints
from trierarch.envoy.grpc_clusters import plan_grpc_clusters
from trierarch.envoy.grpc_listeners import plan_grpc_listeners
from trierarch.envoy.grpc_routes import plan_grpc_routes
from trierarch.envoy.grpc_servers import plan_grpc_servers
from trierarch.envoy.listeners import plan_outbound_listeners
from trierarch.envoy.listeners_inbound import plan_inbound_listeners
from trierarch.envoy.name_table import plan_name_table
from trierarch.envoy.routes import plan_outbound_routes
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, NAME_TABLE, ROUTE
from trierarch.envoy.units import Plan, Splice, Unit

if TYPE_CHECKING:
    from trierarch.envoy.memo import Memo
    from trierarch.push.context import PushContext
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.steps import Steps
    from trierarch.push.view import InboundKey, OutboundKey, View

InputsT = TypeVar("InputsT", bound=Hashable)
ResultT = TypeVar("ResultT")

LOOKUPS_PER_STEP = 50
"""After so many units that were all remembered the event loop gets its turn: about 0.3 ms of work."""


@dataclass(frozen=True, slots=True)
class OutboundPart:
    """A part that the outbound key decides."""

    name: str
    plan: Callable[[OutboundKey, SidecarScope, PushContext], Plan]

    def narrow(self, view: View, scope: SidecarScope, context: PushContext) -> tuple[Slot, Plan]:
        """Where the part is kept, and the plan that makes it."""
        return (self.name, view.outbound), self.plan(view.outbound, scope, context)


@dataclass(frozen=True, slots=True)
class ReportingPart:
    """A part that the outbound key decides together with what the proxy reports of its traffic."""

    name: str
    plan: Callable[[OutboundKey, SidecarScope, PushContext], Plan]

    def narrow(self, view: View, scope: SidecarScope, context: PushContext) -> tuple[Slot, Plan]:
        """Where the part is kept, and the plan that makes it."""
        key = view.reporting
        return (self.name, key), self.plan(key, scope, context)


@dataclass(frozen=True, slots=True)
class InboundPart:
    """A part that the inbound key decides."""

    name: str
    plan: Callable[[InboundKey, SidecarScope, PushContext], Plan]

    def narrow(self, view: View, scope: SidecarScope, context: PushContext) -> tuple[Slot, Plan]:
        """Where the part is kept, and the plan that makes it."""
        return (self.name, view.inbound), self.plan(view.inbound, scope, context)


Slot = tuple[str, "OutboundKey | InboundKey"]
AnyPart = OutboundPart | ReportingPart | InboundPart
PartTable = Mapping[str, tuple[AnyPart, ...]]

PARTS: PartTable = {
    CLUSTER: (
        OutboundPart("outbound clusters", plan_outbound_clusters),
        OutboundPart("fixed clusters", plan_fixed_clusters),
        InboundPart("inbound clusters", plan_inbound_clusters),
    ),
    ENDPOINT: (OutboundPart("endpoints", plan_endpoints),),
    LISTENER: (
        ReportingPart("outbound listeners", plan_outbound_listeners),
        InboundPart("inbound listeners", plan_inbound_listeners),
    ),
    ROUTE: (OutboundPart("outbound routes", plan_outbound_routes),),
    NAME_TABLE: (OutboundPart("name table", plan_name_table),),
}
"""Type URL -> its parts in the order in which a client is sent them (networking.md §2.2)."""

PROXYLESS_PARTS: PartTable = {
    CLUSTER: (OutboundPart("grpc clusters", plan_grpc_clusters),),
    ENDPOINT: PARTS[ENDPOINT],
    LISTENER: (
        OutboundPart("grpc listeners", plan_grpc_listeners),
        InboundPart("grpc servers", plan_grpc_servers),
    ),
    ROUTE: (OutboundPart("grpc routes", plan_grpc_routes),),
}
"""The same for gRPC clients and servers without a proxy (§4.11)."""


class PartCache:
    """The parts of the newest snapshot, and of older ones as long as somebody still holds them.

    A part that some client was sent is held by its session; so the cache needs no list of views that are in use, and
    keeps nothing of a view that has gone.
    """

    __slots__ = ("_known", "_number", "_sets", "_settled")

    def __init__(self) -> None:
        self._number = -1
        self._settled: dict[Slot, Part] = {}
        self._known: WeakValueDictionary[Slot, Part] = WeakValueDictionary()
        self._sets: WeakValueDictionary[tuple[Part, ...], ResourceSet] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, slot: Slot, snapshot: int) -> Part | None:
        """The part as it is in that snapshot, or None if it has not been built for it."""
        return self._settled.get(slot) if snapshot == self._number else None

    def settle(self, slot: Slot, snapshot: int, resources: Mapping[str, Resource]) -> Part:
        """The part for these resources: the last one of this slot if they are what it holds, else a new one.

        A late question about an older snapshot is answered, but it does not become the state of the slot.
        """
        last = self._known.get(slot)
        part = last if last is not None and _same(last.resources, resources) else Part(resources.values())
        if snapshot > self._number:
            self._number = snapshot
            self._settled.clear()
        if snapshot == self._number:
            self._settled[slot] = self._known[slot] = part
        return part

    def chain(self, parts: tuple[Part, ...]) -> ResourceSet:
        """The one set made of these parts."""
        found = self._sets.get(parts)
        if found is None:
            found = self._sets[parts] = ResourceSet(*parts)
        return found


def generate(
    view: View, scope: SidecarScope, context: PushContext, type_url: str, memo: Memo, parts: PartCache
) -> Steps[ResourceSet]:
    """The resources of one type for one view, in steps. The empty set for a type of which nothing is generated.

    Equal questions about one snapshot get the same object; so do views that share a key, part by part.
    """
    table = PROXYLESS_PARTS if view.outbound.is_proxyless else PARTS
    return (yield from generate_parts(table.get(type_url, ()), view, scope, context, memo, parts))


def generate_parts(
    table: tuple[AnyPart, ...],
    view: View,
    scope: SidecarScope,
    context: PushContext,
    memo: Memo,
    parts: PartCache,
) -> Steps[ResourceSet]:
    """The chain of the parts in this table."""
    chain = []
    for rule in table:
        slot, plan = rule.narrow(view, scope, context)
        part = parts.find(slot, context.number)
        if part is None:
            resources = yield from _build_resources(plan, memo)
            part = parts.settle(slot, context.number, resources)
        chain.append(part)
    return parts.chain(tuple(chain)) if chain else EMPTY


def _build_resources(plan: Plan, memo: Memo) -> Steps[dict[str, Resource]]:
    """Drive a plan. Of two resources with one name the first is kept (networking.md §2.2)."""
    resources: dict[str, Resource] = {}
    for count, item in enumerate(plan, start=1):
        if item is None:
            yield
            continue
        for resource in (yield from _build_item(item, memo)):
            resources.setdefault(resource.name, resource)
        if count % LOOKUPS_PER_STEP == 0:
            yield
    return resources


def _build_item(item: Unit | Splice, memo: Memo) -> Steps[tuple[Resource, ...]]:
    if isinstance(item, Unit):
        return (yield from _recall(item.build, item.inputs, memo))
    pieces = []
    for piece in item.pieces:
        encoded = yield from _recall(piece.build, piece.inputs, memo)
        pieces.append(encoded)
    # Bytes remember their hash and compare by identity first: asking for the joined resource costs no walk over it.
    return ((yield from _recall(_join, (item.name, tuple(pieces)), memo)),)


def _join(inputs: tuple[str, tuple[bytes, ...]]) -> Resource:
    name, pieces = inputs
    return build_resource(name, b"".join(pieces))


def _recall(build: Callable[[InputsT], ResultT], inputs: InputsT, memo: Memo) -> Steps[ResultT]:
    """From the memo; what has to be built costs a step."""
    found = memo.find(build, inputs)
    if found is None:
        found = memo.build(build, inputs)
        yield
    return found


def _same(old: Mapping[str, Resource], new: Mapping[str, Resource]) -> bool:
    """Whether both hold the same resources in the same order. By version where the memo has forgotten one between."""
    return len(old) == len(new) and all(
        before is after or (before.name == after.name and before.version == after.version)
        for before, after in zip(old.values(), new.values(), strict=True)
    )
