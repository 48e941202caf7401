"""TLS over a `SocketTransport`, through the standard library's memory BIOs.

`trio.SSLStream` would be shorter, but needs a task for writing and costs four fifths more CPU per small message.
What is encrypted is joined first: encrypting copies anyway, a record per 9-byte piece would be waste, and the joined
bytes are gone when this returns.
"""

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import trio

from actors.grpc.framing import Piece
from actors.grpc.limits import Limits
from actors.grpc.transport import RECEIVE_SIZE, SocketTransport


class TlsTransport(SocketTransport):
    """The server's end of a TLS connection."""

    def __init__(self, sock: socket.socket, nursery: trio.Nursery, limits: Limits, context: ssl.SSLContext) -> None:
        super().__init__(sock, nursery, limits)
        self.batch_size = limits.encrypted_batch_size
        self._received = ssl.MemoryBIO()
        self._encrypted = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._encrypted, server_side=True)

    async def handshake(self) -> None:
        """Shake hands. Raises ssl.SSLError (an OSError) when the peer is not acceptable.

        OpenSSL makes its buffers, 33 KB, when it is first asked: not before there is something to put into them.
        """
        await self._receive_encrypted()
        while True:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self._send_encrypted()
                await self._receive_encrypted()
            finally:
                self._send_encrypted()

    def identities(self) -> tuple[str, ...]:
        """URI subject alternative names of the peer's verified certificate; none if it was not asked for one."""
        certificate = self._tls.getpeercert() or {}
        names = cast("tuple[tuple[str, str], ...]", certificate.get("subjectAltName", ()))
        return tuple(name for kind, name in names if kind == "URI")

    async def receive(self) -> bytes:
        """Wait for bytes from the peer; empty at the end. Raises OSError when the connection breaks."""
        while True:
            try:
                return self._tls.read(RECEIVE_SIZE)
            except ssl.SSLWantReadError:
                await self._receive_encrypted()
            except ssl.SSLZeroReturnError:
                return b""
            finally:
                self._send_encrypted()

    def write_pieces(self, pieces: Sequence[Piece]) -> None:
        """Encrypt pieces and send them, or keep the encrypted bytes until the kernel takes them."""
        if self.is_closing():
            return
        try:
            self._tls.write(b"".join(pieces))
        except ssl.SSLError:
            self.abort()
        self._send_encrypted()

    def finish(self) -> None:
        """Tell the peer that nothing more will come (close_notify, then FIN)."""
        with suppress(ssl.SSLError):  # it wants the peer's close_notify now; ours is written
            self._tls.unwrap()
        self._send_encrypted()
        super().finish()

    async def _receive_encrypted(self) -> None:
        data = await super().receive()
        if data:
            self._received.write(data)
        else:
            self._received.write_eof()

    def _send_encrypted(self) -> None:
        """Send what TLS wants to say: application data, but also handshakes, tickets and key updates."""
        data = self._encrypted.read()
        if data:
            super().write_pieces((data,))
