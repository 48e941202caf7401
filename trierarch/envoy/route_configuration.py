"""Route configurations as messages: what all of them have in common, whole or as what they are tied from (§5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.route.v3 import RouteConfiguration
from protocol.xds.resources import Chunk
from trierarch.envoy.virtual_hosts import build_virtual_host
from trierarch.envoy.well_known_types import encode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from trierarch.envoy.memo import Memo
    from trierarch.envoy.virtual_host_runs import Run
    from trierarch.envoy.virtual_hosts import VirtualHostInputs
    from trierarch.push.steps import Steps

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


def encode_route_configuration(name: str, runs: Iterable[Run], memo: Memo) -> Steps[tuple[Chunk, ...]]:
    """The same in chunks, which stand in the order of their fields: joined, they are the message's own encoding."""
    chunks: list[Chunk] = []
    for run in runs:
        chunks += (run.chunk or (yield from run.encode()),)
    return memo.recall(_encode_opening, name), *chunks, _CLOSING


def _encode_opening(name: str) -> Chunk:
    return Chunk(encode(RouteConfiguration(name=name)))


_CLOSING = Chunk(encode(build_route_configuration("", ())))


def encode_proxyless_configuration(name: str, hosts: Collection[VirtualHostInputs]) -> Steps[tuple[bytes, ...]]:
    """A configuration for a gRPC client: there is nothing to say but its virtual hosts."""
    for host in [each for each in hosts if not each.is_encoded]:
        host.encoded  # noqa: B018 - it is kept
        yield
    return (encode(RouteConfiguration(name=name)), *[host.encoded for host in hosts])
