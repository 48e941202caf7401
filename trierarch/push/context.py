"""`PushContext`: the snapshot, an immutable index of the whole mesh, and its build by ordered processors.

A processor owns one section and builds it from named inputs: tables of the `ConfigView` and sections before it. A
section whose inputs are identical (`is`) to the previous build's is reused whole; inside a section a unit (a service,
an endpoint group, a rule) whose inputs are identical is reused. A new API family is a new processor and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trierarch.config.store import ConfigView
from trierarch.push.authentication import Authentication
from trierarch.push.authorization import Authorization
from trierarch.push.dead_ends import DeadEnds
from trierarch.push.endpoints import Endpoints
from trierarch.push.mesh import ContextSettings, Mesh
from trierarch.push.mesh_routes import MeshRoutes
from trierarch.push.network_gateways import NetworkGateways
from trierarch.push.request_authentication import RequestAuthentications
from trierarch.push.routing import VirtualServices
from trierarch.push.selectors import Selectors
from trierarch.push.services import Services
from trierarch.push.sidecar_scope import Sidecars
from trierarch.push.traffic import DestinationRules
from trierarch.push.workloads import Workloads

if TYPE_CHECKING:
    from trierarch.config.findings import Finding
    from trierarch.push.request import ConfigKey


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PushContext:
    """One snapshot. `number` counts the snapshots of this process, for logs only: versions are digests.

    `changed`: the push keys in which this snapshot differs from the one that it was built after. `PushContext()` is
    the snapshot of an empty mesh.
    """

    number: int = 0
    view: ConfigView = field(default_factory=ConfigView)
    settings: ContextSettings = field(default_factory=ContextSettings)
    mesh: Mesh = field(default_factory=Mesh)
    workloads: Workloads = field(default_factory=Workloads)
    services: Services = field(default_factory=Services)
    endpoints: Endpoints = field(default_factory=Endpoints)
    network_gateways: NetworkGateways = field(default_factory=NetworkGateways)
    mesh_routes: MeshRoutes = field(default_factory=MeshRoutes)
    virtual_services: VirtualServices = field(default_factory=VirtualServices)
    destination_rules: DestinationRules = field(default_factory=DestinationRules)
    sidecars: Sidecars = field(default_factory=Sidecars)
    authentication: Authentication = field(default_factory=Authentication)
    authorization: Authorization = field(default_factory=Authorization)
    request_authentications: RequestAuthentications = field(default_factory=RequestAuthentications)
    selectors: Selectors = field(default_factory=Selectors)
    dead_ends: DeadEnds = field(default_factory=DeadEnds)
    changed: frozenset[ConfigKey] = frozenset()
    findings: tuple[Finding, ...] = ()
