"""TLS: the same frames, encrypted; who the peer is; what a bad peer can do."""

import gc

import trio
import trio.testing
from hyperframe.frame import GoAwayFrame

from actors.grpc.http2 import TrioProtocol
from tests.actors.grpc.talk import Lingering

IDENTITY = "spiffe://cluster.local/ns/default/sa/client"


async def test_identities_of_a_client_certificate(start, tls):
    """The URI names of the certificate that the peer proved, for SPIFFE."""
    peers = []

    async def look(stream):
        peers.append(stream.peer)

    running = await start(look, tls=tls.server(ask=True))
    peer = await running.connect(tls=tls.client(certificate=True))
    await peer.open()
    assert (await peer.trailers())["grpc-status"] == "0"
    assert peers[0].identities == (IDENTITY,)


async def test_no_identities_unless_asked(start, tls):
    """A peer that need not prove anything has no identity."""
    peers = []

    async def look(stream):
        peers.append(stream.peer)

    running = await start(look, tls=tls.server(ask=False))
    peer = await running.connect(tls=tls.client(certificate=True))
    await peer.open()
    await peer.trailers()
    assert peers[0].identities == ()


async def test_a_peer_without_a_certificate_is_turned_away(start, tls, echo):
    """Mutual TLS means mutual; the others are served."""
    running = await start(echo, tls=tls.server(ask=True))
    stranger = await running.connect_bytes(tls=tls.client(certificate=False))
    await stranger.send_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    await running.expect_close(stranger)
    peer = await running.connect(tls=tls.client(certificate=True))
    stream = await peer.open()
    await peer.say(stream, b"x", end=True)
    assert (await peer.trailers())["grpc-status"] == "0"
    assert running.server.statistics().connections_broken == 1
    assert running.crashes == []


async def test_plain_text_to_a_tls_server(start, tls, echo):
    """Garbage instead of a ClientHello closes the connection."""
    running = await start(echo, tls=tls.server(ask=False))
    stream = await running.connect_bytes()
    await stream.send_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100))
    await running.expect_close(stream)
    assert running.crashes == []


async def test_a_handshake_that_stops_is_given_up(start, tls, echo):
    """Half a ClientHello holds a connection no longer than the handshake's time."""
    running = await start(echo, tls=tls.server(ask=False), handshake_timeout=0.05)
    stream = await running.connect_bytes()
    await stream.send_all(b"\x16\x03\x01\x02\x00\x01\x00")
    assert await stream.receive_some() == b""
    assert running.server.statistics().handshakes_timed_out == 1


async def test_a_handshake_that_is_not_done_holds_nothing_of_http2(start, tls, echo):
    """A flood of them is a matter of kilobytes each."""
    gc.collect()
    before = sum(isinstance(each, TrioProtocol) for each in gc.get_objects())
    running = await start(echo, tls=tls.server(ask=False))
    stream = await running.connect_bytes()
    await stream.send_all(b"\x16\x03\x01\x02\x00\x01\x00")
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert running.server.statistics().connections_open == 1
    assert sum(isinstance(each, TrioProtocol) for each in gc.get_objects()) == before


async def test_messages_of_any_size(start, tls, echo):
    """From nothing to megabytes, through records of 16 KiB."""
    running = await start(echo, tls=tls.server(ask=False))
    peer = await running.connect(tls=tls.client(certificate=False))
    stream = await peer.open()
    for size in (0, 1, 60_000):
        body = bytes(size)
        await peer.say(stream, body)
        assert await peer.body(size + 5) == b"\0" + size.to_bytes(4, "big") + body


async def test_a_slow_reader_gets_everything(start, tls):
    """Encrypted bytes wait like plain ones, and the stream is blocked meanwhile."""
    body = bytes(range(256)) * 20_000
    streams = []

    async def push(stream):
        streams.append(stream)
        await stream.send([body])

    running = await start(push, tls=tls.server(ask=False))
    peer = await running.connect(tls=tls.client(certificate=False), receive_buffer=4096)
    await peer.open()
    await trio.testing.wait_all_tasks_blocked(0.1)
    assert streams[0].blocked()
    assert (await peer.body(len(body) + 5))[5:] == body
    assert (await peer.trailers())["grpc-status"] == "0"


async def test_drain(start, nursery, tls):
    """GOAWAY, trailers, close_notify."""

    async def linger(stream):
        await stream.send([b"here"])
        await trio.sleep_forever()

    running = await start(linger, tls=tls.server(ask=False))
    peer = await running.connect(tls=tls.client(certificate=False))
    await peer.open()
    await peer.body(9)
    nursery.start_soon(running.server.drain, 5)
    await peer.expect(GoAwayFrame)
    assert (await peer.trailers())["grpc-status"] == "14"
    assert await peer.stream.receive_some() in (b"", bytes.fromhex("000004 03 00 00000001 00000000"))
    await peer.stream.aclose()
    with trio.fail_after(2):
        while running.server.statistics().connections_open:
            await trio.lowlevel.checkpoint()
    assert running.crashes == []


async def test_a_connection_cut_without_goodbye(start, tls):
    """A peer that vanishes without close_notify stops its handlers like any other."""
    linger = Lingering()
    running = await start(linger, tls=tls.server(ask=False))
    peer = await running.connect(tls=tls.client(certificate=False))
    await peer.open()
    with trio.fail_after(5):
        await linger.started.wait()
        await peer.stream.transport_stream.aclose()
        await linger.stopped.wait()
    assert running.crashes == []


async def test_http2_is_agreed_on_by_alpn(start, tls, echo):
    """Clients that insist on ALPN find h2."""
    running = await start(echo, tls=tls.server(ask=False))
    peer = await running.connect(tls=tls.client(certificate=False))
    assert peer.stream.selected_alpn_protocol() == "h2"
