"""A socket as grpclib's protocol classes want it: writes never wait, and a full transport says so.

Writes go straight to the non-blocking socket; a task exists only while the kernel has not taken everything. That is
why this is not `trio.SocketStream`, whose `send_all` takes one joined buffer and needs a writing task per connection:
echoing 1 KB through it took 58 us of CPU instead of 42, and through `trio.SSLStream` 107 us instead of 59.

TLS is `actors.grpc.tls`. HTTP/2 and gRPC are not known here.
"""

import asyncio
import socket
import struct
from collections.abc import Sequence
from typing import Protocol

import trio

from actors.grpc.flag import Flag
from actors.grpc.framing import Piece
from actors.grpc.limits import Limits
from actors.grpc.pieces import PieceQueue

RECEIVE_SIZE = 64 * 1024

_LINGER_NOT_AT_ALL = struct.pack("ii", 1, 0)


class WriteFlow(Protocol):
    """Who must stop writing while the transport is full (`asyncio.BaseProtocol` has the same two methods)."""

    def pause_writing(self) -> None:
        """The transport holds more than its high-water mark."""
        ...

    def resume_writing(self) -> None:
        """The transport holds no more than its low-water mark."""
        ...


class SocketTransport(asyncio.Transport):
    """One connected, non-blocking TCP socket. Everything but `receive`, `handshake` and `flushed` returns at once.

    It lives in the nursery of its connection: closing it cancels that nursery.
    """

    def __init__(self, sock: socket.socket, nursery: trio.Nursery, limits: Limits) -> None:
        super().__init__()
        self._socket = sock
        self._nursery = nursery
        self._limits = limits
        self._outgoing = PieceQueue()
        self._empty = Flag(is_set=True)
        self._flow: WriteFlow | None = None
        self._full = False
        self._closing = False
        self.batch_size = limits.batch_size
        """Bytes that `write_pieces` should be given at a time."""
        self.stuck_since: float | None = None
        """Since when the kernel has taken no byte of those that wait; None while none wait."""

    async def handshake(self) -> None:
        """Agree with the peer on protection: on none, here."""

    def identities(self) -> tuple[str, ...]:
        """URI subject alternative names that the peer proved: none without TLS."""
        return ()

    def start(self, flow: WriteFlow) -> None:
        """Tell `flow` from now on when to stop writing."""
        self._flow = flow

    async def receive(self) -> bytes:
        """Wait for bytes from the peer; empty at the end. Raises OSError when the connection breaks."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv(RECEIVE_SIZE)
            except BlockingIOError:
                continue

    async def discard(self) -> bool:
        """Wait for bytes from the peer and forget them. False at the end. Raises OSError."""
        return bool(await SocketTransport.receive(self))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, or keep them until the kernel takes them."""
        self.write_pieces((bytes(data),))

    def write_pieces(self, pieces: Sequence[Piece]) -> None:
        """Send pieces in one system call if the kernel takes them; what it does not take stays as it came."""
        if self._closing:
            return
        waiting = self._outgoing.size > 0
        self._outgoing.extend(pieces)
        if not waiting:
            self._send_waiting()
        elif self._outgoing.size > self._limits.max_unsent:
            self.abort()
        self._tell_flow()

    async def flushed(self) -> None:
        """Wait until the kernel has taken every byte, or the transport is closed."""
        await self._empty.wait()

    def finish(self) -> None:
        """Tell the peer that nothing more will come (FIN). For a flushed transport; reading goes on."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.abort()

    def is_closing(self) -> bool:
        """Whether writes are already in vain."""
        return self._closing

    def close(self) -> None:
        """Stop reading and writing. What the kernel has taken is still delivered."""
        self._closing = True
        self._flow = None
        self._outgoing.clear()
        self._empty.set()
        self._nursery.cancel_scope.cancel()

    def abort(self) -> None:
        """Close, and let the kernel too forget what the peer did not take (RST)."""
        if not self._closing:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT_AT_ALL)
        self.close()

    def _send_waiting(self) -> None:
        """Give the kernel what waits; if it does not take everything, start a task for the rest."""
        if not self._send_some():
            self._empty.clear()
            self.stuck_since = trio.current_time()
            self._nursery.start_soon(self._pump)

    def _send_some(self) -> bool:
        """Give the kernel what it takes. Whether that was everything (or the connection is broken)."""
        try:
            while self._outgoing.size:
                self._outgoing.advance(self._socket.sendmsg(self._outgoing.head()))
        except BlockingIOError:
            return False
        except OSError:
            self.abort()
        return True

    async def _pump(self) -> None:
        """Send what waits, as the peer makes room for it."""
        sent = False
        while not sent:
            await trio.lowlevel.wait_writable(self._socket)
            self.stuck_since = trio.current_time()
            sent = self._send_some()
            self._tell_flow()
        self.stuck_since = None
        self._empty.set()

    def _tell_flow(self) -> None:
        if self._flow is None:
            return
        if not self._full and self._outgoing.size > self._limits.high_water:
            self._full = True
            self._flow.pause_writing()
        elif self._full and self._outgoing.size <= self._limits.low_water:
            self._full = False
            self._flow.resume_writing()
