"""One unary gRPC call as a client, over TLS: what our command line needs, and nothing more.

Plain h2 over trio's own TLS: grpclib's client needs asyncio, and one small call need not be fast.
"""

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

import trio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

from actors.grpc.framing import MESSAGE_PREFIX, prefixed
from actors.grpc.requests import CONTENT_TYPE
from protocol.errors import RemoteError
from protocol.statuses import UNAVAILABLE, UNKNOWN

MOST = 1024 * 1024
"""Bytes of an answer: a certificate with its chain and roots has some thousands."""

_READ = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of `method` (in full) at `address` (HOST:PORT), whose server must prove to be `name`."""

    address: str
    name: str
    method: str
    message: bytes
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)


async def call_unary(call: Call, tls: ssl.SSLContext) -> bytes:
    """The answer to one call. Raises `RemoteError` with the status it ended with; UNAVAILABLE if nobody was reached."""
    host, _, port = call.address.rpartition(":")
    tls.set_alpn_protocols(["h2"])
    try:
        tcp = await trio.open_tcp_stream(host.strip("[]"), int(port))
        async with trio.SSLStream(tcp, tls, server_hostname=call.name, https_compatible=True) as stream:
            return await _exchange(call, stream)
    except (OSError, trio.BrokenResourceError, ProtocolError) as error:
        raise RemoteError(UNAVAILABLE, f"{call.address}: {error.__cause__ or error}") from None


async def _exchange(call: Call, stream: trio.SSLStream[trio.SocketStream]) -> bytes:
    http2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
    http2.initiate_connection()
    number = http2.get_next_available_stream_id()
    http2.send_headers(number, _headers(call))
    http2.send_data(number, b"".join(prefixed((call.message,))), end_stream=True)
    answer = _Answer()
    while not answer.ended:
        await stream.send_all(http2.data_to_send())
        data = await stream.receive_some(_READ)
        if not data:
            raise RemoteError(UNAVAILABLE, "the connection was closed before the call had ended")
        for event in http2.receive_data(data):
            answer.take(event)
            if isinstance(event, DataReceived):
                http2.acknowledge_received_data(event.flow_controlled_length, number)
    http2.close_connection(ErrorCodes.NO_ERROR)
    await stream.send_all(http2.data_to_send())
    return answer.message()


def _headers(call: Call) -> Iterator[tuple[str, str]]:
    yield from ((":method", "POST"), (":scheme", "https"), (":path", call.method), (":authority", call.name))
    yield from (("te", "trailers"), ("content-type", CONTENT_TYPE))
    yield from call.metadata.items()


class _Answer:
    """What has come of a call by now."""

    def __init__(self) -> None:
        self.ended = False
        self._headers: dict[str, str] = {}
        self._data = bytearray()

    def take(self, event: Event) -> None:
        """Step by an event. Raises `RemoteError` for one after which no status can come."""
        match event:
            case ResponseReceived(headers=headers) | TrailersReceived(headers=headers):
                self._headers |= {str(name): str(value) for name, value in headers}
            case DataReceived(data=data):
                self._data += data
                if len(self._data) > MOST:
                    raise RemoteError(UNKNOWN, f"an answer of more than {MOST} bytes")
            case StreamEnded():
                self.ended = True
            case StreamReset() | ConnectionTerminated():
                raise RemoteError(UNAVAILABLE, "the call was cut off")
            case _:
                pass

    def message(self) -> bytes:
        """The only message. Raises `RemoteError` for a status other than OK."""
        status = self._headers.get("grpc-status", "")
        if status != "0":
            reason = unquote(self._headers.get("grpc-message", "")) or f"HTTP status {self._headers.get(':status')}"
            raise RemoteError(int(status) if status.isdigit() else UNKNOWN, reason)
        compressed, size = MESSAGE_PREFIX.unpack_from(self._data) if len(self._data) >= MESSAGE_PREFIX.size else (0, -1)
        body = bytes(self._data[MESSAGE_PREFIX.size :])
        if compressed or len(body) != size:
            raise RemoteError(UNKNOWN, "the answer is not one uncompressed message")
        return body
