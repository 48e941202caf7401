"""Peers and messages that do not move, or move too slowly: each has a deadline, and holds little until then."""

from contextlib import suppress

import pytest
import trio
from hyperframe.frame import DataFrame, GoAwayFrame, PingFrame, RstStreamFrame, WindowUpdateFrame

from actors.grpc.limits import KIB, Rate
from tests.actors.grpc.talk import ECHO, UNBOUNDED, hello, linger, until

CANCEL, REFUSED = 8, 7
EXHAUSTED, UNAVAILABLE, TOO_LATE = "8", "14", "4"


# --- messages that do not move ---------------------------------------------------------------------------------------
async def test_a_message_that_was_begun_must_be_finished(start, echo):
    """Silence before a message may last; within one it ends the call."""
    peer = await (await start(echo, message_timeout=0.1)).connect()
    patient, slow = await peer.open(), await peer.open()
    await peer.send(DataFrame(slow, b"\0\0\0\0\x05hel"))
    trailers = await peer.trailers()
    assert (trailers["grpc-status"], trailers["grpc-message"]) == (TOO_LATE, "A message was begun and not finished")
    await trio.sleep(0.1)
    await peer.say(patient, b"hello", end=True)
    assert (await peer.trailers())["grpc-status"] == "0"


async def test_a_large_message_has_the_time_that_its_size_needs(start, echo):
    """At the slowest rate allowed it arrives in time."""
    peer = await (await start(echo, message_timeout=0.05, slowest=1000)).connect()
    stream = await peer.open()
    await peer.send(DataFrame(stream, b"\0\0\0\x01\xf4"))
    await trio.sleep(0.2)
    await peer.send(DataFrame(stream, bytes(500), flags=["END_STREAM"]))
    assert (await peer.trailers())["grpc-status"] == "0"


async def test_large_messages_are_counted_together(start, echo):
    """While they arrive they may hold so much and no more; what ends, in whatever way, makes room."""
    running = await start(echo, large_messages=200 * KIB)
    peer, other = await running.connect(), await running.connect()
    prefix = b"\0" + (150 * KIB).to_bytes(4, "big")
    holding = await peer.open()
    await peer.send(DataFrame(holding, prefix))
    await until(lambda: running.server._serving.large_messages.left < 200 * KIB)
    await other.send(DataFrame(await other.open(), prefix))
    assert (await other.trailers())["grpc-status"] == EXHAUSTED
    await hello(other)
    await peer.send(RstStreamFrame(holding, error_code=CANCEL))
    await until(lambda: running.server._serving.large_messages.left == 200 * KIB)
    stream = await other.open()
    await other.send(DataFrame(stream, prefix))
    sent = 0
    while sent < 150 * KIB:
        await other.say_bytes(stream, bytes(30 * KIB))
        sent += 30 * KIB
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert len(await other.body(150 * KIB + 5)) == 150 * KIB + 5
    assert running.server._serving.large_messages.left == 200 * KIB


async def test_a_flood_of_small_messages_waits_in_the_window(start):
    """A handler that is slower than its peer holds a window's worth: what it has not asked for is not acknowledged."""
    go = trio.Event()

    async def read_one(stream):
        await stream.receive()
        await go.wait()

    running = await start(read_one, work=UNBOUNDED)
    peer = await running.connect()
    stream = await peer.open()
    await peer.say_bytes(stream, b"\0\0\0\0\x64" + bytes(100))
    await peer.expect(WindowUpdateFrame)
    await peer.say_bytes(stream, (b"\0\0\0\0\x64" + bytes(100)) * 600)
    await trio.testing.wait_all_tasks_blocked(0.05)
    updates = [frame for frame in peer.frames if isinstance(frame, WindowUpdateFrame) and frame.stream_id]
    assert sum(frame.window_increment for frame in updates) < 1000
    go.set()


async def test_a_peer_without_a_window_loses_its_call(start):
    """A response that cannot begin for too long ends the call with a status, for trailers need no window."""

    async def speak(stream):
        await stream.send([bytes(100)])

    running = await start(speak, message_timeout=0.1)
    peer = await running.connect(window=0)
    await peer.open()
    trailers = await peer.trailers()
    assert (trailers["grpc-status"], trailers["grpc-message"]) == (
        UNAVAILABLE,
        "The peer does not read what it is sent",
    )
    assert running.crashes == []


async def test_a_peer_that_reads_a_byte_now_and_then_loses_its_call(start):
    """Reading something is not enough: within a message the answer is RST_STREAM."""

    async def speak(stream):
        await stream.send([bytes(1000)])

    running = await start(speak, message_timeout=0.1, slowest=10_000)
    peer = await running.connect(window=0)
    stream = await peer.open()
    with trio.fail_after(5):
        while not any(isinstance(frame, RstStreamFrame) for frame in peer.frames):
            await peer.widen(stream, 1)
            await peer.expect(DataFrame, RstStreamFrame)
            await trio.sleep(0.01)
    assert peer.frames[-1].error_code == CANCEL
    assert len([frame for frame in peer.frames if isinstance(frame, DataFrame)]) < 1000


# --- connections that do not move ------------------------------------------------------------------------------------
async def flood(stream):
    """Send more than any buffer takes."""
    while True:
        await stream.send([bytes(1024 * KIB)])


async def test_a_socket_that_takes_nothing_is_aborted(start):
    """A peer that talks and never reads does not live by its talking."""
    running = await start(
        flood, stuck_timeout=0.1, keepalive_timeout=0.1, keepalive_interval=30, cheap_frames=UNBOUNDED
    )
    peer = await running.connect(receive_buffer=4096)
    await peer.open()
    with trio.fail_after(5):
        while running.server.statistics().connections_open:
            try:
                await peer.widen(0, 1)
            except trio.BrokenResourceError:
                break
            await trio.sleep(0.01)
    assert running.server.statistics().peers_stuck == 1
    assert running.crashes == []


async def test_peers_that_do_not_move_delay_no_neighbour(start, echo):
    """Thirty calls are stuck: no window, a window of single bytes, a socket that nobody reads, a message that does not
    end. A neighbour is answered all the time.
    """
    running = await start({"/test.Service/Talk": flood, ECHO: echo})
    neighbour = await running.connect()
    for _ in range(10):
        closed = await running.connect(window=0)
        await closed.widen(await closed.open(), 1)
        await (await running.connect(receive_buffer=4096)).open()
        slow = await running.connect()
        await slow.send(DataFrame(await slow.open({":path": ECHO}), b"\0\0\0\0\x05hel"))
    with trio.fail_after(5):
        for _ in range(20):
            await hello(neighbour, ECHO)
    assert running.crashes == []


async def test_answers_that_nobody_reads_are_bounded(start):
    """PINGs whose answers are not read: beyond a full transport the connection is aborted."""
    running = await start(flood, high_water=16 * KIB, low_water=8 * KIB, batch_size=16 * KIB, cheap_frames=UNBOUNDED)
    peer = await running.connect(receive_buffer=4096)
    await peer.open()
    ping = PingFrame(0, bytes(8)).serialize() * 1000
    with trio.fail_after(5), suppress(trio.BrokenResourceError):
        while True:
            await peer.stream.send_all(ping)
    await until(lambda: not running.server.statistics().connections_open)
    assert running.crashes == []


async def test_a_connection_without_calls_is_asked_to_leave(start, echo):
    """GOAWAY without error, then the end; a connection with a call stays."""
    limits = {"idle_timeout": 0.1, "unused_timeout": 0.1, "keepalive_timeout": 0.1}
    running = await start({ECHO: echo, "/test.Service/Talk": linger}, **limits)
    idle, busy = await running.connect(), await running.connect()
    await busy.open()
    assert (await idle.expect(GoAwayFrame)).error_code == 0
    await idle.expect_close()
    await hello(busy, ECHO)
    assert running.server.statistics().peers_idle == 1


async def test_a_connection_that_never_had_a_call_is_asked_to_leave_sooner(start, echo):
    """Whoever only shakes hands is there to hold memory; whoever has called may call again."""
    running = await start({ECHO: echo}, unused_timeout=0.1, keepalive_timeout=0.1)
    unused, used = await running.connect(), await running.connect()
    await hello(used, ECHO)
    assert (await unused.expect(GoAwayFrame)).error_code == 0
    await unused.expect_close()
    await hello(used, ECHO)
    assert running.server.statistics().peers_idle == 1


async def test_a_call_that_comes_while_its_connection_is_retired_is_refused(start, echo):
    """It is safe to try it elsewhere."""
    running = await start(echo, unused_timeout=0.0, keepalive_timeout=1.0)
    peer = await running.connect()
    await peer.expect(GoAwayFrame)
    await peer.open()
    assert (await peer.expect(RstStreamFrame)).error_code == REFUSED


async def test_a_flood_of_requests_is_slowed_down(start, echo):
    """A connection that sends more than it may is read later; it loses nothing."""
    running = await start(echo, work=Rate(40 * KIB, 80 * KIB))
    peer = await running.connect()
    stream = await peer.open()
    began = trio.current_time()
    for _ in range(4):
        for _ in range(5):
            await peer.say(stream, bytes(100))
        await peer.body(5 * 105)
    assert trio.current_time() - began > 0.2


@pytest.mark.parametrize("secure", [False, True])
async def test_slow_greetings_are_bounded(start, echo, tls, secure):
    """A byte now and then keeps nobody at the door: not before TLS, not before the preface, not before SETTINGS."""
    running = await start(echo, tls=tls.server(ask=False) if secure else None, handshake_timeout=0.15)
    stream = await running.connect_bytes()
    hello_bytes = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" if secure else b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    with trio.move_on_after(5), suppress(trio.BrokenResourceError):
        for byte in hello_bytes:
            await stream.send_all(bytes([byte]))
            await trio.sleep(0.002)
        await running.expect_close(stream)
    assert running.server.statistics().handshakes_timed_out == 1
