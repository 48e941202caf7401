"""HTTP filters of a sidecar, in the one order that all connection managers keep (networking.md §4.1).

`STEPS` is that order: each step looks at the settings and gives the filters that stand at its place, often none. A new
feature (JWT, Wasm, telemetry, sessions) is a new step at its place in the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.extensions.filters.http.cors.v3 import Cors
from protocol.proto.envoy.extensions.filters.http.dynamic_forward_proxy.v3 import FilterConfig as DynamicForwardProxy
from protocol.proto.envoy.extensions.filters.http.fault.v3 import HttpFault
from protocol.proto.envoy.extensions.filters.http.grpc_stats.v3 import FilterConfig as GrpcStats
from protocol.proto.envoy.extensions.filters.http.grpc_web.v3 import GrpcWeb
from protocol.proto.envoy.extensions.filters.http.router.v3 import Router
from protocol.proto.envoy.extensions.filters.http.stateful_session.v3 import StatefulSession
from protocol.proto.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter
from protocol.proto.istio.envoy.config.filter.http.alpn.v2alpha1 import FilterConfig as Alpn
from protocol.proto.istio.envoy.config.filter.http.alpn.v2alpha1 import FilterConfigAlpnOverride as AlpnOverride
from protocol.proto.istio.envoy.config.filter.http.alpn.v2alpha1 import FilterConfigProtocol as AlpnProtocol
from protocol.proto.udpa.type.v1 import TypedStruct
from trierarch.envoy.discovery import any_host_dns_cache, service_dns_cache
from trierarch.envoy.jwt import build_jwt
from trierarch.envoy.rbac import OPEN, Access, build_http_custom, build_http_rbac
from trierarch.envoy.stateful_session import STATEFUL_SESSION
from trierarch.envoy.well_known_types import Plain, pack, struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from betterproto2 import Message

    from protocol.proto.envoy.config.cluster.v3 import ClusterDnsLookupFamily as DnsLookupFamily
    from protocol.proto.envoy.extensions.common.dynamic_forward_proxy.v3 import DnsCacheConfig
    from trierarch.push.request_authentication import TokenRules

CORS = "envoy.filters.http.cors"
DYNAMIC_FORWARD_PROXY = "envoy.filters.http.dynamic_forward_proxy"
FAULT = "envoy.filters.http.fault"
GRPC_STATS = "envoy.filters.http.grpc_stats"
GRPC_WEB = "envoy.filters.http.grpc_web"
ISTIO_ALPN = "istio.alpn"
ISTIO_METADATA_EXCHANGE = "istio.metadata_exchange"
ROUTER = "envoy.filters.http.router"

_PEER_METADATA = "type.googleapis.com/io.istio.http.peer_metadata.Config"


class ResolvedHosts(NamedTuple):
    """Hosts that the proxy looks up: those of a wildcard service, or with `pattern` "" any that nobody defined."""

    pattern: str
    family: DnsLookupFamily


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterSettings:
    """What decides the filters of a connection manager. `istio`: the proxy has Istio's own filters (§8.1); `access`:
    who may do what; `tokens`: whose tokens are understood.
    """

    inbound: bool
    istio: bool
    metadata_exchange: bool = True
    access: Access = OPEN
    tokens: TokenRules = ()
    exchange_in_mesh_only: bool = False
    grpc_web: bool = False
    sessions: bool = False
    resolves: tuple[ResolvedHosts, ...] = ()
    suppress_envoy_headers: bool = False


def build_http_filters(settings: FilterSettings) -> list[HttpFilter]:
    """The filters, first to last. The last is always the router."""
    return [each for step in STEPS for each in step(settings)]


def _peer_metadata(settings: FilterSettings) -> list[HttpFilter]:
    """Exchanges who the peers are in request headers; the side that is met first has the word "downstream"."""
    if not (settings.istio and settings.metadata_exchange):
        return []
    side = "downstream" if settings.inbound else "upstream"
    headers: Mapping[str, Plain] = {"skip_external_clusters": True} if _skips_external(settings) else {}
    exchange: Mapping[str, Plain] = {
        f"{side}_discovery": [{"istio_headers": {}}, {"workload_discovery": {}}],
        f"{side}_propagation": [{"istio_headers": headers}],
    }
    return [_filter(ISTIO_METADATA_EXCHANGE, TypedStruct(type_url=_PEER_METADATA, value=struct(exchange)))]


def _skips_external(settings: FilterSettings) -> bool:
    return settings.exchange_in_mesh_only and not settings.inbound


def _authorizers(settings: FilterSettings) -> list[HttpFilter]:
    """Asked first, before the proxy itself has looked at tokens."""
    return list(build_http_custom(settings.access))


def _tokens(settings: FilterSettings) -> list[HttpFilter]:
    """Before anybody asks for claims. A sidecar's inbound routes do not."""
    return [build_jwt(settings.tokens, reroutes=False)] if settings.tokens else []


def _authorization(settings: FilterSettings) -> list[HttpFilter]:
    return list(build_http_rbac(settings.access))


def _grpc_web(settings: FilterSettings) -> list[HttpFilter]:
    return [_filter(GRPC_WEB, GrpcWeb())] if settings.grpc_web else []


def _grpc_stats(_settings: FilterSettings) -> list[HttpFilter]:
    return [_filter(GRPC_STATS, GrpcStats(emit_filter_state=True, stats_for_all_methods=False))]


def _alpn(settings: FilterSettings) -> list[HttpFilter]:
    """Tells the server's sidecar by ALPN that HTTP follows; only Istio's proxy can change it for each request."""
    return [_filter(ISTIO_ALPN, Alpn(alpn_override=_ALPN_OVERRIDES))] if settings.istio and not settings.inbound else []


def _fault(_settings: FilterSettings) -> list[HttpFilter]:
    """Always there: routes switch it on with their own configuration."""
    return [_filter(FAULT, HttpFault())]


def _cors(_settings: FilterSettings) -> list[HttpFilter]:
    return [_filter(CORS, Cors())]


def _stateful_session(settings: FilterSettings) -> list[HttpFilter]:
    """Where the switch is on; virtual hosts say whose sessions are kept."""
    return [_filter(STATEFUL_SESSION, StatefulSession())] if settings.sessions and not settings.inbound else []


def _dynamic_forward_proxy(settings: FilterSettings) -> list[HttpFilter]:
    """Looks up the host of a request before it is forwarded to a cluster without endpoints of its own."""
    return [
        _filter(DYNAMIC_FORWARD_PROXY, DynamicForwardProxy(dns_cache_config=_cache(each))) for each in settings.resolves
    ]


def _cache(hosts: ResolvedHosts) -> DnsCacheConfig:
    return service_dns_cache(hosts.pattern, hosts.family) if hosts.pattern else any_host_dns_cache(hosts.family)


def _router(settings: FilterSettings) -> list[HttpFilter]:
    return [_filter(ROUTER, Router(suppress_envoy_headers=settings.suppress_envoy_headers))]


def _filter(name: str, message: Message) -> HttpFilter:
    return HttpFilter(name=name, typed_config=pack(message))


_ALPN_OVERRIDES = [
    AlpnOverride(upstream_protocol=AlpnProtocol.HTTP10, alpn_override=["istio-http/1.0", "istio", "http/1.0"]),
    AlpnOverride(upstream_protocol=AlpnProtocol.HTTP11, alpn_override=["istio-http/1.1", "istio", "http/1.1"]),
    AlpnOverride(upstream_protocol=AlpnProtocol.HTTP2, alpn_override=["istio-h2", "istio", "h2"]),
]

STEPS: tuple[Callable[[FilterSettings], list[HttpFilter]], ...] = (
    _peer_metadata,
    _authorizers,
    _tokens,
    _authorization,
    _grpc_web,
    _grpc_stats,
    _alpn,
    _fault,
    _cors,
    _stateful_session,
    _dynamic_forward_proxy,
    _router,
)
