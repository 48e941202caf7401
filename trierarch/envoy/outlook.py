"""What a proxy may call, in a snapshot: where every outbound part is narrowed from.

An outlook sees everything; the inputs that are taken from it should be as little as the part can do with, for what is
equal in them is shared: by views, and by snapshots. What several parts narrow alike is worked out here once, and what
has been narrowed stays at hand for the other proxies of the key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from operator import is_
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import ref

from trierarch.push.authentication import NO_POLICIES
from trierarch.push.context import PushContext
from trierarch.push.endpoints import NO_ENDPOINTS
from trierarch.push.traffic import select_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from protocol.xds.resources import Part
    from trierarch.push.authentication import NamespacePolicies
    from trierarch.push.endpoints import Endpoints, ServiceEndpoints
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Hostname, Service
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.traffic import MergedRule
    from trierarch.push.view import OutboundKey, ScopeKey

InputsT = TypeVar("InputsT")
ValueT = TypeVar("ValueT")

REMEMBERED = 20
"""Snapshots for which is remembered what was worked out for a key, should nobody ask about it meanwhile."""


class Known(NamedTuple):
    """Something that was worked out in the snapshot of that number, and what it was worked out from."""

    number: int
    reads: tuple[object, ...]
    value: Any


class Sight(NamedTuple):
    """The sections of a snapshot and the fields of a scope that a plan may see."""

    context: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()


class Excerpt(NamedTuple):
    """A part of an outlook: what is in it, and what shows a plan a snapshot and a scope that have nothing else. A plan
    that asks these for more fails, so what is read cannot be more than `reads`.
    """

    reads: tuple[object, ...]
    show: Callable[[], tuple[PushContext, SidecarScope]]


def _only(**fields: object) -> Any:  # noqa: ANN401 - stands for a section with just these fields
    return SimpleNamespace(**fields)


def _show(key: ScopeKey, sight: Sight, reads: tuple[object, ...]) -> tuple[PushContext, SidecarScope]:
    count = len(sight.context)
    context, scope = zip(sight.context, reads[:count], strict=True), zip(sight.scope, reads[count:], strict=True)
    return _only(**dict(context)), _only(key=key, **dict(scope))


def _show_workload(
    key: ScopeKey, hosts: tuple[Hostname, ...], reads: tuple[object, ...]
) -> tuple[PushContext, SidecarScope]:
    """`reads`: the mesh, the Sidecar, and for each of the hosts a service, then rules; or None."""
    mesh, sidecar, *served = reads
    services = {host: each for host, each in zip(hosts, served, strict=False) if each is not None}
    rules = {host.host: each for host, each in zip(hosts, served[len(hosts) :], strict=True) if each is not None}
    return _only(mesh=mesh, services=_only(by_id=services)), _only(key=key, sidecar=sidecar, rules=rules)


@dataclass(frozen=True, kw_only=True, eq=False)
class Outlook:
    """An outbound key with the scope and the snapshot in which it is looked at. Without slots, for what is cached.

    `past`: what was worked out for the same key in earlier snapshots. What is made from the same things is taken over,
    and what comes out equal is the object that it was: so it is found by identity, and in microseconds, that a part is
    the one before.
    """

    key: OutboundKey
    scope: SidecarScope
    context: PushContext
    past: Mapping[Hashable, Known] = field(default_factory=dict)

    @cached_property
    def _now(self) -> dict[Hashable, Known]:
        return {}

    @cached_property
    def parts(self) -> dict[Hashable, Part]:
        """The parts of sets that were asked for so far."""
        return {}

    def handed_on(self) -> Mapping[Hashable, Known]:
        """What the next outlook of the key may start from."""
        oldest = self.context.number - REMEMBERED
        return {**{name: known for name, known in self.past.items() if known.number > oldest}, **self._now}

    def narrowed(self, narrow: Callable[[Outlook], InputsT]) -> InputsT:
        """What is narrowed from this outlook, once."""
        known = self._now.get(narrow)
        inputs: InputsT = self._keep(narrow, (), narrow(self)) if known is None else known.value
        return inputs

    def part_before(self, place: Hashable, reads: tuple[object, ...]) -> Part | None:
        """The part that was made for that place from the very same things, if somebody holds it still."""
        known = self.past.get(("part", place))
        if known is None or not _are_same(known.reads, reads):
            return None
        part: Part | None = known.value()
        return part

    def keep_part(self, place: Hashable, reads: tuple[object, ...], part: Part) -> None:
        """Hold a part, and remember what it was made from."""
        self.parts[place] = part
        self._now["part", place] = Known(self.context.number, reads, ref(part))

    def excerpt(self, sight: Sight) -> Excerpt:
        """What may be seen of it."""
        context = [getattr(self.context, name) for name in sight.context]
        reads = (*context, *[getattr(self.scope, name) for name in sight.scope])
        return Excerpt(reads, partial(_show, self.scope.key, sight, reads))

    def excerpt_for(self, services: Iterable[Hostname]) -> Excerpt:
        """What concerns a workload: the mesh, its Sidecar, the services that it serves and the rules for these."""
        scope, by_id, rules = self.scope, self.context.services.by_id, self.scope.rules
        hosts = tuple(dict.fromkeys(services))
        served = [*[by_id.get(each) for each in hosts], *[rules.get(each.host) for each in hosts]]
        reads = (self.context.mesh, scope.sidecar, *served)
        return Excerpt(reads, partial(_show_workload, scope.key, hosts, reads))

    @property
    def mesh(self) -> Mesh:
        """Mesh-wide settings."""
        return self.context.mesh

    @cached_property
    def chosen_rules(self) -> Mapping[str, MergedRule]:
        """Host -> the destination rule that is in force for it. Hosts without one are left out."""

        def choose() -> dict[str, MergedRule]:
            namespace, labels = self.key.scope.namespace, self.key.labels
            ruled = self.scope.rules.items()
            return {host: rule for host, rules in ruled if (rule := select_rule(rules, namespace, labels)) is not None}

        return self.again("chosen rules", (self.scope.rules,), choose)

    @cached_property
    def rules_by_host(self) -> tuple[tuple[str, MergedRule], ...]:
        """The same as pairs."""
        chosen = self.chosen_rules
        return self.again("rules by host", (chosen,), lambda: tuple(chosen.items()))

    @cached_property
    def rules(self) -> tuple[MergedRule | None, ...]:
        """The rule in force for each of `scope.services`, beside them."""
        chosen, by_host = self.chosen_rules, self.scope.by_host
        return self.again("rules", (chosen, by_host), lambda: tuple(map(chosen.get, by_host)))

    @cached_property
    def endpoints(self) -> tuple[ServiceEndpoints, ...]:
        """The endpoints of each of `scope.services`, beside them."""
        known, services = self.context.endpoints, self.scope.services
        return self.again("endpoints", (known.by_service, services), lambda: _endpoints_of(services, known))

    @cached_property
    def policies(self) -> tuple[tuple[str, NamespacePolicies], ...]:
        """Namespaces of `scope.services` in which clients have to heed policies, with these."""

        def find() -> tuple[tuple[str, NamespacePolicies], ...]:
            for_clients = self.context.authentication.for_clients
            found = [(each, for_clients(each)) for each in _namespaces_of(self.scope.services)]
            return tuple((namespace, policies) for namespace, policies in found if policies is not NO_POLICIES)

        return self.again("policies", (self.context.authentication, self.scope.services), find)

    def again(self, name: str, reads: tuple[object, ...], make: Callable[[], ValueT]) -> ValueT:
        """What was made from the very same things before, else what is made now."""
        known = self.past.get(name)
        if known is not None and _are_same(known.reads, reads):
            value: ValueT = known.value
            self._now[name] = Known(self.context.number, reads, value)
            return value
        return self._keep(name, reads, make())

    def _keep(self, name: Hashable, reads: tuple[object, ...], value: ValueT) -> ValueT:
        """Remember what was made. If it is equal to what was made before, then that."""
        known = self.past.get(name)
        if known is not None and known.value == value:
            value = known.value
        self._now[name] = Known(self.context.number, reads, value)
        return value


def _are_same(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


@lru_cache(maxsize=4)
def _endpoints_of(services: tuple[Service, ...], endpoints: Endpoints) -> tuple[ServiceEndpoints, ...]:
    """Remembered, as what follows, since namespaces that see the same services ask one after the other."""
    known = endpoints.by_service
    return tuple([known.get(service.id, NO_ENDPOINTS) for service in services])


@lru_cache(maxsize=4)
def _namespaces_of(services: tuple[Service, ...]) -> tuple[str, ...]:
    return tuple(sorted({service.namespace for service in services}))


class Outlooks:
    """The outlooks of the newest snapshot that anybody asked about. They keep its parts alive until all are sent.

    Of earlier snapshots only what was worked out is kept, for the next outlook of the same key.
    """

    __slots__ = ("_known", "_newest", "_pasts")

    def __init__(self) -> None:
        self._newest = PushContext(number=-1)
        self._known: dict[tuple[OutboundKey, SidecarScope], Outlook] = {}
        self._pasts: dict[OutboundKey, tuple[int, Mapping[Hashable, Known]]] = {}

    def find(self, key: OutboundKey, scope: SidecarScope, context: PushContext) -> Outlook:
        """The outlook of a key, one for all who ask about the newest snapshot."""
        if context.number < self._newest.number:
            return Outlook(key=key, scope=scope, context=context)
        if context is not self._newest:
            self._turn(context)
        found = self._known.get((key, scope))
        if found is None:
            _, past = self._pasts.get(key, (0, {}))
            found = self._known[key, scope] = Outlook(key=key, scope=scope, context=context, past=past)
        return found

    def _turn(self, context: PushContext) -> None:
        """There is a newer snapshot: keep of the one before what is known of its keys."""
        oldest = context.number - REMEMBERED
        self._pasts = {key: past for key, past in self._pasts.items() if past[0] > oldest}
        self._pasts |= {key: (self._newest.number, each.handed_on()) for (key, _), each in self._known.items()}
        self._newest = context
        self._known.clear()
