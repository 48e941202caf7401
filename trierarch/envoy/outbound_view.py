"""What planning of listeners and routes asks about a view: addresses of services, clusters of destinations, policies.

Planning resolves names and narrows policies to what a builder may read; builders never see a view.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from trierarch.config.mesh_config import MeshOutboundMode
from trierarch.envoy.access_log import select_access_logs
from trierarch.envoy.discovery import dns_lookup_family
from trierarch.envoy.http_connection import proxy_headers
from trierarch.envoy.http_filters import ResolvedHosts
from trierarch.envoy.names import BLACK_HOLE_CLUSTER, PASSTHROUGH_CLUSTER, outbound_cluster
from trierarch.push.endpoints import NO_ENDPOINTS
from trierarch.push.model import NOWHERE, UNSPECIFIED_ADDRESS, Resolution
from trierarch.push.proxy import IPMode
from trierarch.push.traffic import EffectivePolicy, stated_policy
from trierarch.push.view import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.proto.envoy.config.cluster.v3 import ClusterDnsLookupFamily
    from trierarch.config.common import Destination
    from trierarch.config.proxy_config import ProxyHeaders
    from trierarch.envoy.access_log import AccessLogs
    from trierarch.envoy.outlook import Outlook
    from trierarch.push.endpoints import ServiceEndpoints
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Endpoint, Hostname, Service, ServicePort
    from trierarch.push.sidecar_scope import EgressListener, SidecarScope
    from trierarch.push.traffic import MergedRule
    from trierarch.push.view import OutboundKey

IPV6_WILDCARD = "::"
_NO_SCOPE = ScopeKey("", None)


@dataclass(frozen=True, kw_only=True)
class OutboundView:
    """All that outbound listeners and routes are made of. Views that compare equal have the same.

    `key`: without where the client stands, which decides about endpoints only, and without in which pieces it gets its
    routes. `services`: what can be called, `rules`: the destination rule in force for a host, `headless`: the endpoints
    of services that are called at their addresses. Without slots, so that what is asked for each of thousands of
    services is worked out once.
    """

    key: OutboundKey
    mesh: Mesh
    egress: tuple[EgressListener, ...]
    services: tuple[Service, ...] = ()
    rules: tuple[tuple[str, MergedRule], ...] = ()
    headless: tuple[tuple[Hostname, ServiceEndpoints], ...] = ()
    fall_through: str
    resolves_unknown_names: bool

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, each.name) for each in fields(self)))

    @cached_property
    def _by_host(self) -> Mapping[str, Service]:
        return _index(self.services)

    @cached_property
    def _rules(self) -> Mapping[str, MergedRule]:
        return dict(self.rules)

    @cached_property
    def _headless(self) -> Mapping[Hostname, ServiceEndpoints]:
        return dict(self.headless)

    @cached_property
    def unheard(self) -> OutboundView:
        """The same without its listeners: what matters to virtual hosts, by whatever port they are reached."""
        return replace(self, egress=())

    @cached_property
    def anonymous(self) -> OutboundView:
        """The same for a client of which it is not known what its namespace and its labels are."""
        return replace(self, key=replace(self.key, scope=_NO_SCOPE, labels=frozenset(), dns_domain=""))

    @cached_property
    def wildcard(self) -> str:
        """The address that stands for all, of the proxy's first family (networking.md §0.1)."""
        return IPV6_WILDCARD if self.key.ip_mode is IPMode.IPV6 else UNSPECIFIED_ADDRESS

    @cached_property
    def wildcards(self) -> tuple[str, ...]:
        """The same of every family that the proxy has."""
        return (UNSPECIFIED_ADDRESS, IPV6_WILDCARD) if self.key.ip_mode is IPMode.DUAL else (self.wildcard,)

    @cached_property
    def loopbacks(self) -> tuple[str, ...]:
        """Localhost, of the proxy's families if dual stack is on."""
        if self.key.ip_mode is IPMode.IPV6:
            return ("::1",)
        return ("127.0.0.1", "::1") if self.dual_stack else ("127.0.0.1",)

    @cached_property
    def dual_stack(self) -> bool:
        """Whether listeners of virtual addresses listen on both families."""
        return self.key.ip_mode is IPMode.DUAL and self.mesh.features.dual_stack

    @cached_property
    def dns_lookup_family(self) -> ClusterDnsLookupFamily:
        """To which addresses the proxy resolves names."""
        return dns_lookup_family(self.key.ip_mode, self.mesh.features.dual_stack)

    @cached_property
    def reserved_ports(self) -> frozenset[int]:
        """Ports at which the proxy itself listens on all addresses."""
        config = self.mesh.config
        return self.key.own_ports | {config.proxy_listen_port, config.proxy_inbound_listen_port}

    @cached_property
    def resolves(self) -> tuple[ResolvedHosts, ...]:
        """The same, for connection managers."""
        return (ResolvedHosts("", self.dns_lookup_family),) if self.resolves_unknown_names else ()

    def addresses(self, service: Service) -> tuple[str, ...]:
        """The addresses at which the proxy's workload finds a service."""
        families = served_families(self.key, self.mesh)
        return service_addresses(service, self.key.cluster, families, dns_capture=self.key.dns_capture)

    def service(self, host: str) -> Service | None:
        """The service that a host means, or None."""
        return self._by_host.get(host)

    def endpoints(self, service: Service) -> tuple[Endpoint, ...]:
        """The endpoints of a headless service."""
        return self._headless.get(service.id, NO_ENDPOINTS).endpoints

    def rule(self, host: str) -> MergedRule | None:
        """The destination rule in force for a host, or None."""
        return self._rules.get(host)

    def policy(self, host: str, subset: str, port: int) -> EffectivePolicy:
        """What destination rules say about a cluster. The mesh's defaults are for clusters alone."""
        return stated_policy(self._rules.get(host), subset, port)

    def destination(
        self, destination: Destination, listener_port: int, ports: tuple[ServicePort, ...]
    ) -> tuple[str, str, int]:
        """Host, subset and port that a destination means. The name of an alias leads to what it is an alias of."""
        port = destination_port(destination, listener_port, ports)
        return self.concrete(destination.host), destination.subset, port

    def concrete(self, host: str) -> str:
        """The host at the end of a chain of aliases."""
        return self.chain(host)[-1]

    def chain(self, host: str) -> list[str]:
        """A host and what it is an alias of, one after the other; a loop ends where it begins to repeat."""
        passed = [host]
        service = self._by_host.get(host)
        while service is not None and service.external_name and passed[-1] not in passed[:-1]:
            passed.append(service.external_name)
            service = self._by_host.get(passed[-1])
        return passed

    @cached_property
    def logs(self) -> AccessLogs:
        """What is logged of requests and connections."""
        return select_access_logs(self.mesh.config, istio=self.key.capabilities.istio)

    @cached_property
    def headers(self) -> ProxyHeaders:
        """Headers that the proxy adds or removes."""
        return proxy_headers(self.key, self.mesh)


def destination_port(destination: Destination, listener_port: int, ports: tuple[ServicePort, ...]) -> int:
    """The port that a destination means; `ports` are those of its service, as far as they are known.

    Without a port it means the only one of its service, else the listener's (networking.md §5.5).
    """
    if destination.port is not None and destination.port.number:
        return destination.port.number
    return ports[0].number if len(ports) == 1 else listener_port


def served_families(key: OutboundKey, mesh: Mesh) -> IPMode:
    """The families of the addresses at which services are found: of both only where the mesh is dual-stack."""
    both = key.ip_mode is IPMode.DUAL
    return IPMode.IPV4 if both and not mesh.features.dual_stack else key.ip_mode


def service_addresses(service: Service, cluster: str, families: IPMode, *, dns_capture: bool) -> tuple[str, ...]:
    """The addresses at which a workload finds a service, the one to bind first; never empty (§1.7)."""
    virtual = service.addresses.get(cluster, ())
    if virtual:
        return _of_family(virtual, families) or virtual[:1]
    if service.default_address == UNSPECIFIED_ADDRESS and dns_capture and service.auto_addresses:
        return _of_family(service.auto_addresses, families) or (UNSPECIFIED_ADDRESS,)
    return (service.default_address,)


def _of_family(addresses: tuple[str, ...], mode: IPMode) -> tuple[str, ...]:
    if mode is IPMode.DUAL:
        return addresses
    return tuple(each for each in addresses if (":" in each) == (mode is IPMode.IPV6))


def select_outbound_view(outlook: Outlook) -> OutboundView:
    """What of an outlook routes may be made of; listeners need less."""
    scope, mesh = outlook.scope, outlook.mesh
    of = outlook.context.endpoints.of
    headless = _headless(scope.services)
    return OutboundView(
        key=replace(
            outlook.key,
            locality=NOWHERE,
            network="",
            network_view=frozenset(),
            node_name="",
            capabilities=outlook.key.capabilities.with_whole_routes(),
        ),
        mesh=mesh,
        egress=scope.egress,
        services=scope.services,
        rules=outlook.rules_by_host,
        headless=tuple([(service, of(service)) for service in headless]),
        fall_through=_fall_through(scope),
        resolves_unknown_names=_resolves_unknown_names(scope, mesh),
    )


@lru_cache(maxsize=64)
def _headless(services: tuple[Service, ...]) -> tuple[Hostname, ...]:
    """Remembered, since all views of a mesh ask again."""
    return tuple([service.id for service in services if service.resolution is Resolution.PASSTHROUGH])


@lru_cache(maxsize=4)
def _index(services: tuple[Service, ...]) -> Mapping[str, Service]:
    """Remembered for the same reason."""
    return {service.hostname: service for service in services}


def _fall_through(scope: SidecarScope) -> str:
    """The cluster for destinations that nobody defined (networking.md §4.8)."""
    if scope.egress_proxy is not None:
        host, subset, port = scope.egress_proxy
        return outbound_cluster(port, subset, host)
    return BLACK_HOLE_CLUSTER if scope.registry_only else PASSTHROUGH_CLUSTER


def _resolves_unknown_names(scope: SidecarScope, mesh: Mesh) -> bool:
    """Whether HTTP requests to unknown hosts go where their Host header says (ALLOW_ANY_DYNAMIC_DNS)."""
    if scope.sidecar is not None and scope.sidecar.spec.outbound_traffic_policy is not None:
        return False
    return mesh.config.outbound_traffic_policy.mode is MeshOutboundMode.ALLOW_ANY_DYNAMIC_DNS
