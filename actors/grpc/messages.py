"""What a peer sent on one stream, and the gRPC messages in it.

Flow control ends here: bytes are acknowledged to the peer only when a reader wants them, so that an actor which does
not read costs at most one window.
"""

from collections import deque
from collections.abc import Callable

from grpclib.const import Status
from grpclib.protocol import Buffer

from actors.grpc.flag import Flag
from actors.grpc.framing import MESSAGE_PREFIX
from actors.ports import StreamClosed
from protocol.errors import RemoteError


class MessageBuffer(Buffer):
    """Takes the place of grpclib's buffer, which reads by bytes, has no limit and waits with asyncio."""

    def __init__(self, acknowledge: Callable[[int], None], max_message_size: int) -> None:
        super().__init__(acknowledge)
        self._acknowledge = acknowledge
        self._max_message_size = max_message_size
        self._arrived: deque[tuple[bytes, int]] = deque()
        self._wanted = bytearray()
        self._ended = False
        self._closed: str | None = None
        self._changed = Flag()

    def add(self, data: bytes, ack_size: int) -> None:
        """Bytes arrived; `ack_size` is what they took of the window (padding counts)."""
        self._arrived.append((data, ack_size))
        self._changed.set()

    def eof(self) -> None:
        """The peer has sent its last byte."""
        self._ended = True
        self._changed.set()

    def close(self, reason: str) -> None:
        """The stream is over. What was not read is lost."""
        self._closed = reason
        self._changed.set()

    def unacked_size(self) -> int:
        """Forget what nobody wanted. Returns what it took of the window."""
        size = sum(ack_size for _, ack_size in self._arrived)
        self._arrived.clear()
        return size

    async def read(self, size: int) -> bytes:
        """Wait for `size` bytes; none after the last. It is what grpclib's own message layer calls."""
        return self._take(size) if await self._want(size) else b""

    async def read_message(self) -> bytes | None:
        """Wait for a whole message; None after the last. Raises `StreamClosed` and, for bad messages, `RemoteError`."""
        if not await self._want(MESSAGE_PREFIX.size):
            return None
        size = MESSAGE_PREFIX.size + self._body_size()
        await self._want(size)
        return self._take(size)[MESSAGE_PREFIX.size :]

    def _body_size(self) -> int:
        """Length of the next message. Raises `RemoteError` for one that cannot be accepted, before its body arrives."""
        compressed, size = MESSAGE_PREFIX.unpack_from(self._wanted)
        if compressed:
            raise RemoteError(Status.UNIMPLEMENTED.value, "Compressed messages are not supported")
        if size > self._max_message_size:
            raise RemoteError(
                Status.RESOURCE_EXHAUSTED.value,
                f"Received message larger than max ({size} vs. {self._max_message_size})",
            )
        return int(size)

    async def _want(self, size: int) -> bool:
        """Wait until `size` bytes are at hand. False if the stream ended with none; raises if it ended with a few."""
        self._pull()
        while len(self._wanted) < size:
            if self._ended:
                return self._nothing_left()
            self._changed.clear()
            await self._changed.wait()
            self._pull()
        return True

    def _take(self, size: int) -> bytes:
        taken = bytes(self._wanted[:size])
        del self._wanted[:size]
        return taken

    def _nothing_left(self) -> bool:
        if self._wanted:
            raise RemoteError(Status.INTERNAL.value, "The stream ended within a message")
        return False

    def _pull(self) -> None:
        """Take over what arrived, and let the peer send more."""
        if self._closed is not None:
            raise StreamClosed(self._closed)
        while self._arrived:
            data, ack_size = self._arrived.popleft()
            self._wanted += data
            self._acknowledge(ack_size)
