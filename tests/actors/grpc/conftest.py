"""A server in the test's nursery, certificates, and a peer that speaks HTTP/2 frame by frame."""

import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hpack import Decoder, Encoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    HeadersFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from actors.grpc import Limits, Server

PATIENCE = 5.0
METHOD = "/test.Service/Talk"
HEADERS = {
    ":method": "POST",
    ":scheme": "http",
    ":path": METHOD,
    ":authority": "test",
    "content-type": "application/grpc",
    "te": "trailers",
}
WIDE = 2**30
NARROW = 65_535
FRAME_SIZE = 16_384


@dataclass
class Running:
    """A server that serves, what its handlers raised, and how to connect."""

    server: Server
    address: str
    scope: trio.CancelScope
    secure: bool
    crashes: list[Exception] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    sockets: list[trio.socket.SocketType] = field(default_factory=list)

    async def connect(self, *, window=WIDE, connection_window=WIDE, receive_buffer=None, tls=None) -> "FramePeer":
        """Connect and exchange SETTINGS. The windows are what the server may send, on each stream and in all."""
        peer = FramePeer(await self.connect_bytes(receive_buffer=receive_buffer, tls=tls))
        await peer.greet(window, connection_window)
        return peer

    async def connect_bytes(self, *, receive_buffer=None, tls=None) -> trio.abc.Stream:
        """Connect, and say nothing."""
        host, port = self.address.rsplit(":", 1)
        sock = trio.socket.socket()
        self.sockets.append(sock)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await sock.connect((host, int(port)))
        stream = trio.SocketStream(sock)
        return stream if tls is None else trio.SSLStream(stream, tls, server_hostname="localhost")

    @staticmethod
    async def expect_close(stream: trio.abc.Stream) -> None:
        """Wait until the server closes the connection, in whatever way."""
        with trio.fail_after(PATIENCE), suppress(trio.BrokenResourceError):
            while await stream.receive_some():
                pass


class FramePeer:
    """A client that sends and receives single frames. It gives no window and acknowledges nothing by itself."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.frames: list[Frame] = []
        self._bytes = b""
        self._encoder = Encoder()
        self._decoder = Decoder()
        self._last_stream_id = -1

    async def greet(self, window: int, connection_window: int) -> None:
        """Send the preface and SETTINGS, and widen the connection's window; wait for the server's SETTINGS."""
        await self.stream.send_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        await self.send(SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: window}))
        if connection_window > NARROW:
            await self.widen(0, connection_window - NARROW)
        await self.expect(SettingsFrame)

    async def send(self, *frames: Frame) -> None:
        """Send frames in one write."""
        await self.stream.send_all(b"".join(frame.serialize() for frame in frames))

    async def open(self, changes=None, *, end=False) -> int:
        """Open a stream with gRPC's headers, changed by `changes` (None deletes one). Returns its number."""
        self._last_stream_id += 2
        headers = {**HEADERS, **(changes or {})}
        block = self._encoder.encode([(name, value) for name, value in headers.items() if value is not None])
        flags = ["END_HEADERS", "END_STREAM"] if end else ["END_HEADERS"]
        await self.send(HeadersFrame(self._last_stream_id, block, flags=flags))
        return self._last_stream_id

    async def say(self, stream_id: int, body: bytes, *, end=False) -> None:
        """Send one message in full DATA frames."""
        await self.say_bytes(stream_id, b"\0" + len(body).to_bytes(4, "big") + body, end=end)

    async def say_bytes(self, stream_id: int, data: bytes, *, end=False) -> None:
        """Send bytes in full DATA frames."""
        frames = [DataFrame(stream_id, data[at : at + FRAME_SIZE]) for at in range(0, len(data), FRAME_SIZE)]
        if end:
            frames[-1].flags.add("END_STREAM")
        await self.send(*frames)

    async def widen(self, stream_id: int, size: int) -> None:
        """Let the server send `size` bytes more."""
        await self.send(WindowUpdateFrame(stream_id, window_increment=size))

    async def next_frame(self) -> Frame | None:
        """The next frame; None when the server has closed."""
        header = await self._take(9)
        if header is None:
            return None
        frame, length = Frame.parse_frame_header(memoryview(header))
        frame.parse_body(memoryview(await self._take(length) or b""))
        if isinstance(frame, HeadersFrame):
            frame.fields = dict(self._decoder.decode(frame.data))
        self.frames.append(frame)
        return frame

    async def expect(self, *kinds: type[Frame]) -> Frame:
        """The next frame of one of these kinds; others are passed over (they stay in `frames`)."""
        while frame := await self.next_frame():
            if isinstance(frame, kinds):
                return frame
        pytest.fail(f"closed while {kinds} was awaited, after {self.frames}")

    async def expect_close(self) -> None:
        """Wait until the server closes, passing over frames."""
        while await self.next_frame():
            pass

    async def body(self, size: int) -> bytes:
        """The next `size` bytes of DATA. They must end with a frame."""
        data = b""
        while len(data) < size:
            data += (await self.expect(DataFrame)).data
        assert len(data) == size
        return data

    async def trailers(self) -> dict[str, str]:
        """Wait for the headers that end a stream (the RST_STREAM that follows other trailers is passed over)."""
        while "END_STREAM" not in (frame := await self.expect(HeadersFrame, RstStreamFrame)).flags:
            assert isinstance(frame, HeadersFrame) or frame.error_code == 0, "reset before the trailers"
        return frame.fields

    async def _take(self, size: int) -> bytes | None:
        with trio.fail_after(PATIENCE):
            while len(self._bytes) < size:
                try:
                    data = await self.stream.receive_some(65536)
                except trio.BrokenResourceError:
                    data = b""
                if not data:
                    self._bytes = b""
                    return None
                self._bytes += data
        taken, self._bytes = self._bytes[:size], self._bytes[size:]
        return taken


@pytest.fixture
async def start(nursery: trio.Nursery) -> AsyncIterator[Callable]:
    """Start a server of one handler (or a mapping of methods) and limits that differ from the defaults."""
    started: list[Running] = []

    async def start_server(handler, *, tls: ssl.SSLContext | None = None, **limits) -> Running:
        crashes: list[Exception] = []
        faults: list[str] = []
        handlers = handler if isinstance(handler, dict) else {METHOD: handler}
        server = Server(
            handlers,
            Limits(**limits),
            None if tls is None else lambda: tls,
            on_crash=crashes.append,
            on_fault=lambda _address, fault: faults.append(fault.reason),
        )
        scope = trio.CancelScope()

        async def serve(*, task_status) -> None:
            with scope:
                await server.serve("127.0.0.1:0", task_status=task_status)

        started.append(Running(server, await nursery.start(serve), scope, tls is not None, crashes, faults))
        return started[-1]

    yield start_server
    for running in started:
        for sock in running.sockets:
            sock.close()


async def echo(stream) -> None:
    """Send back each message."""
    while (message := await stream.receive()) is not None:
        await stream.send([message])


@pytest.fixture(name="echo")
def echo_fixture():
    """A handler that sends back each message."""
    return echo


class Certificates:
    """A certificate authority of the test session, with one server and one client."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.root = folder / "root.pem"
        authority = self._certificate("root", self._key, x509.BasicConstraints(ca=True, path_length=None))
        self.root.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
        self._issue("server", x509.SubjectAlternativeName([x509.DNSName("localhost")]))
        identity = x509.UniformResourceIdentifier("spiffe://cluster.local/ns/default/sa/client")
        self._issue("client", x509.SubjectAlternativeName([x509.DNSName("client"), identity]))

    def server(self, *, ask: bool) -> ssl.SSLContext:
        """A server's context that asks its clients for a certificate, or does not."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "server.pem")
        context.set_alpn_protocols(["h2"])
        if ask:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.root)
        return context

    def client(self, *, certificate: bool) -> ssl.SSLContext:
        """A client's context, with a certificate or without."""
        context = ssl.create_default_context(cafile=self.root)
        context.set_alpn_protocols(["h2"])
        if certificate:
            context.load_cert_chain(self._folder / "client.pem")
        return context

    def pair(self, name: str) -> tuple[bytes, bytes]:
        """Private key and certificate of `server` or `client`, as PEM."""
        certificate, begin, key = (self._folder / f"{name}.pem").read_bytes().partition(b"-----BEGIN PRIVATE KEY")
        return begin + key, certificate

    def _issue(self, name: str, names: x509.SubjectAlternativeName) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certificate(name, key, names)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (self._folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)

    def _certificate(self, name: str, key: ec.EllipticCurvePrivateKey, *extensions) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(hours=1))
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self._key, hashes.SHA256())


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for servers and clients of this session."""
    return Certificates(tmp_path_factory.mktemp("certificates"))
