"""`PushContext`: the snapshot, an immutable index of the whole mesh, and its build by ordered processors.

A processor owns one section and builds it from named inputs: tables of the `ConfigView` and sections before it. A
section whose inputs are identical (`is`) to the previous build's is reused whole; inside a section a unit (a service,
an endpoint group, a rule) whose inputs are identical is reused. A new API family is a new processor and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trierarch.config.findings import Finding
    from trierarch.config.store import ConfigView
    from trierarch.push.endpoints import Endpoints
    from trierarch.push.mesh import Mesh
    from trierarch.push.request import ConfigKey
    from trierarch.push.routing import VirtualServices
    from trierarch.push.selectors import Selectors
    from trierarch.push.services import Services
    from trierarch.push.sidecar_scope import Sidecars
    from trierarch.push.traffic import DestinationRules
    from trierarch.push.workloads import Workloads


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PushContext:
    """One snapshot. `number` counts the snapshots of this process, for logs only: versions are digests.

    `changed`: the push keys in which this snapshot differs from the one that it was built after.
    """

    number: int
    view: ConfigView
    mesh: Mesh
    workloads: Workloads
    services: Services
    endpoints: Endpoints
    virtual_services: VirtualServices
    destination_rules: DestinationRules
    sidecars: Sidecars
    selectors: Selectors
    changed: frozenset[ConfigKey] = frozenset()
    findings: tuple[Finding, ...] = ()
