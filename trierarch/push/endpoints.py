"""Endpoints of a snapshot by service (networking.md §1.4, §1.6; xds-server.md §9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.push.model import Endpoint, Hostname


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServiceEndpoints:
    """All endpoints of one service, of all clusters, in a stable order; unhealthy ones too.

    `service_accounts`: sorted SPIFFE identities of the endpoints. A new object exactly when something in it changed.
    """

    endpoints: tuple[Endpoint, ...]
    service_accounts: tuple[str, ...] = ()


NO_ENDPOINTS = ServiceEndpoints(endpoints=())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Endpoints:
    """The section of the snapshot."""

    by_service: Mapping[Hostname, ServiceEndpoints]

    def of(self, service: Hostname) -> ServiceEndpoints:
        """The endpoints of a service; empty if it has none."""
        return self.by_service.get(service, NO_ENDPOINTS)
