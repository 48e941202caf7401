"""What a proxy may call, in a snapshot: where every outbound part is narrowed from.

An outlook sees everything; the inputs that are taken from it should be as little as the part can do with, for what is
equal in them is shared: by views, and by snapshots. What several parts narrow alike is worked out here once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from trierarch.push.authentication import NO_POLICIES
from trierarch.push.traffic import select_rule

if TYPE_CHECKING:
    from trierarch.push.authentication import NamespacePolicies
    from trierarch.push.context import PushContext
    from trierarch.push.endpoints import ServiceEndpoints
    from trierarch.push.mesh import Mesh
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.traffic import MergedRule
    from trierarch.push.view import OutboundKey


@dataclass(frozen=True, kw_only=True, eq=False)
class Outlook:
    """An outbound key with the scope and the snapshot in which it is looked at. Without slots, for what is cached."""

    key: OutboundKey
    scope: SidecarScope
    context: PushContext

    @property
    def mesh(self) -> Mesh:
        """Mesh-wide settings."""
        return self.context.mesh

    @cached_property
    def chosen_rules(self) -> dict[str, MergedRule]:
        """Host -> the destination rule that is in force for it. Hosts without one are left out."""
        namespace, labels = self.key.scope.namespace, self.key.labels
        found = ((host, select_rule(rules, namespace, labels)) for host, rules in self.scope.rules.items())
        return {host: rule for host, rule in found if rule is not None}

    @cached_property
    def rules(self) -> tuple[MergedRule | None, ...]:
        """The rule in force for each of `scope.services`, beside them."""
        chosen = self.chosen_rules
        return tuple([chosen.get(service.hostname) for service in self.scope.services])

    @cached_property
    def endpoints(self) -> tuple[ServiceEndpoints, ...]:
        """The endpoints of each of `scope.services`, beside them."""
        of = self.context.endpoints.of
        return tuple([of(service.id) for service in self.scope.services])

    @cached_property
    def policies(self) -> tuple[tuple[str, NamespacePolicies], ...]:
        """Namespaces of `scope.services` in which clients have to heed policies, with these."""
        for_clients = self.context.authentication.for_clients
        found = [(each, for_clients(each)) for each in sorted({service.namespace for service in self.scope.services})]
        return tuple((namespace, policies) for namespace, policies in found if policies is not NO_POLICIES)
