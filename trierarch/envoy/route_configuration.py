"""Route configurations as messages: what all of them have in common, whole or as pieces to splice (§5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.route.v3 import RouteConfiguration
from trierarch.envoy.packing import encode
from trierarch.envoy.units import Piece
from trierarch.envoy.virtual_hosts import build_virtual_host, virtual_host_piece

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trierarch.envoy.virtual_hosts import VirtualHostInputs

_DIRECT_RESPONSE_LIMIT = 1 << 20
"""Bytes that a route's own answer may have."""


def build_route_configuration(name: str, hosts: Iterable[VirtualHostInputs]) -> RouteConfiguration:
    """The whole message. Hosts match with and without their port, so no domain has to repeat it."""
    return RouteConfiguration(
        name=name,
        virtual_hosts=[build_virtual_host(host) for host in hosts],
        validate_clusters=False,
        max_direct_response_body_size_bytes=_DIRECT_RESPONSE_LIMIT,
        ignore_port_in_host_matching=True,
    )


def route_configuration_pieces(name: str, hosts: Iterable[VirtualHostInputs]) -> tuple[Piece, ...]:
    """The same in pieces, which stand in the order of their fields: joined, they are the message's own encoding."""
    return (Piece(_encode_head, name), *(virtual_host_piece(host) for host in hosts), _TAIL)


def proxyless_pieces(name: str, hosts: Iterable[VirtualHostInputs]) -> tuple[Piece, ...]:
    """A configuration for a gRPC client: there is nothing to say but its virtual hosts."""
    return (Piece(_encode_head, name), *(virtual_host_piece(host) for host in hosts))


def _encode_head(name: str) -> bytes:
    return encode(RouteConfiguration(name=name))


def _encode_tail(_nothing: None) -> bytes:
    return encode(build_route_configuration("", ()))


_TAIL = Piece(_encode_tail, None)
