"""Endpoints of EDS clusters, and what an assignment may depend on (networking.md §3, §1.9).

The plan gives each assignment only what matters to it: of a client's place nothing, if nothing is preferred for being
near. So clients all over the mesh share most assignments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config.destination_rule import ClientTlsMode, LocalityLbSetting
from trierarch.config.hosts import most_specific_cover
from trierarch.envoy.load_assignment import (
    EVERYWHERE,
    AssignmentInputs,
    EndpointTraits,
    Reach,
    build_load_assignment,
)
from trierarch.envoy.locality import NOWHERE, Standpoint
from trierarch.envoy.outline import Discovery, outline_clusters
from trierarch.envoy.packing import encode_resource
from trierarch.envoy.units import Plan, Unit
from trierarch.push.model import Locality
from trierarch.push.proxy import ProxyType, SecretSource
from trierarch.push.traffic import select_rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.xds.resources import Resource
    from trierarch.envoy.outline import ClusterOutline
    from trierarch.push.context import PushContext
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Service
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import OutboundKey


def plan_endpoints(key: OutboundKey, scope: SidecarScope, context: PushContext) -> Plan:
    """One unit for each EDS cluster of the view."""
    narrowing = Narrowing(key, context.mesh)
    for service in scope.services:
        rule = select_rule(scope.rules.get(service.hostname, ()), key.scope.namespace, key.labels)
        for outline in outline_clusters(service, rule, context.mesh, key.type is ProxyType.ROUTER):
            if outline.discovery is Discovery.EDS:
                yield Unit(_build_assignment, narrowing.inputs(outline, context))


def _build_assignment(inputs: AssignmentInputs) -> tuple[Resource, ...]:
    return (encode_resource(inputs.outline.name, build_load_assignment(inputs)),)


class Narrowing:
    """What of a client matters to the assignments of its clusters."""

    __slots__ = ("_key", "_local_hosts", "_locality", "_mesh", "_traits")

    def __init__(self, key: OutboundKey, mesh: Mesh) -> None:
        self._key = key
        self._mesh = mesh
        self._local_hosts = _cluster_local_hosts(mesh)
        self._locality = Standpoint(locality=key.locality)
        self._traits = {user_tls: self._endpoint_traits(user_tls) for user_tls in (False, True)}

    def inputs(self, outline: ClusterOutline, context: PushContext) -> AssignmentInputs:
        """The inputs of one cluster's assignment."""
        return AssignmentInputs(
            outline=outline,
            endpoints=context.endpoints.of(outline.service.id),
            reach=self._reach(outline.service),
            client=self._standpoint(outline),
            traits=self._traits[_has_user_tls(outline)],
        )

    def _endpoint_traits(self, user_tls: bool) -> EndpointTraits:
        features = self._mesh.features
        return EndpointTraits(
            mutual_tls=not user_tls and self._key.capabilities.secrets is not SecretSource.NONE,
            telemetry=self._key.capabilities.istio and features.telemetry_labels,
            dual_stack=features.dual_stack,
        )

    def _reach(self, service: Service) -> Reach:
        is_local = self._is_cluster_local(service.hostname)
        if not is_local and not service.node_local:
            return EVERYWHERE
        return Reach(
            node=self._key.node_name if service.node_local else None, cluster=self._key.cluster if is_local else None
        )

    def _is_cluster_local(self, host: str) -> bool:
        cover = most_specific_cover(host, self._local_hosts)
        return cover is not None and self._local_hosts[cover]

    def _standpoint(self, outline: ClusterOutline) -> Standpoint:
        preference = outline.preference
        if preference is None:
            return NOWHERE
        setting = preference.setting
        distributes = isinstance(setting, LocalityLbSetting) and bool(setting.distribute)
        if not distributes and not preference.fails_over(outline.has_outlier_detection):
            return NOWHERE
        if not setting.failover_priority or distributes:
            return self._locality
        names = {item.partition("=")[0] for item in setting.failover_priority}
        labels = frozenset(pair for pair in self._key.labels if pair[0] in names)
        return Standpoint(locality=self._key.locality if setting.failover else Locality(), labels=labels)


def _has_user_tls(outline: ClusterOutline) -> bool:
    """Whether a rule sets a TLS mode that is not the mesh's own."""
    tls = outline.policy.tls
    return tls is not None and tls.mode is not ClientTlsMode.ISTIO_MUTUAL


def _cluster_local_hosts(mesh: Mesh) -> Mapping[str, bool]:
    """Hosts whose endpoints in other clusters are not used, and exceptions from that; the most specific decides."""
    local = {
        f"*.kube-system.svc.{mesh.domain}": True,
        f"kubernetes.default.svc.{mesh.domain}": True,
        f"istiod.{mesh.root_namespace}.svc.{mesh.domain}": True,
    }
    for settings in mesh.config.service_settings:
        if settings.settings is not None:
            local |= dict.fromkeys(settings.hosts, settings.settings.cluster_local)
    return local
