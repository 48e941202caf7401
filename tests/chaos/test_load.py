"""The load of the tests that kill things, under test itself: one request that fails among many is noticed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest

from tests.chaos.load import Load

GOOD = (200, "reviews-v1")
PATIENCE = 20


@dataclass
class Sidecar:
    """As much of one as the load knows."""

    id: str
    outbound: str


@contextmanager
def open_sidecar(*answers):
    """Where these answers are given, a status and a text each; None closes the connection. Then good ones, for ever.

    Yields the sidecar, and what is set when the answers and a good one have been given.
    """
    left, told = [*answers, GOOD], Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            answer = left.pop(0) if left else GOOD
            if not left:
                told.set()
            if answer is None:
                self.close_connection = True
                return
            status, text = answer
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            """Nobody reads that."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield Sidecar(f"sidecar-{server.server_port}", f"127.0.0.1:{server.server_port}"), told
        server.shutdown()
        serving.join()


def test_requests_that_succeed():
    """They are counted, and there is nothing to complain of."""
    with open_sidecar() as (sidecar, told), Load(sidecar) as load:
        assert told.wait(PATIENCE)
    load.check()
    assert load.answers > 0


@pytest.mark.parametrize("bad", [(503, "no healthy upstream"), (200, "ratings"), None], ids=["503", "astray", "closed"])
def test_one_that_fails(bad):
    """One is enough, however many succeed: an error, an answer of somebody else, a closed connection."""
    with open_sidecar(GOOD, GOOD, bad, GOOD) as (sidecar, told), Load(sidecar) as load:
        assert told.wait(PATIENCE)
    assert [failure.sidecar for failure in load.failures] == [sidecar.id]
    with pytest.raises(AssertionError):
        load.check()


def test_nothing_at_all():
    """A sidecar through which no request went proves nothing."""
    with pytest.raises(AssertionError):
        Load(Sidecar("idle", "")).check()
