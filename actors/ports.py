"""What an actor may know of the network: the stream of one remote procedure call, as its connection actor sees it.

Only interfaces and their values live here. No implementation, no socket, no HTTP/2: `actors.grpc` provides the streams,
tests provide fakes, and an actor cannot tell which of the two it was given.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from protocol.errors import RemoteError
from protocol.statuses import CANCELLED


class StreamClosed(RemoteError):  # noqa: N818 (it says what happened; often that is no error at all)
    """The stream is over: the peer reset it or went away, or it was ended from this side. Nothing more can be sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(CANCELLED, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Who is at the other end of a stream."""

    address: str
    """`HOST:PORT`, an IPv6 host in brackets."""

    encrypted: bool = False
    """Whether what it says and is told can be read by nobody else (TLS)."""

    identities: tuple[str, ...] = ()
    """URI subject alternative names of the certificate that the peer proved to hold (SPIFFE: `spiffe://...`).

    Empty without TLS, or when the peer was not asked for a certificate.
    """


class StreamPort(Protocol):
    """One gRPC stream in both directions. Messages are raw bytes: encoding and decoding are the actor's.

    One task may receive while another sends; two tasks must not do the same thing at once.
    """

    @property
    def method(self) -> str:
        """The full method: `/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources`."""
        ...

    @property
    def peer(self) -> Peer:
        """Who called."""
        ...

    @property
    def metadata(self) -> Mapping[str, str]:
        """The caller's metadata, names in lower case; a name given twice has its values joined by commas.

        Values of names ending in `-bin` are left in base64, as they travelled.
        """
        ...

    async def receive(self) -> bytes | None:
        """Wait for the next message; None once the peer has sent its last one.

        Raises `StreamClosed` when the stream is over, and another `RemoteError` for a message that may not be accepted
        (too large, compressed, cut off): let it leave the handler and the peer is told.
        """
        ...

    def receive_nowait(self) -> bytes | None:
        """The next message if it is there, for whoever has other things to wait for too: as `receive`, but raises
        `trio.WouldBlock` instead of waiting.
        """
        ...

    def pending(self) -> bool:
        """Whether `receive_nowait` may have something to say."""
        ...

    def due_at(self) -> float:
        """When it will have, though nothing arrives: a message that was begun has not come to its end in time.

        In seconds of trio's clock; mostly inf.
        """
        ...

    def on_arrival(self, wake: Callable[[], None]) -> None:
        """Have `wake` called whenever something arrives, the end of the stream too."""
        ...

    async def send(self, *messages: Sequence[bytes]) -> None:
        """Send messages, each made of its buffers in their order. They are shared with the transport, never joined.

        Returns when the last byte is handed to the transport, which waits for the peer's flow-control windows.
        Cancelled before that, a message cannot be completed and the stream will be reset. Raises `StreamClosed`.
        """
        ...

    def blocked(self) -> bool:
        """Whether a message sent now would have to wait: for another one, for a window or for a full transport."""
        ...

    async def end(self, code: int, message: str) -> None:
        """End the stream with this gRPC status and message (trailers). Raises `StreamClosed` if it is over already."""
        ...

    def reset(self) -> None:
        """Drop the stream without a status (RST_STREAM). Does nothing to a stream that is over."""
        ...


StreamHandler = Callable[[StreamPort], Awaitable[None]]
"""What serves a stream: it may return (status OK), or raise a `RemoteError` (that status).

Anything else that it raises is our own crash.
"""
