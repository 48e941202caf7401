"""The name table (NDS): from it the DNS proxy beside an Envoy answers (networking.md §7.2, xds-server.md §9.6).

One resource with an empty name: a map from host names to addresses. Each entry is a piece of its own, encoded once for
all tables that have it. How the table reaches a client is the protocol's matter; any client that asks gets one.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.istio.networking.nds.v1 import NameTable, NameTableNameInfo
from trierarch.envoy.addresses import is_ip
from trierarch.envoy.outbound_view import served_families, service_addresses
from trierarch.envoy.units import Piece, Splice
from trierarch.envoy.well_known_types import encode
from trierarch.push.model import UNSPECIFIED_ADDRESS, Health, Registry, Resolution

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trierarch.envoy.units import Plan
    from trierarch.push.context import PushContext
    from trierarch.push.model import Endpoint, Service
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import OutboundKey

TABLE_NAME = ""
"""The one resource of the type has no name."""

SERVICES_PER_STEP = 200
"""After so many services the event loop gets its turn: about a millisecond of work."""


class NameEntry(NamedTuple):
    """What is known of a host name. `short_name` and `namespace` are of Kubernetes' names only, else ""."""

    host: str
    addresses: tuple[str, ...]
    registry: Registry
    short_name: str = ""
    namespace: str = ""


def plan_name_table(key: OutboundKey, scope: SidecarScope, context: PushContext) -> Plan:
    """The table of all services in reach, by host name."""
    entries: dict[str, NameEntry] = {}
    for count, service in enumerate(_services(scope), start=1):
        for entry in _entries(key, context, service):
            present = entries.get(entry.host)
            entries[entry.host] = entry if present is None else _joined(present, entry)
        if count % SERVICES_PER_STEP == 0:
            yield None
    yield Splice(TABLE_NAME, tuple(Piece(_build_entry, entries[host]) for host in sorted(entries)))


def _build_entry(entry: NameEntry) -> bytes:
    info = NameTableNameInfo(
        ips=list(entry.addresses), registry=entry.registry, shortname=entry.short_name, namespace=entry.namespace
    )
    return encode(NameTable(table={entry.host: info}))


def _services(scope: SidecarScope) -> Iterable[Service]:
    """All in reach. Of a ServiceEntry with several addresses each makes a service, of which clusters take but one."""
    imported = chain.from_iterable(egress.services for egress in scope.egress)
    return dict.fromkeys(chain(imported, scope.services))


def _joined(present: NameEntry, added: NameEntry) -> NameEntry:
    """Two entries of one host: a Kubernetes Service stands alone, others put their addresses together."""
    kubernetes = [entry for entry in (present, added) if entry.registry is Registry.KUBERNETES]
    if kubernetes:
        return kubernetes[0]
    return present._replace(addresses=_once((*present.addresses, *added.addresses)))


def _entries(key: OutboundKey, context: PushContext, service: Service) -> Iterator[NameEntry]:
    """The service's own entry, and those of its pods if it leads to them by name.

    Endpoints of other clusters are among the addresses of a service by a switch.
    """
    families = served_families(key, context.mesh)
    virtual = service_addresses(service, key.cluster, families, dns_capture=key.dns_capture)
    if UNSPECIFIED_ADDRESS not in virtual:
        addresses = tuple(address for address in virtual if is_ip(address))  # ranges are no answer
    elif service.resolution is Resolution.PASSTHROUGH:
        endpoints = list(_answering(key, context, service))
        yield from _pod_entries(key.cluster, service, endpoints)
        counts_all = context.mesh.features.multicluster_headless
        addresses = _first_addresses(each for each in endpoints if counts_all or _same(each.cluster, key.cluster))
    else:
        addresses = ()
    if addresses:
        yield _entry(service, service.hostname, service.name, addresses)


def _entry(service: Service, host: str, short_name: str, addresses: tuple[str, ...]) -> NameEntry:
    if service.registry is not Registry.KUBERNETES:
        return NameEntry(host, addresses, service.registry)
    return NameEntry(host, addresses, service.registry, short_name, service.namespace)


def _answering(key: OutboundKey, context: PushContext, service: Service) -> Iterator[Endpoint]:
    """Endpoints that the client can get to and that are ready, or are to be found before that.

    Workload entries are not among them: nobody says that they are ready, and istiod does not name them either.
    """
    usable = (Health.HEALTHY, Health.UNHEALTHY) if service.publish_not_ready else (Health.HEALTHY,)
    for endpoint in context.endpoints.of(service.id).endpoints:
        has_address = bool(endpoint.addresses) and is_ip(endpoint.addresses[0])
        if has_address and endpoint.health in usable and _same(endpoint.network, key.network):
            yield endpoint


def _pod_entries(cluster: str, service: Service, endpoints: Iterable[Endpoint]) -> Iterator[NameEntry]:
    """`POD.SUBDOMAIN` in the service's domain, as Kubernetes names pods; the client's own cluster's before others."""
    pods: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.host_name and endpoint.subdomain:
            pods.setdefault(f"{endpoint.host_name}.{endpoint.subdomain}", []).append(endpoint)
    _, _, domain = service.hostname.partition(".")
    for short_name, found in pods.items():
        near = [endpoint for endpoint in found if _same(endpoint.cluster, cluster)]
        yield _entry(service, f"{short_name}.{domain}", short_name, _first_addresses(near or found))


def _first_addresses(endpoints: Iterable[Endpoint]) -> tuple[str, ...]:
    return _once(endpoint.addresses[0] for endpoint in endpoints)


def _once(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(addresses))


def _same(one: str, other: str) -> bool:
    """Whether two networks or clusters are the same as far as is known."""
    return not one or not other or one == other
