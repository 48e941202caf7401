"""Names that proxies, dashboards and policies know: clusters, listeners, filter chains (networking.md §0.2, §2.1).

Other people's tools parse these, so they are istiod's to the letter. No resource is built here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trierarch.push.request import PushRequest

VIRTUAL_OUTBOUND = "virtualOutbound"
VIRTUAL_INBOUND = "virtualInbound"

BLACK_HOLE_CLUSTER = "BlackHoleCluster"
PASSTHROUGH_CLUSTER = "PassthroughCluster"
INBOUND_PASSTHROUGH_CLUSTER = "InboundPassthroughCluster"
ALLOW_ANY_DNS_CLUSTER = "AllowAnyDynamicDNSCluster"

OUTBOUND = "outbound"
INBOUND = "inbound"

_SNI_SEPARATOR = "_."
_FIELDS = 4


class ClusterName(NamedTuple):
    """A cluster's name taken apart: `outbound|80|v1|web.shop.svc.cluster.local`, `inbound|8080||`.

    For SNI the same four are joined otherwise, because `|` may not be part of a host name.
    """

    direction: str
    port: int
    subset: str
    host: str

    def __str__(self) -> str:
        return f"{self.direction}|{self.port}|{self.subset}|{self.host}"

    @property
    def sni(self) -> str:
        """The name as a server name: `outbound_.80_.v1_.web.shop.svc.cluster.local`."""
        return _SNI_SEPARATOR.join((self.direction, str(self.port), self.subset, self.host))


def outbound_cluster(port: int, subset: str, host: str) -> str:
    """The name of the cluster for a port of a service, or for a subset of it (subset "": all endpoints)."""
    return f"{OUTBOUND}|{port}|{subset}|{host}"


def inbound_cluster(port: int) -> str:
    """The name of the cluster for a port of the workload itself."""
    return f"{INBOUND}|{port}||"


def parse_cluster_name(name: str) -> ClusterName | None:
    """The inverse of `str` and of `sni`; None for a name that has no four parts, such as `BlackHoleCluster`."""
    separator = _SNI_SEPARATOR if name.startswith(OUTBOUND + _SNI_SEPARATOR) else "|"
    parts = name.split(separator)
    if len(parts) != _FIELDS or not (parts[1].isascii() and parts[1].isdigit()):
        return None
    direction, port, subset, host = parts
    return ClusterName(direction, int(port), subset, host)


def touched_assignments(names: Iterable[str], request: PushRequest) -> frozenset[str]:
    """Those of these names of load assignments whose service a request touches (xds-server.md §5.6)."""
    hosts = {key.name for key in request.keys if key.kind in ("ServiceEntry", "Endpoints")}
    parsed = ((name, parse_cluster_name(name)) for name in names)
    return frozenset(name for name, parts in parsed if parts is not None and parts.host in hosts)
