"""Endpoints of EDS clusters, and what an assignment may depend on (networking.md §3, §1.9).

The plan gives each assignment only what matters to it: of a client's place nothing, if nothing is preferred for being
near. So clients all over the mesh share most assignments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config.hosts import host_covers, most_specific_first
from trierarch.envoy.load_assignment import (
    AssignmentInputs,
    EndpointTraits,
    Reach,
    build_load_assignment,
)
from trierarch.envoy.locality import NOWHERE, READS_NOTHING, Standpoint
from trierarch.envoy.outline import Discovery, outline_clusters
from trierarch.envoy.packing import encode_resource
from trierarch.envoy.split_horizon import ONE_NETWORK, Horizon
from trierarch.envoy.units import Plan, Unit
from trierarch.push.authentication import NO_POLICIES
from trierarch.push.model import Locality, Resolution
from trierarch.push.proxy import SecretSource
from trierarch.push.traffic import select_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from protocol.xds.resources import Resource
    from trierarch.envoy.locality import Reads
    from trierarch.envoy.outline import ClusterOutline
    from trierarch.push.authentication import NamespacePolicies
    from trierarch.push.context import PushContext
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Service
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import OutboundKey


def plan_endpoints(key: OutboundKey, scope: SidecarScope, context: PushContext) -> Plan:
    """One unit for each EDS cluster of the view."""
    narrowing = Narrowing(key, context, Horizon(context.network_gateways, key.network, key.ip_mode))
    for service in scope.services:
        rule = select_rule(scope.rules.get(service.hostname, ()), key.scope.namespace, key.labels)
        outlines = outline_clusters(service, rule, context.mesh, not key.knows_destinations)
        listed = [outline for outline in outlines if _is_listed(outline, key)]
        for inputs in narrowing.select(service, listed):
            yield Unit(_build_assignment, inputs)


def _is_listed(outline: ClusterOutline, key: OutboundKey) -> bool:
    """Whether the client asks for the endpoints. A gRPC client asks always, but gets none where names are resolved."""
    if key.is_proxyless:
        return outline.service.resolution in (Resolution.CLIENT_SIDE, Resolution.PASSTHROUGH)
    return outline.discovery is Discovery.EDS


def _build_assignment(inputs: AssignmentInputs) -> tuple[Resource, ...]:
    return (encode_resource(inputs.outline.name, build_load_assignment(inputs)),)


class Narrowing:
    """What of a client matters to the assignments of its clusters.

    `horizon`: how the client gets to other networks; left out where names are resolved, for gateways have none.
    """

    __slots__ = ("_context", "_everywhere", "_key", "_local_hosts", "_locality", "_traits")

    def __init__(self, key: OutboundKey, context: PushContext, horizon: Horizon = ONE_NETWORK) -> None:
        self._key = key
        self._context = context
        self._everywhere = Reach(networks=key.network_view, horizon=horizon if horizon.is_split else ONE_NETWORK)
        self._local_hosts = _cluster_local_hosts(context.mesh)
        self._locality = Standpoint(locality=key.locality)
        self._traits = {user_tls: _endpoint_traits(key, context.mesh, user_tls) for user_tls in (False, True)}

    def select(self, service: Service, outlines: Iterable[ClusterOutline]) -> list[AssignmentInputs]:
        """The inputs of the assignments of a service's clusters."""
        endpoints, reach = self._context.endpoints.of(service.id), self._reach(service)
        policies = self._policies(service)
        return [
            AssignmentInputs(
                outline,
                endpoints,
                reach,
                self._standpoint(outline.reads),
                self._traits[outline.has_user_tls],
                policies if outline.policy.tls is None else NO_POLICIES,
            )
            for outline in outlines
        ]

    def _policies(self, service: Service) -> NamespacePolicies:
        """Policies count for clients that could use mutual TLS, where no rule insists on it (§3.2)."""
        if not self._traits[False].mutual_tls:
            return NO_POLICIES
        return self._context.authentication.for_clients(service.namespace)

    def _reach(self, service: Service) -> Reach:
        is_local = self._is_cluster_local(service.hostname)
        if not is_local and not service.node_local:
            return self._everywhere
        return self._everywhere._replace(
            node=self._key.node_name if service.node_local else None, cluster=self._key.cluster if is_local else None
        )

    def _is_cluster_local(self, host: str) -> bool:
        return next((local for pattern, local in self._local_hosts if host_covers(pattern, host)), False)

    def _standpoint(self, reads: Reads) -> Standpoint:
        if reads is READS_NOTHING:
            return NOWHERE
        if not reads.labels:
            return self._locality
        labels = frozenset(pair for pair in self._key.labels if pair[0] in reads.labels)
        return Standpoint(locality=self._key.locality if reads.locality else Locality(), labels=labels)


def _endpoint_traits(key: OutboundKey, mesh: Mesh, user_tls: bool) -> EndpointTraits:
    return EndpointTraits(
        mutual_tls=not user_tls and key.capabilities.secrets is not SecretSource.NONE,
        telemetry=key.capabilities.istio and mesh.features.telemetry_labels,
        dual_stack=mesh.features.dual_stack,
    )


def _cluster_local_hosts(mesh: Mesh) -> Sequence[tuple[str, bool]]:
    """Hosts whose endpoints in other clusters are not used, and exceptions from that; the most specific first."""
    local = {
        f"*.kube-system.svc.{mesh.domain}": True,
        f"kubernetes.default.svc.{mesh.domain}": True,
        f"istiod.{mesh.root_namespace}.svc.{mesh.domain}": True,
    }
    for settings in mesh.config.service_settings:
        if settings.settings is not None:
            local |= dict.fromkeys(settings.hosts, settings.settings.cluster_local)
    return [(host, local[host]) for host in most_specific_first(local)]
