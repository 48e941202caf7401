"""The queue of unsent pieces."""

from hypothesis import given
from hypothesis import strategies as st

from actors.grpc.framing import MAX_PIECES
from actors.grpc.pieces import PieceQueue


@given(st.lists(st.lists(st.binary(max_size=9))), st.data())
def test_bytes_leave_in_the_order_in_which_they_came(batches, data):
    """Whatever the kernel takes each time, nothing is lost, repeated or reordered, and `size` is right."""
    queue, sent = PieceQueue(), b""
    for batch in batches:
        queue.extend(batch)
        taken = data.draw(st.integers(0, queue.size))
        sent += b"".join(queue.head())[:taken]
        queue.advance(taken)
        assert queue.size == len(b"".join(queue.head()))
    assert sent + b"".join(queue.head()) == b"".join(b"".join(batch) for batch in batches)


def test_head_is_what_one_system_call_takes():
    """No more pieces than IOV_MAX at a time."""
    queue = PieceQueue()
    queue.extend([b"x"] * (MAX_PIECES + 1))
    assert len(queue.head()) == MAX_PIECES
    queue.advance(MAX_PIECES)
    assert queue.head() == [b"x"]


def test_clear_forgets_everything():
    """A closed transport holds no buffers."""
    queue = PieceQueue()
    queue.extend([b"abc"])
    queue.clear()
    assert (queue.size, queue.head()) == (0, [])
