"""Connections and ports as the debug pages show them: what they are answered, put together by who has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from actors.grpc import ServerStatistics
    from protocol.xds.resources import ResourceSet
    from trierarch.push.proxy import Proxy


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchDescription:
    """One type of one connection, for the debug pages. `resources`: the set that its client was offered last, of which
    it was sent what it names, or everything if the type is a wildcard one.
    """

    names: Collection[str]
    nonce_sent: str
    nonce_acked: str
    last_error: str
    resources: ResourceSet


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionDescription:
    """A connection for the debug pages. `connected_at`: wall clock seconds. `identity`: what the client has proved, or
    "". `certificate_expires`: of the one that it was issued over this stream, wall clock seconds, or None.
    """

    connection: str
    proxy: Proxy
    address: str
    identity: str
    certificate_expires: float | None
    connected_at: float
    delta: bool
    snapshot: int
    watches: Mapping[str, WatchDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class PortDescription:
    """A gRPC port for the debug pages. `address`: where it listens, or will; `statistics`: None while it does not."""

    name: str
    address: str
    encrypted: bool
    statistics: ServerStatistics | None
