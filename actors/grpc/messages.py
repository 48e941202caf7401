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
    """Takes the place of grpclib's buffer, which reads by bytes, has no limit and waits with asyncio.

    There are two ways to read: wait for each message, or be woken (`on_arrival`) and take what is there.
    """

    def __init__(self, acknowledge: Callable[[int], None], limits: Limits, large_messages: Allowance) -> None:
        super().__init__(acknowledge)
        self._acknowledge = acknowledge
        self._limits = limits
        self._large_messages = large_messages
        self._held = 0
        self._arrived = bytearray()
        self._arrived_size = 0
        self._wanted = bytearray()
        self._size = 0
        self._begun_at = inf
        self._lies_since = inf
        self._ended = False
        self._closed: str | None = None
        self._changed = Flag()
        self._wake = _let_lie
        self.due_at = inf
        """When the rest of a message that was begun must have come, in seconds of trio's clock."""
        self.waits = 0
        """How often a reader had to wait."""

    def add(self, data: bytes, ack_size: int) -> None:
        """Bytes arrived; `ack_size` is what they took of the window (padding counts)."""
        if self._begun_at != inf and not self._arrived_size:
            self._lies_since = trio.current_time()
        self._arrived += data
        self._arrived_size += ack_size
        self._tell()

    def eof(self) -> None:
        """The peer has sent its last byte."""
        self._ended = True
        self._tell()

    def close(self, reason: str) -> None:
        """The stream is over. What was not read is lost."""
        self._closed = reason
        self._let_go()
        self._tell()
        self._wake = _let_lie  # nothing more comes, and who is woken may know this buffer: a cycle

    def on_arrival(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever `read_nowait` may have something new to say, until the stream is over."""
        self._wake = wake

    def unacked_size(self) -> int:
        """Forget what nobody wanted. Returns what it took of the window."""
        size, self._arrived_size = self._arrived_size, 0
        self._arrived.clear()
        return size

    def pending(self) -> bool:
        """Whether `read_nowait` may have something to say."""
        return self._changed.is_set() or (self.due_at != inf and self.due_at <= trio.current_time())

    async def read_message(self) -> bytes | None:
        """Wait for a whole message; else as `read_nowait`."""
        while True:
            try:
                return self.read_nowait()
            except trio.WouldBlock:
                self.waits += 1
            with trio.move_on_at(self.due_at):
                await self._changed.wait()

    def read_nowait(self) -> bytes | None:
        """The next message; None after the last. Raises `trio.WouldBlock` if it is not there to its end, `StreamClosed`
        and, for bad messages, `RemoteError`.

        A peer may take its time before a message, but not within it.
        """
        if self._closed is not None:
            raise StreamClosed(self._closed)
        if not self._is_whole() and self._arrived_size:
            self._pull()
        if not self._is_whole():
            self._check_end()
            return None
        self._let_go()
        message = bytes(self._wanted[MESSAGE_PREFIX.size : self._size])
        del self._wanted[: self._size]
        self._size, self._begun_at, self.due_at = 0, inf, inf
        if not (self._wanted or self._arrived_size or self._ended):
            self._changed.clear()
        return message

    def _is_whole(self) -> bool:
        """Whether the next message is at hand to its end, as small ones are that came in one frame."""
        if not self._size and len(self._wanted) >= MESSAGE_PREFIX.size:
            self._size = MESSAGE_PREFIX.size + self._body_size()
        return 0 < self._size <= len(self._wanted)

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

    def _check_end(self) -> None:
        """Raise `trio.WouldBlock` unless the peer has ended the stream, and `RemoteError` if it did so in a message."""
        if not self._ended:
            if self._wanted:
                self._expect_rest(trio.current_time())
            self._changed.clear()
            raise trio.WouldBlock
        if self._wanted:
            raise RemoteError(Status.INTERNAL.value, "The stream ended within a message")

    def _expect_rest(self, now: float) -> None:
        """Hold a message that has begun. Raises `RemoteError` if it does not come to its end in time."""
        self._begun_at = min(self._begun_at, now)
        self._hold(self._size)
        allowed = self._limits.time_for(self._size) if self._size else self._limits.message_timeout
        self.due_at = self._begun_at + allowed
        if now >= self.due_at:
            raise RemoteError(Status.DEADLINE_EXCEEDED.value, "A message was begun and not finished")

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

    def _pull(self) -> None:
        """Take over what arrived, and let the peer send more: only when it is wanted, or a flood would pile up here.

        For as long as something lay here the peer may have had no window to go on: that is not its time.
        """
        if self._begun_at != inf:
            self._begun_at += trio.current_time() - self._lies_since
        self._wanted += self._arrived
        self._acknowledge(self.unacked_size())

    def _tell(self) -> None:
        self._changed.set()
        self._wake()


def _let_lie() -> None:
    """For as long as nobody wants to be woken."""
