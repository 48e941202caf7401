"""A server of keys on a real socket of this machine, with TLS or without, that answers as a test says."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

KEYS = b'{"keys":[{"kty":"oct","k":"AQ"}]}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An answer: its status, body, and further headers. `endless`: the body is repeated for ever."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    endless: bool = False


@dataclass(slots=True)
class KeyServer:
    """What is at each path; None: the connection is held and nothing is said. `asked`: host and path of requests."""

    pages: dict[str, Page | None]
    scheme: str
    port: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)

    def url(self, path: str, host: str = "localhost") -> str:
        """The URL of a path."""
        return f"{self.scheme}://{host}:{self.port}{path}"

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Answer one request and close."""
        try:
            async with stream:
                head = await _read_head(stream)
                path = head[0].split(" ")[1]
                host = next(line for line in head if line.lower().startswith("host:"))
                self.asked.append((host.partition(":")[2].strip(), path))
                await _answer(stream, self.pages.get(path, Page(status=404)))
        except (trio.BrokenResourceError, IndexError):
            pass  # the client has gone, or does not trust us


async def _read_head(stream: trio.abc.Stream) -> list[str]:
    head = b""
    while b"\r\n\r\n" not in head:
        piece = await stream.receive_some()
        if not piece:
            break
        head += piece
    return head.decode().split("\r\n")


async def _answer(stream: trio.abc.Stream, page: Page | None) -> None:
    if page is None:
        await trio.sleep_forever()
    length = {} if page.endless else {"content-length": str(len(page.body))}
    headers = {"connection": "close", **length, **page.headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    await stream.send_all(f"HTTP/1.1 {page.status} x\r\n{head}\r\n".encode() + page.body)
    while page.endless:
        await stream.send_all(page.body)


@asynccontextmanager
async def open_key_server(pages: Mapping[str, Page | None], folder: Path | None = None) -> AsyncIterator[KeyServer]:
    """Serve on loopback for the length of a block: over TLS if there is a folder with a certificate."""
    server = KeyServer(dict(pages), "http" if folder is None else "https")
    async with trio.open_nursery() as nursery:
        serve = server.serve
        listen = partial(trio.serve_tcp, serve, 0, host="127.0.0.1")
        if folder is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
            listen = partial(trio.serve_ssl_over_tcp, serve, 0, context, host="127.0.0.1", https_compatible=True)
        (listener, *_) = await nursery.start(listen)
        server.port = getattr(listener, "transport_listener", listener).socket.getsockname()[1]
        yield server
        nursery.cancel_scope.cancel()
