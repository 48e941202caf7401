"""HTTP/1.1 for an application of a few pages: a connection brings one request, is given one answer, and is closed.

No more is offered, for none of those who ask (probes, scrapers, people) needs more, and each thing more is a way to
hold the event loop, which serves the proxies too: HTTP/2 with its resets, upgrades, thousands of requests in a row. So
a flood can cost no more than how fast connections are accepted. h11 knows the protocol; the application is an ASGI one
whose pages are whole.
"""

from __future__ import annotations

from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import h11
import trio

from actors.grpc.newcomers import Newcomers
from actors.grpc.server import accept_waiting, open_listener
from actors.supervision import attempt
from actors.tree import Crashed

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    from starlette.types import ASGIApp, Message, Scope

MOST_CONNECTIONS = 256
"""Of all addresses; for one more the oldest is closed, for it does not get on. Each costs up to 30 KB and its page."""

ACCEPTED = 16
"""Connections accepted in one turn of the loop."""

REST = 0.01
"""Seconds after such a turn. So 1,600 requests a second are answered at most."""

BACKLOG = 1024
"""Connections that the kernel may hold meanwhile: at most two thirds of a second pass before a probe is heard."""

LONGEST_HEAD = 4 * 1024
"""Bytes of a request's line and headers, beside another read. To take as many apart takes 5 ms at worst."""

LARGE = 64 * 1024
"""Bytes of a page. A smaller one is in the socket's buffer at once."""

MOST_LARGE = 8
"""Larger pages that are on their way; for one more the oldest is broken off, for whoever takes it does not get on."""

PATIENCE = 5.0
"""Seconds for a request to come."""

DEADLINE = 60.0
"""Seconds for a page to be built and taken."""

_READ = 2 * 1024
_VERSIONS = frozenset({b"1.0", b"1.1"})
_UNSUPPORTED = 505


class Http1:
    """Serves one application at some addresses. `on_crash` is told each exception of it."""

    def __init__(self, app: ASGIApp, on_crash: Callable[[Exception], None]) -> None:
        self._app = app
        self._on_crash = on_crash
        self._room = Newcomers(MOST_CONNECTIONS)
        self._large = Newcomers(MOST_LARGE)
        self._turn = trio.Lock()
        """One request is taken apart in each turn of the loop, however many have come."""

    async def serve(
        self, addresses: Iterable[str], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Listen at all addresses (HOST:PORT) until cancelled. Raises OSError if one cannot be had."""
        with ExitStack() as stack:
            listeners = [stack.enter_context(open_listener(address, BACKLOG)) for address in addresses]
            async with trio.open_nursery() as nursery:
                for listener in listeners:
                    nursery.start_soon(self._accept, listener, nursery)
                task_status.started()

    async def _accept(self, listener: socket.socket, nursery: trio.Nursery) -> None:
        while True:
            await trio.lowlevel.wait_readable(listener)
            for sock, _ in accept_waiting(listener, ACCEPTED):
                nursery.start_soon(self._converse, trio.SocketStream(trio.socket.from_stdlib_socket(sock)))
            await trio.sleep(REST)

    async def _converse(self, stream: trio.SocketStream) -> None:
        """Answer the request of one connection, unless there comes none, or the client has gone or takes too long."""
        with suppress(trio.BrokenResourceError), trio.CancelScope() as scope, self._room.waiting(scope.cancel):
            async with stream:
                await self._serve_one(stream)

    async def _serve_one(self, stream: trio.SocketStream) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        request = None
        try:
            with trio.move_on_after(PATIENCE):
                request = await self._read_request(connection, stream)
        except h11.RemoteProtocolError as fault:
            await _send(connection, stream, Answer(status=fault.error_status_hint))
        if request is not None:
            with trio.move_on_after(DEADLINE) as scope:
                answer = await self._ask(request)
                with self._large.waiting(scope.cancel) if answer.is_large else nullcontext():
                    await _send(connection, stream, answer)

    async def _read_request(self, connection: h11.Connection, stream: trio.SocketStream) -> h11.Request | None:
        """What the client asks for; None if it leaves. Raises `RemoteProtocolError` for what is no such request."""
        while True:
            async with self._turn:
                event = connection.next_event()
            if isinstance(event, h11.Request):
                return event
            if event is not h11.NEED_DATA:
                return None
            connection.receive_data(await stream.receive_some(_READ))

    async def _ask(self, request: h11.Request) -> Answer:
        """What the application answers; an error page of its own if it crashes."""
        if request.http_version not in _VERSIONS:
            return Answer(status=_UNSUPPORTED)
        said: list[Message] = []

        async def send(message: Message) -> None:
            said.append(message)

        crash = await attempt(lambda: self._app(_scope(request), _receive, send))
        if isinstance(crash, Crashed):
            self._on_crash(crash.error)
        return _put_together(said, bodiless=request.method == b"HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One whole answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""

    @property
    def is_large(self) -> bool:
        """Whether it may not lie in the socket's buffer while its client reads on."""
        return len(self.body) > LARGE


def _put_together(said: Iterable[Message], *, bodiless: bool) -> Answer:
    """What an application sent as one answer. `bodiless`: it was asked for the headers alone."""
    start, *parts = said
    body = b"" if bodiless else b"".join(part.get("body", b"") for part in parts)
    return Answer(status=start["status"], headers=tuple(start["headers"]), body=body)


async def _send(connection: h11.Connection, stream: trio.SocketStream, answer: Answer) -> None:
    """Send it, and say that nothing more will come."""
    headers = [*(answer.headers or ((b"content-length", b"0"),)), (b"connection", b"close")]
    response = h11.Response(status_code=answer.status, headers=headers)
    for event in (response, h11.Data(data=answer.body), h11.EndOfMessage()):
        await stream.send_all(connection.send(event) or b"")
    await stream.send_eof()


async def _receive() -> Message:
    """What an application is told of a request's body: no page wants one."""
    return {"type": "http.request"}


def _scope(request: h11.Request) -> Scope:
    """A request as ASGI describes it."""
    path, _, query = request.target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": request.http_version.decode(),
        "method": request.method.decode(),
        "scheme": "http",
        "path": unquote(path.decode()),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": list(request.headers),
    }
