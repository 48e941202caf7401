"""Bytes on the wire: gRPC's message prefix, HTTP/2 DATA frames around shared buffers, GOAWAY. Pure.

DATA frames are not made through h2: per 16 KiB it would build a frame object, copy the payload twice and write once,
which costs three to five times as much CPU for a large message. Here a frame is its 9-byte header followed by slices of
the buffers that the message was given as, whoever else is sending the same buffers.
"""

import struct
from collections.abc import Sequence

from hyperframe.frame import GoAwayFrame

Piece = bytes | memoryview

MESSAGE_PREFIX = struct.Struct(">BI")
"""Compressed flag and length: Length-Prefixed-Message of grpc/doc/PROTOCOL-HTTP2.md."""

MAX_PIECES = 1024
"""The most buffers that one `sendmsg` takes (IOV_MAX on Linux)."""

_FRAME_HEADER = struct.Struct(">HBBBI")
_DATA = 0x0
_NO_FLAGS = 0x0
_HIGHEST_STREAM_ID = 2**31 - 1


def data_frame_header(stream_id: int, length: int) -> bytes:
    """Header of a DATA frame without flags: 24 bits of length, type, flags, stream (RFC 9113 §4.1)."""
    return _FRAME_HEADER.pack(length >> 8, length & 0xFF, _DATA, _NO_FLAGS, stream_id)


def goaway_frame() -> bytes:
    """A GOAWAY without error that lets every open stream go on (RFC 9113 §6.8).

    Made by hand because `H2Connection.close_connection` also closes h2's state machine, and no trailers could follow.
    """
    return GoAwayFrame(0, last_stream_id=_HIGHEST_STREAM_ID, error_code=0).serialize()


def prefixed(body: Sequence[bytes]) -> tuple[bytes, ...]:
    """The buffers of one uncompressed gRPC message: its prefix, then its body."""
    return (MESSAGE_PREFIX.pack(0, sum(map(len, body))), *body)


class DataFrames:
    """Cuts bytes, given as buffers, into DATA frames, as many at a time as flow control admits."""

    def __init__(self, stream_id: int, buffers: Sequence[bytes]) -> None:
        self._stream_id = stream_id
        self._buffers = iter(buffers)
        self._rest: Piece = b""
        self.remaining = sum(map(len, buffers))
        """Bytes that were not cut yet."""

    def cut(self, limit: int, max_frame_size: int) -> tuple[list[Piece], int]:
        """Cut frames with up to `limit` bytes of payload (> 0). Returns their pieces and the payload's size.

        Stops early at `MAX_PIECES` pieces, but never within a frame.
        """
        pieces: list[Piece] = []
        unused = size = min(limit, self.remaining)
        header = data_frame_header(self._stream_id, max_frame_size)
        while unused and len(pieces) < MAX_PIECES:
            length = min(unused, max_frame_size)
            if length < max_frame_size:
                header = data_frame_header(self._stream_id, length)
            pieces.append(header)
            self._take(length, pieces)
            unused -= length
        size -= unused
        self.remaining -= size
        return pieces, size

    def _take(self, length: int, pieces: list[Piece]) -> None:
        """Move `length` bytes from the buffers to `pieces`: whole buffers as they are, parts as slices."""
        piece = self._rest
        while len(piece) < length:
            if piece:
                pieces.append(piece)
                length -= len(piece)
            piece = next(self._buffers)
        if len(piece) > length:
            view = memoryview(piece)
            piece, self._rest = view[:length], view[length:]
        else:
            self._rest = b""
        pieces.append(piece)
