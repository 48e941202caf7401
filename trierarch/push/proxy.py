"""`Proxy`: what a client says about itself in its Node, decoded and checked once (networking.md §0.1).

Its place in the mesh (labels of its Pod, services that it serves, Sidecar) depends on the snapshot: see `view.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import RemoteError
from protocol.statuses import INVALID_ARGUMENT
from trierarch.config.hosts import is_ip_address
from trierarch.push.model import NOWHERE, Locality
from trierarch.push.node_metadata import NodeMetadata, shown
from trierarch.push.telemetry import tracing_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.config.proxy_config import ConnectionSettings, ProxyHeaders
    from trierarch.push.telemetry import TracingSettings


class ProxyType(StrEnum):
    """First part of the node id."""

    SIDECAR = "sidecar"
    ROUTER = "router"
    WAYPOINT = "waypoint"
    ZTUNNEL = "ztunnel"
    AGENTGATEWAY = "agentgateway"


class IPMode(Enum):
    """Which families a proxy's own addresses have."""

    IPV4 = 4
    IPV6 = 6
    DUAL = 46


class Interception(StrEnum):
    """How traffic reaches the proxy (metadata INTERCEPTION_MODE)."""

    REDIRECT = "REDIRECT"
    TPROXY = "TPROXY"
    NONE = "NONE"


class SecretSource(StrEnum):
    """Where the proxy gets certificates from. NONE means: no TLS context at all is sent."""

    AGENT = "agent"
    ADS = "ads"
    FILES = "files"
    NONE = "none"


class CertificateFiles(NamedTuple):
    """Paths of a certificate, its key and the roots to trust; "" where the workload's own secret is used."""

    certificate: str = ""
    key: str = ""
    roots: str = ""


NO_FILES = CertificateFiles()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What may be sent to a proxy without being rejected. Part of every view key.

    `istio`: an Istio proxy with Istio's own filters (metadata ISTIO_VERSION, or "istio.stats" among the extensions of
    its Node). `vhds`: it wants the virtual hosts of its routes one by one (metadata TRIERARCH_VHDS; xds-server.md §16).
    `client_files`, `server_files`: certificates beside an Istio proxy, used in place of the workload's own.
    """

    istio: bool = False
    secrets: SecretSource = SecretSource.NONE
    vhds: bool = False
    client_files: CertificateFiles = NO_FILES
    server_files: CertificateFiles = NO_FILES

    def with_whole_routes(self) -> Capabilities:
        """The same for whom it makes no difference how routes come."""
        return replace(self, vhds=False) if self.vhds else self


PROXYLESS_GRPC = "grpc"
"""What such a client gives as GENERATOR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A client of the control plane. `id` is "pod.namespace", `node_id` the whole "type~ip~id~domain".

    `own_ports`: where its bootstrap listens on all addresses. `balances_*`: its threads share connections exactly.
    `headers`, `connections` and `tracing`: what its own proxy configuration says of them; None leaves it to the mesh's.
    `metadata`: what anybody reads of its Node's.
    """

    node_id: str
    type: ProxyType
    id: str
    ips: tuple[str, ...]
    dns_domain: str
    namespace: str
    cluster: str
    labels: tuple[tuple[str, str], ...] = ()
    static_labels: tuple[tuple[str, str], ...] = ()
    locality: Locality = NOWHERE
    network: str = ""
    network_view: frozenset[str] = frozenset()
    node_name: str = ""
    service_account: str = ""
    workload_name: str = ""
    istio_version: str = ""
    interception: Interception = Interception.REDIRECT
    generator: str = ""
    dns_capture: bool = False
    http10: bool = False
    http_proxy_port: int = 0
    idle_timeout: float | None = None
    own_ports: frozenset[int] = frozenset()
    balances_inbound: bool = False
    balances_outbound: bool = False
    headers: ProxyHeaders | None = None
    connections: ConnectionSettings | None = None
    tracing: TracingSettings | None = None
    mesh_id: str = ""
    capabilities: Capabilities = Capabilities()
    metadata: Mapping[str, object] = field(default_factory=dict, compare=False, hash=False, repr=False)

    @property
    def is_proxyless(self) -> bool:
        """Whether it is a gRPC client or server that needs no proxy (networking.md §4.11)."""
        return self.generator == PROXYLESS_GRPC

    @property
    def ip_mode(self) -> IPMode:
        """The families of the proxy's addresses."""
        six = [":" in ip for ip in self.ips]
        if all(six):
            return IPMode.IPV6
        return IPMode.DUAL if any(six) else IPMode.IPV4


ISTIO_EXTENSION = "istio.stats"
"""An extension that only Istio's own proxy has."""

LONGEST_ID = 1024
"""Characters of a node id, which is in each line of the log about its proxy. Kubernetes' names come to 700."""

LONGEST_VERSION = 64
"""Characters of ISTIO_VERSION that are read: metrics are labelled by it."""

MOST_ADDRESSES = 256
"""Of one proxy: a pod has two at most, a machine one for each of its interfaces. To read one takes 3 µs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """A Node without its wire format. `extensions` is None if the Node lists none; `metadata` is plain JSON data."""

    id: str
    cluster: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)
    locality: Locality = NOWHERE
    extensions: tuple[str, ...] | None = None


def build_proxy(node: NodeInfo, *, default_cluster: str = "", delta: bool = True) -> Proxy:
    """The proxy that a Node describes (xds-server.md §4.5). `default_cluster` is that of a proxy that names none;
    `delta`: what its stream speaks, for not everything can be had over state of the world.

    Raises `RemoteError` (INVALID_ARGUMENT) if the id or the metadata cannot be understood.
    """
    kind, address, identity, domain = _id_parts(node.id)
    metadata = NodeMetadata(node.metadata)
    return Proxy(
        node_id=node.id,
        type=kind,
        id=identity,
        ips=_addresses(metadata.parts("INSTANCE_IPS"), address),
        dns_domain=domain,
        namespace=metadata.text("NAMESPACE") or _namespace_in(domain),
        cluster=metadata.text("CLUSTER_ID") or default_cluster,
        labels=metadata.pairs("LABELS"),
        static_labels=metadata.pairs("STATIC_LABELS"),
        locality=node.locality,
        network=metadata.text("NETWORK"),
        network_view=frozenset(metadata.parts("REQUESTED_NETWORK_VIEW")),
        node_name=metadata.text("NODE_NAME"),
        service_account=metadata.text("SERVICE_ACCOUNT"),
        workload_name=metadata.text("WORKLOAD_NAME"),
        istio_version=metadata.text("ISTIO_VERSION")[:LONGEST_VERSION],
        interception=_interception(metadata.text("INTERCEPTION_MODE")),
        generator=metadata.text("GENERATOR"),
        dns_capture=metadata.flag("DNS_CAPTURE"),
        http10=metadata.flag("HTTP10"),
        http_proxy_port=metadata.port("HTTP_PROXY_PORT"),
        idle_timeout=metadata.seconds("IDLE_TIMEOUT"),
        own_ports=frozenset(filter(None, map(metadata.port, ("ENVOY_STATUS_PORT", "ENVOY_PROMETHEUS_PORT")))),
        balances_inbound=metadata.flag("INBOUND_LISTENER_EXACT_BALANCE"),
        balances_outbound=metadata.flag("OUTBOUND_LISTENER_EXACT_BALANCE"),
        headers=metadata.proxy_headers("PROXY_CONFIG"),
        connections=metadata.connection_settings("PROXY_CONFIG"),
        tracing=_tracing(metadata),
        mesh_id=metadata.text("MESH_ID"),
        capabilities=_capabilities(node.extensions, metadata, delta=delta),
        metadata=node.metadata,
    )


def _id_parts(node_id: str) -> tuple[ProxyType, str, str, str]:
    parts = node_id.split("~")
    if len(parts) != 4 or len(node_id) > LONGEST_ID:
        raise RemoteError(INVALID_ARGUMENT, f"node id {shown(node_id)} is not TYPE~IP~NAME.NAMESPACE~DOMAIN")
    kind, address, identity, domain = parts
    if kind not in set(ProxyType):
        raise RemoteError(INVALID_ARGUMENT, f"node id {shown(node_id)} names no known type of proxy")
    return ProxyType(kind), address, identity, domain


def _addresses(instance_ips: tuple[str, ...], address: str) -> tuple[str, ...]:
    """INSTANCE_IPS if each of them is an address, else the one in the node id."""
    if len(instance_ips) > MOST_ADDRESSES:
        raise RemoteError(INVALID_ARGUMENT, f"a proxy with more than {MOST_ADDRESSES} addresses")
    if instance_ips and all(map(is_ip_address, instance_ips)):
        return instance_ips
    if not is_ip_address(address):
        raise RemoteError(INVALID_ARGUMENT, f"the proxy has no valid IP address: {shown(address)}")
    return (address,)


def _namespace_in(domain: str) -> str:
    """The first label of the DNS domain, if it has more than one."""
    first, dot, _ = domain.partition(".")
    return first if dot else ""


def _interception(mode: str) -> Interception:
    return Interception(mode) if mode in set(Interception) else Interception.REDIRECT


def _tracing(metadata: NodeMetadata) -> TracingSettings | None:
    stated = metadata.tracing("PROXY_CONFIG")
    return None if stated is None else tracing_settings(stated)


def _capabilities(extensions: tuple[str, ...] | None, metadata: NodeMetadata, *, delta: bool) -> Capabilities:
    """What a proxy can take: what it lists, else what its version implies."""
    istio = bool(metadata.text("ISTIO_VERSION")) if extensions is None else ISTIO_EXTENSION in extensions
    return Capabilities(
        istio=istio,
        secrets=SecretSource.AGENT if istio else _secret_source(metadata.text("TRIERARCH_SDS")),
        vhds=delta and metadata.flag("TRIERARCH_VHDS"),
        client_files=_files("CLIENT", metadata) if istio else NO_FILES,
        server_files=_files("SERVER", metadata) if istio else NO_FILES,
    )


def _files(side: str, metadata: NodeMetadata) -> CertificateFiles:
    names = ("CERT_CHAIN", "KEY", "ROOT_CERT")
    return CertificateFiles(*(metadata.text(f"TLS_{side}_{name}") for name in names))


def _secret_source(stated: str) -> SecretSource:
    choices = (SecretSource.ADS, SecretSource.FILES, SecretSource.NONE)
    if stated and stated not in choices:
        raise RemoteError(INVALID_ARGUMENT, f"node metadata TRIERARCH_SDS is none of ads, files, none: {shown(stated)}")
    return SecretSource(stated) if stated else SecretSource.NONE
