"""What a proxy may call: the Sidecar that applies to it, resolved against a snapshot (xds-server.md §8.5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.config.sidecar import Sidecar
    from trierarch.push.model import Service, ServicePort
    from trierarch.push.request import ConfigKey
    from trierarch.push.routing import ResolvedVirtualService
    from trierarch.push.traffic import MergedRule
    from trierarch.push.view import ScopeKey


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EgressListener:
    """One egress listener of a scope. `port` None: the catch-all, all ports of its services.

    `services` are those that its hosts import, in service order, trimmed to `port` if there is one;
    `virtual_services` those whose hosts overlap them, in order of precedence. `binds`: it binds a real port itself
    (captureMode NONE or a Unix path; mode NONE of the proxy is the proxy's matter).
    """

    port: ServicePort | None
    bind: str
    binds: bool
    services: tuple[Service, ...]
    virtual_services: tuple[ResolvedVirtualService, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SidecarScope:
    """A Sidecar's (or the default's) reach in one snapshot.

    `services`: everything that gets clusters, in service order: imports and, besides, destinations of imported virtual
    services. `rules`: hostname -> the destination rules that may apply to that service, for `traffic.select_rule`.
    `registry_only`: unknown destinations are refused. `depends_on`: the keys whose change may change anything here.
    """

    key: ScopeKey
    sidecar: ConfigObject[Sidecar] | None
    egress: tuple[EgressListener, ...]
    services: tuple[Service, ...]
    by_host: Mapping[str, Service]
    rules: Mapping[str, tuple[MergedRule, ...]]
    registry_only: bool
    egress_proxy: tuple[str, str, int] | None = None
    depends_on: frozenset[ConfigKey] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sidecars:
    """The section of the snapshot: Sidecars by namespace, those with a selector first, then by age."""

    by_namespace: Mapping[str, tuple[ConfigObject[Sidecar], ...]] = field(default_factory=dict)
    root_default: ConfigObject[Sidecar] | None = None

    def find(self, key: ObjectKey | None) -> ConfigObject[Sidecar] | None:
        """The Sidecar of that key, or None."""
        if key is None:
            return None
        everywhere = (*self.by_namespace.get(key.namespace, ()),)
        return next((sidecar for sidecar in everywhere if sidecar.key == key), None)
