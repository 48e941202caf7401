"""Virtual services of a snapshot: names resolved, delegates merged, indexed by visibility (xds-server.md §8.3)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.findings import Remark
from trierarch.config.hosts import MESH_GATEWAY
from trierarch.push.delegation import merged_routes
from trierarch.push.reuse import Units, build_units, changed_keys
from trierarch.push.route_names import destinations, is_namespaced, with_full_names

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.config.virtual_service import Delegate, HttpRoute, VirtualService
    from trierarch.push.mesh import Mesh
    from trierarch.push.steps import Steps

EVERYBODY = "*"
NOBODY = "~"


class Semantics(Enum):
    """Whose API routes were written in: details of their meaning differ."""

    VIRTUAL_SERVICE = "VirtualService"
    GATEWAY_API = "Gateway API"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResolvedVirtualService:
    """A root virtual service ready for use.

    Every host, destination and gateway name is fully qualified in `spec`, delegates are merged in. `export_to` has "."
    replaced by the namespace and the mesh default filled in. `destinations`: the hosts that it sends to, with the ports
    (0: any) that it names there; if it is `namespaced`, that depends on the caller (see `destinations_for`). `remarks`:
    what its author should know.
    """

    source: ConfigObject[VirtualService]
    spec: VirtualService
    export_to: frozenset[str]
    semantics: Semantics = Semantics.VIRTUAL_SERVICE
    destinations: tuple[tuple[str, frozenset[int]], ...] = ()
    namespaced: bool = False
    remarks: tuple[Remark, ...] = ()

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return self.source.key.namespace

    @property
    def name(self) -> str:
        """The name of the object."""
        return self.source.key.name

    def destinations_for(self, namespace: str) -> tuple[tuple[str, frozenset[int]], ...]:
        """The hosts that callers of a namespace may be sent to, with the ports that it names there."""
        return destinations(self.spec, namespace) if self.namespaced else self.destinations


@dataclass(frozen=True, slots=True, eq=False)
class RoutingMemo:
    """What the next build reuses; `table` is what the units looked delegates up in."""

    units: Units[ObjectKey, ResolvedVirtualService] = field(default_factory=dict)
    table: Mapping[ObjectKey, ConfigObject[VirtualService]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VirtualServices:
    """The section of the snapshot.

    Per gateway name ("mesh" for sidecars): private to a namespace, exported to one, public; each in order of
    precedence: those that come from HTTPRoutes, then by age.
    """

    roots: tuple[ResolvedVirtualService, ...] = ()
    private: Mapping[tuple[str, str], tuple[ResolvedVirtualService, ...]] = field(default_factory=dict)
    exported: Mapping[tuple[str, str], tuple[ResolvedVirtualService, ...]] = field(default_factory=dict)
    public: Mapping[str, tuple[ResolvedVirtualService, ...]] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    memo: RoutingMemo = field(default_factory=RoutingMemo)

    def visible(self, namespace: str, gateway: str) -> tuple[ResolvedVirtualService, ...]:
        """All that a namespace sees for a gateway, in order of precedence: private, exported, public."""
        key = (namespace, gateway)
        return self.private.get(key, ()) + self.exported.get(key, ()) + self.public.get(gateway, ())


class RoutingInputs(NamedTuple):
    """All that the section may read. `derived`: virtual services that come from HTTPRoutes, in order of precedence."""

    mesh: Mesh
    table: Mapping[ObjectKey, ConfigObject[VirtualService]]
    derived: tuple[ResolvedVirtualService, ...] = ()


_RootInputs = tuple["ConfigObject[VirtualService]", "Mesh"]


def build_virtual_services(inputs: RoutingInputs, previous: VirtualServices) -> Steps[VirtualServices]:
    """All roots. One whose own object and delegates are the same keeps its identity."""
    memo, table = previous.memo, inputs.table

    def build(root: _RootInputs) -> ResolvedVirtualService:
        return _resolved(*root, table)

    roots = ((key, (source, inputs.mesh)) for key, source in table.items() if source.spec.hosts)
    changed = changed_keys(memo.table, table)
    units = yield from build_units(roots, build, memo.units, reads=_delegates_of, stale=frozenset(changed))
    yield
    ordered = sorted((unit.value for unit in units.values()), key=lambda each: each.source.age)
    yield
    return _indexed((*inputs.derived, *ordered), RoutingMemo(units, table))


def _delegates_of(inputs: _RootInputs) -> frozenset[Hashable]:
    source, _ = inputs
    return frozenset(_delegate_key(source.key, route.delegate) for route in source.spec.http if route.delegate)


def _delegate_key(root: ObjectKey, delegate: Delegate) -> ObjectKey:
    return root._replace(namespace=delegate.namespace or root.namespace, name=delegate.name)


def _resolved(
    source: ConfigObject[VirtualService], mesh: Mesh, table: Mapping[ObjectKey, ConfigObject[VirtualService]]
) -> ResolvedVirtualService:
    spec = with_full_names(source.spec, source.key.namespace, mesh.domain)
    remarks: list[Remark] = []
    if any(route.delegate for route in spec.http):
        http = _with_delegates(source, spec.http, mesh, table, remarks)
        spec = replace(spec, http=tuple(http))
    return ResolvedVirtualService(
        source=source,
        spec=spec,
        export_to=_export_to(source, mesh),
        destinations=destinations(spec, source.key.namespace),
        namespaced=is_namespaced(spec),
        remarks=tuple(remarks),
    )


def _with_delegates(
    source: ConfigObject[VirtualService],
    routes: tuple[HttpRoute, ...],
    mesh: Mesh,
    table: Mapping[ObjectKey, ConfigObject[VirtualService]],
    remarks: list[Remark],
) -> Iterator[HttpRoute]:
    """The root's routes with delegates in their place; a route whose delegate cannot be used is dropped."""
    for index, route in enumerate(routes):
        if route.delegate is None:
            yield route
            continue
        key = _delegate_key(source.key, route.delegate)
        delegate = table.get(key)
        if reason := _unusable(key, delegate, source.key.namespace, mesh):
            path = f"spec.http[{index}].delegate"
            remarks.append(Remark(origin=source.origin, key=source.key, path=path, reason=reason))
        elif delegate is not None:
            yield from merged_routes(route, with_full_names(delegate.spec, key.namespace, mesh.domain).http)


def _unusable(key: ObjectKey, delegate: ConfigObject[VirtualService] | None, root_namespace: str, mesh: Mesh) -> str:
    """Why a delegate cannot be used, or ""."""
    if delegate is None:
        return f"there is no {key}; the route is left out"
    if delegate.spec.hosts:
        return f"{key} has hosts of its own, so it cannot be a delegate; the route is left out"
    if not _export_to(delegate, mesh) & {EVERYBODY, root_namespace}:
        return f"{key} is not exported to namespace {root_namespace}; the route is left out"
    return ""


def _export_to(source: ConfigObject[VirtualService], mesh: Mesh) -> frozenset[str]:
    declared = source.spec.export_to or mesh.config.default_virtual_service_export_to
    return frozenset(source.key.namespace if each == "." else each for each in declared)


def _indexed(roots: tuple[ResolvedVirtualService, ...], memo: RoutingMemo) -> VirtualServices:
    """By gateway and visibility: "*" goes before "~", and that before namespaces (xds-server.md §8.3.5)."""
    private: dict[tuple[str, str], list[ResolvedVirtualService]] = {}
    exported: dict[tuple[str, str], list[ResolvedVirtualService]] = {}
    public: dict[str, list[ResolvedVirtualService]] = {}
    for root in roots:
        for gateway in dict.fromkeys(root.spec.gateways) or (MESH_GATEWAY,):
            if EVERYBODY in root.export_to:
                public.setdefault(gateway, []).append(root)
            elif NOBODY not in root.export_to:
                for namespace in root.export_to:
                    index = private if namespace == root.namespace else exported
                    index.setdefault((namespace, gateway), []).append(root)
    return VirtualServices(
        roots=roots,
        private={key: tuple(each) for key, each in private.items()},
        exported={key: tuple(each) for key, each in exported.items()},
        public={key: tuple(each) for key, each in public.items()},
        remarks=tuple(remark for root in roots for remark in root.remarks),
        memo=memo,
    )
