"""Clusters for the ports of the workload itself (networking.md §2.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.cluster.v3 import (
    Cluster,
    ClusterCommonLbConfig,
    ClusterDiscoveryType,
    ClusterLbPolicy,
)
from protocol.proto.envoy.config.endpoint.v3 import ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints
from protocol.proto.envoy.config.endpoint.v3 import Endpoint as EnvoyEndpoint
from trierarch.config.mesh_config import MeshInboundMode
from trierarch.config.sidecar import Sidecar
from trierarch.envoy.addresses import build_address, inbound_bind_config, loopback
from trierarch.envoy.cluster_metadata import inbound_metadata
from trierarch.envoy.clusters_fixed import InboundPassthrough, build_inbound_passthrough
from trierarch.envoy.connection_pool import build_circuit_breakers, build_connection_options, connect_timeout
from trierarch.envoy.http_connection import proxy_headers
from trierarch.envoy.names import inbound_cluster
from trierarch.envoy.protocol_options import HttpSettings, build_protocol_options, inbound_version, may_speak_http1
from trierarch.envoy.stat_names import pattern_stat_name, plain_stat_name
from trierarch.envoy.units import Plan, Unit
from trierarch.envoy.well_known_types import duration, encode_resource
from trierarch.push.port_protocols import parse_protocol
from trierarch.push.proxy import Interception, IPMode
from trierarch.push.traffic import effective_policy, select_rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from protocol.proto.envoy.config.core.v3 import Metadata
    from protocol.xds.resources import Resource
    from trierarch.config.destination_rule import ConnectionPool
    from trierarch.config.sidecar import IngressListener, SidecarPort
    from trierarch.push.context import PushContext
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import PortProtocol, Service, ServiceTarget
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.traffic import MergedRule
    from trierarch.push.view import InboundKey

NEVER = 9223372035.0
"""Seconds. Connections to the original destination are this workload's own: there is nothing to clean up."""


class Application(NamedTuple):
    """Where the application listens: `address` "" is where the client wanted to go.

    `binds`: the proxy connects from the address that traffic capture lets through.
    """

    address: str = ""
    port: int = 0
    binds: bool = True


ORIGINAL = Application()


class InboundCluster(NamedTuple):
    """All that an inbound cluster is made of.

    `services`: those that the port belongs to, the one that wins first; `service_port`: that one's port number.
    """

    port: int
    service_port: int
    protocol: PortProtocol
    services: tuple[Service, ...]
    application: Application
    pool: ConnectionPool | None
    rule: MergedRule | None
    mesh: Mesh
    ip_mode: IPMode
    istio: bool
    preserves_case: bool = False


class Workload(NamedTuple):
    """The workload whose proxy this is."""

    key: InboundKey
    scope: SidecarScope
    context: PushContext

    @property
    def preserves_case(self) -> bool:
        """Whether HTTP/1.1 headers keep the case that the client wrote."""
        return bool(proxy_headers(self.key, self.context.mesh).preserve_http1_header_case)

    @property
    def sidecar(self) -> Sidecar:
        """Its Sidecar; one that says nothing if it has none."""
        return self.scope.sidecar.spec if self.scope.sidecar is not None else _NO_SIDECAR


_NO_SIDECAR = Sidecar()


def plan_inbound_clusters(key: InboundKey, scope: SidecarScope, context: PushContext) -> Plan:
    """One unit for each port that the workload serves or its Sidecar names, and the one for all other ports."""
    workload = Workload(key, scope, context)
    for inputs in _select_clusters(workload):
        yield Unit(build_inbound_cluster, inputs)
    yield Unit(build_inbound_passthrough, InboundPassthrough(context.mesh, key.ip_mode, workload.preserves_case))


def _select_clusters(workload: Workload) -> Iterator[InboundCluster]:
    ports = _targets_by_port(workload.key)
    taken: set[int] = set()
    for listener in workload.sidecar.ingress:
        if listener.port is not None and listener.port.number not in taken:
            taken.add(listener.port.number)
            yield _of_ingress(listener, listener.port, ports.get(listener.port.number, ()), workload)
    if taken and not workload.context.mesh.features.inbound_listener_merge:
        return
    if not taken and workload.key.interception is Interception.NONE:
        return  # without capture nothing would ever arrive
    for port, targets in ports.items():
        if port not in taken:
            yield _of_targets(targets, workload)


def _targets_by_port(key: InboundKey) -> dict[int, list[ServiceTarget]]:
    ports: dict[int, list[ServiceTarget]] = {}
    for target in key.targets:
        ports.setdefault(target.target_port, []).append(target)
    return ports


def _of_targets(targets: Sequence[ServiceTarget], workload: Workload) -> InboundCluster:
    winner = targets[0]
    local = workload.context.mesh.config.inbound_traffic_policy.mode is MeshInboundMode.LOCALHOST
    own_address = Application(loopback(workload.key.ip_mode), winner.target_port, binds=False)
    return _inbound_cluster(
        winner.target_port, winner.protocol, own_address if local else ORIGINAL, targets, workload, None
    )


def _of_ingress(
    listener: IngressListener, port: SidecarPort, targets: Sequence[ServiceTarget], workload: Workload
) -> InboundCluster:
    application = select_application(listener.default_endpoint, workload.key)
    protocol = parse_protocol(port.protocol)
    return _inbound_cluster(port.number, protocol, application, targets, workload, listener.connection_pool)


def select_application(default_endpoint: str, key: InboundKey) -> Application:
    """Where a Sidecar says that the application listens.

    `default_endpoint` is "", `unix://PATH` or `IP:PORT`; the IP is a loopback address, or 0.0.0.0 or [::], which stand
    for the instance's own.
    """
    if not default_endpoint:
        return ORIGINAL
    if default_endpoint.startswith("unix://"):
        return Application(default_endpoint.removeprefix("unix://"), 0)
    host, _, port = default_endpoint.rpartition(":")
    if host in ("0.0.0.0", "[::]"):
        return Application(key.address, int(port))
    return Application(loopback(key.ip_mode), int(port), binds=False)


def _inbound_cluster(
    port: int,
    protocol: PortProtocol,
    application: Application,
    targets: Sequence[ServiceTarget],
    workload: Workload,
    listener_pool: ConnectionPool | None,
) -> InboundCluster:
    key, mesh = workload.key, workload.context.mesh
    services = _services(targets, workload.context)
    service_port = targets[0].service_port if targets else port
    rule = _rule(services, workload)
    rule_pool = effective_policy(rule, "", service_port, mesh).connection_pool
    return InboundCluster(
        port=port,
        service_port=service_port,
        protocol=protocol,
        services=services,
        application=application,
        pool=listener_pool or workload.sidecar.inbound_connection_pool or rule_pool,
        rule=rule,
        mesh=mesh,
        ip_mode=key.ip_mode,
        istio=key.capabilities.istio,
        preserves_case=workload.preserves_case,
    )


def _services(targets: Sequence[ServiceTarget], context: PushContext) -> tuple[Service, ...]:
    """The service that wins the port, and those that have it under the same number."""
    same = [target.service for target in targets if target.service_port == targets[0].service_port]
    known = (context.services.by_id.get(service) for service in dict.fromkeys(same))
    return tuple(service for service in known if service is not None)


def _rule(services: tuple[Service, ...], workload: Workload) -> MergedRule | None:
    """The rule of the winning service, if it has a policy. Those with a selector are for clients."""
    if not services:
        return None
    rules = workload.scope.rules.get(services[0].hostname, ())
    rule = select_rule(rules, workload.key.scope.namespace, labels=None)
    return rule if rule is not None and rule.spec.traffic_policy is not None else None


def build_inbound_cluster(inputs: InboundCluster) -> tuple[Resource, ...]:
    """The cluster of one port."""
    config = inputs.mesh.config
    cluster = Cluster(
        name=inbound_cluster(inputs.port),
        alt_stat_name=_stat_name(inputs, config.inbound_cluster_stat_name),
        connect_timeout=connect_timeout(inputs.pool, config),
        circuit_breakers=build_circuit_breakers(inputs.pool),
        upstream_connection_options=build_connection_options(inputs.pool, config),
        typed_extension_protocol_options=build_protocol_options(
            HttpSettings(
                version=inbound_version(inputs.protocol, inputs.pool),
                pool=inputs.pool,
                keeps_header_case=inputs.preserves_case and may_speak_http1(inputs.protocol),
            )
        ),
        common_lb_config=ClusterCommonLbConfig(),
        metadata=_metadata(inputs) if inputs.istio else None,
    )
    _set_application(cluster, inputs)
    return (encode_resource(cluster.name, cluster),)


def _metadata(inputs: InboundCluster) -> Metadata | None:
    return inbound_metadata(inputs.services if inputs.mesh.features.telemetry_labels else (), inputs.rule)


def _set_application(cluster: Cluster, inputs: InboundCluster) -> None:
    application = inputs.application
    if application.binds:
        cluster.upstream_bind_config = inbound_bind_config(inputs.ip_mode)
    if application == ORIGINAL:
        cluster.type = ClusterDiscoveryType.ORIGINAL_DST
        cluster.lb_policy = ClusterLbPolicy.CLUSTER_PROVIDED
        cluster.cleanup_interval = duration(NEVER)
        return
    cluster.type = ClusterDiscoveryType.STATIC
    endpoint = EnvoyEndpoint(address=build_address(application.address, application.port))
    cluster.load_assignment = ClusterLoadAssignment(
        cluster_name=cluster.name, endpoints=[LocalityLbEndpoints(lb_endpoints=[LbEndpoint(endpoint=endpoint)])]
    )


def _stat_name(inputs: InboundCluster, pattern: str) -> str:
    if not pattern or not inputs.services:
        return plain_stat_name(inbound_cluster(inputs.port))
    service = inputs.services[0]
    port = service.port(inputs.service_port)
    name = port.name if port is not None else ""
    return pattern_stat_name(pattern, service, inputs.service_port, name, "", target_port=inputs.port)
