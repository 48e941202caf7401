"""Programs that are in the mesh by gRPC's own xDS client: a server that says its name, and a caller of it.

    GRPC_XDS_BOOTSTRAP=FILE python grpc_programs.py serve NAME HOST:PORT
    GRPC_XDS_BOOTSTRAP=FILE python grpc_programs.py call TARGET

The server listens once the control plane has told it how. The caller calls once for each line of its input, a JSON
object of metadata, and answers with a line: the server's name, or the status of a call that failed.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc

METHOD = "/shop.Greeter/Name"
PATIENCE = 10.0
"""Seconds that a call may take: the first one waits for the configuration."""


class Greeter(grpc.GenericRpcHandler):
    """Answers the one method with a name."""

    def __init__(self, name: str) -> None:
        self._name = name.encode()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """The handler of the method."""
        known = details.method == METHOD
        return grpc.unary_unary_rpc_method_handler(lambda _request, _context: self._name) if known else None


def serve(name: str, address: str) -> None:
    """Serve for ever."""
    server = grpc.server(ThreadPoolExecutor(2), handlers=[Greeter(name)], xds=True)
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


def call(target: str) -> None:
    """Call for each line of the input."""
    with grpc.insecure_channel(target) as channel:
        method = channel.unary_unary(METHOD)
        for line in sys.stdin:
            metadata = list(json.loads(line).items())
            try:
                answer = method(b"", metadata=metadata, timeout=PATIENCE, wait_for_ready=True).decode()
            except grpc.RpcError as error:
                answer = error.code().name
            print(answer, flush=True)


if __name__ == "__main__":
    {"serve": serve, "call": call}[sys.argv[1]](*sys.argv[2:])
