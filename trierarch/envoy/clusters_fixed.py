"""Clusters that every proxy has, whatever the mesh contains (networking.md §2.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.cluster.v3 import Cluster, ClusterDiscoveryType, ClusterLbPolicy
from protocol.proto.envoy.extensions.clusters.dynamic_forward_proxy.v3 import ClusterConfig
from trierarch.config.mesh_config import MeshOutboundMode
from trierarch.envoy.addresses import inbound_bind_config
from trierarch.envoy.cluster_metadata import exchange_filter
from trierarch.envoy.clusters import ClusterTraits, cluster_traits
from trierarch.envoy.connection_pool import build_circuit_breakers, build_connection_options, connect_timeout
from trierarch.envoy.discovery import any_host_dns_cache, dns_lookup_family, set_dynamic_forward_proxy
from trierarch.envoy.names import (
    ALLOW_ANY_DNS_CLUSTER,
    BLACK_HOLE_CLUSTER,
    INBOUND_PASSTHROUGH_CLUSTER,
    PASSTHROUGH_CLUSTER,
)
from trierarch.envoy.protocol_options import NO_CHECKS, build_passthrough_options
from trierarch.envoy.stat_names import plain_stat_name
from trierarch.envoy.units import Plan, Unit
from trierarch.envoy.upstream_tls import NOBODY, Security, any_host_transport
from trierarch.envoy.well_known_types import encode_resource
from trierarch.push.proxy import IPMode, ProxyType

if TYPE_CHECKING:
    from protocol.xds.resources import Resource
    from trierarch.config.destination_rule import ConnectionPool
    from trierarch.envoy.protocol_options import PeerChecks
    from trierarch.push.context import PushContext
    from trierarch.push.mesh import Mesh
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import OutboundKey


class FixedClusters(NamedTuple):
    """All that the fixed clusters are made of. `resolves`: unknown names are resolved by the proxy."""

    mesh: Mesh
    traits: ClusterTraits
    resolves: bool


class InboundPassthrough(NamedTuple):
    """All that the inbound passthrough cluster is made of."""

    mesh: Mesh
    ip_mode: IPMode
    preserves_case: bool = False


def plan_fixed_clusters(key: OutboundKey, scope: SidecarScope, context: PushContext) -> Plan:
    """One unit: they depend on the mesh's settings only."""
    yield Unit(
        build_fixed_clusters,
        FixedClusters(context.mesh, cluster_traits(key, context.mesh), _resolves(scope, context.mesh)),
    )


def _resolves(scope: SidecarScope, mesh: Mesh) -> bool:
    """The mode of the mesh, unless a Sidecar has one of its own (which cannot be this)."""
    own = scope.sidecar is not None and scope.sidecar.spec.outbound_traffic_policy is not None
    return not own and mesh.config.outbound_traffic_policy.mode is MeshOutboundMode.ALLOW_ANY_DYNAMIC_DNS


def build_fixed_clusters(inputs: FixedClusters) -> tuple[Resource, ...]:
    """Where traffic goes that goes nowhere, and where traffic goes that nobody defined."""
    clusters = [_black_hole(inputs.mesh)]
    if inputs.traits.type is not ProxyType.ROUTER:
        clusters.append(_passthrough(PASSTHROUGH_CLUSTER, inputs.mesh, preserves_case=inputs.traits.preserves_case))
    if inputs.resolves:
        clusters.append(_resolving(inputs))
    for cluster in clusters[1:]:
        if inputs.traits.istio and inputs.mesh.features.metadata_exchange:
            cluster.filters = [exchange_filter()]
    return tuple(encode_resource(cluster.name, cluster) for cluster in clusters)


def build_inbound_passthrough(inputs: InboundPassthrough) -> tuple[Resource, ...]:
    """Where inbound traffic goes for ports that no service has."""
    cluster = _passthrough(INBOUND_PASSTHROUGH_CLUSTER, inputs.mesh, preserves_case=inputs.preserves_case)
    cluster.upstream_bind_config = inbound_bind_config(inputs.ip_mode)
    return (encode_resource(cluster.name, cluster),)


def _black_hole(mesh: Mesh) -> Cluster:
    return Cluster(
        name=BLACK_HOLE_CLUSTER,
        alt_stat_name=plain_stat_name(BLACK_HOLE_CLUSTER),
        type=ClusterDiscoveryType.STATIC,
        lb_policy=ClusterLbPolicy.ROUND_ROBIN,
        connect_timeout=connect_timeout(None, mesh.config),
    )


def _passthrough(name: str, mesh: Mesh, *, preserves_case: bool) -> Cluster:
    cluster = _open_cluster(name, mesh, preserves_case=preserves_case)
    cluster.type = ClusterDiscoveryType.ORIGINAL_DST
    cluster.lb_policy = ClusterLbPolicy.CLUSTER_PROVIDED
    cluster.alt_stat_name = plain_stat_name(PASSTHROUGH_CLUSTER)  # both directions count together
    return cluster


def _resolving(inputs: FixedClusters) -> Cluster:
    mesh = inputs.mesh
    security = Security(inputs.traits.certificates(mesh), NOBODY, inputs.traits.type, mesh.config)
    socket, checks = any_host_transport(security)
    cluster = _open_cluster(ALLOW_ANY_DNS_CLUSTER, mesh, checks, preserves_case=inputs.traits.preserves_case)
    cluster.transport_socket = socket
    cache = any_host_dns_cache(dns_lookup_family(inputs.traits.ip_mode, mesh.features.dual_stack))
    # "Insecure" is to forward TLS without checking whose it is: the application does that.
    set_dynamic_forward_proxy(cluster, ClusterConfig(dns_cache_config=cache, allow_insecure_cluster_options=True))
    return cluster


def _open_cluster(name: str, mesh: Mesh, checks: PeerChecks = NO_CHECKS, *, preserves_case: bool) -> Cluster:
    """What clusters for any destination have in common."""
    pool = _default_pool(mesh)
    return Cluster(
        name=name,
        alt_stat_name=plain_stat_name(name),
        connect_timeout=connect_timeout(pool, mesh.config),
        circuit_breakers=build_circuit_breakers(pool),
        upstream_connection_options=build_connection_options(pool, mesh.config),
        typed_extension_protocol_options=build_passthrough_options(checks, preserves_case=preserves_case),
    )


def _default_pool(mesh: Mesh) -> ConnectionPool | None:
    defaults = mesh.config.default_traffic_policy
    return defaults.connection_pool if defaults is not None else None
