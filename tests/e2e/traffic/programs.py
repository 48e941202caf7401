"""The programs that answer in the traffic suite: each says who it is and, if it speaks HTTP, what reached it.

A path may ask an HTTP program for something, wherever it is prefixed with:

    /sleep/SECONDS        answer late
    /fail/TIMES/KEY       answer 500 the first TIMES times that KEY is asked for
    /fail-at/NAME/STATUS  answer with this status if it is the program of that name that is asked

They run in threads of this process, each on an address of its own. Those that speak HTTP/2 are in `http2.py`.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, TCPServer, ThreadingTCPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING

from tests.e2e.traffic.http2 import http2_handler

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable
    from contextlib import ExitStack

OK, BROKEN = 200, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as a program got it; names of headers in lower case."""

    program: str
    method: str
    path: str
    headers: dict[str, str]


@dataclass(slots=True)
class Journal:
    """What all programs have seen, oldest first, and how often each key of `/fail` was asked for."""

    seen: list[Seen] = field(default_factory=list)
    _failures: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def note(self, request: Seen) -> None:
        """Remember a request."""
        with self._lock:
            self.seen.append(request)

    def status(self, request: Seen) -> int:
        """What the path of a request asks for; may take its time."""
        match request.path.partition("?")[0].split("/")[1:]:
            case ["sleep", seconds, *_]:
                time.sleep(float(seconds))
            case ["fail", times, key, *_]:
                with self._lock:
                    self._failures[key] += 1
                    return BROKEN if self._failures[key] <= int(times) else OK
            case ["fail-at", name, status, *_]:
                return int(status) if name == request.program else OK
            case _:
                pass
        return OK


class Programs:
    """Programs that end with `stack`."""

    def __init__(self, stack: ExitStack) -> None:
        self.journal = Journal()
        self._stack = stack

    def serve_http(self, name: str, host: str, port: int) -> int:
        """Start an HTTP program; returns its port, which may be given as 0."""
        return self._run(_HttpServer((host, port), _http_handler(name, self.journal)))

    def serve_https(self, name: str, host: str, port: int, context: ssl.SSLContext) -> None:
        """The same behind TLS."""
        server = _HttpServer((host, port), _http_handler(name, self.journal))
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self._run(server)

    def serve_http2(self, name: str, host: str, port: int) -> None:
        """Start a program that speaks HTTP/2 from the first byte."""
        self._run(_TcpServer((host, port), http2_handler(name)))

    def serve_tcp(self, name: str, host: str, port: int) -> int:
        """Start a program that says its name to whoever connects."""
        return self._run(_TcpServer((host, port), _greeter(name)))

    def serve_tls(self, name: str, host: str, port: int, context: ssl.SSLContext) -> int:
        """The same behind TLS."""
        return self._run(
            _TcpServer((host, port), _greeter(name, lambda raw: context.wrap_socket(raw, server_side=True)))
        )

    def _run(self, server: TCPServer) -> int:
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server.server_address[1]


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 100

    def handle_error(self, *_: object) -> None:
        """A sidecar does not wait for what comes too late."""


class _TcpServer(ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_: object) -> None:
        """A client may go away in the middle of a handshake."""


def _http_handler(name: str, journal: Journal) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one segment: two would wait for a delayed acknowledgement

        def answer(self) -> None:
            headers = {key.lower(): ",".join(self.headers.get_all(key)) for key in self.headers}
            request = Seen(program=name, method=self.command, path=self.path, headers=headers)
            journal.note(request)
            status = journal.status(request)
            body = json.dumps({"program": name, "method": self.command, "path": self.path, "headers": headers}).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("x-program", name)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = answer  # noqa: N815 - the names are the library's

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    return Handler


def _greeter(name: str, wrap: Callable[[socket.socket], socket.socket] = lambda raw: raw) -> type[BaseRequestHandler]:
    class Greeter(BaseRequestHandler):
        def handle(self) -> None:
            with wrap(self.request) as stream:
                stream.sendall(name.encode())

    return Greeter
