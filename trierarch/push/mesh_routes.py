"""HTTPRoutes whose parents are services of the mesh, as virtual services of these hosts (networking.md §5.11).

The routes of one namespace for one host (and port) are one virtual service. Those of the host's own namespace are for
all clients; those of another namespace are for its own clients only. Routes of gateways are not looked at here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.findings import Remark
from trierarch.config.hosts import MESH_GATEWAY
from trierarch.config.objects import ConfigObject, ObjectKey
from trierarch.config.virtual_service import VirtualService
from trierarch.push.http_route_rules import ISTIO_NETWORKING, Translated, Unsupported, translate_rules
from trierarch.push.model import Hostname
from trierarch.push.registries import service_hostname
from trierarch.push.reuse import Units, build_units
from trierarch.push.route_names import destinations
from trierarch.push.routing import EVERYBODY, ResolvedVirtualService, Semantics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trierarch.config.http_route import HttpRouteSpec, ParentReference
    from trierarch.config.service_entry import ServiceEntry
    from trierarch.config.virtual_service import HttpRoute
    from trierarch.push.mesh import Mesh
    from trierarch.push.services import Services
    from trierarch.push.steps import Steps


class MeshTarget(NamedTuple):
    """What routes of a namespace are for: a port (0: all) of a host. `parent` is the host's own namespace."""

    namespace: str
    parent: str
    host: str
    port: int

    @property
    def name(self) -> str:
        """The name of the virtual service."""
        return "~".join(filter(None, (self.namespace, str(self.port or ""), self.host)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeshRoutes:
    """The section of the snapshot: virtual services for sidecars, the oldest first."""

    derived: tuple[ResolvedVirtualService, ...] = ()
    memo: Units[MeshTarget, ResolvedVirtualService] = field(default_factory=dict)


class MeshRoutesInputs(NamedTuple):
    """All that the section may read."""

    mesh: Mesh
    services: Services
    routes: Mapping[ObjectKey, ConfigObject[HttpRouteSpec]]
    entries: Mapping[ObjectKey, ConfigObject[ServiceEntry]]


_Sources = tuple["ConfigObject[HttpRouteSpec]", ...]


def build_mesh_routes(inputs: MeshRoutesInputs, previous: MeshRoutes) -> Steps[MeshRoutes]:
    """The virtual services of all targets. One whose routes are the same is the same object as before."""
    targets: dict[MeshTarget, _Sources] = {}
    for route in sorted(inputs.routes.values(), key=lambda route: route.age):
        for target in dict.fromkeys(_targets(route, inputs)):
            targets[target] = (*targets.get(target, ()), route)
    yield
    wanted = ((target, (target, sources, inputs.mesh)) for target, sources in targets.items())
    units = yield from build_units(wanted, _build, previous.memo)
    derived = tuple(sorted((unit.value for unit in units.values()), key=lambda each: each.source.age))
    return previous if derived == previous.derived else MeshRoutes(derived=derived, memo=units)


def _targets(route: ConfigObject[HttpRouteSpec], inputs: MeshRoutesInputs) -> Iterator[MeshTarget]:
    """What a route is for. A parent that does not exist has no clients."""
    for parent in route.spec.parent_refs:
        for host in _hosts(parent, route.key, inputs):
            if host in inputs.services.by_id:
                yield MeshTarget(route.key.namespace, host.namespace, host.host, parent.port)


def _hosts(parent: ParentReference, route: ObjectKey, inputs: MeshRoutesInputs) -> Iterator[Hostname]:
    namespace = parent.namespace or route.namespace
    match parent.group, parent.kind:
        case "", "Service":
            yield Hostname(namespace, service_hostname(parent.name, namespace, inputs.mesh.domain))
        case group, "ServiceEntry" if group == ISTIO_NETWORKING:
            entry = inputs.entries.get(ObjectKey(route.cluster, "ServiceEntry", namespace, parent.name))
            yield from (Hostname(namespace, host) for host in (entry.spec.hosts if entry else ()))


def _build(inputs: tuple[MeshTarget, _Sources, Mesh]) -> ResolvedVirtualService:
    target, sources, mesh = inputs
    routes, remarks = _translated(sources, target.port, mesh)
    spec = VirtualService(hosts=(target.host,), gateways=(MESH_GATEWAY,), http=routes)
    oldest = sources[0]
    key = ObjectKey(oldest.key.cluster, "VirtualService", target.namespace, target.name)
    digest = b"".join(source.digest for source in sources)
    return ResolvedVirtualService(
        source=ConfigObject(key=key, created=oldest.created, spec=spec, digest=digest, origin=oldest.origin),
        spec=spec,
        export_to=_export_to(target, mesh),
        semantics=Semantics.GATEWAY_API,
        destinations=destinations(spec, target.namespace),
        remarks=remarks,
    )


def _export_to(target: MeshTarget, mesh: Mesh) -> frozenset[str]:
    if target.namespace != target.parent:
        return frozenset({target.namespace})
    declared = mesh.config.default_virtual_service_export_to or (EVERYBODY,)
    return frozenset(target.namespace if each == "." else each for each in declared)


def _translated(sources: _Sources, port: int, mesh: Mesh) -> tuple[tuple[HttpRoute, ...], tuple[Remark, ...]]:
    """The routes of all sources, the more specific first; and what is wrong with those that are left out."""
    translated: list[Translated] = []
    remarks: list[Remark] = []
    for source in sources:
        try:
            translated += translate_rules(source, port, mesh.domain)
        except Unsupported as fault:
            reason = f"{fault.reason}; the HTTPRoute is left out"
            remarks.append(Remark(origin=source.origin, key=source.key, path=fault.path, reason=reason))
    in_order = sorted(translated, key=lambda each: each.precedence)
    return tuple(each.route for each in in_order), tuple(remarks)
