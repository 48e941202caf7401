"""Endpoints of a snapshot by service (networking.md §1.4, §1.6; xds-server.md §9).

The section is a unit for each service. `endpoint_sources.py` knows what lists endpoints and what of the workloads is
read meanwhile; here a changed workload makes stale just those services that read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config import labels as names
from trierarch.push.endpoint_sources import EndpointSources, endpoints_of, entries_in, pods_in, reads_of
from trierarch.push.reuse import Groups, Units, build_units, changed_keys, kept, regroup, same_members
from trierarch.push.workloads import Workloads

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

    from trierarch.config.kubernetes import Endpoints as EndpointsSpec
    from trierarch.config.kubernetes import EndpointSlice
    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Endpoint, Hostname
    from trierarch.push.services import Services
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


@dataclass(frozen=True, slots=True, eq=False)
class EndpointsMemo:
    """What the next build reuses; `workloads` are those that the units read."""

    slices: Groups[_Named, ConfigObject[EndpointSlice]] = field(default_factory=Groups)
    legacy: Groups[_Named, ConfigObject[EndpointsSpec]] = field(default_factory=Groups)
    units: Units[Hostname, ServiceEndpoints] = field(default_factory=dict)
    workloads: Workloads = field(default_factory=Workloads)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Endpoints:
    """The section of the snapshot.

    `listening`: addresses of endpoints that callers reach directly (headless services). `external_at`: address ->
    services that ServiceEntries define and that have an endpoint there.
    """

    by_service: Mapping[Hostname, ServiceEndpoints] = field(default_factory=dict)
    listening: frozenset[str] = frozenset()
    external_at: Mapping[str, tuple[Hostname, ...]] = field(default_factory=dict)
    memo: EndpointsMemo = field(default_factory=EndpointsMemo)

    def of(self, service: Hostname) -> ServiceEndpoints:
        """The endpoints of a service; empty if it has none."""
        return self.by_service.get(service, NO_ENDPOINTS)


class EndpointsInputs(NamedTuple):
    """All that the section may read."""

    mesh: Mesh
    services: Services
    workloads: Workloads
    slices: Mapping[ObjectKey, ConfigObject[EndpointSlice]]
    legacy: Mapping[ObjectKey, ConfigObject[EndpointsSpec]]


def build_endpoints(inputs: EndpointsInputs, previous: Endpoints) -> Steps[Endpoints]:
    """The endpoints of every service that has any."""
    memo, workloads = previous.memo, inputs.workloads
    slices = regroup(inputs.slices, _owner_of_slice, memo.slices)
    yield
    legacy = regroup(inputs.legacy, _owner_of_endpoints, memo.legacy)
    stale = _stale(memo.workloads, workloads)
    yield

    def build(sources: EndpointSources) -> ServiceEndpoints:
        return _service_endpoints(tuple(endpoints_of(sources, workloads)))

    units = yield from build_units(
        _wanted(inputs, slices.grouped, legacy.grouped),
        build,
        memo.units,
        reads=reads_of,
        stale=stale,
        same=_say_the_same,
    )
    by_service = {service: unit.value for service, unit in units.items() if unit.value.endpoints}
    return Endpoints(
        by_service=kept(previous.by_service, by_service),
        listening=frozenset(_addresses(inputs.services.direct, by_service)),
        external_at=_external_at(inputs.services.external, by_service),
        memo=EndpointsMemo(slices, legacy, units, workloads),
    )


def _owner_of_slice(slice_: ConfigObject[EndpointSlice]) -> tuple[_Named, ...]:
    name = slice_.labels.get(names.SERVICE_NAME)
    return ((slice_.key.namespace, name),) if name else ()


def _owner_of_endpoints(endpoints: ConfigObject[EndpointsSpec]) -> tuple[_Named]:
    return ((endpoints.key.namespace, endpoints.key.name),)


def _wanted(
    inputs: EndpointsInputs,
    slices: Mapping[_Named, tuple[ConfigObject[EndpointSlice], ...]],
    legacy: Mapping[_Named, tuple[ConfigObject[EndpointsSpec], ...]],
) -> Iterator[tuple[Hostname, EndpointSources]]:
    """Each service with what lists its endpoints. Runs over all services for any change: no work here but look-ups."""
    mesh, networks, nothing = inputs.mesh, inputs.workloads.networks, ()
    for service, definitions in inputs.services.definitions.items():
        name = definitions.name
        yield (
            service,
            EndpointSources(service, definitions, slices.get(name, nothing), legacy.get(name, nothing), mesh, networks),
        )


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
    for service in services:
        for address in _addresses((service,), endpoints):
            found.setdefault(address, {})[service] = None
    return {address: tuple(names) for address, names in found.items()}
