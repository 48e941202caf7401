"""The port of the debug pages against whoever would have more of it than a page: bytes over real sockets."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest
import trio

from actors import http1
from actors.grpc.server import format_address
from actors.http1 import Http1

GET = b"GET /ready HTTP/1.1\r\nHost: test\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Port:
    """A served application, what it was asked, what it crashed with, and how to connect."""

    def __init__(self) -> None:
        self.asked, self.crashes, self.body = [], [], b"yes"
        self.address, self.streams = ("", 0), []

    async def application(self, scope, receive, send) -> None:
        """Answer with the body, or crash if there is none."""
        self.asked.append((scope["method"], scope["path"], scope["query_string"]))
        headers = [(b"content-length", str(len(self.body)).encode())]
        await send({"type": "http.response.start", "status": 200 if self.body else 500, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})
        if not self.body:
            raise ValueError("a bug of ours")

    async def connect(self, said=b"") -> trio.SocketStream:
        """Connect, and say something."""
        self.streams.append(stream := trio.SocketStream(trio.socket.socket()))
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        await stream.socket.connect(self.address)
        await stream.send_all(said)
        return stream

    async def ask(self, said) -> bytes:
        """Say something, and hear all that is answered until the end."""
        return await hear(await self.connect(said))


async def hear(stream) -> bytes:
    """Everything until the connection ends."""
    heard = b""
    with trio.fail_after(5), suppress(trio.BrokenResourceError):
        async for data in stream:
            heard += data
    return heard


@pytest.fixture
async def port(nursery, monkeypatch):
    """An application that says yes, served at a free port."""
    running, opened = Port(), []

    def open_listener(address, backlog):
        opened.append(listener := OPEN(address, backlog))
        return listener

    monkeypatch.setattr(http1, "open_listener", open_listener)
    await nursery.start(Http1(running.application, running.crashes.append).serve, ("127.0.0.1:0",))
    host, number = format_address(opened[0].getsockname()).rsplit(":", 1)
    running.address = host, int(number)
    yield running
    for stream in running.streams:
        await stream.aclose()


OPEN = http1.open_listener


async def test_a_request_is_answered_and_the_connection_closed(port):
    """One page a connection; HEAD has no body."""
    head, _, body = (await port.ask(GET + b"\r\n")).partition(b"\r\n\r\n")
    assert (head[:12], b"connection: close" in head, body) == (b"HTTP/1.1 200", True, b"yes")
    assert (await port.ask(b"HEAD /a%20b?c=d HTTP/1.0\r\n\r\n")).endswith(b"\r\n\r\n")
    assert port.asked == [("GET", "/ready", b""), ("HEAD", "/a b", b"c=d")]


async def test_of_requests_in_a_row_the_first_is_answered(port):
    """Thousands in one connection cost no more than one."""
    assert (await port.ask((GET + b"\r\n") * 1000)).count(b"HTTP/1.1 200") <= 1
    assert len(port.asked) == 1


async def test_http2_is_not_spoken(port):
    """Not to those who assume it, and who ask for it are answered in HTTP/1.1: rapid resets have held the loop."""
    assert (await port.ask(PREFACE)).startswith(b"HTTP/1.1 505")
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    assert (await port.ask(GET + upgrade)).startswith(b"HTTP/1.1 200")
    assert port.asked == [("GET", "/ready", b"")]


@pytest.mark.parametrize("said", [b"\x16\x03\x01 hello\r\n\r\n", b"GET /\r\n\r\n", GET + b"no header\r\n\r\n"])
async def test_nonsense_is_refused(port, said):
    """400, and nothing was asked."""
    assert (await port.ask(said)).startswith(b"HTTP/1.1 400")
    assert port.asked == port.crashes == []


@pytest.mark.parametrize("line", [b"GET /" + b"a" * 10_000, GET + b"a: b\r\n" * 10_000], ids=["line", "headers"])
async def test_long_heads_are_refused(port, line):
    """However long they go on."""
    answer = await port.ask(line[:8_000])
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431")
    assert port.asked == []


async def test_whoever_does_not_ask_in_time_is_closed(port, monkeypatch):
    """A byte now and then is no request."""
    monkeypatch.setattr(http1, "PATIENCE", 0.05)
    assert await port.ask(b"GET /re") == b""


async def test_whoever_does_not_take_a_page_is_closed(port, monkeypatch):
    """Pages are not held for those who do not read."""
    monkeypatch.setattr(http1, "DEADLINE", 0.05)
    port.body = bytes(6_000_000)
    stream = await port.connect(GET + b"\r\n")
    await trio.sleep(0.2)
    assert len(await hear(stream)) < len(port.body)


async def test_so_many_large_pages_are_on_their_way(port):
    """For one more the oldest is broken off: each is megabytes, and a client that does not read costs nothing."""
    port.body = bytes(6_000_000)
    streams = [await port.connect(GET + b"\r\n") for _ in range(http1.MOST_LARGE)]
    while len(port.asked) < http1.MOST_LARGE:
        await trio.sleep(0.001)
    assert len(await port.ask(GET + b"\r\n")) > len(port.body)
    heard = [len(await hear(stream)) for stream in streams]
    assert sum(length < len(port.body) for length in heard) == 1


async def test_a_flood_of_connections_keeps_nobody_out(port, nursery):
    """There is room for so many; of those that came first, one goes for each one more."""
    silent, ended = [await port.connect() for _ in range(http1.MOST_CONNECTIONS + 1)], []

    async def watch(number) -> None:
        await hear(silent[number])
        ended.append(number)

    for number in range(len(silent)):
        nursery.start_soon(watch, number)
    assert (await port.ask(GET + b"\r\n")).startswith(b"HTTP/1.1 200")
    with trio.fail_after(2):
        while len(ended) < 2:
            await trio.sleep(0.001)
    assert max(ended) <= 2 * http1.ACCEPTED


async def test_a_page_that_crashes_takes_nobody_along(port):
    """Its reader is told, so is whoever logs it, and the next one is served."""
    port.body = b""
    assert (await port.ask(GET + b"\r\n")).startswith(b"HTTP/1.1 500")
    port.body = b"yes"
    assert (await port.ask(GET + b"\r\n")).startswith(b"HTTP/1.1 200")
    assert [str(crash) for crash in port.crashes] == ["a bug of ours"]
