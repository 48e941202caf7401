"""What planning of listeners and routes asks about a view: addresses of services, clusters of destinations, policies.

Planning resolves names and narrows policies to what a builder may read; builders never see a view.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from trierarch.config.mesh_config import MeshOutboundMode
from trierarch.envoy.access_log import select_access_logs
from trierarch.envoy.discovery import dns_lookup_family
from trierarch.envoy.http_connection import proxy_headers
from trierarch.envoy.http_filters import ResolvedHosts
from trierarch.envoy.names import BLACK_HOLE_CLUSTER, PASSTHROUGH_CLUSTER, outbound_cluster
from trierarch.push.model import UNSPECIFIED_ADDRESS
from trierarch.push.proxy import IPMode
from trierarch.push.traffic import EffectivePolicy, effective_policy, select_rule

if TYPE_CHECKING:
    from protocol.proto.envoy.config.cluster.v3 import ClusterDnsLookupFamily
    from trierarch.config.common import Destination
    from trierarch.config.proxy_config import ProxyHeaders
    from trierarch.envoy.access_log import AccessLogs
    from trierarch.push.context import PushContext
    from trierarch.push.model import Service, ServicePort
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import OutboundKey

IPV6_WILDCARD = "::"


@dataclass(frozen=True, kw_only=True, eq=False)
class OutboundView:
    """An outbound key with the scope and the snapshot in which it is looked at.

    Without slots, so that what is asked for each of thousands of services is worked out once.
    """

    key: OutboundKey
    scope: SidecarScope
    context: PushContext

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
        return self.key.ip_mode is IPMode.DUAL and self.context.mesh.features.dual_stack

    @cached_property
    def dns_lookup_family(self) -> ClusterDnsLookupFamily:
        """To which addresses the proxy resolves names."""
        return dns_lookup_family(self.key.ip_mode, self.context.mesh.features.dual_stack)

    @cached_property
    def reserved_ports(self) -> frozenset[int]:
        """Ports at which the proxy itself listens on all addresses."""
        config = self.context.mesh.config
        return self.key.own_ports | {config.proxy_listen_port, config.proxy_inbound_listen_port}

    @cached_property
    def fall_through(self) -> str:
        """The cluster for destinations that nobody defined (networking.md §4.8)."""
        if self.scope.egress_proxy is not None:
            host, subset, port = self.scope.egress_proxy
            return outbound_cluster(port, subset, host)
        return BLACK_HOLE_CLUSTER if self.scope.registry_only else PASSTHROUGH_CLUSTER

    @cached_property
    def resolves_unknown_names(self) -> bool:
        """Whether HTTP requests to unknown hosts go where their Host header says (ALLOW_ANY_DYNAMIC_DNS)."""
        sidecar = self.scope.sidecar
        if sidecar is not None and sidecar.spec.outbound_traffic_policy is not None:
            return False
        return self.context.mesh.config.outbound_traffic_policy.mode is MeshOutboundMode.ALLOW_ANY_DYNAMIC_DNS

    @cached_property
    def resolves(self) -> tuple[ResolvedHosts, ...]:
        """The same, for connection managers."""
        return (ResolvedHosts("", self.dns_lookup_family),) if self.resolves_unknown_names else ()

    def addresses(self, service: Service) -> tuple[str, ...]:
        """The addresses at which the proxy's workload finds a service, the one to bind first; never empty (§1.7)."""
        virtual = service.addresses.get(self.key.cluster, ())
        if virtual:
            return self._of_family(virtual) or virtual[:1]
        if service.default_address == UNSPECIFIED_ADDRESS and self.key.dns_capture and service.auto_addresses:
            return self._of_family(service.auto_addresses) or (UNSPECIFIED_ADDRESS,)
        return (service.default_address,)

    def _of_family(self, addresses: tuple[str, ...]) -> tuple[str, ...]:
        mode = self.key.ip_mode
        if mode is IPMode.DUAL:
            return addresses
        return tuple(each for each in addresses if (":" in each) == (mode is IPMode.IPV6))

    def policy(self, host: str, subset: str, port: int) -> EffectivePolicy:
        """What destination rules say about a cluster."""
        rules = self.scope.rules.get(host, ())
        rule = select_rule(rules, self.key.scope.namespace, self.key.labels)
        return effective_policy(rule, subset, port, self.context.mesh)

    def destination(
        self, destination: Destination, listener_port: int, ports: tuple[ServicePort, ...]
    ) -> tuple[str, str, int]:
        """Host, subset and port that a destination means; `ports` are those of its service, as far as they are known.

        Without a port it means the only one of its service, else the listener's (networking.md §5.5). The name of an
        alias leads to what it is an alias of.
        """
        port = listener_port
        if destination.port is not None and destination.port.number:
            port = destination.port.number
        elif len(ports) == 1:
            port = ports[0].number
        return self._concrete(destination.host), destination.subset, port

    def _concrete(self, host: str) -> str:
        """The host at the end of a chain of aliases; a loop ends where it would repeat."""
        seen: set[str] = set()
        service = self.scope.by_host.get(host)
        while service is not None and service.external_name and host not in seen:
            seen.add(host)
            host = service.external_name
            service = self.scope.by_host.get(host)
        return host

    @cached_property
    def logs(self) -> AccessLogs:
        """What is logged of requests and connections."""
        return select_access_logs(self.context.mesh.config, istio=self.key.capabilities.istio)

    @cached_property
    def headers(self) -> ProxyHeaders:
        """Headers that the proxy adds or removes."""
        return proxy_headers(self.key, self.context.mesh)
