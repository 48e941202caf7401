"""What a proxy may call, in a snapshot: where every outbound part is narrowed from.

An outlook sees everything; the inputs that are taken from it should be as little as the part can do with, for what is
equal in them is shared: by views, and by snapshots. What several parts narrow alike is worked out here once, and what
has been narrowed stays at hand for the other proxies of the key.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from trierarch.push.authentication import NO_POLICIES
from trierarch.push.context import PushContext
from trierarch.push.endpoints import NO_ENDPOINTS
from trierarch.push.traffic import select_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from protocol.xds.resources import Part
    from trierarch.push.authentication import NamespacePolicies
    from trierarch.push.endpoints import ServiceEndpoints
    from trierarch.push.mesh import Mesh
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.traffic import MergedRule
    from trierarch.push.view import OutboundKey

InputsT = TypeVar("InputsT")


@dataclass(frozen=True, kw_only=True, eq=False)
class Outlook:
    """An outbound key with the scope and the snapshot in which it is looked at. Without slots, for what is cached."""

    key: OutboundKey
    scope: SidecarScope
    context: PushContext

    @cached_property
    def _narrowed(self) -> dict[Callable[[Outlook], Any], Any]:
        return {}

    @cached_property
    def parts(self) -> dict[Hashable, Part]:
        """The parts of sets that were asked for so far."""
        return {}

    def narrowed(self, narrow: Callable[[Outlook], InputsT]) -> InputsT:
        """What is narrowed from this outlook, once."""
        if narrow not in self._narrowed:
            self._narrowed[narrow] = narrow(self)
        inputs: InputsT = self._narrowed[narrow]
        return inputs

    @property
    def mesh(self) -> Mesh:
        """Mesh-wide settings."""
        return self.context.mesh

    @cached_property
    def chosen_rules(self) -> dict[str, MergedRule]:
        """Host -> the destination rule that is in force for it. Hosts without one are left out."""
        namespace, labels = self.key.scope.namespace, self.key.labels
        chosen = {host: select_rule(rules, namespace, labels) for host, rules in self.scope.rules.items()}
        return {host: rule for host, rule in chosen.items() if rule is not None}

    @cached_property
    def rules(self) -> tuple[MergedRule | None, ...]:
        """The rule in force for each of `scope.services`, beside them."""
        chosen = self.chosen_rules
        return tuple([chosen.get(service.hostname) for service in self.scope.services])

    @cached_property
    def endpoints(self) -> tuple[ServiceEndpoints, ...]:
        """The endpoints of each of `scope.services`, beside them."""
        known = self.context.endpoints.by_service
        return tuple([known.get(service.id, NO_ENDPOINTS) for service in self.scope.services])

    @cached_property
    def policies(self) -> tuple[tuple[str, NamespacePolicies], ...]:
        """Namespaces of `scope.services` in which clients have to heed policies, with these."""
        for_clients = self.context.authentication.for_clients
        found = [(each, for_clients(each)) for each in sorted({service.namespace for service in self.scope.services})]
        return tuple((namespace, policies) for namespace, policies in found if policies is not NO_POLICIES)


class Outlooks:
    """The outlooks of the newest snapshot that anybody asked about. They keep its parts alive until all are sent."""

    __slots__ = ("_known", "_newest")

    def __init__(self) -> None:
        self._newest = PushContext(number=-1)
        self._known: dict[tuple[OutboundKey, SidecarScope], Outlook] = {}

    def find(self, key: OutboundKey, scope: SidecarScope, context: PushContext) -> Outlook:
        """The outlook of a key, one for all who ask about the newest snapshot."""
        if context.number < self._newest.number:
            return Outlook(key=key, scope=scope, context=context)
        if context is not self._newest:
            self._newest = context
            self._known.clear()
        found = self._known.get((key, scope))
        if found is None:
            found = self._known[key, scope] = Outlook(key=key, scope=scope, context=context)
        return found
