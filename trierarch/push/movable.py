"""Who may have another view in a snapshot than in the one before, and so has to be asked for it again.

A view follows from sections of the snapshot. Those of policies that are attached tell which namespaces changed; of any
other it is not worth the while to tell.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from trierarch.push.reuse import changed_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.config.objects import ObjectKey
    from trierarch.push.context import PushContext
    from trierarch.push.proxy import Proxy

_TELLING = ("mesh", "workloads", "services", "sidecars", "authentication", "selectors")
"""Sections that may decide anybody's view."""


class Movable(NamedTuple):
    """Those who may have moved: everybody, or the proxies of some namespaces."""

    everybody: bool
    namespaces: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return self.everybody or bool(self.namespaces)

    def has(self, proxy: Proxy) -> bool:
        """Whether a proxy may have moved."""
        return self.everybody or proxy.namespace in self.namespaces


EVERYBODY = Movable(everybody=True)


def select_movable(before: PushContext | None, after: PushContext) -> Movable:
    """Those who may have another view in the second snapshot: cheap, and nobody is missing."""
    if before is None or _tells_of_everybody(before, after):
        return EVERYBODY
    namespaces = frozenset(key.namespace for key in _changed_policies(before, after))
    return Movable(after.mesh.root_namespace in namespaces, namespaces)


def _tells_of_everybody(before: PushContext, after: PushContext) -> bool:
    if any(getattr(before, section) is not getattr(after, section) for section in _TELLING):
        return True
    old, new, services = before.endpoints, after.endpoints, after.services
    telling = chain(services.direct, services.external, services.unselected)  # the others tell nothing of proxies
    return old is not new and any(old.of(service) is not new.of(service) for service in telling)


def _changed_policies(before: PushContext, after: PushContext) -> Iterator[ObjectKey]:
    """Policies that came, went or say something else; among those of tokens, also whose keys are others."""
    yield from changed_keys(before.authorization.policies.table, after.authorization.policies.table)
    old, new = before.request_authentications, after.request_authentications
    yield from changed_keys(old.policies.table, new.policies.table)
    yield from changed_keys(old.rules, new.rules)
