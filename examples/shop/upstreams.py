"""The shop's programs: tiny HTTP servers, one an address, that say who they are.

    python upstreams.py [NETWORK]      where NETWORK is the first three numbers of their addresses

`/flaky` answers 503 to every other request; everything else answers 200 with a line `NAME saw PATH`, and who asked if
a sidecar has verified that.
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread

PROGRAMS = {
    "catalog": (2, 18082),  # behind its sidecar
    "reviews-v1": (3, 8081),
    "reviews-v2": (4, 8081),
    "stock": (5, 8081),
    "rates": (6, 8081),
}
"""Name -> the last number of its address, its port."""


def build_handler(name: str) -> type[BaseHTTPRequestHandler]:
    """A request handler class that answers as the program of that name."""
    requests = count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one segment: two would wait for a delayed acknowledgement

        def do_GET(self) -> None:
            failing = self.path.startswith("/flaky") and next(requests) % 2
            body = f"{name} saw {self.path}{self.caller()}\n".encode()
            self.send_response(503 if failing else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def caller(self) -> str:
            """The client's identity in its certificate, as the sidecar tells of it."""
            _, told, rest = self.headers.get("x-forwarded-client-cert", "").partition("URI=")
            return f" from {rest.partition(';')[0].partition(',')[0]}" if told else ""

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002  # its base has it so
            """Stay silent."""

    return Handler


class Server(ThreadingHTTPServer):
    """One program; its threads do not outlive it."""

    daemon_threads = True


def main() -> None:
    """Serve all programs until standard input is closed."""
    network = sys.argv[1] if len(sys.argv) > 1 else "127.10.0"
    for name, (number, port) in PROGRAMS.items():
        Thread(target=Server((f"{network}.{number}", port), build_handler(name)).serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
