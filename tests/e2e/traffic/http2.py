"""A program that speaks HTTP/2 and nothing else, from the first byte of a connection."""

from __future__ import annotations

import json
from socketserver import BaseRequestHandler
from typing import TYPE_CHECKING

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived
from h2.exceptions import ProtocolError

if TYPE_CHECKING:
    import socket

READ = 65_536


def http2_handler(name: str) -> type[BaseRequestHandler]:
    """Answers each request with who it is and what reached it, as the programs that speak HTTP/1.1 do."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
            connection.initiate_connection()
            _serve(self.request, connection, name)

    return Handler


def _serve(stream: socket.socket, connection: H2Connection, name: str) -> None:
    """Answer until the client goes, or says what is not HTTP/2."""
    stream.sendall(connection.data_to_send())
    while data := stream.recv(READ):
        try:
            events = connection.receive_data(data)
        except ProtocolError:
            return
        for event in events:
            if isinstance(event, RequestReceived):
                _answer(connection, event, name)
        stream.sendall(connection.data_to_send())


def _answer(connection: H2Connection, request: RequestReceived, name: str) -> None:
    seen = dict(request.headers)
    told = {"program": name, "method": seen[":method"], "path": seen[":path"], "headers": seen}
    body = json.dumps(told).encode()
    headers = [(":status", "200"), ("content-length", str(len(body))), ("x-program", name)]
    connection.send_headers(request.stream_id, headers)
    connection.send_data(request.stream_id, body, end_stream=True)
