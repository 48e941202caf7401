"""Clusters of the services that a proxy may call (networking.md §2.2 to §2.8).

One unit for each service holds the clusters of all its ports and subsets: so a view of a thousand services costs a
thousand look-ups, and a change of one service builds one unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.cluster.v3 import Cluster, ClusterLbPolicy
from trierarch.envoy.cluster_metadata import exchange_filter, outbound_metadata
from trierarch.envoy.connection_pool import build_circuit_breakers, build_connection_options, connect_timeout
from trierarch.envoy.database_filters import understood
from trierarch.envoy.discovery import dns_lookup_family, set_discovery
from trierarch.envoy.http_connection import proxy_headers
from trierarch.envoy.load_assignment import AssignmentInputs, build_load_assignment
from trierarch.envoy.load_balancing import build_common_lb_config, set_load_balancing
from trierarch.envoy.narrowing import select_rows
from trierarch.envoy.outlier import build_outlier_detection
from trierarch.envoy.outline import ClusterOutline, Discovery, outline_clusters
from trierarch.envoy.protocol_options import HttpSettings, build_protocol_options, may_speak_http1, outbound_version
from trierarch.envoy.split_horizon import ONE_NETWORK
from trierarch.envoy.stat_names import pattern_stat_name, plain_stat_name
from trierarch.envoy.units import Unit
from trierarch.envoy.upstream_tls import (
    NOBODY,
    Certificates,
    Peers,
    Security,
    select_checks,
    select_mode,
    select_peers,
    set_transport,
)
from trierarch.envoy.well_known_types import encode_resource
from trierarch.push.model import PortProtocol, Resolution
from trierarch.push.proxy import NO_FILES, IPMode, ProxyType, SecretSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.proto.envoy.config.endpoint.v3 import ClusterLoadAssignment
    from protocol.xds.resources import Resource
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.narrowing import ServiceRow, ServiceRows
    from trierarch.envoy.outlook import Outlook
    from trierarch.envoy.units import Plan
    from trierarch.push.mesh import Features, Mesh
    from trierarch.push.model import Service
    from trierarch.push.proxy import CertificateFiles
    from trierarch.push.traffic import MergedRule
    from trierarch.push.view import OutboundKey


class ClusterTraits(NamedTuple):
    """What of a client shows in all its clusters."""

    type: ProxyType
    ip_mode: IPMode
    istio: bool
    secrets: SecretSource = SecretSource.NONE
    files: CertificateFiles = NO_FILES
    preserves_case: bool = False

    def certificates(self, mesh: Mesh) -> Certificates:
        """What of the client decides its TLS."""
        exchanges = mesh.features.metadata_exchange
        return Certificates(self.secrets, exchanges, rewrites_alpn=self.istio, files=self.files)


class ServiceClusters(NamedTuple):
    """All that the clusters of a service are made of.

    `assignments`: the endpoints of those that list them inline; `peers`: NOBODY for a client without TLS.
    """

    service: Service
    rule: MergedRule | None
    mesh: Mesh
    traits: ClusterTraits
    peers: Peers = NOBODY
    assignments: tuple[AssignmentInputs, ...] = ()

    @property
    def security(self) -> Security:
        """What decides the TLS of the clusters."""
        return Security(self.traits.certificates(self.mesh), self.peers, self.traits.type, self.mesh.config)


def cluster_traits(key: OutboundKey, mesh: Mesh) -> ClusterTraits:
    """The traits of the proxies of a view."""
    capabilities = key.capabilities
    return ClusterTraits(
        type=key.type,
        ip_mode=key.ip_mode,
        istio=capabilities.istio,
        secrets=capabilities.secrets,
        files=capabilities.client_files,
        preserves_case=bool(proxy_headers(key, mesh).preserve_http1_header_case),
    )


def narrow_outbound_clusters(outlook: Outlook) -> ServiceRows:
    """What of an outlook its clusters depend on. Where names are resolved, gateways have no say."""
    return select_rows(outlook, ONE_NETWORK)


def plan_outbound_clusters(inputs: ServiceRows, memo: Memo) -> Plan:
    """One unit for each service of the scope, in order."""
    for row in inputs.rows(memo):
        yield memo.recall(_select_unit, row)


def _select_unit(row: ServiceRow) -> Unit:
    """Of the endpoints only what shows in clusters."""
    narrowing, policies, service, rule, endpoints = row
    inputs = ServiceClusters(service, rule, narrowing.mesh, cluster_traits(narrowing.client, narrowing.mesh))
    if inputs.traits.secrets is not SecretSource.NONE:
        inputs = inputs._replace(peers=select_peers(_outlines(inputs), endpoints, policies))
    if service.resolution in (Resolution.DNS, Resolution.DNS_ROUND_ROBIN):
        inline = (outline for outline in _outlines(inputs) if outline.discovery.is_dns)
        inputs = inputs._replace(assignments=tuple(narrowing.select(service, endpoints, policies, inline)))
    return Unit(build_service_clusters, inputs)


def _outlines(inputs: ServiceClusters) -> tuple[ClusterOutline, ...]:
    return outline_clusters(inputs.service, inputs.rule, inputs.mesh, inputs.traits.type is ProxyType.ROUTER)


def build_service_clusters(inputs: ServiceClusters) -> tuple[Resource, ...]:
    """The clusters of all ports and subsets of a service."""
    return tuple(encode_resource(cluster.name, cluster) for cluster in _build_clusters(inputs))


def _build_clusters(inputs: ServiceClusters) -> Iterator[Cluster]:
    inline = {item.outline.name: build_load_assignment(item) for item in inputs.assignments}
    for outline in _outlines(inputs):
        assignment = inline.get(outline.name)
        # Envoy accepts a DNS cluster without endpoints, but istiod sends none: routes to it then fail as unknown.
        if not outline.discovery.is_dns or (assignment is not None and assignment.endpoints):
            yield build_cluster(outline, inputs, assignment)


def build_cluster(
    outline: ClusterOutline, inputs: ServiceClusters, assignment: ClusterLoadAssignment | None = None
) -> Cluster:
    """One outbound cluster."""
    mesh, traits, security = inputs.mesh, inputs.traits, inputs.security
    config, policy, mode = mesh.config, outline.policy, select_mode(outline, security)
    pool, outlier = policy.connection_pool, policy.outlier_detection
    version = outbound_version(outline.port.protocol, pool, config, traits.type)
    http = HttpSettings(
        version=version,
        pool=pool,
        error_codes=outlier.outlier_detection_http_error_codes if outlier is not None else (),
        keeps_header_case=traits.preserves_case and may_speak_http1(outline.port.protocol),
        checks=select_checks(mode),
    )
    cluster = Cluster(
        name=outline.name,
        alt_stat_name=_stat_name(outline, config.outbound_cluster_stat_name),
        connect_timeout=connect_timeout(pool, config),
        circuit_breakers=build_circuit_breakers(pool, policy.retry_budget),
        upstream_connection_options=build_connection_options(pool, config),
        typed_extension_protocol_options=build_protocol_options(http),
        load_assignment=assignment,
        outlier_detection=build_outlier_detection(outlier) if outlier is not None else None,
    )
    lookup_family = dns_lookup_family(traits.ip_mode, mesh.features.dual_stack)
    set_discovery(cluster, outline, config, lookup_family, http.checks)
    _set_balancing(cluster, outline, mesh.features)
    set_transport(cluster, outline, mode, version, security)
    if traits.istio:
        cluster.metadata = outbound_metadata(outline, mesh.features.telemetry_labels)
        cluster.filters = [exchange_filter()] if mesh.features.metadata_exchange else []
    return cluster


def _set_balancing(cluster: Cluster, outline: ClusterOutline, features: Features) -> None:
    if outline.discovery is Discovery.DYNAMIC_FORWARD_PROXY:
        return
    if understood(outline.port.protocol, features) is PortProtocol.REDIS and not outline.is_original_destination:
        cluster.lb_policy = ClusterLbPolicy.MAGLEV  # a key stays with its endpoint
    elif not outline.is_original_destination:
        set_load_balancing(cluster, outline.policy.load_balancer)
    cluster.common_lb_config = build_common_lb_config(outline)


def _stat_name(outline: ClusterOutline, pattern: str) -> str:
    if not pattern:
        return plain_stat_name(outline.name)
    port = outline.port
    return pattern_stat_name(pattern, outline.service, port.number, port.name, outline.subset, target_port=0)
