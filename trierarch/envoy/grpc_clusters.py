"""Clusters and endpoints of proxyless gRPC clients (networking.md §4.11).

Such a client resolves no names, captures no connections and decides nothing for itself: all its clusters ask for their
endpoints, and use mutual TLS only where a rule says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.cluster.v3 import (
    CircuitBreakers,
    CircuitBreakersThresholds,
    Cluster,
    ClusterDiscoveryType,
    ClusterEdsClusterConfig,
    ClusterLbPolicy,
    ClusterRingHashLbConfig,
)
from protocol.proto.envoy.config.core.v3 import AggregatedConfigSource, ConfigSource
from trierarch.config.destination_rule import ClientTlsMode, ConsistentHash, RingHash, SimpleLoadBalancer
from trierarch.envoy.connection_pool import http_pool
from trierarch.envoy.grpc_tls import build_client_socket
from trierarch.envoy.load_balancing import DEFAULT_RING_SIZE
from trierarch.envoy.outline import outline_clusters
from trierarch.envoy.stat_names import plain_stat_name
from trierarch.envoy.units import Plan, Unit
from trierarch.envoy.upstream_tls import NOBODY, Peers, service_identities
from trierarch.envoy.well_known_types import encode_resource
from trierarch.push.proxy import SecretSource
from trierarch.push.traffic import select_rule

if TYPE_CHECKING:
    from protocol.xds.resources import Resource
    from trierarch.config.destination_rule import LoadBalancer
    from trierarch.envoy.outline import ClusterOutline
    from trierarch.push.context import PushContext
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Service
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.traffic import MergedRule
    from trierarch.push.view import OutboundKey


class GrpcService(NamedTuple):
    """All that the clusters of a service are made of. `peers`: None for a client without certificates."""

    service: Service
    rule: MergedRule | None
    mesh: Mesh
    peers: Peers | None


def plan_grpc_clusters(key: OutboundKey, scope: SidecarScope, context: PushContext) -> Plan:
    """One unit for each service of the scope."""
    has_certificates = key.capabilities.secrets is not SecretSource.NONE
    for service in scope.services:
        rule = select_rule(scope.rules.get(service.hostname, ()), key.scope.namespace, key.labels)
        peers = _peers(service, rule, context) if has_certificates else None
        yield Unit(build_grpc_service, GrpcService(service, rule, context.mesh, peers))


def _peers(service: Service, rule: MergedRule | None, context: PushContext) -> Peers:
    """The identities of the endpoints, if a rule asks to check them: else they are no reason to build anew."""
    outlines = outline_clusters(service, rule, context.mesh, for_router=True)
    if not any(_is_mutual(outline) for outline in outlines):
        return NOBODY
    return Peers(accounts=context.endpoints.of(service.id).service_accounts)


def build_grpc_service(inputs: GrpcService) -> tuple[Resource, ...]:
    """The clusters of a service's ports and subsets."""
    outlines = outline_clusters(inputs.service, inputs.rule, inputs.mesh, for_router=True)
    return tuple(encode_resource(outline.name, _build_cluster(outline, inputs)) for outline in outlines)


def _build_cluster(outline: ClusterOutline, inputs: GrpcService) -> Cluster:
    cluster = Cluster(
        name=outline.name,
        alt_stat_name=plain_stat_name(outline.name),
        type=ClusterDiscoveryType.EDS,
        eds_cluster_config=ClusterEdsClusterConfig(
            service_name=outline.name, eds_config=ConfigSource(ads=AggregatedConfigSource())
        ),
    )
    limit = http_pool(outline.policy.connection_pool).http2_max_requests
    if limit:
        cluster.circuit_breakers = CircuitBreakers(thresholds=[CircuitBreakersThresholds(max_requests=limit)])
    _set_balancing(cluster, outline.policy.load_balancer)
    if inputs.peers is not None and _is_mutual(outline):
        _set_mutual_tls(cluster, outline, inputs.peers, inputs.mesh)
    return cluster


def _set_balancing(cluster: Cluster, balancer: LoadBalancer | None) -> None:
    """GRPC knows least request and ring hash; for all else it goes round, as without a rule."""
    policy = balancer.policy if balancer is not None else None
    if isinstance(policy, ConsistentHash):
        size = policy.algorithm.minimum_ring_size if isinstance(policy.algorithm, RingHash) else 0
        cluster.lb_policy = ClusterLbPolicy.RING_HASH
        ring_size = size or policy.minimum_ring_size or DEFAULT_RING_SIZE
        cluster.ring_hash_lb_config = ClusterRingHashLbConfig(minimum_ring_size=ring_size)
    elif policy in (SimpleLoadBalancer.LEAST_REQUEST, SimpleLoadBalancer.LEAST_CONN):
        cluster.lb_policy = ClusterLbPolicy.LEAST_REQUEST


def _is_mutual(outline: ClusterOutline) -> bool:
    return outline.policy.tls is not None and outline.policy.tls.mode is ClientTlsMode.ISTIO_MUTUAL


def _set_mutual_tls(cluster: Cluster, outline: ClusterOutline, peers: Peers, mesh: Mesh) -> None:
    tls = outline.policy.tls
    if tls is not None:
        identities = tls.subject_alt_names or service_identities(outline.service, peers, mesh.config)
        cluster.transport_socket = build_client_socket(identities, tls.sni)
