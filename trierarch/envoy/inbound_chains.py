"""Filter chains of a workload's ports: which connections a port accepts, and what is done with them (§4.7).

Theory. A port's protocol and its mode (`PeerAuthentication`) choose a row of `MATRIX`, which is the table of
networking.md §4.7; a row is the shapes of the port's chains. Envoy first looks for chains with the connection's
destination port and never turns back from there, so a connection that no shape of its port fits is closed.

A proxy without certificates cannot terminate TLS. Where both kinds are accepted it takes plaintext; where mTLS is
demanded it takes nothing: to accept plaintext there would be what the policy forbids.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.peer_authentication import MutualTlsMode
from trierarch.envoy.database_filters import understood
from trierarch.envoy.filter_chains import PLAINTEXT_HTTP, RAW_BUFFER, TLS, ChainMatch, FilterChain
from trierarch.envoy.http_connection import HttpConnection, HttpProfile, select_profile
from trierarch.envoy.inbound_tls import MeshServerTls, UserServerTls, select_mesh_tls
from trierarch.envoy.names import BLACK_HOLE_CLUSTER, VIRTUAL_INBOUND
from trierarch.envoy.rbac import select_access
from trierarch.envoy.routes_inbound import InboundRoute
from trierarch.envoy.tcp_proxy import TcpProxy
from trierarch.envoy.upstream_tls import MESH, PEER_EXCHANGE
from trierarch.push.model import PortProtocol
from trierarch.push.proxy import SecretSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trierarch.envoy.inbound_ports import InboundPort, Workload
    from trierarch.push.mesh import Features


class Handling(Enum):
    """What a chain does with its connections."""

    HTTP = "HTTP"
    TCP = "TCP"
    REFUSAL = "refusal"


class PortClass(Enum):
    """What is known of what is spoken at a port. AUTO: nothing."""

    HTTP = "HTTP"
    TCP = "TCP"
    AUTO = "auto"


class ChainShape(NamedTuple):
    """Which connections, and what is done with them. No `transport` or `protocols`: any; `terminates` TLS."""

    handling: Handling
    transport: str = ""
    protocols: tuple[str, ...] = ()
    terminates: bool = False


MESH_HTTP = ("istio-http/1.0", "istio-http/1.1", "istio-h2")
"""Offered in ALPN by clients of the mesh that are about to speak HTTP."""
MESH_TCP = (PEER_EXCHANGE, MESH)
"""Offered for anything else."""
MESH_ANY = (MESH, PEER_EXCHANGE, *MESH_HTTP)

_PLAIN_HTTP = ChainShape(Handling.HTTP, RAW_BUFFER)
_SNIFFED_HTTP = ChainShape(Handling.HTTP, RAW_BUFFER, PLAINTEXT_HTTP)
_PLAIN_TCP = ChainShape(Handling.TCP, RAW_BUFFER)
_ANY_TLS_IS_HTTP = ChainShape(Handling.HTTP, TLS, terminates=True)
_ANY_TLS_IS_TCP = ChainShape(Handling.TCP, TLS, terminates=True)
_MESH_HTTP = ChainShape(Handling.HTTP, TLS, MESH_HTTP, terminates=True)
_FOREIGN_TLS = ChainShape(Handling.TCP, TLS)
"""TLS of the application's own."""

MATRIX: Mapping[PortClass, Mapping[MutualTlsMode, tuple[ChainShape, ...]]] = {
    PortClass.HTTP: {
        MutualTlsMode.STRICT: (_ANY_TLS_IS_HTTP,),
        MutualTlsMode.PERMISSIVE: (ChainShape(Handling.HTTP, TLS, MESH_ANY, terminates=True), _PLAIN_HTTP),
        MutualTlsMode.DISABLE: (_PLAIN_HTTP,),
    },
    PortClass.TCP: {
        MutualTlsMode.STRICT: (_ANY_TLS_IS_TCP,),
        MutualTlsMode.PERMISSIVE: (
            ChainShape(Handling.TCP, TLS, MESH_ANY, terminates=True),
            _FOREIGN_TLS,
            _PLAIN_TCP,
        ),
        MutualTlsMode.DISABLE: (_PLAIN_TCP,),
    },
    PortClass.AUTO: {
        MutualTlsMode.STRICT: (_MESH_HTTP, _ANY_TLS_IS_TCP),
        MutualTlsMode.PERMISSIVE: (
            _MESH_HTTP,
            _SNIFFED_HTTP,
            ChainShape(Handling.TCP, TLS, MESH_TCP, terminates=True),
            _PLAIN_TCP,
            _FOREIGN_TLS,
        ),
        MutualTlsMode.DISABLE: (_SNIFFED_HTTP, _PLAIN_TCP),
    },
}

REFUSED = (ChainShape(Handling.REFUSAL),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSettings:
    """What all chains of a workload have in common. `exchanges`: peers exchange who they are."""

    profile: HttpProfile
    tls: MeshServerTls
    exchanges: bool
    idle_timeout: float | None
    features: Features

    @property
    def has_certificates(self) -> bool:
        """Whether the proxy can terminate TLS."""
        return self.tls.source is not SecretSource.NONE


def select_settings(workload: Workload) -> ChainSettings:
    """What the mesh and the workload's proxy say about all of its chains."""
    key, mesh = workload.key, workload.context.mesh
    exchanges = key.capabilities.istio and mesh.features.metadata_exchange
    return ChainSettings(
        profile=replace(select_profile(key, mesh, inbound=True), access=select_access(key, mesh), tokens=key.tokens),
        tls=select_mesh_tls(key.capabilities, mesh, exchanges=exchanges),
        exchanges=exchanges,
        idle_timeout=key.idle_timeout,
        features=mesh.features,
    )


def select_shapes(port: InboundPort, *, certificates: bool) -> tuple[ChainShape, ...]:
    """The row of the matrix for a port."""
    rows = MATRIX[_class(port.protocol)]
    mode = MutualTlsMode.STRICT if terminates_user_tls(port) else port.mode
    if certificates:
        return rows[mode]
    return REFUSED if mode is MutualTlsMode.STRICT else rows[MutualTlsMode.DISABLE]


def terminates_user_tls(port: InboundPort) -> bool:
    """Whether a Sidecar's TLS is in force: mutual TLS of the mesh goes before it."""
    return port.user_tls is not None and port.mode is MutualTlsMode.DISABLE


def _class(protocol: PortProtocol) -> PortClass:
    if protocol.is_http:
        return PortClass.HTTP
    return PortClass.AUTO if protocol.is_auto else PortClass.TCP


def black_hole_chain(settings: ChainSettings, port: int) -> FilterChain:
    """Connections to the listener's own port would go round in circles."""
    proxy = TcpProxy(stat_prefix=BLACK_HOLE_CLUSTER, clusters=BLACK_HOLE_CLUSTER, exchanges_metadata=settings.exchanges)
    return FilterChain(name=f"{VIRTUAL_INBOUND}-blackhole", match=ChainMatch(destination_port=port), filters=proxy)


def port_chains(port: InboundPort, workload: Workload, settings: ChainSettings) -> Iterator[FilterChain]:
    """The chains of a port, in the order of its row."""
    for shape in select_shapes(port, certificates=settings.has_certificates):
        yield FilterChain(
            name=port.http_name if shape.handling is Handling.HTTP else port.tcp_name,
            match=ChainMatch(
                destination_port=port.number,
                transport_protocol=shape.transport,
                application_protocols=tuple(_spoken(shape.protocols, settings)),
            ),
            filters=_filters(shape.handling, port, workload, settings),
            source=port.source,
            tls=_tls(port, workload, settings) if shape.terminates else None,
        )


def _filters(
    handling: Handling, port: InboundPort, workload: Workload, settings: ChainSettings
) -> HttpConnection | TcpProxy:
    match handling:
        case Handling.HTTP:
            return _http(port, workload, settings)
        case Handling.TCP:
            return _tcp(port, settings)
        case Handling.REFUSAL:
            return replace(_tcp(port, settings), stat_prefix=BLACK_HOLE_CLUSTER, clusters=BLACK_HOLE_CLUSTER)


def _spoken(protocols: Iterable[str], settings: ChainSettings) -> Iterator[str]:
    """Only Istio's proxy can answer a peer that wants to exchange who they are (§8.2)."""
    istio = settings.profile.istio
    return (protocol for protocol in protocols if istio or protocol != PEER_EXCHANGE)


def _tls(port: InboundPort, workload: Workload, settings: ChainSettings) -> MeshServerTls | UserServerTls:
    if port.user_tls is None or not terminates_user_tls(port):
        return settings.tls
    defaults = workload.context.mesh.config.tls_defaults
    return UserServerTls(source=settings.tls.source, settings=port.user_tls, defaults=defaults)


def _http(port: InboundPort, workload: Workload, settings: ChainSettings) -> HttpConnection:
    return HttpConnection(
        profile=settings.profile,
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


def _tcp(port: InboundPort, settings: ChainSettings) -> TcpProxy:
    return TcpProxy(
        stat_prefix=port.tcp_stat_prefix,
        clusters=port.cluster,
        idle_timeout=settings.idle_timeout,
        exchanges_metadata=settings.exchanges,
        access=settings.profile.access,
        database=understood(port.protocol, settings.features),
        logs=settings.profile.logs,
    )
