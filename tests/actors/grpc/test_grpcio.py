"""gRPC's own client, from its C core, against this server: plain and encrypted."""

import grpc
import pytest
import trio

from protocol.errors import RemoteError
from tests.actors.grpc.talk import Lingering

SECONDS = 5


class Client:
    """A `grpcio` channel whose calls run in threads. Each call has a timeout, so that no thread outlives its test."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel

    async def run(self, work):
        """Run blocking work in a thread."""
        with trio.fail_after(SECONDS):
            return await trio.to_thread.run_sync(work, abandon_on_cancel=True)

    async def talk(self, *messages, method="/test.Service/Talk", timeout=SECONDS, **options):
        """A call in both directions: what came back, as a list."""
        call = self.channel.stream_stream(method)
        return await self.run(lambda: list(call(iter(messages), timeout=timeout, **options)))

    async def ask(self, message, method="/test.Service/Talk", timeout=SECONDS):
        """A call of one message and one answer."""
        call = self.channel.unary_unary(method)
        return await self.run(lambda: call(message, timeout=timeout))

    async def fail(self, *messages, **options):
        """The error of a call that must fail: code and details."""
        with pytest.raises(grpc.RpcError) as error:
            await self.talk(*messages, **options)
        return error.value.code(), error.value.details()


@pytest.fixture(params=["plain", "tls"])
async def client(request, start, tls):
    """Start a server of a handler and connect to it, in plain text and under mutual TLS."""
    channels = []

    async def connect(handler, **limits):
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        if request.param == "plain":
            running = await start(handler, **limits)
            channel = grpc.insecure_channel(running.address, options)
        else:
            running = await start(handler, tls=tls.server(ask=True), **limits)
            credentials = grpc.ssl_channel_credentials(tls.root.read_bytes(), *tls.pair("client"))
            port = running.address.rpartition(":")[2]
            channel = grpc.secure_channel(f"localhost:{port}", credentials, options)
        channels.append(channel)
        return Client(channel), running

    yield connect
    for channel in channels:
        channel.close()


async def test_messages_in_both_directions(client, echo):
    """Empty, small and large messages come back in order, and the status is OK."""
    talker, running = await client(echo, max_message_size=20_000_000)
    messages = [b"", b"small", bytes(1_000_000), b"\1" * 5_000_000, b"last"]
    assert await talker.talk(*messages) == messages
    assert running.crashes == []


async def test_one_message_and_one_answer(client):
    """Unary methods are streams of one message."""

    async def double(stream):
        await stream.send([await stream.receive()] * 2)

    talker, _ = await client(double)
    assert await talker.ask(b"ab") == b"abab"


async def test_calls_side_by_side(client, echo):
    """Streams of one connection do not wait for each other."""
    talker, _ = await client(echo)
    answers = []

    async def call(number):
        answers.append(await talker.talk(b"%d" % number, bytes(100_000)))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(call, number)
    assert sorted(answer[0] for answer in answers) == sorted(b"%d" % number for number in range(20))


async def test_statuses(client):
    """Codes and messages of all kinds of ends arrive as gRPC means them."""

    async def refuse(stream):
        raise RemoteError(7, "you, ünder no circumstances\n")

    async def crash(stream):
        raise ZeroDivisionError

    async def linger(stream):
        await trio.sleep_forever()

    talker, running = await client({"/refuse/": refuse, "/crash/": crash, "/linger/": linger})
    code = grpc.StatusCode
    assert await talker.fail(method="/refuse/") == (code.PERMISSION_DENIED, "you, ünder no circumstances\n")
    assert await talker.fail(method="/crash/") == (code.INTERNAL, "Internal error")
    assert (await talker.fail(method="/none/"))[0] == code.UNIMPLEMENTED
    assert (await talker.fail(method="/linger/", timeout=0.1))[0] == code.DEADLINE_EXCEEDED
    assert [type(crash) for crash in running.crashes] == [ZeroDivisionError]


async def test_too_large_and_compressed(client, echo):
    """What we do not accept is refused with the code that clients know."""
    talker, _ = await client(echo, max_message_size=1000)
    code = grpc.StatusCode
    assert (await talker.fail(bytes(1001)))[0] == code.RESOURCE_EXHAUSTED
    gzip = grpc.Compression.Gzip
    assert (await talker.fail(bytes(900), compression=gzip))[0] == code.UNIMPLEMENTED


async def test_who_calls(client):
    """Metadata and, under TLS, the identity reach the handler."""
    seen = []

    async def look(stream):
        seen.append((stream.metadata.get("authorization"), stream.peer.identities))

    talker, running = await client(look)
    await talker.talk(metadata=[("authorization", "Bearer x")])
    identities = ("spiffe://cluster.local/ns/default/sa/client",) if running.secure else ()
    assert seen == [("Bearer x", identities)]


async def test_a_cancelled_call_cancels_its_handler(client):
    """When the client gives up, the handler is stopped."""
    linger = Lingering()
    talker, running = await client(linger)
    call = talker.channel.unary_stream("/test.Service/Talk")(b"hello", timeout=SECONDS)
    with trio.fail_after(SECONDS):
        await linger.started.wait()
        call.cancel()
        await linger.stopped.wait()
    assert running.crashes == []


async def test_drain_moves_the_client_away(client, nursery, echo):
    """A drained server tells its calls UNAVAILABLE, and the client closes the connection, well before the deadline."""
    started = trio.Event()

    async def linger(stream):
        started.set()
        await trio.sleep_forever()

    talker, running = await client(linger)

    async def drain():
        await started.wait()
        await running.server.drain(SECONDS)

    nursery.start_soon(drain)
    assert (await talker.fail())[0] == grpc.StatusCode.UNAVAILABLE
    with trio.fail_after(SECONDS - 1):
        while running.server.statistics().connections_open:
            await trio.lowlevel.checkpoint()
