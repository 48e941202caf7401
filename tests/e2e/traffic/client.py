"""Sends the requests of checks through sidecars, each over a connection of its own, as programs beside them would."""

from __future__ import annotations

import json
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import TYPE_CHECKING, assert_never

from tests.e2e.traffic.checks import Answer, Check, HttpRequest, Request, TcpConnection, TlsConnection

if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE = 10.0
"""Seconds that an answer may take."""

LONGEST = 1000
"""Bytes of what a TCP program says."""


def send_all(check: Check, addresses: Mapping[str, str]) -> list[Answer]:
    """All answers to a check; `addresses` are those of the sidecars by name."""
    requests = [check.request] * check.times
    with ThreadPoolExecutor(check.times if check.at_once else 1) as pool:
        return list(pool.map(lambda request: send(request, addresses[request.by]), requests))


def send(request: Request, address: str) -> Answer:
    """One answer."""
    match request:
        case HttpRequest():
            return _ask(request, address)
        case TcpConnection(port=port):
            with socket.create_connection((address, port), PATIENCE) as stream:
                return _listen(stream)
        case TlsConnection(server_name=name, port=port):
            with socket.create_connection((address, port), PATIENCE) as raw:
                return _handshake(raw, name)
        case never:
            assert_never(never)


def _ask(request: HttpRequest, address: str) -> Answer:
    connection = HTTPConnection(address, request.port, PATIENCE)
    started = time.monotonic()
    try:
        connection.request(request.method, request.path, headers={"host": request.host, **request.headers})
        response = connection.getresponse()
        body = response.read().decode()
    finally:
        connection.close()
    headers = {name.lower(): value for name, value in response.getheaders()}
    answer = Answer(status=response.status, headers=headers, body=body, seconds=time.monotonic() - started)
    return _tell(answer) if "x-program" in headers else answer


def _tell(answer: Answer) -> Answer:
    """An answer with what the program says that it has seen."""
    said = json.loads(answer.body)
    return Answer(
        program=said["program"],
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
        path=said["path"],
        method=said["method"],
        seen=said["headers"],
        seconds=answer.seconds,
    )


def _handshake(raw: socket.socket, server_name: str) -> Answer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with context.wrap_socket(raw, server_hostname=server_name) as stream:
            return _listen(stream)
    except (ssl.SSLError, ConnectionError):  # nobody was there for that name
        return Answer()


def _listen(stream: socket.socket) -> Answer:
    try:
        name = stream.recv(LONGEST).decode()
    except ConnectionError:
        name = ""
    return Answer(program=name, body=name)
