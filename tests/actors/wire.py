"""An Envoy that talks over real sockets of this machine, in the event loop of the control plane that it talks to.

It is a `FakeEnvoy` whose stream goes through HTTP/2, and TLS if it is given a context: so the ports are under test too,
while the clock of a test jumps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError

from actors.ports import StreamClosed
from tests.actors.fake_stream import FakeEnvoy

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping

    from tests.actors.fake_stream import FakeStream

STREAM = 1
WINDOW = 2**30
FRAME = 16_000
RETRY = 0.05
"""Virtual seconds until somebody who found no port looks again."""


class WireEnvoy(FakeEnvoy):
    """Connects to wherever `find` says ("": nowhere yet); with `secure`, by this TLS and with this metadata."""

    def __init__(
        self,
        pod: str,
        ip: str,
        *,
        delta: bool,
        find: Callable[[], str],
        secure: Callable[[], tuple[ssl.SSLContext, Mapping[str, str]]] | None = None,
        **more: object,
    ) -> None:
        super().__init__(pod, ip, delta=delta, **more)
        self._find = find
        self._secure = secure

    async def _serve(self, stream: FakeStream, *_) -> None:
        """Carry what is said between the stream and a port, until either has ended."""
        try:
            await self._carry(stream)
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError, StreamClosed, ProtocolError):
            pass  # for h2, whatever follows a GOAWAY breaks a rule
        finally:
            stream.reset()

    async def _carry(self, stream: FakeStream) -> None:
        while not (address := self._find()):
            await trio.sleep(RETRY)
        host, _, port = address.rpartition(":")
        wire = await trio.open_tcp_stream(host, int(port))
        context, metadata = self._secure() if self._secure else (None, {})
        if context is not None:
            wire = trio.SSLStream(wire, context, server_hostname="istiod.istio-system.svc", https_compatible=True)
        async with wire, trio.open_nursery() as nursery:
            call = Call(wire, stream.method, metadata)
            await call.begin()
            nursery.start_soon(call.speak, stream)
            await call.listen(stream)
            nursery.cancel_scope.cancel()


class Call:
    """One gRPC call, the only one on its connection."""

    def __init__(self, wire: trio.abc.Stream, method: str, metadata: Mapping[str, str]) -> None:
        self._wire = wire
        self._headers = {
            ":method": "POST", ":scheme": "http", ":path": method, ":authority": "test",
            "content-type": "application/grpc", "te": "trailers", **metadata,
        }  # fmt: skip
        self._h2 = H2Connection(H2Configuration(client_side=True))
        self._data = b""
        self._sending = trio.Lock()

    async def begin(self) -> None:
        """Open the stream, with windows that never close."""
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(WINDOW)
        self._h2.send_headers(STREAM, list(self._headers.items()))
        self._h2.increment_flow_control_window(WINDOW, STREAM)
        await self._flush()

    async def speak(self, stream: FakeStream) -> None:
        """Send what the client says."""
        while (message := await stream.receive()) is not None:
            framed = b"\0" + len(message).to_bytes(4, "big") + message
            for at in range(0, len(framed), FRAME):
                self._h2.send_data(STREAM, framed[at : at + FRAME])
            await self._flush()

    async def listen(self, stream: FakeStream) -> None:
        """Pass on what the control plane says, until it says no more."""
        while data := await self._wire.receive_some():
            for event in self._h2.receive_data(data):
                if isinstance(event, StreamEnded | StreamReset | ConnectionTerminated):
                    return
                if isinstance(event, DataReceived):
                    self._h2.acknowledge_received_data(event.flow_controlled_length, STREAM)
                    for message in self._messages(event.data):
                        await stream.send([message])
            await self._flush()

    def _messages(self, data: bytes) -> Iterator[bytes]:
        self._data += data
        while len(self._data) >= 5 and len(self._data) >= (end := 5 + int.from_bytes(self._data[1:5], "big")):
            message, self._data = self._data[5:end], self._data[end:]
            yield message

    async def _flush(self) -> None:
        async with self._sending:
            if data := self._h2.data_to_send():
                await self._wire.send_all(data)
