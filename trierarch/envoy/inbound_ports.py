"""Ports of a workload as its proxy serves them: those of its services or of its Sidecar, and all others (§4.7).

What is done with connections to a port is decided in `inbound_chains.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trierarch.config.peer_authentication import MutualTlsMode
from trierarch.config.server_tls import ServerTlsMode
from trierarch.config.sidecar import CaptureMode
from trierarch.envoy.names import INBOUND_PASSTHROUGH_CLUSTER, VIRTUAL_INBOUND, inbound_cluster
from trierarch.envoy.source_metadata import config_path
from trierarch.envoy.stat_names import END, pattern_stat_name
from trierarch.push.model import UNSPECIFIED_ADDRESS, PortProtocol, Registry, Resolution, Service
from trierarch.push.port_protocols import parse_protocol
from trierarch.push.proxy import Interception, IPMode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from trierarch.config.server_tls import ServerTls
    from trierarch.config.sidecar import IngressListener, SidecarPort
    from trierarch.push.context import PushContext
    from trierarch.push.model import ServiceTarget
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import InboundKey

_NO_SERVICE = Service(
    hostname="", namespace="", name="", registry=Registry.EXTERNAL, resolution=Resolution.PASSTHROUGH, ports=()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundPort:
    """A port of the workload, or (number 0) all that are not known. `bind` and `name` are those of its listener or of
    its chains; `route_port` and `operation` name its requests; `source` is the Sidecar that asked for it.

    `mode`: which connections it accepts; `user_tls`: TLS that a Sidecar wants terminated at it.
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
    mode: MutualTlsMode = MutualTlsMode.PERMISSIVE
    user_tls: ServerTls | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """The workload whose ports these are."""

    key: InboundKey
    scope: SidecarScope
    context: PushContext

    @property
    def wildcard(self) -> str:
        """The address that stands for all."""
        return "::" if self.key.ip_mode is IPMode.IPV6 else UNSPECIFIED_ADDRESS

    @property
    def captures(self) -> bool:
        """Whether traffic is redirected to the proxy."""
        return self.key.interception is not Interception.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundPorts:
    """`bound` ports have listeners of their own, virtualInbound serves `captured` ones; all others pass through it."""

    bound: tuple[InboundPort, ...]
    captured: tuple[InboundPort, ...]
    passing: tuple[InboundPort, ...]


def select_ports(workload: Workload) -> InboundPorts:
    """All ports. Ingress listeners of a Sidecar replace the ports of services (or, by a switch, go before them)."""
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
    return InboundPorts(
        bound=tuple(bound.values()),
        captured=tuple(captured[number] for number in sorted(captured)),
        passing=tuple(_passing(workload, bound.keys() | captured.keys())),
    )


def _passing(workload: Workload, known: AbstractSet[int]) -> Iterator[InboundPort]:
    """All other ports; and one by one those that a policy speaks of."""
    peers = workload.key.peers
    yield _passthrough(workload, 0, peers.default)
    yield from (_passthrough(workload, number, mode) for number, mode in peers.ports if number not in known)


def _service_ports(workload: Workload) -> Iterator[InboundPort]:
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
            mode=workload.key.peers.at(target.target_port),
        )


def _stat_prefix(workload: Workload, target: ServiceTarget) -> str:
    """The cluster's name, or what the mesh's pattern makes of the service."""
    pattern = workload.context.mesh.config.inbound_cluster_stat_name
    service = workload.context.services.by_id.get(target.service)
    if not pattern or service is None:
        return inbound_cluster(target.target_port)
    port = service.port(target.service_port)
    name = port.name if port is not None else ""
    return pattern_stat_name(pattern, service, target.service_port, name, "", target.target_port).removesuffix(END)


def _ingress_port(workload: Workload, listener: IngressListener, port: SidecarPort) -> InboundPort:
    sidecar = workload.scope.sidecar
    assert sidecar is not None, "an ingress listener belongs to a Sidecar"
    bind = listener.bind or workload.key.address
    name = f"{bind}_{port.number}"
    cluster = inbound_cluster(port.number)
    user_tls = _user_tls(workload, listener)
    protocol = parse_protocol(port.protocol)
    return InboundPort(
        number=port.number,
        protocol=PortProtocol.HTTP if user_tls is not None and protocol is PortProtocol.HTTPS else protocol,
        bind=bind,
        http_name=name,
        tcp_name=name,
        cluster=cluster,
        http_stat_prefix=f"inbound_{name};",
        tcp_stat_prefix=cluster,
        route_port=port.number,
        operation=f"{sidecar.key.name}.{sidecar.key.namespace}:{port.number}/*",
        source=config_path(sidecar),
        mode=workload.key.peers.at(port.number),
        user_tls=user_tls,
    )


def _user_tls(workload: Workload, listener: IngressListener) -> ServerTls | None:
    """TLS that the Sidecar wants terminated, if the control plane is told to honour that."""
    if listener.tls is None or listener.tls.mode is ServerTlsMode.PASSTHROUGH:
        return None
    return listener.tls if workload.context.mesh.features.tls_on_sidecar_ingress else None


def _passthrough(workload: Workload, number: int, mode: MutualTlsMode) -> InboundPort:
    """Traffic to a port that no service has (0: any): told apart by its bytes, and sent where it wanted to go."""
    return InboundPort(
        number=number,
        protocol=PortProtocol.UNSUPPORTED,
        bind=workload.wildcard,
        http_name=f"{VIRTUAL_INBOUND}-catchall-http",
        tcp_name=VIRTUAL_INBOUND,
        cluster=INBOUND_PASSTHROUGH_CLUSTER,
        http_stat_prefix=f"{INBOUND_PASSTHROUGH_CLUSTER};",
        tcp_stat_prefix=_passthrough_stat_prefix(workload),
        route_port=0,
        operation=":0/*",
        mode=mode,
    )


def _passthrough_stat_prefix(workload: Workload) -> str:
    """A pattern of the mesh's is filled in for no service at all."""
    pattern = workload.context.mesh.config.inbound_cluster_stat_name
    if not pattern:
        return INBOUND_PASSTHROUGH_CLUSTER
    return pattern_stat_name(pattern, _NO_SERVICE, 0, VIRTUAL_INBOUND, "", 0).removesuffix(END)
