"""Peers that flood, or open too much: each gets the right error, costs little, and delays nobody."""

import time
from contextlib import suppress

import pytest
import trio
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    ExtensionFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from actors.grpc.http2 import TrioProtocol
from actors.grpc.limits import KIB, Rate
from tests.actors.grpc.talk import ECHO, UNBOUNDED, hello, linger, until

CALM, REFUSED, CANCEL, TOO_LARGE = 11, 7, 8, 6
EXHAUSTED, UNAVAILABLE, TOO_LATE = "8", "14", "4"


# --- floods of frames ------------------------------------------------------------------------------------------------
def headers_block():
    """The headers of a call, without a reference to earlier ones."""
    headers = {":method": "POST", ":scheme": "http", ":path": ECHO, ":authority": "test"}
    return Encoder().encode([*headers.items(), ("content-type", "application/grpc"), ("te", "trailers")])


def opening(stream_id):
    """The first frame of a call."""
    return HeadersFrame(stream_id, headers_block(), flags=["END_HEADERS"])


def rapid_resets(count):
    """CVE-2023-44487: calls that are given up as soon as they are made."""
    for stream_id in range(1, 2 * count, 2):
        yield from (opening(stream_id), RstStreamFrame(stream_id, error_code=CANCEL))


def bad_calls(count):
    """Calls that must be refused."""
    block = Encoder().encode([(":method", "GET"), (":path", "/")])
    for stream_id in range(1, 2 * count, 2):
        yield HeadersFrame(stream_id, block, flags=["END_HEADERS", "END_STREAM"])


FLOODS = {
    "too_many_pings": [PingFrame(0, bytes(8))] * 5000,
    "too_many_settings": [SettingsFrame(0)] * 5000,
    "too_many_resets": [opening(1)] + [RstStreamFrame(1, error_code=CANCEL)] * 5000,
    "too_many_window_updates": [WindowUpdateFrame(0, window_increment=1)] * 5000,
    "too_many_priorities": [PriorityFrame(1)] * 5000,
    "too_much_small_data": [opening(1)] + [DataFrame(1)] * 5000,
    "too_many_frames": [ExtensionFrame(0xFE, 0)] * 5000,
    "too_many_wasted_calls": list(rapid_resets(2000)),
}


@pytest.mark.parametrize("reason", FLOODS)
async def test_a_flood_is_told_to_calm_down(start, echo, reason):
    """GOAWAY with ENHANCE_YOUR_CALM and a reason, though more of the flood is under way; a neighbour is served."""
    running = await start({"/test.Service/Talk": linger, ECHO: echo})
    neighbour = await running.connect()
    peer = await running.connect()
    await peer.send(*FLOODS[reason])
    goaway = await peer.expect(GoAwayFrame)
    assert (goaway.error_code, goaway.additional_data) == (CALM, reason.encode())
    await peer.expect_close()
    await peer.stream.aclose()
    await hello(neighbour, ECHO)
    await until(lambda: running.server.statistics().connections_open == 1)
    assert running.faults == [reason]
    assert running.server.statistics().peers_dismissed == 1
    assert running.crashes == []


async def test_calls_that_must_be_refused_are_wasted_too(start, echo):
    """Senseless calls are answered for a while, then their peer is dismissed."""
    running = await start(echo)
    peer = await running.connect()
    await peer.send(*bad_calls(1000))
    assert (await peer.expect(GoAwayFrame)).additional_data == b"too_many_wasted_calls"
    await peer.expect_close()
    assert 190 < running.server.statistics().calls_refused < 300


async def test_a_flood_is_processed_in_steps(start, echo, monkeypatch):
    """Between 32 frames of a flood everybody else has a turn, however many come in one read."""
    turn, steps = 0, []

    async def take_turns():
        nonlocal turn
        while True:
            await trio.lowlevel.checkpoint()
            turn += 1

    def step(protocol, data, process=TrioProtocol.data_received):
        steps.append((turn, len(data)))
        process(protocol, data)

    peer = await (await start(echo, cheap_frames=UNBOUNDED)).connect()
    monkeypatch.setattr(TrioProtocol, "data_received", step)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        await until(lambda: turn)
        await peer.send(*[PingFrame(0, bytes(8))] * 2000)
        for _ in range(2000):
            await peer.expect(PingFrame)
        nursery.cancel_scope.cancel()
    assert sum(size for _, size in steps) >= 2000 * 17
    assert max(size for _, size in steps) <= 33 * 17
    assert all(later > earlier for (earlier, _), (later, _) in zip(steps, steps[2:], strict=False))


async def test_an_honest_reader_of_much_may_acknowledge_each_frame(start):
    """Two WINDOW_UPDATEs for each 16 KiB, as simple clients send them: what we send pays for them."""

    async def pour(stream):
        for _ in range(20):
            await stream.send([bytes(1024 * KIB)])

    running = await start(pour, cheap_frames=Rate(60, 0))
    peer = await running.connect(window=65_535, connection_window=65_535)
    stream = await peer.open(end=True)
    left = 20 * (1024 * KIB + 5)
    while left:
        size = len((await peer.expect(DataFrame)).data)
        left -= size
        await peer.send(*(WindowUpdateFrame(each, window_increment=size) for each in (0, stream)))
    assert (await peer.trailers())["grpc-status"] == "0"


async def test_served_calls_are_not_wasted(start, echo):
    """A client may make as many calls as it likes, if it waits for their ends."""
    running = await start(echo, wasted_calls=Rate(1, 0), max_concurrent_streams=1)
    peer = await running.connect()
    for _ in range(20):
        await hello(peer)


@pytest.mark.parametrize("limits", [{}, {"max_calls": 0}])
async def test_a_call_that_was_given_up_needs_no_answer(start, echo, limits):
    """A call that must be refused may be reset in the very read that brought it: nothing breaks."""
    running = await start({"/test.Service/Talk": echo}, **limits)
    peer = await running.connect()
    await peer.send(*rapid_resets(5))
    await peer.send(PingFrame(0, bytes(8)))
    await peer.expect(PingFrame)
    assert running.server.statistics().calls_refused == 5
    assert running.crashes == []


# --- headers and frames ----------------------------------------------------------------------------------------------
async def test_a_large_frame_is_refused_by_its_header(start, echo):
    """Nine bytes that announce 16 MiB get their answer; nothing is held."""
    peer = await (await start(echo)).connect()
    await peer.stream.send_all(b"\xff\xff\xff\0\0\0\0\0\1")
    assert (await peer.expect(GoAwayFrame)).error_code == TOO_LARGE


def continuations():
    """CVE-2024-27316: headers that never end."""
    yield HeadersFrame(1, headers_block())
    for _ in range(100):
        yield ContinuationFrame(1, b"\0\1a\x7f\x81\x7e" + bytes(254))


def large_headers():
    """More than a call's headers may be, in one frame that is small enough."""
    yield HeadersFrame(1, Encoder().encode([("a", "x" * 9000), ("b", "y" * 9000)], huffman=True), flags=["END_HEADERS"])


def header_bomb():
    """CVE-2016-6581: an entry of 4 KB in HPACK's table, named a hundred times by a byte each."""
    block = b"\x40\1a\x7f\xa1\x1e" + b"x" * 4000 + b"\xbe" * 100
    yield HeadersFrame(1, block, flags=["END_HEADERS"])


@pytest.mark.parametrize("attack", [continuations, large_headers, header_bomb])
async def test_headers_are_bounded(start, echo, attack):
    """Over all frames, and unfolded: ENHANCE_YOUR_CALM."""
    running = await start(echo)
    peer = await running.connect()
    await peer.send(*attack())
    assert (await peer.expect(GoAwayFrame)).error_code == CALM
    await peer.expect_close()
    await hello(await running.connect())
    assert running.crashes == []


# --- too many --------------------------------------------------------------------------------------------------------
async def test_a_stream_too_many_is_refused_and_the_others_go_on(start, echo):
    """RFC 9113 §5.1.2: REFUSED_STREAM for that stream; when another ends there is room again."""
    peer = await (await start(echo, max_concurrent_streams=2)).connect()
    first, _ = await peer.open(), await peer.open()
    third = await peer.open()
    reset = await peer.expect(RstStreamFrame)
    assert (reset.stream_id, reset.error_code) == (third, REFUSED)
    await peer.say(first, b"x", end=True)
    assert (await peer.trailers())["grpc-status"] == "0"
    await hello(peer)


async def test_a_reset_makes_no_room_before_the_handler_has_ended(start):
    """Handlers are counted, not streams: whoever resets and calls again cannot have more of them at work."""
    go, calls = trio.Event(), []

    async def clean_up_slowly(stream):
        calls.append(stream)
        try:
            await stream.receive()
        finally:
            with trio.CancelScope(shield=True):
                await go.wait()

    running = await start(clean_up_slowly, max_concurrent_streams=1)
    peer = await running.connect()
    await peer.send(RstStreamFrame(await peer.open(), error_code=CANCEL))
    await peer.open()
    assert (await peer.expect(RstStreamFrame)).error_code == REFUSED
    go.set()
    await until(lambda: running.server.statistics().calls_open == 0)
    await peer.open(end=True)
    assert (await peer.trailers())["grpc-status"] == "0"
    assert len(calls) == 2


async def test_calls_of_the_whole_server_are_bounded(start):
    """Streams of all connections count together; the one too many is refused, so that it may be tried elsewhere."""
    running = await start(linger, max_calls=2)
    one, other = await running.connect(), await running.connect()
    await one.open()
    leaving = await one.open()
    await until(lambda: running.server.statistics().calls_open == 2)
    await other.open()
    assert (await other.expect(RstStreamFrame)).error_code == REFUSED
    await one.send(RstStreamFrame(leaving, error_code=CANCEL))
    await until(lambda: running.server.statistics().calls_open == 1)
    await other.open()
    await until(lambda: running.server.statistics().calls_open == 2)


async def test_connections_are_bounded(start, echo):
    """One too many is closed unheard; when another has gone there is room again."""
    running = await start(echo, max_connections=1)
    peer = await running.connect()
    await running.expect_close(await running.connect_bytes())
    assert running.server.statistics().connections_refused == 1
    await peer.stream.aclose()
    await until(lambda: not running.server.statistics().connections_open)
    await hello(await running.connect())


async def test_many_floods_do_not_delay_a_neighbour_for_long(start, echo):
    """While ten peers flood, one after the other is dismissed and a neighbour is answered all the time."""
    running = await start(echo, farewell=0.1)
    neighbour = await running.connect()
    delays = []
    attack = b"".join(frame.serialize() for frame in rapid_resets(500))

    async def assault():
        peer = await running.connect()
        with suppress(trio.BrokenResourceError):
            await peer.stream.send_all(attack)
        await peer.expect_close()

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(assault)
        for _ in range(20):
            began = time.perf_counter()
            await hello(neighbour)
            delays.append(time.perf_counter() - began)
    assert running.faults == ["too_many_wasted_calls"] * 10
    assert sorted(delays)[10] < 1.0
