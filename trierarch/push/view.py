"""View keys: everything about a proxy that may influence what it is sent, by value, so that equal proxies share.

Two keys, because otherwise every workload would be a view of its own (architecture.md §5.3): the outbound key (what it
may call, shared by most proxies of a namespace) and the inbound key (what it serves itself). `select_view` makes both
from a proxy and a snapshot; it is asked again when a snapshot may have changed the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trierarch.config.objects import ObjectKey
    from trierarch.push.model import Locality, ServiceTarget
    from trierarch.push.proxy import Capabilities, Interception, IPMode, ProxyType


class ScopeKey(NamedTuple):
    """What decides a proxy's Sidecar scope: its namespace and the Sidecar that applies (None: import everything)."""

    namespace: str
    sidecar: ObjectKey | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundKey:
    """What decides a proxy's outbound configuration.

    `labels` holds only labels that some selector, failover priority or sourceLabels of the snapshot mentions;
    `node_name` is "" unless something depends on the node. `own_addresses` holds only addresses at which headless
    services would otherwise make the proxy call itself.
    """

    type: ProxyType
    scope: ScopeKey
    cluster: str
    dns_domain: str
    labels: frozenset[tuple[str, str]]
    network: str
    network_view: frozenset[str]
    locality: Locality
    node_name: str
    ip_mode: IPMode
    interception: Interception
    dns_capture: bool
    http10: bool
    http_proxy_port: int
    idle_timeout: float | None
    generator: str
    istio_version: str
    own_addresses: frozenset[str]
    capabilities: Capabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundKey:
    """What decides a proxy's inbound configuration.

    `address` is the proxy's first IP where the configuration names it (mode NONE, Sidecar ingress with defaultEndpoint
    0.0.0.0), else "".
    """

    type: ProxyType
    scope: ScopeKey
    targets: tuple[ServiceTarget, ...]
    labels: frozenset[tuple[str, str]]
    address: str
    ip_mode: IPMode
    interception: Interception
    http10: bool
    idle_timeout: float | None
    istio_version: str
    capabilities: Capabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Both keys of a proxy. Proxies with equal views are sent the same bytes."""

    outbound: OutboundKey
    inbound: InboundKey
