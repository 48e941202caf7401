"""DATA frames: exact bytes, shared buffers."""

from hyperframe.frame import DataFrame, Frame, GoAwayFrame
from hypothesis import given
from hypothesis import strategies as st

from actors.grpc.framing import MAX_PIECES, DataFrames, goaway_frame, prefixed


def parse(pieces):
    """The frames in these pieces."""
    data = b"".join(pieces)
    while data:
        frame, length = Frame.parse_frame_header(memoryview(data[:9]))
        frame.parse_body(memoryview(data[9 : 9 + length]))
        yield frame
        data = data[9 + length :]


@given(
    buffers=st.lists(st.binary(max_size=40), max_size=12).filter(any),
    limits=st.lists(st.integers(1, 50), min_size=1),
    frame_size=st.integers(1, 30),
)
def test_frames_carry_exactly_the_bytes_that_they_were_cut_from(buffers, limits, frame_size):
    """However the windows open, the payloads joined are the buffers joined, and no frame exceeds a limit."""
    frames = DataFrames(5, buffers)
    received = []
    while frames.remaining:
        for limit in limits:
            before = frames.remaining
            pieces, size = frames.cut(limit, frame_size)
            parsed = list(parse(pieces))
            assert all(isinstance(frame, DataFrame) and frame.stream_id == 5 and not frame.flags for frame in parsed)
            assert all(0 < len(frame.data) <= frame_size for frame in parsed)
            assert sum(len(frame.data) for frame in parsed) == size == before - frames.remaining <= limit
            received += [frame.data for frame in parsed]
    assert b"".join(received) == b"".join(buffers)


def test_buffers_are_shared_not_copied():
    """A whole buffer travels as itself and a part of one as a view of it."""
    small, large = b"small", bytes(40_000)
    pieces, size = DataFrames(1, [small, large]).cut(1 << 20, 16_384)
    assert size == 40_005
    assert pieces[1] is small
    assert all(piece.obj is large for piece in pieces if isinstance(piece, memoryview))


def test_a_cut_stops_near_the_most_pieces_that_one_system_call_takes():
    """A thousand small buffers do not become one endless batch, yet a begun frame is complete."""
    frames = DataFrames(1, [b"x"] * 5000)
    pieces, size = frames.cut(1 << 20, 1000)
    assert MAX_PIECES <= len(pieces) <= MAX_PIECES + 1001
    assert size % 1000 == 0
    assert frames.remaining == 5000 - size


def test_message_prefix():
    """A message is its uncompressed flag, its length in four bytes, and its body."""
    assert prefixed([b"ab", b"", b"c"]) == (b"\0\0\0\0\3", b"ab", b"", b"c")
    assert prefixed([]) == (b"\0\0\0\0\0",)


def test_goaway_bytes():
    """GOAWAY says no error and the highest stream, so that open streams go on."""
    assert goaway_frame() == bytes.fromhex("000008 07 00 00000000 7fffffff 00000000")
    (frame,) = parse([goaway_frame()])
    assert isinstance(frame, GoAwayFrame)
