"""What is said of an HTTP connection manager: the value `HttpConnection` (networking.md §4.0).

How it becomes a filter is in `http_manager.py`. No filter chain match and no route is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trierarch.config.mesh_networks import FromCidr
from trierarch.config.proxy_config import ConnectionSettings, ProxyHeaders
from trierarch.envoy.access_log import NO_LOGS, AccessLogs, select_access_logs
from trierarch.envoy.connection_settings import UNSTATED, connection_settings
from trierarch.envoy.rbac import OPEN, Access
from trierarch.push.telemetry import SILENT
from trierarch.push.view import HashedOnce

if TYPE_CHECKING:
    from trierarch.config.mesh_config import Normalization
    from trierarch.envoy.http_filters import ResolvedHosts
    from trierarch.envoy.routes_inbound import InboundRoute
    from trierarch.envoy.virtual_hosts import CatchAll
    from trierarch.push.mesh import Mesh
    from trierarch.push.request_authentication import TokenRules
    from trierarch.push.telemetry import Telemetry
    from trierarch.push.view import InboundKey, OutboundKey


_NO_HEADERS = ProxyHeaders()


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProfile(HashedOnce):
    """What all connection managers of one direction of a view have in common. `access`: who may do what there,
    `tokens`: whose tokens are understood.
    """

    inbound: bool
    istio: bool
    metadata_exchange: bool
    headers: ProxyHeaders
    normalization: Normalization
    connections: ConnectionSettings = UNSTATED
    use_remote_address: bool = False
    internal_ranges: tuple[str, ...] = ()
    http10: bool = False
    idle_timeout: float | None = None
    sessions: bool = False
    logs: AccessLogs = NO_LOGS
    access: Access = OPEN
    tokens: TokenRules = ()
    telemetry: Telemetry = SILENT

    __hash__ = HashedOnce.__hash__


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConnection:
    """One connection manager.

    `routes`: the name of a route configuration to ask for, or routes that are built in. `resolves`: hosts that the
    proxy itself looks up when they are asked for.
    """

    profile: HttpProfile
    stat_prefix: str
    routes: str | InboundRoute | CatchAll
    grpc_web: bool = False
    http2: bool = False
    absolute_urls: bool = False
    resolves: tuple[ResolvedHosts, ...] = ()


def select_profile(key: OutboundKey | InboundKey, mesh: Mesh, *, inbound: bool) -> HttpProfile:
    """What the mesh and the proxy say about connection managers of one direction."""
    remote = mesh.features.sidecar_use_remote_address and not inbound
    return HttpProfile(
        inbound=inbound,
        istio=key.capabilities.istio,
        metadata_exchange=mesh.features.metadata_exchange,
        headers=proxy_headers(key, mesh),
        normalization=mesh.config.path_normalization.normalization,
        connections=connection_settings(key, mesh),
        use_remote_address=remote,
        internal_ranges=_internal_ranges(mesh) if remote else (),
        http10=key.http10 or mesh.features.http10,
        idle_timeout=key.idle_timeout,
        sessions=mesh.features.persistent_session,
        logs=select_access_logs(mesh.config, istio=key.capabilities.istio),
        telemetry=key.telemetry,
    )


def proxy_headers(key: OutboundKey | InboundKey, mesh: Mesh) -> ProxyHeaders:
    """Headers that the proxy adds or removes: as its own configuration says, or as the mesh's does."""
    return key.headers or mesh.config.default_config.proxy_headers or _NO_HEADERS


def _internal_ranges(mesh: Mesh) -> tuple[str, ...]:
    """The address ranges of the mesh's networks: requests from there are not from outside."""
    members = (each.members for network in mesh.networks.networks.values() for each in network.endpoints)
    return tuple(sorted(each.value for each in members if isinstance(each, FromCidr)))
