"""Sidecar: what a workload's proxy listens to and what it knows of the mesh (networking.md §0.4, §9.2)."""

from dataclasses import dataclass
from enum import StrEnum

from trierarch.config.common import Destination, WorkloadSelector
from trierarch.config.destination_rule import ConnectionPool
from trierarch.config.server_tls import ServerTls
from trierarch.config.wire import UInt32


class CaptureMode(StrEnum):
    """How traffic reaches the listener. NONE means that applications connect to it by its address."""

    DEFAULT = "DEFAULT"
    IPTABLES = "IPTABLES"
    NONE = "NONE"


class OutboundMode(StrEnum):
    """What happens to traffic for destinations that nobody defined."""

    REGISTRY_ONLY = "REGISTRY_ONLY"
    ALLOW_ANY = "ALLOW_ANY"


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarPort:
    """A port of a listener. `protocol` is as written; `target_port` has no effect."""

    number: UInt32 = 0
    protocol: str = ""
    name: str = ""
    target_port: UInt32 = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EgressListener:
    """Hosts (`namespace/dns`) that are imported; with a port, also a listener of their own."""

    port: SidecarPort | None = None
    bind: str = ""
    capture_mode: CaptureMode = CaptureMode.DEFAULT
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IngressListener:
    """A port of the workload and where the proxy finds the application (`ip:port` or `unix://path`)."""

    port: SidecarPort | None = None
    bind: str = ""
    capture_mode: CaptureMode = CaptureMode.DEFAULT
    default_endpoint: str = ""
    tls: ServerTls | None = None
    connection_pool: ConnectionPool | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SidecarOutboundTrafficPolicy:
    """The mode for unknown destinations, or a proxy for them. REGISTRY_ONLY is the mode of an empty policy."""

    mode: OutboundMode = OutboundMode.REGISTRY_ONLY
    egress_proxy: Destination | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sidecar:
    """Scope and listeners of the workloads selected (of the whole namespace without a selector)."""

    workload_selector: WorkloadSelector | None = None
    ingress: tuple[IngressListener, ...] = ()
    egress: tuple[EgressListener, ...] = ()
    inbound_connection_pool: ConnectionPool | None = None
    outbound_traffic_policy: SidecarOutboundTrafficPolicy | None = None
