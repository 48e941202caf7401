"""The end of a server: in good order, by deadline, or by cancellation."""

import socket

import pytest
import trio
from hyperframe.frame import DataFrame, GoAwayFrame, HeadersFrame, RstStreamFrame

from actors.grpc import Server
from protocol.errors import RemoteError

METHOD = "/test.Service/Talk"


async def linger(stream):
    """A handler that never ends by itself."""
    await stream.send([b"here"])
    await trio.sleep_forever()


async def open_call(running, **options):
    """A connection with one call that has answered."""
    peer = await running.connect(**options)
    await peer.open()
    await peer.body(9)
    return peer


async def test_drain_says_goaway_then_unavailable_then_closes(start, nursery):
    """The peer sees GOAWAY, its call's trailers, and the end of the connection, in this order."""
    running = await start(linger)
    peer = await open_call(running)
    nursery.start_soon(running.server.drain, 5)
    goaway = await peer.expect(GoAwayFrame)
    assert (goaway.error_code, goaway.last_stream_id) == (0, 2**31 - 1)
    assert (await peer.trailers())["grpc-status"] == "14"
    await peer.expect_close()
    assert [type(frame) for frame in peer.frames[-3:]] == [GoAwayFrame, HeadersFrame, RstStreamFrame]


async def test_serve_returns_after_a_drain_and_the_port_is_free(nursery):
    """A drained server is over: `serve` returns and nobody listens any more."""
    server, over = Server({}, on_crash=print), trio.Event()

    async def serve(*, task_status):
        await server.serve("127.0.0.1:0", task_status=task_status)
        over.set()

    address = await nursery.start(serve)
    await server.drain(5)
    with trio.fail_after(5):
        await over.wait()
    host, port = address.split(":")
    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream(host, int(port))


async def test_connections_that_are_just_being_accepted_do_not_survive_a_drain(nursery):
    """However far a new connection has come when the drain begins, `serve` returns."""
    for steps in range(6):
        server, over = Server({}, on_crash=print), trio.Event()

        async def serve(server=server, over=over, *, task_status):
            await server.serve("127.0.0.1:0", task_status=task_status)
            over.set()

        address = await nursery.start(serve)
        host, port = address.split(":")
        with socket.create_connection((host, int(port))):
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            with trio.fail_after(5):
                await server.drain(0.01)
                await over.wait()


async def test_drain_within_a_message_resets(start, nursery):
    """A call that was sending gets RST_STREAM: its message is not complete."""

    async def push(stream):
        await stream.send([bytes(100)])

    running = await start(push)
    peer = await running.connect(window=50)
    await peer.open()
    await peer.body(50)
    nursery.start_soon(running.server.drain, 5)
    assert (await peer.expect(RstStreamFrame)).error_code == 8
    await peer.expect_close()
    assert not any(isinstance(frame, HeadersFrame) and "END_STREAM" in frame.flags for frame in peer.frames)


async def test_what_was_sent_before_a_drain_arrives(start, nursery):
    """A drain waits for bytes that the kernel has not taken yet."""
    body = bytes(3_000_000)
    sent = trio.Event()

    async def push(stream):
        await stream.send([body])
        sent.set()
        await trio.sleep_forever()

    running = await start(push, high_water=2**30, batch_size=2**30)
    peer = await running.connect(receive_buffer=4096)
    await peer.open()
    with trio.fail_after(5):
        await sent.wait()
    nursery.start_soon(running.server.drain, 5)
    assert len(await peer.body(len(body) + 5)) == len(body) + 5
    assert (await peer.trailers())["grpc-status"] == "14"
    await peer.expect_close()


async def test_a_stalled_peer_is_aborted_at_the_deadline(start):
    """A peer that reads nothing cannot hold up the end of the server, nor one that never closes, nor a mute one."""

    async def flood(stream):
        while True:
            await stream.send([bytes(1_000_000)])

    running = await start({METHOD: flood, "/linger": linger})
    deaf = await running.connect(receive_buffer=4096)
    await deaf.open()
    await running.connect_bytes()
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert running.server.statistics().connections_open == 2
    with trio.fail_after(5):
        await running.server.drain(0.1)
        while running.server.statistics().connections_open:
            await trio.lowlevel.checkpoint()
    await deaf.expect_close()
    received = sum(len(frame.data) for frame in deaf.frames if isinstance(frame, DataFrame))
    assert received < 1_000_000_000
    assert running.crashes == []


async def test_a_call_that_comes_during_a_drain_may_be_tried_elsewhere(start, nursery):
    """REFUSED_STREAM: it was not served, and gRPC repeats it on another connection by itself."""
    release = trio.Event()

    async def unwilling(stream):
        await stream.send([b"here"])
        with trio.CancelScope(shield=True):
            await release.wait()

    running = await start(unwilling)
    peer = await open_call(running)
    nursery.start_soon(running.server.drain, 5)
    await peer.expect(GoAwayFrame)
    late = await peer.open()
    reset = await peer.expect(RstStreamFrame)
    assert (reset.stream_id, reset.error_code) == (late, 7)
    release.set()
    await peer.expect_close()


async def test_a_handler_may_answer_its_cancellation(start, nursery):
    """A handler that was cancelled by a drain and raises a RemoteError has the last word."""

    async def polite(stream):
        await stream.send([b"here"])
        try:
            await trio.sleep_forever()
        except trio.Cancelled as error:
            raise RemoteError(10, "try again") from error

    running = await start(polite)
    peer = await open_call(running)
    nursery.start_soon(running.server.drain, 5)
    assert (await peer.trailers())["grpc-status"] == "10"


async def test_a_cancelled_server_still_tells_its_peers(start):
    """Killed by its supervisor, without a drain, it sends GOAWAY and UNAVAILABLE on its way out."""
    running = await start(linger)
    peer = await open_call(running)
    running.scope.cancel()
    assert (await peer.trailers())["grpc-status"] == "14"
    await peer.expect_close()
    assert any(isinstance(frame, GoAwayFrame) for frame in peer.frames)


async def test_drain_of_an_idle_server_is_immediate():
    """Nothing to wait for."""
    server = Server({}, on_crash=print)
    with trio.fail_after(1):
        await server.drain(60)
