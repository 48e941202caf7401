"""Endpoints of a snapshot by service (networking.md §1.4, §1.6; xds-server.md §9).

The section is a unit for each service. `endpoint_sources.py` knows what lists endpoints and what of the workloads is
read meanwhile; here a changed workload makes stale just those services that read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config import labels as names
from trierarch.push.endpoint_sources import EndpointSources, endpoints_of, entries_in, pods_in, reads_of
from trierarch.push.mesh import Mesh
from trierarch.push.model import Hostname
from trierarch.push.registries import service_hostname
from trierarch.push.reuse import Groups, Units, build_units, changed_keys, kept, readers, regroup, same_members
from trierarch.push.services import Services
from trierarch.push.workloads import Workloads

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

    from trierarch.config.kubernetes import Endpoints as EndpointsSpec
    from trierarch.config.kubernetes import EndpointSlice
    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.push.model import Endpoint
    from trierarch.push.steps import Steps

_Named = tuple[str, str]
"""Namespace and name of a Kubernetes Service."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServiceEndpoints:
    """All endpoints of one service, of all clusters, in a stable order; unhealthy ones too.

    `service_accounts`: sorted SPIFFE identities of the endpoints. A new object exactly when something in it changed.
    """

    endpoints: tuple[Endpoint, ...]
    service_accounts: tuple[str, ...] = ()


NO_ENDPOINTS = ServiceEndpoints(endpoints=())


class EndpointsInputs(NamedTuple):
    """All that the section may read."""

    mesh: Mesh
    services: Services
    workloads: Workloads
    slices: Mapping[ObjectKey, ConfigObject[EndpointSlice]]
    legacy: Mapping[ObjectKey, ConfigObject[EndpointsSpec]]


@dataclass(frozen=True, slots=True, eq=False)
class EndpointsMemo:
    """What the next build reuses, and the inputs that it was built from."""

    inputs: EndpointsInputs
    slices: Groups[_Named, ConfigObject[EndpointSlice]] = field(default_factory=lambda: Groups())
    legacy: Groups[_Named, ConfigObject[EndpointsSpec]] = field(default_factory=lambda: Groups())
    units: Units[Hostname, ServiceEndpoints] = field(default_factory=dict)


def _no_memo() -> EndpointsMemo:
    return EndpointsMemo(EndpointsInputs(Mesh(), Services(), Workloads(), {}, {}))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Endpoints:
    """The section of the snapshot.

    `listening`: addresses of endpoints that callers reach directly (headless services). `external_at`: address ->
    services that ServiceEntries define and that have an endpoint there.
    """

    by_service: Mapping[Hostname, ServiceEndpoints] = field(default_factory=dict)
    listening: frozenset[str] = frozenset()
    external_at: Mapping[str, tuple[Hostname, ...]] = field(default_factory=dict)
    memo: EndpointsMemo = field(default_factory=_no_memo)

    def of(self, service: Hostname) -> ServiceEndpoints:
        """The endpoints of a service; empty if it has none."""
        return self.by_service.get(service, NO_ENDPOINTS)


def build_endpoints(inputs: EndpointsInputs, previous: Endpoints) -> Steps[Endpoints]:
    """The endpoints of every service that has any. A change of endpoints alone costs only the services concerned."""
    memo, workloads, services = previous.memo, inputs.workloads, inputs.services
    slices = regroup(inputs.slices, _owner_of_slice, memo.slices)
    yield
    legacy = regroup(inputs.legacy, _owner_of_endpoints, memo.legacy)
    now = EndpointsMemo(inputs, slices, legacy)
    stale = _stale(memo.inputs.workloads, workloads)
    touched = _touched(memo, now, stale)
    yield

    def build(sources: EndpointSources) -> ServiceEndpoints:
        return _service_endpoints(tuple(endpoints_of(sources, workloads)))

    wanted = _wanted(services.definitions if touched is None else touched, now)
    fresh = yield from build_units(wanted, build, memo.units, reads=reads_of, stale=stale, same=_say_the_same)
    units = fresh if touched is None else {**memo.units, **fresh}
    by_service = kept(previous.by_service, {name: each.value for name, each in units.items() if each.value.endpoints})
    return Endpoints(
        by_service=by_service,
        listening=frozenset(_addresses(services.direct, by_service)),
        external_at=_external_at(services.external, by_service),
        memo=replace(now, units=units),
    )


def _touched(memo: EndpointsMemo, now: EndpointsMemo, stale: frozenset[Hashable]) -> frozenset[Hostname] | None:
    """The services whose lists or workloads changed; None if anything else did, so that all have to be asked."""
    old, new = memo.inputs, now.inputs
    same = old.mesh is new.mesh and old.services is new.services
    if not same or old.workloads.networks is not new.workloads.networks:
        return None
    lists = changed_keys(memo.slices.grouped, now.slices.grouped)
    lists |= changed_keys(memo.legacy.grouped, now.legacy.grouped)
    domain, known = new.mesh.domain, new.services.definitions
    listed = (Hostname(namespace, service_hostname(name, namespace, domain)) for namespace, name in lists)
    return frozenset((*(service for service in listed if service in known), *readers(memo.units, stale)))


def _owner_of_slice(slice_: ConfigObject[EndpointSlice]) -> tuple[_Named, ...]:
    name = slice_.labels.get(names.SERVICE_NAME)
    return ((slice_.key.namespace, name),) if name else ()


def _owner_of_endpoints(endpoints: ConfigObject[EndpointsSpec]) -> tuple[_Named]:
    return ((endpoints.key.namespace, endpoints.key.name),)


def _wanted(services: Iterable[Hostname], now: EndpointsMemo) -> Iterator[tuple[Hostname, EndpointSources]]:
    """Services with what lists their endpoints. May run over all of them: no work here but look-ups."""
    mesh, networks, nothing = now.inputs.mesh, now.inputs.workloads.networks, ()
    definitions, slices, legacy = now.inputs.services.definitions, now.slices.grouped, now.legacy.grouped
    for service in services:
        own = definitions[service]
        lists = (slices.get(own.name, nothing), legacy.get(own.name, nothing))
        yield service, EndpointSources(service, own, *lists, mesh, networks)


def _stale(old: Workloads, new: Workloads) -> frozenset[Hashable]:
    """The workloads that are not what they were, under every name by which they may have been read."""
    pods = (pods_in(namespace) for namespace in changed_keys(old.pods_in.grouped, new.pods_in.grouped))
    entries = (entries_in(namespace) for namespace in changed_keys(old.entries_in.grouped, new.entries_in.grouped))
    return frozenset(
        (*changed_keys(old.pods, new.pods), *changed_keys(old.pods_by_ip, new.pods_by_ip), *pods, *entries)
    )


def _service_endpoints(endpoints: tuple[Endpoint, ...]) -> ServiceEndpoints:
    accounts = {endpoint.service_account for endpoint in endpoints} - {""}
    return ServiceEndpoints(endpoints=endpoints, service_accounts=tuple(sorted(accounts)))


def _say_the_same(one: ServiceEndpoints, other: ServiceEndpoints) -> bool:
    return same_members(one.endpoints, other.endpoints)


def _addresses(services: Iterable[Hostname], endpoints: Mapping[Hostname, ServiceEndpoints]) -> Iterator[str]:
    for service in services:
        for endpoint in endpoints.get(service, NO_ENDPOINTS).endpoints:
            yield from endpoint.addresses


def _external_at(
    services: Iterable[Hostname], endpoints: Mapping[Hostname, ServiceEndpoints]
) -> dict[str, tuple[Hostname, ...]]:
    found: dict[str, dict[Hostname, None]] = {}
    for service in sorted(services):
        for address in _addresses((service,), endpoints):
            found.setdefault(address, {})[service] = None
    return {address: tuple(names) for address, names in found.items()}
