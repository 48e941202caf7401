"""From a view of a snapshot to its `ResourceSet`s: which part of which type is made from what, and how.

Theory. Each type is a chain of parts; what a proxy may call decides some of them, what it serves itself the others, so
that two proxies that differ in what they serve still share everything that they may call. A part is made in two steps.
It is *narrowed*: from everything that is known to the little that the part reads, a frozen value. And it is *planned*:
from that value, and nothing else, to units (`units.py`), of which each is built once for all parts that have it. So
both steps of the way from a snapshot to bytes are remembered by complete keys: parts by their inputs (`part_cache.py`),
units by theirs (`memo.py`). Small parts are not worth narrowing: their plans get an excerpt of the snapshot, and run
again when something in it is another object.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from protocol.xds.resources import EMPTY
from trierarch.envoy.clusters import narrow_outbound_clusters, plan_outbound_clusters
from trierarch.envoy.clusters_fixed import plan_fixed_clusters
from trierarch.envoy.clusters_inbound import plan_inbound_clusters
from trierarch.envoy.endpoints import narrow_endpoints, plan_endpoints
from trierarch.envoy.grpc_clusters import plan_grpc_clusters
from trierarch.envoy.grpc_listeners import plan_grpc_listeners
from trierarch.envoy.grpc_routes import plan_grpc_routes
from trierarch.envoy.grpc_servers import plan_grpc_servers
from trierarch.envoy.listeners import narrow_outbound_listeners, plan_outbound_listeners
from trierarch.envoy.listeners_inbound import plan_inbound_listeners
from trierarch.envoy.name_table import plan_name_table
from trierarch.envoy.outbound_view import select_outbound_view
from trierarch.envoy.outlook import Outlook, Sight
from trierarch.envoy.routes import narrow_outbound_routes, plan_outbound_routes, select_routing_view
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, NAME_TABLE, ROUTE, VIRTUAL_HOST
from trierarch.envoy.units import Joined, Splice, Tied, Unit
from trierarch.envoy.vhds import plan_divided_routes, plan_virtual_hosts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.xds.resources import Part, Resource, ResourceSet
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outlook import Excerpt
    from trierarch.envoy.part_cache import PartCache
    from trierarch.envoy.units import Piece, Plan
    from trierarch.push.context import PushContext
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.steps import Steps
    from trierarch.push.telemetry import Telemetry
    from trierarch.push.view import InboundKey, OutboundKey, View

InputsT = TypeVar("InputsT", bound=Hashable)

LOOKUPS_PER_STEP = 250
"""After so many units or pieces that were all remembered the event loop gets its turn: a millisecond of work."""


class Choice(NamedTuple):
    """What a part is made from, and its plan. `reads` decides for the same outbound key, compared by identity;
    `inputs` for all keys, by value (None: the part is too small to be looked for elsewhere).
    """

    reads: tuple[object, ...]
    inputs: Hashable
    plan: Callable[[], Plan]


@dataclass(frozen=True, slots=True)
class NarrowedPart(Generic[InputsT]):
    """A part of what a proxy may call. `plan` gets what `narrow` leaves of it, which is all that it may read."""

    name: str
    narrow: Callable[[Outlook], InputsT]
    plan: Callable[[InputsT, Memo], Plan]

    def place(self, _view: View) -> Hashable:
        """Which of the parts of an outlook it is."""
        return self.name

    def select(self, _view: View, outlook: Outlook, memo: Memo) -> Choice:
        """How it is made."""
        inputs = outlook.narrowed(self.narrow)
        return Choice((inputs,), (self.name, inputs), lambda: self.plan(inputs, memo))


@dataclass(frozen=True, slots=True)
class ReportingPart(Generic[InputsT]):
    """The same, where what the proxy reports of its traffic has a say."""

    name: str
    narrow: Callable[[Outlook], InputsT]
    plan: Callable[[InputsT, Telemetry, Memo], Plan]

    def place(self, view: View) -> Hashable:
        """Which of the parts of an outlook it is."""
        return self.name, view.inbound.telemetry

    def select(self, view: View, outlook: Outlook, memo: Memo) -> Choice:
        """How it is made."""
        inputs, telemetry = outlook.narrowed(self.narrow), view.inbound.telemetry
        return Choice((inputs,), (self.name, inputs, telemetry), lambda: self.plan(inputs, telemetry, memo))


@dataclass(frozen=True, slots=True)
class OutboundPart:
    """A small part that the outbound key decides. Its plan is shown nothing that is not in `sight`."""

    name: str
    plan: Callable[[OutboundKey, SidecarScope, PushContext], Plan]
    sight: Sight

    def place(self, _view: View) -> Hashable:
        """Which of the parts of an outlook it is."""
        return self.name

    def select(self, view: View, outlook: Outlook, _memo: Memo) -> Choice:
        """How it is made."""
        return _choose(outlook.excerpt(self.sight), partial(self.plan, view.outbound))


@dataclass(frozen=True, slots=True)
class InboundPart:
    """A small part that the inbound key decides. Its plan is shown nothing but what concerns the workload."""

    name: str
    plan: Callable[[InboundKey, SidecarScope, PushContext], Plan]

    def place(self, view: View) -> Hashable:
        """Which of the parts of an outlook it is."""
        return self.name, view.inbound

    def select(self, view: View, outlook: Outlook, _memo: Memo) -> Choice:
        """How it is made."""
        excerpt = outlook.excerpt_for([target.service for target in view.inbound.targets])
        return _choose(excerpt, partial(self.plan, view.inbound))


def _choose(excerpt: Excerpt, plan: Callable[[SidecarScope, PushContext], Plan]) -> Choice:
    """A small part that is made from this excerpt, which is shown to its plan if that runs."""

    def show_and_plan() -> Plan:
        context, scope = excerpt.show()
        return plan(scope, context)

    return Choice(excerpt.reads, None, show_and_plan)


AnyPart = NarrowedPart[Any] | ReportingPart[Any] | OutboundPart | InboundPart
PartTable = Mapping[str, tuple[AnyPart, ...]]

NAMING = Sight(context=("mesh", "endpoints"), scope=("egress", "services"))
CALLING = Sight(context=("mesh", "endpoints"), scope=("services", "rules"))

PARTS: PartTable = {
    CLUSTER: (
        NarrowedPart("outbound clusters", narrow_outbound_clusters, plan_outbound_clusters),
        OutboundPart("fixed clusters", plan_fixed_clusters, Sight(context=("mesh",), scope=("sidecar",))),
        InboundPart("inbound clusters", plan_inbound_clusters),
    ),
    ENDPOINT: (NarrowedPart("endpoints", narrow_endpoints, plan_endpoints),),
    LISTENER: (
        ReportingPart("outbound listeners", narrow_outbound_listeners, plan_outbound_listeners),
        InboundPart("inbound listeners", plan_inbound_listeners),
    ),
    ROUTE: (NarrowedPart("outbound routes", narrow_outbound_routes, plan_outbound_routes),),
    NAME_TABLE: (OutboundPart("name table", plan_name_table, NAMING),),
}
"""Type URL -> its parts in the order in which a client is sent them (networking.md §2.2)."""

VHDS_PARTS: PartTable = {
    **PARTS,
    ROUTE: (NarrowedPart("divided routes", narrow_outbound_routes, plan_divided_routes),),
    VIRTUAL_HOST: (NarrowedPart("virtual hosts", narrow_outbound_routes, plan_virtual_hosts),),
}
"""The same for proxies that want virtual hosts one by one (xds-server.md §16)."""

PROXYLESS_PARTS: PartTable = {
    CLUSTER: (OutboundPart("grpc clusters", plan_grpc_clusters, CALLING),),
    ENDPOINT: PARTS[ENDPOINT],
    LISTENER: (
        NarrowedPart("grpc listeners", select_outbound_view, plan_grpc_listeners),
        InboundPart("grpc servers", plan_grpc_servers),
    ),
    ROUTE: (NarrowedPart("grpc routes", select_routing_view, plan_grpc_routes),),
}
"""The same for gRPC clients and servers without a proxy (§4.11)."""


def generate(
    view: View, scope: SidecarScope, context: PushContext, type_url: str, memo: Memo, parts: PartCache
) -> Steps[ResourceSet]:
    """The resources of one type for one view, in steps. The empty set for a type of which nothing is generated.

    Equal questions get the same object; so do views that share what they are made from, part by part.
    """
    outlook = Outlook(key=view.outbound, scope=scope, context=context)
    return (yield from generate_set(view, outlook, type_url, memo, parts))


def generate_set(view: View, outlook: Outlook, type_url: str, memo: Memo, parts: PartCache) -> Steps[ResourceSet]:
    """The same for whoever asks for several types or views and has the outlook, which they share."""
    return (yield from generate_parts(_table(view).get(type_url, ()), view, outlook, memo, parts))


def _table(view: View) -> PartTable:
    if view.outbound.is_proxyless:
        return PROXYLESS_PARTS
    return VHDS_PARTS if view.outbound.capabilities.vhds else PARTS


def generate_parts(
    table: tuple[AnyPart, ...], view: View, outlook: Outlook, memo: Memo, parts: PartCache
) -> Steps[ResourceSet]:
    """The chain of the parts in this table."""
    chain: list[Part] = []
    for rule in table:
        place = rule.place(view)
        part = outlook.parts.get(place)
        if part is None:
            part = yield from _find_part(place, rule, view, outlook, memo, parts)
        chain.append(part)
    return parts.chain(tuple(chain)) if chain else EMPTY


def _find_part(
    place: Hashable, rule: AnyPart, view: View, outlook: Outlook, memo: Memo, parts: PartCache
) -> Steps[Part]:
    """The part as it was made from the same things before, or from equal ones for others; or else planned."""
    chosen = rule.select(view, outlook, memo)
    part = outlook.part_before(place, chosen.reads)
    part = parts.find(chosen.inputs) if part is None else part
    if part is None:
        resources = yield from _build_resources(chosen.plan(), memo, parts)
        part = parts.settle(rule.name, chosen.inputs, resources.values())
    outlook.keep_part(place, chosen.reads, part)
    return part


def _build_resources(plan: Plan, memo: Memo, parts: PartCache) -> Steps[dict[str, Resource]]:
    """Drive a plan. Of two resources with one name the first is kept (networking.md §2.2)."""
    resources: dict[str, Resource] = {}
    lookups = 0
    for item in plan:
        match item:
            case None:
                yield
                continue
            case Unit():
                built = memo.find(*item)
                if built is None:
                    built = memo.build(*item)
                    yield
            case Splice():
                encoded = yield from _encode_pieces(item.pieces, memo)
                built = (parts.join(item.name, encoded),)
                lookups += len(item.pieces)
            case Joined():
                built = (parts.join(item.name, item.pieces),)
            case Tied():
                built = (parts.tie(item.name, item.chunks),)
        for resource in built:
            resources.setdefault(resource.name, resource)
        lookups += 1
        if lookups >= LOOKUPS_PER_STEP:
            lookups = 0
            yield
    return resources


def _encode_pieces(pieces: Sequence[Piece], memo: Memo) -> Steps[tuple[bytes, ...]]:
    """Bytes remember their hash and compare by identity first: asking for the joined resource costs no walk over it."""
    encoded: list[bytes] = []
    for piece in pieces:
        found = memo.find(*piece)
        if found is None:
            found = memo.build(*piece)
            yield
        encoded.append(found)
    return tuple(encoded)
