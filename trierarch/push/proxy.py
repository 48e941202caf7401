"""`Proxy`: what a client says about itself in its Node, decoded and checked once (networking.md §0.1).

Its place in the mesh (labels of its Pod, services that it serves, Sidecar) depends on the snapshot: see `view.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from trierarch.push.model import NOWHERE, Locality

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    """Where the proxy gets certificates from. NONE means: no TLS context at all is sent (architecture.md §2)."""

    AGENT = "agent"
    ADS = "ads"
    FILES = "files"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What may be sent to a proxy without being rejected. Part of every view key.

    `extensions` lists the extensions that the Node names, or is None if it named none: then `istio` decides. `istio`:
    an Istio proxy with Istio's own filters (metadata ISTIO_VERSION, or "istio.stats" among the extensions).
    """

    istio: bool = False
    secrets: SecretSource = SecretSource.NONE
    vhds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A client of the control plane. `id` is "pod.namespace", `node_id` the whole "type~ip~id~domain"."""

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
    capabilities: Capabilities = Capabilities()
    metadata: Mapping[str, object] = field(default_factory=dict, compare=False, hash=False, repr=False)

    @property
    def ip_mode(self) -> IPMode:
        """The families of the proxy's addresses."""
        six = [":" in ip for ip in self.ips]
        if all(six):
            return IPMode.IPV6
        return IPMode.DUAL if any(six) else IPMode.IPV4
