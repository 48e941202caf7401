"""Who may have another view in a snapshot than in the one before, and so has to be asked for it again.

A view follows from sections of the snapshot. Those of policies that are attached tell which namespaces changed, and so
do Kubernetes Services that select their workloads; of any other it is not worth the while to tell.
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
    from trierarch.push.services import Services
    from trierarch.push.workloads import Workloads

_TELLING = ("mesh", "workloads", "sidecars", "authentication", "selectors")
"""Sections that may decide anybody's view."""

_KINDS_OF_SERVICES = ("direct", "external", "unselected")
"""Services whose endpoints tell who serves them: anybody whose address is among those."""


class Movable(NamedTuple):
    """Those who may have moved: everybody, or the proxies of some namespaces."""

    everybody: bool
    namespaces: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return self.everybody or bool(self.namespaces)

    def has(self, proxy: Proxy) -> bool:
        """Whether a proxy may have moved. Its Pod may be in another namespace than it says to be in itself."""
        own = (proxy.namespace, proxy.id.rpartition(".")[2])
        return self.everybody or not self.namespaces.isdisjoint(own)


EVERYBODY = Movable(everybody=True)


def select_movable(before: PushContext | None, after: PushContext) -> Movable:
    """Those who may have another view in the second snapshot: cheap, and nobody is missing."""
    if before is None or _tells_of_everybody(before, after):
        return EVERYBODY
    policies = frozenset(key.namespace for key in _changed_policies(before, after))
    services = frozenset(_namespaces_of_changed_services(before.services, after.services))
    return Movable(after.mesh.root_namespace in policies, policies | services)


def _tells_of_everybody(before: PushContext, after: PushContext) -> bool:
    if any(getattr(before, section) is not getattr(after, section) for section in _TELLING):
        return True
    if _services_tell_of_everybody(before.services, after.services, after.workloads):
        return True
    old, new = before.endpoints, after.endpoints
    telling = chain.from_iterable(getattr(after.services, kind) for kind in _KINDS_OF_SERVICES)
    return old is not new and any(old.of(service) is not new.of(service) for service in telling)


def _services_tell_of_everybody(old: Services, new: Services, workloads: Workloads) -> bool:
    """Whether a change of services may move proxies of other namespaces: those at an address that a service lists, and
    those whose workload entry is in another namespace.
    """
    if old is new:
        return False
    return (
        bool(workloads.entries)
        or any(getattr(old, kind) != getattr(new, kind) for kind in _KINDS_OF_SERVICES)
        or any(old.by_id.get(host) is not new.by_id.get(host) for host in new.external)
    )


def _namespaces_of_changed_services(old: Services, new: Services) -> Iterator[str]:
    if old is new:
        return
    for host in old.definitions.keys() | new.definitions.keys():
        if old.definitions.get(host) != new.definitions.get(host):
            yield host.namespace
    for namespace, services in new.kubernetes_in.items():
        if old.kubernetes_in.get(namespace) != services:
            yield namespace


def _changed_policies(before: PushContext, after: PushContext) -> Iterator[ObjectKey]:
    """Policies that came, went or say something else; among those of tokens, also whose keys are others."""
    yield from changed_keys(before.authorization.policies.table, after.authorization.policies.table)
    old, new = before.request_authentications, after.request_authentications
    yield from changed_keys(old.policies.table, new.policies.table)
    yield from changed_keys(old.rules, new.rules)
