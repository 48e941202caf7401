"""Messages in the bytes of one stream."""

from math import inf

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors.grpc.budget import Allowance
from actors.grpc.limits import Limits
from actors.grpc.messages import MessageBuffer
from actors.ports import StreamClosed
from protocol.errors import RemoteError


def message(body, compressed=0):
    """One message as it travels."""
    return bytes([compressed]) + len(body).to_bytes(4, "big") + body


def buffer(*chunks, limit=100, ended=True):
    """A buffer that received these chunks, and the list of sizes that it acknowledged."""
    acknowledged = []
    received = MessageBuffer(acknowledged.append, Limits(max_message_size=limit), Allowance(limit))
    for chunk in chunks:
        received.add(chunk, len(chunk))
    if ended:
        received.eof()
    return received, acknowledged


@given(st.lists(st.binary(max_size=20), max_size=5), st.integers(1, 9))
def test_messages_are_found_however_they_are_cut(bodies, size):
    """Message boundaries have nothing to do with those of DATA frames, and every byte is acknowledged once."""
    data = b"".join(map(message, bodies))
    received, acknowledged = buffer(*(data[at : at + size] for at in range(0, len(data), size)))

    async def read_all():
        read = []
        while (body := await received.read_message()) is not None:
            read.append(body)
        assert await received.read_message() is None
        return read

    assert trio.run(read_all) == bodies
    assert sum(acknowledged) == len(data)


async def test_a_reader_that_was_cancelled_loses_nothing():
    """Half a message stays until its other half comes."""
    received, _ = buffer(message(b"abc")[:-1], ended=False)
    with trio.CancelScope() as scope:
        scope.cancel()
        await received.read_message()
    received.add(b"c", 1)
    assert await received.read_message() == b"abc"


async def test_padding_counts_as_received():
    """What padding took of the window is given back with the data."""
    received, acknowledged = buffer(ended=False)
    received.add(message(b"x"), 50)
    assert await received.read_message() == b"x"
    assert acknowledged == [50]


async def test_nothing_is_acknowledged_before_somebody_reads():
    """A peer whose actor does not read is held back; what nobody wanted is told at the end."""
    received, acknowledged = buffer(message(b"x"))
    assert acknowledged == []
    assert received.unacked_size() == 6
    assert received.unacked_size() == 0


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (message(bytes(101)), 8),
        (b"\0\xff\xff\xff\xff", 8),
        (message(b"x", compressed=1), 12),
        (message(b"xyz")[:-1], 13),
        (b"\0\0", 13),
    ],
)
async def test_bad_messages_are_the_peers_fault(data, code):
    """Too large, compressed and cut-off messages are remote errors with their status, before the body is awaited."""
    received, _ = buffer(data)
    with pytest.raises(RemoteError) as error:
        await received.read_message()
    assert error.value.code == code


async def test_the_largest_message_is_accepted():
    """The limit is inclusive."""
    received, _ = buffer(message(bytes(100)))
    assert await received.read_message() == bytes(100)


async def test_a_closed_stream_wakes_its_reader(nursery):
    """A reader in any task is told when the stream is over; unread messages are lost."""
    received, _ = buffer(ended=False)

    async def close():
        await trio.testing.wait_all_tasks_blocked()
        received.add(message(b"late"), 9)
        received.close("reset")

    nursery.start_soon(close)
    with pytest.raises(StreamClosed, match="reset"):
        await received.read_message()


async def test_who_wants_to_be_woken_is_woken_for_whatever_comes():
    """For bytes, for the end, and for the stream's close: the last time, for nothing can follow."""
    received, _ = buffer(ended=False)
    wakes = []
    received.on_arrival(lambda: wakes.append(received.pending()))
    received.add(b"\0", 1)
    received.eof()
    received.close("over")
    received.add(b"late", 4)
    assert wakes == [True, True, True]


async def test_what_is_there_is_pending_until_it_is_taken():
    """Messages that came together are taken one by one; a part of one is nothing yet."""
    received, _ = buffer(message(b"a") + message(b"b") + message(b"c")[:-1], ended=False)
    assert [received.read_nowait(), received.read_nowait()] == [b"a", b"b"]
    assert received.pending()
    with pytest.raises(trio.WouldBlock):
        received.read_nowait()
    assert not received.pending()
    received.add(b"c", 1)
    assert received.pending()
    assert received.read_nowait() == b"c"
    assert not received.pending()
    received.eof()
    assert [received.pending(), received.read_nowait(), received.read_nowait()] == [True, None, None]


async def test_a_message_that_does_not_come_to_its_end_is_pending_when_it_is_due(autojump_clock):
    """Whoever takes what is there learns at that time that it was cut off."""
    received, _ = buffer(message(b"abc")[:3], ended=False)
    assert received.due_at == inf
    with pytest.raises(trio.WouldBlock):
        received.read_nowait()
    await trio.sleep(received.due_at - trio.current_time())
    assert received.pending()
    with pytest.raises(RemoteError, match="not finished"):
        received.read_nowait()


async def test_the_time_for_a_message_runs_only_while_somebody_reads(autojump_clock):
    """Whose bytes nobody took had no window to go on; as soon as they are taken it has to."""
    received, _ = buffer(message(b"abcd")[:6], ended=False)
    with pytest.raises(trio.WouldBlock):
        received.read_nowait()
    allowed = received.due_at - trio.current_time()
    await trio.sleep(1)
    received.add(b"b", 1)
    await trio.sleep(2 * allowed)
    with pytest.raises(trio.WouldBlock):
        received.read_nowait()
    await trio.sleep(allowed - 1)
    with pytest.raises(RemoteError, match="not finished"):
        received.read_nowait()


async def test_what_is_refused_is_refused_as_often_as_one_asks():
    """Who was told, and died before it ended the stream, has a successor: it must not sleep."""
    limits, room = Limits(max_message_size=100, large_message_size=10), Allowance(10)
    received = MessageBuffer(lambda _: None, limits, room)
    received.add(message(bytes(50))[:20], 20)
    for _ in range(2):
        assert received.pending()
        with pytest.raises(RemoteError, match="Too many"):
            received.read_nowait()
