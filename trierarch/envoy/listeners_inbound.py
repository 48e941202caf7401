"""Inbound listeners of a sidecar: virtualInbound, and the Sidecar's ingress listeners that bind real ports (§4.7).

Each port of the workload becomes chains by the class of its protocol (`CHAINS`); connections to no known port pass
through. Everything is plaintext here: the matrix of mutual TLS will multiply the rows of the table before they are
rendered, and add the TLS inspector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.sidecar import CaptureMode
from trierarch.envoy.filter_chains import (
    PLAINTEXT_HTTP,
    RAW_BUFFER,
    ChainMatch,
    FilterChain,
    chain_piece,
)
from trierarch.envoy.http_connection import HttpConnection, HttpProfile, select_profile
from trierarch.envoy.listener_frames import HTTP_INSPECTOR, Inspector, ListenerFrame, frame_piece
from trierarch.envoy.names import BLACK_HOLE_CLUSTER, INBOUND_PASSTHROUGH_CLUSTER, VIRTUAL_INBOUND, inbound_cluster
from trierarch.envoy.routes_inbound import InboundRoute
from trierarch.envoy.source_metadata import config_path
from trierarch.envoy.stat_names import END, pattern_stat_name
from trierarch.envoy.tcp_proxy import TcpProxy
from trierarch.envoy.units import Plan, Splice
from trierarch.push.model import UNSPECIFIED_ADDRESS, PortProtocol, Registry, Resolution, Service
from trierarch.push.port_protocols import parse_protocol
from trierarch.push.proxy import Interception, IPMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trierarch.config.sidecar import IngressListener, SidecarPort
    from trierarch.push.context import PushContext
    from trierarch.push.model import ServiceTarget
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import InboundKey


class ChainKind(Enum):
    """What a chain does with its connections."""

    HTTP = "HTTP"
    TCP = "TCP"


class ChainShape(NamedTuple):
    """A row of the chain matrix: which plaintext connections, and what is done with them. No `protocols`: all."""

    kind: ChainKind
    protocols: tuple[str, ...] = ()


HTTP_CHAINS = (ChainShape(ChainKind.HTTP),)
TCP_CHAINS = (ChainShape(ChainKind.TCP),)
AUTO_CHAINS = (ChainShape(ChainKind.HTTP, PLAINTEXT_HTTP), ChainShape(ChainKind.TCP))
"""The column without TLS of the matrix in networking.md §4.7."""


_NO_SERVICE = Service(
    hostname="", namespace="", name="", registry=Registry.EXTERNAL, resolution=Resolution.PASSTHROUGH, ports=()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundPort:
    """A port of the workload, or (number 0) all that are not known. `bind` and `name` are those of its listener or of
    its chains; `route_port` and `operation` name its requests; `source` is the Sidecar that asked for it.
    """

    number: int
    protocol: PortProtocol
    bind: str
    http_name: str
    tcp_name: str
    cluster: str
    http_stat_prefix: str
    tcp_stat_prefix: str
    route_port: int
    operation: str
    source: str = ""

    @property
    def shapes(self) -> tuple[ChainShape, ...]:
        """The chains that a port of this protocol has."""
        if self.protocol.is_http:
            return HTTP_CHAINS
        return AUTO_CHAINS if self.protocol.is_auto else TCP_CHAINS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Workload:
    """The workload whose listeners these are, and what all its connection managers have in common."""

    key: InboundKey
    scope: SidecarScope
    context: PushContext
    profile: HttpProfile

    @property
    def wildcard(self) -> str:
        return "::" if self.key.ip_mode is IPMode.IPV6 else UNSPECIFIED_ADDRESS

    @property
    def captures(self) -> bool:
        """Whether traffic is redirected to the proxy."""
        return self.key.interception is not Interception.NONE


def plan_inbound_listeners(key: InboundKey, scope: SidecarScope, context: PushContext) -> Plan:
    """virtualInbound, unless nothing is redirected to it, and then the listeners that bind ports of their own."""
    profile = select_profile(key, context.mesh, inbound=True)
    workload = _Workload(key=key, scope=scope, context=context, profile=profile)
    bound, captured = _select_ports(workload)
    if workload.captures:
        yield _plan_virtual_inbound(workload, captured)
    for port in bound:
        yield _plan_bound(workload, port)


def _select_ports(workload: _Workload) -> tuple[list[InboundPort], list[InboundPort]]:
    """Ports that have listeners of their own, and those that virtualInbound serves.

    Ingress listeners of a Sidecar replace the ports of services (or, by a switch, go before them).
    """
    bound: dict[int, InboundPort] = {}
    captured: dict[int, InboundPort] = {}
    sidecar = workload.scope.sidecar
    for listener in sidecar.spec.ingress if sidecar is not None else ():
        if listener.port is not None:
            real = not workload.captures or listener.capture_mode is CaptureMode.NONE
            ports = bound if real else captured
            ports.setdefault(listener.port.number, _ingress_port(workload, listener, listener.port))
    explicit = bound.keys() | captured.keys()
    if workload.captures and (not explicit or workload.context.mesh.features.inbound_listener_merge):
        for port in _service_ports(workload):
            if port.number not in explicit:
                captured.setdefault(port.number, port)
    return list(bound.values()), sorted(captured.values(), key=lambda port: port.number)


def _service_ports(workload: _Workload) -> Iterator[InboundPort]:
    for target in workload.key.targets:
        name = f"{workload.wildcard}_{target.target_port}"
        cluster = inbound_cluster(target.target_port)
        yield InboundPort(
            number=target.target_port,
            protocol=target.protocol,
            bind=workload.wildcard,
            http_name=name,
            tcp_name=name,
            cluster=cluster,
            http_stat_prefix=f"inbound_{name};",
            tcp_stat_prefix=_stat_prefix(workload, target),
            route_port=target.service_port,
            operation=f"{target.service.host}:{target.service_port}/*",
        )


def _stat_prefix(workload: _Workload, target: ServiceTarget) -> str:
    """The cluster's name, or what the mesh's pattern makes of the service."""
    pattern = workload.context.mesh.config.inbound_cluster_stat_name
    service = workload.context.services.by_id.get(target.service)
    if not pattern or service is None:
        return inbound_cluster(target.target_port)
    port = service.port(target.service_port)
    name = port.name if port is not None else ""
    return pattern_stat_name(pattern, service, target.service_port, name, "", target.target_port).removesuffix(END)


def _ingress_port(workload: _Workload, listener: IngressListener, port: SidecarPort) -> InboundPort:
    sidecar = workload.scope.sidecar
    assert sidecar is not None, "an ingress listener belongs to a Sidecar"
    bind = listener.bind or workload.key.address
    name = f"{bind}_{port.number}"
    cluster = inbound_cluster(port.number)
    return InboundPort(
        number=port.number,
        protocol=parse_protocol(port.protocol),
        bind=bind,
        http_name=name,
        tcp_name=name,
        cluster=cluster,
        http_stat_prefix=f"inbound_{name};",
        tcp_stat_prefix=cluster,
        route_port=port.number,
        operation=f"{sidecar.key.name}.{sidecar.key.namespace}:{port.number}/*",
        source=config_path(sidecar),
    )


def _passthrough(workload: _Workload) -> InboundPort:
    """Traffic to a port that no service has: told apart by its bytes, and sent where it wanted to go."""
    return InboundPort(
        number=0,
        protocol=PortProtocol.UNSUPPORTED,
        bind=workload.wildcard,
        http_name=f"{VIRTUAL_INBOUND}-catchall-http",
        tcp_name=VIRTUAL_INBOUND,
        cluster=INBOUND_PASSTHROUGH_CLUSTER,
        http_stat_prefix=f"{INBOUND_PASSTHROUGH_CLUSTER};",
        tcp_stat_prefix=_passthrough_stat_prefix(workload),
        route_port=0,
        operation=":0/*",
    )


def _passthrough_stat_prefix(workload: _Workload) -> str:
    """A pattern of the mesh's is filled in for no service at all."""
    pattern = workload.context.mesh.config.inbound_cluster_stat_name
    if not pattern:
        return INBOUND_PASSTHROUGH_CLUSTER
    return pattern_stat_name(pattern, _NO_SERVICE, 0, VIRTUAL_INBOUND, "", 0).removesuffix(END)


def _plan_virtual_inbound(workload: _Workload, ports: list[InboundPort]) -> Splice:
    """Where iptables sends everything that is meant for the workload."""
    mesh = workload.context.mesh
    port = mesh.config.proxy_inbound_listen_port
    frame = ListenerFrame(
        name=VIRTUAL_INBOUND,
        addresses=_virtual_addresses(workload),
        port=port,
        outbound=False,
        bind_to_port=True,
        inspectors=(_http_inspector(ports, port),),
        detection_timeout=mesh.config.protocol_detection_timeout or 0.0,
        restores_destination=True,
        exact_balance=workload.key.exact_balance,
        transparent=workload.key.interception is Interception.TPROXY,
    )
    chains = [_black_hole(workload, port), *_chains(workload, [_passthrough(workload), *ports])]
    return Splice(VIRTUAL_INBOUND, (frame_piece(frame), *(chain_piece(chain) for chain in chains)))


def _virtual_addresses(workload: _Workload) -> tuple[str, ...]:
    dual = workload.key.ip_mode is IPMode.DUAL and workload.context.mesh.features.dual_stack
    return (UNSPECIFIED_ADDRESS, "::") if dual else (workload.wildcard,)


def _http_inspector(ports: Iterable[InboundPort], listen_port: int) -> Inspector:
    """It looks at all traffic but that to ports whose protocol is known, and to the listener itself."""
    known = sorted(port.number for port in ports if not port.protocol.is_auto)
    return HTTP_INSPECTOR.sparing((*known, listen_port))


def _plan_bound(workload: _Workload, port: InboundPort) -> Splice:
    """An ingress listener that applications' clients connect to."""
    frame = ListenerFrame(
        name=port.http_name,
        addresses=(port.bind,),
        port=port.number,
        outbound=False,
        bind_to_port=True,
        inspectors=(HTTP_INSPECTOR,) if port.protocol.is_auto else (),
        detection_timeout=workload.context.mesh.config.protocol_detection_timeout or 0.0,
        exact_balance=workload.key.exact_balance,
    )
    chains = (chain_piece(chain) for chain in _chains(workload, [port]))
    return Splice(port.http_name, (frame_piece(frame), *chains))


def _black_hole(workload: _Workload, port: int) -> FilterChain:
    """Connections to the listener's own port would go round in circles."""
    proxy = _tcp_proxy(workload, BLACK_HOLE_CLUSTER, BLACK_HOLE_CLUSTER)
    return FilterChain(
        name=f"{VIRTUAL_INBOUND}-blackhole",
        match=ChainMatch(destination_port=port),
        filters=replace(proxy, idle_timeout=None),
    )


def _chains(workload: _Workload, ports: Iterable[InboundPort]) -> Iterator[FilterChain]:
    for port in ports:
        for shape in port.shapes:
            yield _chain(workload, port, shape)


def _chain(workload: _Workload, port: InboundPort, shape: ChainShape) -> FilterChain:
    http = shape.kind is ChainKind.HTTP
    match = ChainMatch(
        destination_port=port.number, transport_protocol=RAW_BUFFER, application_protocols=shape.protocols
    )
    return FilterChain(
        name=port.http_name if http else port.tcp_name,
        match=match,
        filters=_http(workload, port) if http else _tcp(workload, port),
        source=port.source,
    )


def _http(workload: _Workload, port: InboundPort) -> HttpConnection:
    return HttpConnection(
        profile=workload.profile,
        stat_prefix=port.http_stat_prefix,
        routes=InboundRoute(
            cluster=port.cluster,
            port=port.route_port,
            operation=port.operation,
            grpc=port.protocol in (PortProtocol.GRPC, PortProtocol.GRPC_WEB),
            retry=workload.context.mesh.config.default_inbound_http_retry_policy,
        ),
        grpc_web=port.protocol is PortProtocol.GRPC_WEB,
        http2=port.protocol.is_http2,
    )


def _tcp(workload: _Workload, port: InboundPort) -> TcpProxy:
    proxy = _tcp_proxy(workload, port.tcp_stat_prefix, port.cluster)
    return replace(proxy, reads_mongo=port.protocol is PortProtocol.MONGO)


def _tcp_proxy(workload: _Workload, stat_prefix: str, cluster: str) -> TcpProxy:
    key = workload.key
    exchanges = key.capabilities.istio and workload.context.mesh.features.metadata_exchange
    return TcpProxy(
        stat_prefix=stat_prefix, clusters=cluster, idle_timeout=key.idle_timeout, exchanges_metadata=exchanges
    )
