"""What a peer sent on one stream, and the gRPC messages in it.

Flow control ends here: bytes are acknowledged to the peer only when a reader wants them, so that an actor which does
not read costs at most one window.
"""

from collections.abc import Callable
from math import inf

import trio
from grpclib.const import Status
from grpclib.protocol import Buffer

from actors.grpc.budget import Allowance
from actors.grpc.flag import Flag
from actors.grpc.framing import MESSAGE_PREFIX
from actors.grpc.limits import Limits
from actors.ports import StreamClosed
from protocol.errors import RemoteError


class MessageBuffer(Buffer):
    """Takes the place of grpclib's buffer, which reads by bytes, has no limit and waits with asyncio."""

    def __init__(self, acknowledge: Callable[[int], None], limits: Limits, large_messages: Allowance) -> None:
        super().__init__(acknowledge)
        self._acknowledge = acknowledge
        self._limits = limits
        self._large_messages = large_messages
        self._held = 0
        self._arrived = bytearray()
        self._arrived_size = 0
        self._wanted = bytearray()
        self._ended = False
        self._closed: str | None = None
        self._changed = Flag()
        self.waits = 0
        """How often a reader had to wait."""

    def add(self, data: bytes, ack_size: int) -> None:
        """Bytes arrived; `ack_size` is what they took of the window (padding counts)."""
        self._arrived += data
        self._arrived_size += ack_size
        self._changed.set()

    def eof(self) -> None:
        """The peer has sent its last byte."""
        self._ended = True
        self._changed.set()

    def close(self, reason: str) -> None:
        """The stream is over. What was not read is lost."""
        self._closed = reason
        self._let_go()
        self._changed.set()

    def unacked_size(self) -> int:
        """Forget what nobody wanted. Returns what it took of the window."""
        size, self._arrived_size = self._arrived_size, 0
        self._arrived.clear()
        return size

    async def read(self, size: int) -> bytes:
        """Wait for `size` bytes; none after the last. It is what grpclib's own message layer calls."""
        return self._take(size) if await self._want(size) else b""

    async def read_message(self) -> bytes | None:
        """Wait for a whole message; None after the last. Raises `StreamClosed` and, for bad messages, `RemoteError`.

        A peer may take its time before a message, but not within it.
        """
        if not await self._want(1):
            return None
        if not self._whole():
            await self._complete(trio.current_time())
        self._let_go()
        return self._take(MESSAGE_PREFIX.size + self._body_size())[MESSAGE_PREFIX.size :]

    def _whole(self) -> bool:
        """Whether the next message is at hand to its end, as small ones are that came in one frame."""
        at_hand = len(self._wanted)
        return at_hand >= MESSAGE_PREFIX.size and at_hand >= MESSAGE_PREFIX.size + self._body_size()

    async def _complete(self, begun: float) -> None:
        """Wait for the rest of a message of which the first byte came at `begun`."""
        await self._want(MESSAGE_PREFIX.size, begun + self._limits.message_timeout)
        size = MESSAGE_PREFIX.size + self._body_size()
        if len(self._wanted) < size:
            self._hold(size)
            await self._want(size, begun + self._limits.time_for(size))

    def _body_size(self) -> int:
        """Length of the next message. Raises `RemoteError` for one that cannot be accepted, before its body arrives."""
        compressed, size = MESSAGE_PREFIX.unpack_from(self._wanted)
        if compressed:
            raise RemoteError(Status.UNIMPLEMENTED.value, "Compressed messages are not supported")
        if size > self._limits.max_message_size:
            raise RemoteError(
                Status.RESOURCE_EXHAUSTED.value,
                f"Received message larger than max ({size} vs. {self._limits.max_message_size})",
            )
        return int(size)

    def _hold(self, size: int) -> None:
        """Have a large message counted until it is complete. Raises `RemoteError` if there are too many."""
        if size <= self._limits.large_message_size or self._held:
            return
        if not self._large_messages.take(size):
            raise RemoteError(Status.RESOURCE_EXHAUSTED.value, "Too many large messages arrive at once")
        self._held = size

    def _let_go(self) -> None:
        if self._held:
            self._large_messages.give_back(self._held)
            self._held = 0

    async def _want(self, size: int, deadline: float = inf) -> bool:
        """Wait until `size` bytes are at hand. False if the stream ended with none; raises if it ended with a few."""
        self._require_open()
        while len(self._wanted) < size:
            if self._arrived_size:
                self._pull()
            elif self._ended:
                return self._nothing_left()
            else:
                self._changed.clear()
                await self._wait(deadline)
                self._require_open()
        return True

    async def _wait(self, deadline: float) -> None:
        self.waits += 1
        if deadline == inf:
            await self._changed.wait()
            return
        with trio.move_on_at(deadline) as waiting:
            await self._changed.wait()
        if waiting.cancelled_caught:
            raise RemoteError(Status.DEADLINE_EXCEEDED.value, "A message was begun and not finished")

    def _take(self, size: int) -> bytes:
        taken = bytes(self._wanted[:size])
        del self._wanted[:size]
        return taken

    def _nothing_left(self) -> bool:
        if self._wanted:
            raise RemoteError(Status.INTERNAL.value, "The stream ended within a message")
        return False

    def _require_open(self) -> None:
        if self._closed is not None:
            raise StreamClosed(self._closed)

    def _pull(self) -> None:
        """Take over what arrived, and let the peer send more: only when it is wanted, or a flood would pile up here."""
        self._wanted += self._arrived
        self._acknowledge(self.unacked_size())
