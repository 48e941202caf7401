"""Filter chains: which connections and what is done with them, each one encoded piece of a listener.

A chain is planned as a value (`FilterChain`), built and encoded once for all listeners that have an equal one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.proto.envoy.config.listener.v3 import Filter, FilterChainMatch, Listener
from protocol.proto.envoy.config.listener.v3 import FilterChain as FilterChainMessage
from trierarch.envoy.addresses import build_range
from trierarch.envoy.http_connection import HttpConnection
from trierarch.envoy.http_manager import build_http_connection
from trierarch.envoy.inbound_tls import MeshServerTls, UserServerTls, build_server_socket
from trierarch.envoy.source_metadata import source_metadata
from trierarch.envoy.tcp_proxy import TcpProxy, build_tcp_filters
from trierarch.envoy.units import Piece
from trierarch.envoy.well_known_types import duration, encode

if TYPE_CHECKING:
    from protocol.proto.envoy.config.core.v3 import TransportSocket

RAW_BUFFER = "raw_buffer"
TLS = "tls"
PLAINTEXT_HTTP = ("http/1.1", "h2c")
"""Names that the HTTP inspector gives to what it has recognised."""
HTTP10 = "http/1.0"

_CONNECT_TIMEOUT = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainMatch:
    """Conditions on a connection that must all hold; an empty one is no condition. `prefix_ranges` are addresses or
    CIDR ranges of the destination.
    """

    destination_port: int = 0
    prefix_ranges: tuple[str, ...] = ()
    server_names: tuple[str, ...] = ()
    transport_protocol: str = ""
    application_protocols: tuple[str, ...] = ()


ANY_CONNECTION = ChainMatch()


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterChain:
    """One chain. `match` None is left out of the message; ANY_CONNECTION is written as an empty one: both mean all.

    `source`: path of the object that asked for it, for metadata. `outbound` chains limit the time of a handshake. `tls`
    is terminated; None: bytes are taken as they come.
    """

    name: str = ""
    match: ChainMatch | None = None
    filters: HttpConnection | TcpProxy
    source: str = ""
    outbound: bool = False
    tls: MeshServerTls | UserServerTls | None = None

    @property
    def matches_all(self) -> bool:
        """Whether it takes every connection."""
        return self.match is None or self.match == ANY_CONNECTION


def sniffed_http(*, http10: bool) -> ChainMatch:
    """The match of a chain for plaintext that the HTTP inspector recognises."""
    protocols = (HTTP10, *PLAINTEXT_HTTP) if http10 else PLAINTEXT_HTTP
    return ChainMatch(transport_protocol=RAW_BUFFER, application_protocols=protocols)


def chain_piece(chain: FilterChain) -> Piece:
    """The chain as one of a listener's `filter_chains`."""
    return Piece(_encode_chain, chain)


def default_chain_piece(chain: FilterChain) -> Piece:
    """The chain as a listener's `default_filter_chain`."""
    return Piece(_encode_default_chain, chain)


def build_filter_chain(chain: FilterChain) -> FilterChainMessage:
    """The message of a chain."""
    return FilterChainMessage(
        name=chain.name,
        filter_chain_match=None if chain.match is None else _build_match(chain.match),
        filters=_build_filters(chain.filters),
        transport_socket=_build_socket(chain),
        metadata=source_metadata(chain.source),
        transport_socket_connect_timeout=duration(_CONNECT_TIMEOUT) if chain.outbound else None,
    )


def _build_socket(chain: FilterChain) -> TransportSocket | None:
    if chain.tls is None:
        return None
    return build_server_socket(chain.tls, http=isinstance(chain.filters, HttpConnection))


def _build_filters(filters: HttpConnection | TcpProxy) -> list[Filter]:
    match filters:
        case HttpConnection():
            return list(build_http_connection(filters))
        case TcpProxy():
            return build_tcp_filters(filters)


def _build_match(match: ChainMatch) -> FilterChainMatch:
    return FilterChainMatch(
        destination_port=match.destination_port or None,
        prefix_ranges=[build_range(each) for each in match.prefix_ranges],
        server_names=list(match.server_names),
        transport_protocol=match.transport_protocol,
        application_protocols=list(match.application_protocols),
    )


def _encode_chain(chain: FilterChain) -> bytes:
    return encode(Listener(filter_chains=[build_filter_chain(chain)]))


def _encode_default_chain(chain: FilterChain) -> bytes:
    return encode(Listener(default_filter_chain=build_filter_chain(chain)))
