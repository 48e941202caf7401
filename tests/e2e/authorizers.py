"""External authorizers for tests: one that is asked over HTTP, one over gRPC. Both live in threads of this process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import grpc
from envoy.service.auth.v3 import external_auth_pb2
from google.rpc import code_pb2

if TYPE_CHECKING:
    from contextlib import ExitStack

METHOD = "/envoy.service.auth.v3.Authorization/Check"


class Guard(BaseHTTPRequestHandler):
    """Lets in whoever has a pass (the header `x-pass`), and says what it is (`x-known-as`)."""

    def do_GET(self) -> None:
        """200 or 403."""
        known_as = self.headers.get("x-pass", "")
        self.send_response(200 if known_as else 403)
        self.send_header("x-known-as", known_as)
        self.send_header("content-length", "0")
        self.end_headers()

    do_POST = do_GET  # noqa: N815 - the names are the library's

    def log_message(self, *_: object) -> None:
        """Stay silent."""


def serve_guard(stack: ExitStack, host: str, port: int) -> None:
    """Start a `Guard` that ends with `stack`."""
    guard = ThreadingHTTPServer((host, port), Guard)
    stack.callback(guard.server_close)
    stack.callback(guard.shutdown)
    Thread(target=guard.serve_forever, args=(0.05,), daemon=True).start()


class Judge(grpc.GenericRpcHandler):
    """Lets in the callers whose identities end so."""

    def __init__(self, ending: str) -> None:
        self._ending = ending

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """The handler of the one method."""
        return grpc.unary_unary_rpc_method_handler(self._check) if details.method == METHOD else None

    def _check(self, body: bytes, _context: object) -> bytes:
        request = external_auth_pb2.CheckRequest.FromString(body)
        known = request.attributes.source.principal.endswith(self._ending)
        answer = external_auth_pb2.CheckResponse()
        answer.status.code = code_pb2.OK if known else code_pb2.PERMISSION_DENIED
        return answer.SerializeToString()


def serve_judge(stack: ExitStack, host: str, port: int, ending: str) -> None:
    """Start a `Judge` that ends with `stack`."""
    server = grpc.server(ThreadPoolExecutor(2), handlers=[Judge(ending)])
    server.add_insecure_port(f"{host}:{port}")
    server.start()
    stack.callback(lambda: server.stop(None).wait())
