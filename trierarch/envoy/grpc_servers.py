"""Listeners of proxyless gRPC servers: how a server is to treat the connections to its ports (networking.md §4.11).

A server asks by the address that it listens on. A port has one chain: gRPC tells mutual TLS and plaintext apart by
nothing but what it is told to expect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.listener.v3 import Filter, FilterChain, Listener
from protocol.proto.envoy.config.route.v3 import (
    NonForwardingAction,
    Route,
    RouteConfiguration,
    RouteMatch,
    VirtualHost,
)
from protocol.proto.envoy.extensions.filters.http.router.v3 import Router
from protocol.proto.envoy.extensions.filters.network.http_connection_manager.v3 import (
    HttpConnectionManager,
    HttpFilter,
)
from trierarch.config.peer_authentication import MutualTlsMode
from trierarch.envoy.addresses import build_address
from trierarch.envoy.grpc_rbac import build_grpc_rbac
from trierarch.envoy.grpc_tls import build_server_socket
from trierarch.envoy.http_filters import ROUTER
from trierarch.envoy.rbac import Access, select_access
from trierarch.envoy.units import Plan, Unit
from trierarch.envoy.virtual_host_domains import bracketed
from trierarch.envoy.well_known_types import encode_resource, pack
from trierarch.push.model import PortProtocol
from trierarch.push.proxy import SecretSource

if TYPE_CHECKING:
    from protocol.xds.resources import Resource
    from trierarch.push.context import PushContext
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import InboundKey

SERVER_LISTENER_PREFIX = "xds.istio.io/grpc/lds/inbound/"
ANYWHERE = ("0.0.0.0", "::", "127.0.0.1", "::1")
"""Where a server may listen, beside its own address."""


class ServedPort(NamedTuple):
    """A port of a server. `mutual`: with mutual TLS, else in plaintext; `access`: who may do what there."""

    addresses: tuple[str, ...]
    number: int
    mutual: bool
    access: Access


def plan_grpc_servers(key: InboundKey, _scope: SidecarScope, context: PushContext) -> Plan:
    """One unit for each target port of the workload."""
    ports = sorted({target.target_port for target in key.targets if target.protocol is not PortProtocol.UDP})
    access = select_access(key, context.mesh)
    has_certificates = key.capabilities.secrets is not SecretSource.NONE
    for number in ports:
        mutual = has_certificates and key.peers.at(number) is MutualTlsMode.STRICT
        yield Unit(build_served_port, ServedPort((*ANYWHERE, key.address), number, mutual, access))


def build_served_port(port: ServedPort) -> tuple[Resource, ...]:
    """The same listener for each address that it may be asked for by."""
    chain = _build_chain(port)
    return tuple(_build_listener(address, port.number, chain) for address in port.addresses)


def _build_listener(address: str, port: int, chain: FilterChain) -> Resource:
    name = f"{SERVER_LISTENER_PREFIX}{bracketed(address)}:{port}"
    return encode_resource(name, Listener(name=name, address=build_address(address, port), filter_chains=[chain]))


def _build_chain(port: ServedPort) -> FilterChain:
    kind = "mtls" if port.mutual else "plaintext"
    router = HttpFilter(name=ROUTER, typed_config=pack(Router()))
    manager = HttpConnectionManager(route_config=_own_routes(), http_filters=[*build_grpc_rbac(port.access), router])
    return FilterChain(
        name=f"inbound-{kind}",
        filters=[Filter(name=f"inbound-hcm{kind}", typed_config=pack(manager))],
        transport_socket=build_server_socket() if port.mutual else None,
    )


def _own_routes() -> RouteConfiguration:
    """Whatever is called is answered by the server itself."""
    route = Route(match=RouteMatch(prefix="/"), non_forwarding_action=NonForwardingAction())
    return RouteConfiguration(name="inbound", virtual_hosts=[VirtualHost(domains=["*"], routes=[route])])
