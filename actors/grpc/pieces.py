"""The queue of a transport: pieces that wait for the kernel to take them. Pure."""

from collections import deque
from collections.abc import Sequence
from itertools import islice

from actors.grpc.framing import MAX_PIECES, Piece


class PieceQueue:
    """Unsent bytes in order, still in the buffers that they came in. Invariant: `size` = sum of their lengths."""

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self.size = 0

    def extend(self, pieces: Sequence[Piece]) -> None:
        """Put pieces at the end."""
        self._pieces.extend(pieces)
        self.size += sum(map(len, pieces))

    def head(self) -> list[Piece]:
        """The first pieces, as many as one `sendmsg` takes."""
        return list(islice(self._pieces, MAX_PIECES))

    def advance(self, sent: int) -> None:
        """Forget the first `sent` bytes (0 <= sent <= size)."""
        if sent == self.size:
            self.clear()
            return
        self.size -= sent
        while sent:
            piece = self._pieces.popleft()
            if len(piece) > sent:
                self._pieces.appendleft(memoryview(piece)[sent:])
                return
            sent -= len(piece)

    def clear(self) -> None:
        """Forget everything, and with it the references to shared buffers."""
        self._pieces.clear()
        self.size = 0
