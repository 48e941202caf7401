"""The DATA path and the peer's windows."""

import pytest
import trio
from hyperframe.frame import DataFrame, SettingsFrame, WindowUpdateFrame

MESSAGE = bytes(range(256)) * 400  # 102,400 bytes
WIRE = b"\0" + len(MESSAGE).to_bytes(4, "big") + MESSAGE


@pytest.fixture
def speak():
    """A handler that sends MESSAGE in three buffers as soon as it is called."""

    async def handler(stream):
        await stream.send([MESSAGE[:10], MESSAGE[10:50_000], MESSAGE[50_000:]])

    return handler


async def settle():
    """Let the server do everything that it can do now."""
    await trio.testing.wait_all_tasks_blocked(0.02)


async def test_a_message_fills_frames_of_the_peers_size(start, speak):
    """16 KiB frames until the peer allows larger ones, which it may at any time."""
    peer = await (await start(speak)).connect()
    await peer.open(end=True)
    assert await peer.body(len(WIRE)) == WIRE
    sizes = [len(frame.data) for frame in peer.frames if isinstance(frame, DataFrame)]
    assert sizes == [16_384] * 6 + [len(WIRE) - 6 * 16_384]
    await peer.send(SettingsFrame(0, settings={SettingsFrame.MAX_FRAME_SIZE: 65_536}))
    await peer.open(end=True)
    assert await peer.body(len(WIRE)) == WIRE
    assert len(peer.frames[-2].data) == 65_536


async def test_without_a_window_nothing_is_sent(start, speak):
    """Window 0 holds everything but headers back; then the message comes whole."""
    peer = await (await start(speak)).connect(window=0)
    stream = await peer.open(end=True)
    await settle()
    await peer.widen(stream, len(WIRE))
    assert await peer.body(len(WIRE)) == WIRE
    assert (await peer.trailers())["grpc-status"] == "0"


async def test_one_byte_at_a_time(start, speak):
    """The smallest windows are used exactly: one byte each."""
    peer = await (await start(speak)).connect(window=0)
    stream = await peer.open(end=True)
    for at in range(300):
        await peer.widen(stream, 1)
        assert await peer.body(1) == WIRE[at : at + 1]
    await peer.widen(stream, len(WIRE) - 300)
    assert await peer.body(len(WIRE) - 300) == WIRE[300:]


async def test_settings_change_the_windows_of_open_streams(start, speak):
    """A larger INITIAL_WINDOW_SIZE opens them; a smaller one makes them negative, which must be earned back."""
    peer = await (await start(speak)).connect(window=100)
    stream = await peer.open(end=True)
    assert await peer.body(100) == WIRE[:100]
    await peer.send(SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 150}))
    assert await peer.body(50) == WIRE[100:150]
    await peer.send(SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 50}))
    await peer.widen(stream, 100)
    await settle()
    await peer.widen(stream, 7)
    assert await peer.body(7) == WIRE[150:157]
    await peer.widen(stream, len(WIRE))
    assert await peer.body(len(WIRE) - 157) == WIRE[157:]


async def test_the_connections_window_is_shared(start, speak):
    """Streams with wide windows of their own share the connection's, and each gets its bytes in order."""
    peer = await (await start(speak)).connect(connection_window=65_535)
    received = {await peer.open(end=True): b"", await peer.open(end=True): b""}
    await receive_in_all(peer, received, 65_535)
    await settle()
    await peer.widen(0, 100)
    await receive_in_all(peer, received, 65_635)
    await settle()
    await peer.widen(0, 2 * len(WIRE))
    await receive_in_all(peer, received, 2 * len(WIRE))
    assert list(received.values()) == [WIRE, WIRE]


async def receive_in_all(peer, received, size):
    """Receive DATA until all streams together have `size` bytes, exactly."""
    while sum(map(len, received.values())) < size:
        frame = await peer.expect(DataFrame)
        received[frame.stream_id] += frame.data
    assert sum(map(len, received.values())) == size


async def test_blocked_says_whether_a_send_would_wait(start):
    """Without a window a stream is blocked, with one it is not."""
    seen = []
    looked = trio.Event()

    async def look(stream):
        seen.append(stream.blocked())
        looked.set()
        await stream.receive()
        seen.append(stream.blocked())

    peer = await (await start(look)).connect(window=0)
    stream = await peer.open()
    await looked.wait()
    await peer.widen(stream, 1)
    await peer.say(stream, b"look", end=True)
    await peer.trailers()
    assert seen == [True, False]


async def test_a_peer_that_does_not_read_blocks_its_own_stream_only(start, echo):
    """With windows wide open but TCP full, sending waits and blocked() says so; another connection is served."""
    streams = []

    async def flood(stream):
        streams.append(stream)
        await stream.receive()
        while True:
            await stream.send([MESSAGE] * 10)

    running = await start({"/test.Service/Talk": echo, "/flood": flood})
    deaf = await running.connect(receive_buffer=4096)
    stream = await deaf.open({":path": "/flood"})
    await deaf.say(stream, b"go")
    await trio.testing.wait_all_tasks_blocked(0.1)
    assert streams[0].blocked()
    other = await running.connect()
    stream = await other.open()
    await other.say(stream, b"hello", end=True)
    assert (await other.trailers())["grpc-status"] == "0"
    data = b""  # and what the deaf one reads at last is right
    while len(data) < 3_000_000:
        data += (await deaf.expect(DataFrame)).data
    wire = (10 * len(MESSAGE)).to_bytes(5, "big") + MESSAGE * 10
    assert data == (wire * 3)[: len(data)]


async def test_we_acknowledge_what_is_read_and_no_more(start):
    """A message larger than the window arrives, piece by piece; what no handler reads is not acknowledged."""
    received = []
    go = trio.Event()

    async def read_late(stream):
        await go.wait()
        received.append(await stream.receive())

    peer = await (await start(read_late, stream_window=65_535)).connect()
    stream = await peer.open()
    body = bytes(200_000)
    data = b"\0" + len(body).to_bytes(4, "big") + body
    await peer.say_bytes(stream, data[:65_535])
    await settle()
    assert not any(isinstance(frame, WindowUpdateFrame) and frame.stream_id for frame in peer.frames)
    go.set()
    sent = 65_535
    while sent < len(data):
        update = await peer.expect(WindowUpdateFrame)
        if update.stream_id:
            await peer.say_bytes(stream, data[sent : sent + update.window_increment])
            sent += update.window_increment
    await peer.trailers()
    assert received == [body]
