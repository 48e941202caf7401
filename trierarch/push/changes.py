"""In which push keys two snapshots differ (xds-server.md §1.1, §2.2).

Keys come from comparing sections, not from the objects that changed: a Pod, a Node or a delegate shows up only through
what it changes, and an object that is rewritten without effect does not show up at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.push.model import Resolution
from trierarch.push.request import ConfigKey
from trierarch.push.reuse import changed_keys
from trierarch.push.sidecar_scope import config_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.push.context import PushContext
    from trierarch.push.model import Hostname, Service
    from trierarch.push.steps import Steps

MESH_KEY = ConfigKey("MeshConfig", "", "mesh")
"""Stands for any change of mesh-wide settings: everything is pushed."""

GATEWAYS_KEY = ConfigKey("NetworkGateways", "", "")
"""Stands for any change of what leads from one network to another: it may show in any load assignment."""

_BY_EDS = frozenset({Resolution.CLIENT_SIDE})
"""Only here are endpoints delivered apart; elsewhere they are part of clusters, listeners or the name table."""


def changed_config_keys(old: PushContext, new: PushContext) -> Steps[frozenset[ConfigKey]]:
    """The keys of everything that is new, gone or another object."""
    keys: set[ConfigKey] = {MESH_KEY} if old.mesh is not new.mesh else set()
    for compare in (_service_changes, _endpoint_changes, _routing_changes, _object_changes):
        keys.update(compare(old, new))
        yield
    return frozenset(keys)


def _object_changes(old: PushContext, new: PushContext) -> Iterator[ConfigKey]:
    """Kinds that show as they are."""
    if old.network_gateways.known != new.network_gateways.known:
        yield GATEWAYS_KEY
    yield from map(config_key, changed_keys(old.destination_rules.sources, new.destination_rules.sources))
    yield from map(config_key, changed_keys(old.sidecars.sources, new.sidecars.sources))
    yield from map(config_key, changed_keys(old.authentication.sources, new.authentication.sources))
    yield from map(config_key, changed_keys(old.authorization.policies.table, new.authorization.policies.table))
    yield from map(config_key, changed_keys(old.request_authentications.rules, new.request_authentications.rules))


def _service_changes(old: PushContext, new: PushContext) -> Iterator[ConfigKey]:
    """Services as objects, for of one name there may be several."""
    if old.services is not new.services:
        for service in set(old.services.ordered) ^ set(new.services.ordered):
            yield _service_key(service.id)


def _service_key(service: Hostname) -> ConfigKey:
    return ConfigKey("ServiceEntry", service.namespace, service.host)


def _endpoint_changes(old: PushContext, new: PushContext) -> Iterator[ConfigKey]:
    """Changed endpoints; of services whose endpoints stand in other resources too, the service itself."""
    for service in changed_keys(old.endpoints.by_service, new.endpoints.by_service):
        yield ConfigKey("Endpoints", service.namespace, service.host)
        before = old.endpoints.of(service)
        after = new.endpoints.of(service)
        if before.service_accounts != after.service_accounts or not _by_eds_alone(new, service):
            yield _service_key(service)


def _by_eds_alone(context: PushContext, service: Hostname) -> bool:
    definition: Service | None = context.services.by_id.get(service)
    return definition is not None and definition.resolution in _BY_EDS


def _routing_changes(old: PushContext, new: PushContext) -> Iterator[ConfigKey]:
    """Roots only: a changed delegate makes new roots."""
    if old.virtual_services is new.virtual_services:
        return
    for root in set(old.virtual_services.roots) ^ set(new.virtual_services.roots):
        yield config_key(root.source.key)
