"""Small values that the tests of this folder have in common: keys of a plain sidecar, services, endpoints."""

from __future__ import annotations

from dataclasses import replace

from trierarch.push.model import Locality
from trierarch.push.proxy import Capabilities, Interception, IPMode, ProxyType
from trierarch.push.view import InboundKey, OutboundKey, ScopeKey

SHOP = ScopeKey("shop", None)
_OUTBOUND = OutboundKey(
    type=ProxyType.SIDECAR,
    scope=SHOP,
    cluster="Kubernetes",
    dns_domain="shop.svc.cluster.local",
    labels=frozenset(),
    network="",
    network_view=frozenset(),
    locality=Locality(),
    node_name="",
    ip_mode=IPMode.IPV4,
    interception=Interception.REDIRECT,
    dns_capture=False,
    http10=False,
    http_proxy_port=0,
    idle_timeout=None,
    generator="",
    istio_version="",
    own_addresses=frozenset(),
    capabilities=Capabilities(),
)
_INBOUND = InboundKey(
    type=ProxyType.SIDECAR,
    scope=SHOP,
    targets=(),
    labels=frozenset(),
    address="",
    ip_mode=IPMode.IPV4,
    interception=Interception.REDIRECT,
    http10=False,
    idle_timeout=None,
    istio_version="",
    capabilities=Capabilities(),
)


def outbound_key(**changes) -> OutboundKey:
    """The outbound key of a stock Envoy in namespace `shop`, with changes."""
    return replace(_OUTBOUND, **changes)


def inbound_key(**changes) -> InboundKey:
    """The inbound key of a stock Envoy in namespace `shop` that serves nothing, with changes."""
    return replace(_INBOUND, **changes)
