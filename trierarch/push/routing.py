"""Virtual services of a snapshot: names resolved, delegates merged, indexed by visibility (xds-server.md §8.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.config.objects import ConfigObject
    from trierarch.config.virtual_service import VirtualService


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResolvedVirtualService:
    """A root virtual service ready for use.

    Every host, destination and gateway name is fully qualified in `spec`, delegates are merged in. `export_to` has "."
    replaced by the namespace and the mesh default filled in.
    """

    source: ConfigObject[VirtualService]
    spec: VirtualService
    export_to: frozenset[str]

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return self.source.key.namespace

    @property
    def name(self) -> str:
        """The name of the object."""
        return self.source.key.name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VirtualServices:
    """The section of the snapshot.

    Per gateway name ("mesh" for sidecars): private to a namespace, exported to one, public; each in order of age.
    """

    roots: tuple[ResolvedVirtualService, ...]
    private: Mapping[tuple[str, str], tuple[ResolvedVirtualService, ...]]
    exported: Mapping[tuple[str, str], tuple[ResolvedVirtualService, ...]]
    public: Mapping[str, tuple[ResolvedVirtualService, ...]]

    def visible(self, namespace: str, gateway: str) -> tuple[ResolvedVirtualService, ...]:
        """All that a namespace sees for a gateway, in order of precedence: private, exported, public."""
        key = (namespace, gateway)
        return (*self.private.get(key, ()), *self.exported.get(key, ()), *self.public.get(gateway, ()))
