"""The neutral model of the mesh: services, ports, endpoints. No Kubernetes shape, no Envoy type.

Services and endpoints compare by identity: a unit of the snapshot whose inputs did not change is the same object as in
the snapshot before, and everything that is made from it is found again by that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

UNSPECIFIED_ADDRESS = "0.0.0.0"
"""The address of a service that has none of its own (networking.md §1.2)."""


class PortProtocol(StrEnum):
    """What is spoken on a service port (networking.md §1.3). UNSUPPORTED means: detect it."""

    HTTP = "HTTP"
    HTTP2 = "HTTP2"
    GRPC = "GRPC"
    GRPC_WEB = "GRPC-Web"
    HTTP_PROXY = "HTTP_PROXY"
    HTTPS = "HTTPS"
    TLS = "TLS"
    TCP = "TCP"
    MONGO = "Mongo"
    REDIS = "Redis"
    MYSQL = "MySQL"
    UDP = "UDP"
    UNSUPPORTED = "UnsupportedProtocol"

    @property
    def is_http(self) -> bool:
        """Known to be HTTP of some version."""
        return self in _HTTP

    @property
    def is_http2(self) -> bool:
        """Known to be HTTP/2."""
        return self in _HTTP2

    @property
    def is_tls(self) -> bool:
        """TLS that passes through as it is."""
        return self in (PortProtocol.HTTPS, PortProtocol.TLS)

    @property
    def is_auto(self) -> bool:
        """To be detected from the first bytes."""
        return self is PortProtocol.UNSUPPORTED


_HTTP2 = frozenset({PortProtocol.HTTP2, PortProtocol.GRPC, PortProtocol.GRPC_WEB})
_HTTP = _HTTP2 | {PortProtocol.HTTP, PortProtocol.HTTP_PROXY}


class Resolution(Enum):
    """How a service's endpoints are found (networking.md §1.1)."""

    CLIENT_SIDE = "ClientSideLB"
    DNS = "DNSLB"
    DNS_ROUND_ROBIN = "DNSRoundRobinLB"
    PASSTHROUGH = "Passthrough"
    ALIAS = "Alias"
    DYNAMIC_DNS = "DynamicDNS"


class Registry(StrEnum):
    """Who defined a service."""

    KUBERNETES = "Kubernetes"
    EXTERNAL = "External"


class TrafficDistribution(Enum):
    """A service's wish for near endpoints (networking.md §1.2)."""

    ANY = "any"
    SAME_ZONE = "same zone"
    SAME_NODE = "same node"


class ServicePort(NamedTuple):
    """One port of a service. `target`: the endpoint's port number, a container port's name, or 0 for "as number"."""

    number: int
    name: str
    protocol: PortProtocol
    target: int | str = 0


class Hostname(NamedTuple):
    """A service is identified by its namespace and hostname."""

    namespace: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Service:
    """A service as the mesh sees it (networking.md §1.1).

    `addresses` maps a cluster to the service's virtual IPs there; `default_address` is the first of the defining
    cluster or UNSPECIFIED_ADDRESS, and may be a CIDR. `export_to` is never empty: the mesh default is filled in, "." is
    replaced by the namespace. `selector` is the Kubernetes label selector, None without one. `subject_alt_names` are
    SANs stated by the user. `races_addresses`: its one name is resolved by clients, who connect to the address that
    answers first. `id` follows from the first two fields; it is asked for too often to be made each time.
    """

    hostname: str
    namespace: str
    name: str
    registry: Registry
    created: float = inf
    resolution: Resolution
    ports: tuple[ServicePort, ...]
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    default_address: str = UNSPECIFIED_ADDRESS
    auto_addresses: tuple[str, ...] = ()
    mesh_external: bool = False
    export_to: frozenset[str] = frozenset({"*"})
    subject_alt_names: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    selector: Mapping[str, str] | None = None
    node_local: bool = False
    traffic_distribution: TrafficDistribution = TrafficDistribution.ANY
    external_name: str = ""
    aliases: tuple[Hostname, ...] = ()
    publish_not_ready: bool = False
    headless: bool = False
    races_addresses: bool = False
    id: Hostname = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", Hostname(self.namespace, self.hostname))

    @property
    def age(self) -> tuple[float, str, str]:
        """Sorts services: the oldest first, then by name, then by namespace (networking.md §0.4)."""
        return (self.created, self.name, self.namespace)

    def port(self, number: int) -> ServicePort | None:
        """The port of that number, or None."""
        return next((port for port in self.ports if port.number == number), None)


class Health(Enum):
    """What is known of an endpoint's health (networking.md §1.4). UNKNOWN: nobody says; such endpoints are used."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    DRAINING = "draining"
    TERMINATING = "terminating"
    UNKNOWN = "unknown"


class Locality(NamedTuple):
    """Where something runs. Empty parts are unknown."""

    region: str = ""
    zone: str = ""
    subzone: str = ""

    @property
    def label(self) -> str:
        """`region/zone/subzone` without trailing empty parts; "" if nothing is known."""
        return "/".join(self).rstrip("/")


NOWHERE = Locality()
"""The locality of something that nobody located."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Endpoint:
    """One address and port behind one service port.

    `addresses[0]` is the first; there may be none if the endpoint is behind a gateway of its network. A path starting
    with "/" is a Unix socket (port 0); a host name occurs only in DNS services. `weight` 0 is unset.
    """

    addresses: tuple[str, ...]
    port: int
    port_name: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    service_account: str = ""
    locality: Locality = NOWHERE
    network: str = ""
    cluster: str = ""
    tls_mode: str = "disabled"
    workload_name: str = ""
    node_name: str = ""
    host_name: str = ""
    subdomain: str = ""
    weight: int = 0
    health: Health = Health.HEALTHY


class ServiceTarget(NamedTuple):
    """A port that a proxy serves itself (networking.md §1.5). By value, so that equal workloads share a view."""

    service: Hostname
    service_port: int
    target_port: int
    protocol: PortProtocol


class Listing(tuple[Service, ...]):
    """Services that all namespaces have alike, perhaps thousands: their hash is worked out once, and not for each."""

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash
