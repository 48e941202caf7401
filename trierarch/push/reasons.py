"""The reasons that changes are counted by in metrics and logs (xds-server.md §1.3, §2.2)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trierarch.config.objects import ObjectKey

BY_KIND: Mapping[str, str] = {
    "Service": "service",
    "ServiceEntry": "service",
    "Node": "service",
    "Endpoints": "endpoint",
    "EndpointSlice": "endpoint",
    "Pod": "endpoint",
    "WorkloadEntry": "endpoint",
    "Namespace": "namespace",
    "Secret": "secret",
    "MeshConfig": "global",
    "MeshNetworks": "networks",
    "ResolvedName": "networks",
}
"""Kind to reason; what is not here is "config"."""

RESYNC = "global"
"""The reason of sending everything again."""

_FORCED = frozenset({"MeshConfig", "MeshNetworks"})
_ENDPOINTS = frozenset({"Endpoints", "EndpointSlice"})


def count_reasons(keys: Iterable[ObjectKey]) -> Mapping[str, int]:
    """How many of the changed objects count under each reason."""
    return dict(Counter(BY_KIND.get(key.kind, "config") for key in keys))


def is_forced(keys: Iterable[ObjectKey]) -> bool:
    """Whether the change of these objects concerns every proxy: the mesh's own settings do."""
    return any(key.kind in _FORCED for key in keys)


def is_endpoints_only(keys: frozenset[ObjectKey]) -> bool:
    """Whether nothing but endpoints changed. False if nothing changed at all."""
    return bool(keys) and all(key.kind in _ENDPOINTS for key in keys)
