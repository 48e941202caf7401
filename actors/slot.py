"""What outlives a crash of a connection, and its description for the debug pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from actors.descriptions import ConnectionDescription, WatchDescription
from protocol.xds.resources import Part
from trierarch.push.open_pushes import OpenPushes

if TYPE_CHECKING:
    from actors.identity_messages import IssuedIdentity
    from actors.ports import StreamPort
    from protocol.spiffe import SpiffeId
    from protocol.xds.requests import Request
    from protocol.xds.session import AdsSession
    from protocol.xds.subscription import Watch
    from trierarch.identity.authenticate import Caller
    from trierarch.push.proxy import Proxy

NO_SECRETS = Part()


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateState:
    """What is known of a client's certificate. `due_at`: when to ask for the next one, in seconds of trio's clock.

    `asked`: the authority has been asked and its answer will come.
    """

    issued: IssuedIdentity | None = None
    secrets: Part = NO_SECRETS
    due_at: float = -inf
    asked: bool = False


NO_CERTIFICATE = CertificateState()


@dataclass(slots=True)
class Slot:
    """What outlives a crash of the actor: written by it, read by its successor, and by the factory for debug pages.

    `connected_at`: wall clock seconds. `snapshot`: the number of the one that the client was brought up to last.
    `caller`: who has proved to be at the other end; `identity`: the one of its identities that its node claims.
    `waiting`: requests that the session was not stepped by yet. `writing`: a message is begun; if nobody is there to
    complete it, nothing can follow it on the stream.
    """

    number: int
    port: StreamPort
    delta: bool
    connected_at: float
    session: AdsSession
    waiting: tuple[Request, ...] = ()
    caller: Caller | None = None
    proxy: Proxy | None = None
    identity: SpiffeId | None = None
    certificate: CertificateState = NO_CERTIFICATE
    snapshot: int = 0
    open: OpenPushes = field(default_factory=OpenPushes)
    writing: bool = False

    @property
    def name(self) -> str:
        """The connection's id, as istiod forms it: proxy id and a number; before the node is known, the number."""
        return f"{self.proxy.id}-{self.number}" if self.proxy else f"?-{self.number}"


def describe(slot: Slot, proxy: Proxy) -> ConnectionDescription:
    """A connection whose client has said who it is, for the debug pages."""
    return ConnectionDescription(
        connection=slot.name,
        proxy=proxy,
        address=slot.port.peer.address,
        identity=str(slot.identity or ""),
        certificate_expires=slot.certificate.issued.not_after if slot.certificate.issued else None,
        connected_at=slot.connected_at,
        delta=slot.delta,
        snapshot=slot.snapshot,
        watches={url: _describe_watch(watch) for url, watch in slot.session.watches.items()},
    )


def _describe_watch(watch: Watch) -> WatchDescription:
    return WatchDescription(
        names=watch.names,
        nonce_sent=watch.nonce,
        nonce_acked=watch.acked,
        last_error=watch.rejection.message if watch.rejection else "",
        resources=watch.sent,
    )
