"""Services of a snapshot from every registry, indexed by visibility (xds-server.md §8.2, networking.md §1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.push.model import Hostname, Service


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Services:
    """The section of the snapshot. `ordered`: all, oldest first. `by_host`: hostname -> namespace -> service."""

    ordered: tuple[Service, ...]
    by_id: Mapping[Hostname, Service]
    by_host: Mapping[str, Mapping[str, Service]]
    public: tuple[Service, ...]
    exported_to: Mapping[str, tuple[Service, ...]]

    def visible(self, namespace: str) -> tuple[Service, ...]:
        """All that a namespace sees: what is exported to it, then what is public (each oldest first)."""
        return (*self.exported_to.get(namespace, ()), *self.public)
