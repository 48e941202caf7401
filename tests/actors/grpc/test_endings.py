"""How calls end, frame by frame."""

import pytest
import trio
from hyperframe.frame import DataFrame, HeadersFrame, RstStreamFrame

from actors.ports import StreamClosed
from protocol.errors import LocalError, RemoteError
from tests.actors.grpc.talk import Lingering

CANCEL = 8
METHOD = "/test.Service/Talk"


async def test_a_handler_that_returns_ends_the_call_with_ok(start, echo):
    """Messages, then trailers with status 0, and no RST_STREAM for a peer that has half-closed."""
    peer = await (await start(echo)).connect()
    stream = await peer.open()
    await peer.say(stream, b"hello", end=True)
    headers = (await peer.expect(HeadersFrame)).fields
    assert (headers[":status"], headers["content-type"]) == ("200", "application/grpc+proto")
    assert await peer.body(10) == b"\0\0\0\0\x05hello"
    assert await peer.trailers() == {"grpc-status": "0"}
    assert not any(isinstance(frame, RstStreamFrame) for frame in peer.frames)


async def test_a_peer_that_has_not_half_closed_is_asked_to_stop(start):
    """A complete answer to an incomplete request is followed by RST_STREAM with NO_ERROR (RFC 9113 §8.1)."""

    async def leave(stream):
        return None

    peer = await (await start(leave)).connect()
    await peer.open()
    assert (await peer.trailers())["grpc-status"] == "0"
    assert (await peer.expect(RstStreamFrame)).error_code == 0


async def test_a_remote_error_becomes_the_trailers(start):
    """Code and message reach the peer, percent-encoded; without a message before it, in one HEADERS frame."""

    async def refuse(stream):
        raise RemoteError(7, "not für you: 100%")

    running = await start(refuse)
    peer = await running.connect()
    await peer.open(end=True)
    trailers = await peer.trailers()
    assert (trailers[":status"], trailers["grpc-status"]) == ("200", "7")
    assert trailers["grpc-message"] == "not f%C3%BCr you: 100%25"
    assert running.crashes == []


async def test_a_remote_error_out_of_a_nursery_is_still_one(start):
    """Handlers may have tasks: trio wraps what leaves a nursery, and the peer is told the same."""

    async def refuse(stream):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            async with trio.open_nursery():
                raise RemoteError(16, "who are you?")

    running = await start(refuse)
    peer = await running.connect()
    await peer.open()
    assert (await peer.trailers())["grpc-status"] == "16"
    assert running.crashes == []


async def test_a_crash_is_internal_reported_and_contained(start, echo):
    """The crash of one handler is told to the peer without its text and reported once; its neighbours go on."""

    async def crash(stream):
        await stream.send([b"one"])
        raise ValueError("secret")

    running = await start({METHOD: echo, "/crash": crash})
    peer = await running.connect()
    quiet = await peer.open()
    await peer.open({":path": "/crash"})
    trailers = await peer.trailers()
    assert trailers == {"grpc-status": "13", "grpc-message": "Internal error"}
    await peer.say(quiet, b"still here", end=True)
    assert (await peer.trailers())["grpc-status"] == "0"
    assert [repr(crash) for crash in running.crashes] == ["ValueError('secret')"]
    assert running.server.statistics().crashes == 1


async def test_a_handler_may_end_its_stream_itself(start):
    """`end` sends the trailers at once; afterwards nothing can be sent or received, and returning adds nothing."""
    done = trio.Event()

    async def leave(stream):
        await stream.end(5, "gone")
        for use in (stream.receive(), stream.send([b"x"]), stream.end(0, "")):
            with pytest.raises(StreamClosed):
                await use
        stream.reset()
        done.set()

    peer = await (await start(leave)).connect()
    stream = await peer.open(end=True)
    trailers = await peer.trailers()
    assert (trailers["grpc-status"], trailers["grpc-message"]) == ("5", "gone")
    await done.wait()
    assert [type(frame) for frame in peer.frames if frame.stream_id == stream] == [HeadersFrame]


async def test_reset(start):
    """`reset` drops the stream without trailers."""

    async def drop(stream):
        await stream.send([b"x"])
        stream.reset()

    peer = await (await start(drop)).connect()
    await peer.open()
    assert (await peer.expect(RstStreamFrame)).error_code == CANCEL
    assert sum(isinstance(frame, HeadersFrame) for frame in peer.frames) == 1


@pytest.mark.parametrize("end", [True, False])
async def test_deadline(start, end):
    """A call is stopped when the time that its caller gave has passed."""
    linger = Lingering()
    peer = await (await start(linger)).connect()
    await peer.open({"grpc-timeout": "20m"}, end=end)
    assert (await peer.trailers())["grpc-status"] == "4"
    assert linger.stopped.is_set()


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_handler_is_cancelled_when_its_peer_goes(start, how):
    """RST_STREAM and a closed connection stop the handler at once, wherever it waits."""
    linger = Lingering()
    running = await start(linger)
    peer = await running.connect()
    stream = await peer.open()
    with trio.fail_after(5):
        await linger.started.wait()
        if how == "reset":
            await peer.send(RstStreamFrame(stream, error_code=CANCEL))
        else:
            await peer.stream.aclose()
        await linger.stopped.wait()
    assert running.crashes == []


@pytest.mark.parametrize("how", ["reset", "close"])
@pytest.mark.parametrize("what", ["receive", "send"])
async def test_other_tasks_are_told_when_the_stream_is_over(start, nursery, how, what):
    """A stream may be used outside its handler: whoever waits for it there gets StreamClosed."""
    told, waiting = trio.Event(), trio.Event()

    async def use(stream):
        waiting.set()
        with pytest.raises(StreamClosed):
            await (stream.receive() if what == "receive" else stream.send([bytes(100)]))
        told.set()

    async def lend(stream):
        nursery.start_soon(use, stream)
        await trio.sleep_forever()

    peer = await (await start(lend)).connect(window=0)
    stream = await peer.open()
    with trio.fail_after(5):
        await waiting.wait()
        if how == "reset":
            await peer.send(RstStreamFrame(stream, error_code=CANCEL))
        else:
            await peer.stream.aclose()
        await told.wait()


async def test_a_call_cut_within_a_message_is_reset(start):
    """After half a message, trailers would make sense to nobody: RST_STREAM."""

    async def lose_patience(stream):
        with trio.move_on_after(0.05):
            await stream.send([bytes(100)])
        with pytest.raises(LocalError):
            await stream.send([b"next"])

    peer = await (await start(lose_patience)).connect(window=50)
    await peer.open()
    await peer.body(50)
    assert (await peer.expect(RstStreamFrame, HeadersFrame)).error_code == CANCEL


async def test_a_message_cancelled_before_its_first_byte_harms_nothing(start):
    """With no window nothing was sent: the next message may follow when there is one."""

    async def retry(stream):
        with trio.move_on_after(0.05):
            await stream.send([b"first"])
        await stream.send([b"second"])

    peer = await (await start(retry)).connect(window=0)
    stream = await peer.open()
    await peer.expect(HeadersFrame)
    await trio.testing.wait_all_tasks_blocked(0.1)
    await peer.widen(stream, 100)
    assert await peer.body(11) == b"\0\0\0\0\x06second"
    assert (await peer.trailers())["grpc-status"] == "0"


async def test_a_cancelled_receive_loses_no_message(start):
    """Whoever stops waiting finds the message that came meanwhile."""
    received = []

    async def look_away(stream):
        with trio.CancelScope() as scope:
            scope.cancel()
            received.append(await stream.receive())
        received.append(await stream.receive())

    peer = await (await start(look_away)).connect()
    await peer.say(await peer.open(), b"hello", end=True)
    await peer.trailers()
    assert received == [b"hello"]


async def test_two_sends_at_once_are_our_bug(start):
    """Messages would mix: the second sender is told, loudly."""

    async def hurry(stream):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send, [bytes(100)])
            await trio.testing.wait_all_tasks_blocked()
            assert stream.blocked()
            await stream.send([b"me too"])

    running = await start(hurry)
    peer = await running.connect(window=50)
    await peer.open()
    await peer.expect(RstStreamFrame)
    assert [type(crash) for crash in running.crashes] == [LocalError]


async def test_bad_messages_end_the_call_with_their_status(start, echo):
    """Oversize, compressed and cut-off messages: the answer is in the trailers, the connection lives."""
    peer = await (await start(echo, max_message_size=10)).connect()
    for data, code in [(b"\0\0\0\0\x0b", "8"), (b"\1\0\0\0\1x", "12"), (b"\0\0\0\0\5half", "13")]:
        stream = await peer.open()
        await peer.send(DataFrame(stream, data, flags=["END_STREAM"] if code == "13" else []))
        assert (await peer.trailers())["grpc-status"] == code
    stream = await peer.open()
    await peer.say(stream, bytes(10), end=True)
    assert (await peer.trailers())["grpc-status"] == "0"


async def test_a_long_status_message_is_cut(start):
    """Trailers stay under the 8 KiB that clients accept, whatever an error says."""

    async def rant(stream):
        raise RemoteError(3, "ü" * 10_000)

    peer = await (await start(rant)).connect()
    await peer.open()
    assert len((await peer.trailers())["grpc-message"]) <= 6000
