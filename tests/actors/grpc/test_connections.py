"""Connections: accepted, kept alive, and lost, each without harm to the others."""

import gc
import socket
from contextlib import contextmanager
from types import FrameType, SimpleNamespace

import pytest
import trio
from hyperframe.frame import (
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
)

from actors.grpc.limits import Limits
from actors.grpc.server import Server, format_address, open_listener
from protocol.errors import RemoteError
from tests.actors.grpc.talk import Lingering

BAD_FRAME = bytes.fromhex("000001 00 00 00000000 78")
"""DATA on stream 0, which RFC 9113 §6.1 forbids."""


async def say_hello(running):
    """One call on a connection of its own: the server still serves."""
    peer = await running.connect()
    stream = await peer.open()
    await peer.say(stream, b"hello", end=True)
    assert await peer.body(10) == b"\0\0\0\0\x05hello"
    assert (await peer.trailers())["grpc-status"] == "0"
    return peer


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({":path": None}, "400", "2"),
        ({"grpc-timeout": "abc"}, "200", "2"),
        ({":path": "/no/such"}, "200", "12"),
        ({":method": "GET"}, "405", None),
        ({"content-type": "text/html"}, "415", "2"),
        ({"te": None}, "400", "2"),
    ],
)
async def test_bad_headers_are_refused_and_the_connection_goes_on(start, echo, changes, status, code):
    """Headers that would make grpclib raise are answered, and the next stream of the connection is served."""
    running = await start(echo)
    peer = await running.connect()
    await peer.open(changes)
    answer = await peer.trailers()
    assert (answer[":status"], answer.get("grpc-status")) == (status, code)
    stream = await peer.open({"x-odd": "\xe9\xff"})
    await peer.say(stream, b"x", end=True)
    assert (await peer.trailers())["grpc-status"] == "0"
    assert running.crashes == []
    assert running.server.statistics().calls_refused == 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00" + bytes(100),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + BAD_FRAME,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HeadersFrame(1, b"\xff\xff\xff", flags=["END_HEADERS"]).serialize(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HeadersFrame(2, b"", flags=["END_HEADERS"]).serialize(),
    ],
)
async def test_garbage_ends_its_own_connection_only(start, echo, garbage):
    """What is not HTTP/2 is closed, not crashed upon."""
    running = await start(echo)
    stream = await running.connect_bytes()
    await stream.send_all(garbage)
    await running.expect_close(stream)
    await say_hello(running)
    assert running.crashes == []


async def test_a_protocol_error_is_answered_with_goaway(start, echo):
    """A peer that breaks HTTP/2's rules is told so before the connection closes."""
    running = await start(echo)
    peer = await running.connect()
    await peer.stream.send_all(BAD_FRAME)
    assert (await peer.expect(GoAwayFrame)).error_code == 1
    await peer.expect_close()
    await say_hello(running)


async def test_unknown_frames_are_ignored(start, echo):
    """Extensions are not errors (RFC 9113 §5.5): the stream goes on."""
    peer = await (await start(echo)).connect()
    stream = await peer.open()
    await peer.stream.send_all(bytes.fromhex("000003 fe 00 00000000 616263"))
    await peer.say(stream, b"x", end=True)
    assert (await peer.trailers())["grpc-status"] == "0"


async def test_pings_are_answered(start, echo):
    """A peer's PING comes back with its data."""
    peer = await (await start(echo)).connect()
    await peer.send(PingFrame(0, b"12345678"))
    answer = await peer.expect(PingFrame)
    assert (answer.opaque_data, set(answer.flags)) == (b"12345678", {"ACK"})


async def test_a_goaway_of_the_peer_ends_the_connection(start):
    """A client that says GOAWAY leaves; its handlers are cancelled and the socket is closed."""
    linger = Lingering()
    peer = await (await start(linger)).connect()
    await peer.open()
    await peer.send(PingFrame(0, b"12345678"), GoAwayFrame(0))
    with trio.fail_after(5):
        await linger.stopped.wait()
    await peer.expect_close()


async def test_settings_announce_the_limits(start, echo):
    """Our SETTINGS and window say what a peer may do."""
    peer = await (
        await start(echo, max_concurrent_streams=2, stream_window=70_000, connection_window=100_000)
    ).connect()
    settings = peer.frames[0].settings
    assert settings[SettingsFrame.MAX_CONCURRENT_STREAMS] == 2
    assert settings[SettingsFrame.INITIAL_WINDOW_SIZE] == 70_000
    assert (await peer.next_frame()).window_increment == 100_000 - 65_535


async def test_silence_at_the_door_is_bounded(start, echo):
    """A connection that never speaks HTTP/2 is closed after the handshake's time."""
    running = await start(echo, handshake_timeout=0.05)
    mute = await running.connect_bytes()
    half = await running.connect_bytes()
    await half.send_all(b"PRI * HTTP/2.0\r\n\r\n")
    for stream in (mute, half):
        await running.expect_close(stream)
    assert running.server.statistics().handshakes_timed_out == 2


async def test_a_greeted_peer_may_be_silent_longer_than_the_handshake_lasts(start, echo):
    """The handshake's time says nothing about what comes after it."""
    running = await start(echo, handshake_timeout=0.05)
    peer = await running.connect()
    await trio.sleep(0.1)
    stream = await peer.open()
    await peer.say(stream, b"x", end=True)
    assert (await peer.trailers())["grpc-status"] == "0"


async def test_a_dead_peer_is_asked_and_buried(start):
    """A peer that answers nothing, not even a PING, is aborted and its handler cancelled."""
    linger = Lingering()
    running = await start(linger, keepalive_interval=0.05, keepalive_timeout=0.05)
    peer = await running.connect()
    await peer.open()
    assert isinstance(await peer.expect(PingFrame), PingFrame)
    with trio.fail_after(5):
        await linger.stopped.wait()
    await peer.expect_close()
    assert running.server.statistics().peers_dead == 1


async def test_a_peer_that_answers_lives(start, echo):
    """PING after PING is answered, and the connection stays."""
    running = await start(echo, keepalive_interval=0.02, keepalive_timeout=0.2)
    peer = await running.connect()
    for _ in range(5):
        ping = await peer.expect(PingFrame)
        await peer.send(PingFrame(0, ping.opaque_data, flags=["ACK"]))
    assert running.server.statistics().peers_dead == 0


async def test_others_have_their_turn_while_many_are_looked_after(autojump_clock):
    """A thousand peers that connected together are due for a PING together: that is not one turn of the loop."""
    asked = []
    connection = SimpleNamespace(keep_alive=asked.append)
    server = Server({}, on_crash=lambda _: None)
    server._connections = [connection] * 1000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server._keep_alive)
        await trio.sleep(Limits().keepalive_timeout / 4)
        turns = 0
        while len(asked) < 1000:
            await trio.lowlevel.checkpoint()
            turns += 1
        nursery.cancel_scope.cancel()
    assert turns >= 1000 / 50 - 1  # who of both is first in a turn is drawn


async def test_three_hundred_peers_drop_at_once(start, echo):
    """Every handler ends, nothing is left, and the next client is served."""
    waiting, ended = set(), trio.Event()

    async def linger(stream):
        waiting.add(stream)
        try:
            await trio.sleep_forever()
        finally:
            waiting.discard(stream)
            if not waiting:
                ended.set()

    running = await start({"/test.Service/Talk": linger, "/echo": echo})
    peers = [await running.connect() for _ in range(300)]
    for peer in peers:
        await peer.open()
    with trio.fail_after(5):
        while len(waiting) < 300:
            await trio.lowlevel.checkpoint()
        for sock in running.sockets:
            sock.close()
        await ended.wait()
        while running.server.statistics().connections_open:
            await trio.lowlevel.checkpoint()
    statistics = running.server.statistics()
    assert (statistics.connections_accepted, statistics.calls_accepted, statistics.calls_open) == (300, 300, 0)
    assert running.crashes == []


async def leave_politely(peer, stream):
    """Close the connection; the handler was waiting."""
    await peer.stream.aclose()


async def leave_rudely(peer, stream):
    """Reset the connection; the handler was waiting."""
    peer.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
    await peer.stream.aclose()


async def reset_the_stream(peer, stream):
    """Give up the call first."""
    await peer.send(RstStreamFrame(stream, error_code=8))
    await peer.stream.aclose()


async def make_it_fail(peer, stream):
    """Let the handler raise a RemoteError."""
    await peer.say(stream, b"fail")
    await peer.trailers()
    await peer.stream.aclose()


async def break_the_rules(peer, stream):
    """Be thrown out."""
    await peer.stream.send_all(BAD_FRAME)
    await peer.expect_close()
    await peer.stream.aclose()


@pytest.mark.parametrize("leave", [leave_politely, leave_rudely, reset_the_stream, make_it_fail, break_the_rules])
async def test_connections_leave_no_garbage_cycles(start, leave):
    """With the collector off a connection that ends frees its memory by itself."""

    async def listen(stream):
        while (message := await stream.receive()) is not None:
            if message == b"fail":
                raise RemoteError(3, "as you wish")
            await stream.send([message])

    running = await start(listen)

    async def come_and_go():
        peer = await running.connect()
        stream = await peer.open()
        await peer.say(stream, b"hello")
        await peer.body(10)
        await leave(peer, stream)
        with trio.fail_after(5):
            while running.server.statistics().connections_open:
                await trio.lowlevel.checkpoint()

    await come_and_go()
    with uncollected() as garbage:
        for _ in range(5):
            await come_and_go()
    assert garbage == []


@contextmanager
def uncollected():
    """What only the garbage collector would free, of ours and our libraries'; to be looked at afterwards."""
    gc.collect()
    gc.disable()
    garbage = []
    try:
        yield garbage
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        garbage += [described for item in gc.garbage if (described := describe(item))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def describe(item):
    """A name for an object or a frame that belongs to the server's code; None for others."""
    ours = ("actors.", "h2.", "grpclib.")
    if isinstance(item, FrameType):
        return item.f_code.co_qualname if item.f_globals.get("__name__", "").startswith(ours) else None
    kind = type(item)
    return kind.__qualname__ if kind.__module__.startswith(ours) else None


async def test_a_bug_of_the_library_ends_its_own_connection_only(start, echo, monkeypatch):
    """If h2 itself raises something unforeseen, it is reported, and others are served."""
    running = await start(echo)
    peer = await running.connect()
    healthy = await running.connect()

    def explode(*_):
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("h2.connection.H2Connection._receive_ping_frame", explode)
        victim = await running.connect()
        await victim.send(PingFrame(0, b"12345678"))
        await victim.expect_close()
    assert [type(crash) for crash in running.crashes] == [ZeroDivisionError]
    for other in (peer, healthy):
        stream = await other.open()
        await other.say(stream, b"x", end=True)
        assert (await other.trailers())["grpc-status"] == "0"


async def test_the_peers_address(start):
    """A handler knows who calls."""
    seen = trio.Event()
    peers = []

    async def look(stream):
        peers.append((stream.method, stream.peer, stream.metadata))
        seen.set()

    running = await start(look)
    peer = await running.connect()
    await peer.open({"x-key": "value"})
    await peer.trailers()
    host, port = peer.stream.socket.getsockname()
    method, who, metadata = peers[0]
    assert (method, who.address, who.identities) == ("/test.Service/Talk", f"{host}:{port}", ())
    assert metadata == {"x-key": "value"}


def test_addresses():
    """HOST:PORT both ways, with brackets around IPv6, and no host for every address."""
    assert format_address(("127.0.0.1", 80)) == "127.0.0.1:80"
    assert format_address(("::1", 80, 0, 0)) == "[::1]:80"
    with open_listener("localhost:0", 1) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
    with open_listener(":0", 1) as listener:
        assert listener.getsockname()[0] in ("::", "0.0.0.0")
    with pytest.raises(ValueError, match="HOST:PORT"):
        open_listener("8080", 1)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6_addresses():
    """An IPv6 host stands in brackets."""
    try:
        listener = open_listener("[::1]:0", 1)
    except OSError as error:
        pytest.skip(f"no IPv6 loopback: {error}")
    with listener:
        assert format_address(listener.getsockname()).startswith("[::1]:")
