"""The Aggregated Discovery Service: hands each stream to a connection actor and reads its requests for it.

This is no actor but what runs in the task of each gRPC stream: a reader that decodes and passes on, with the mailbox's
flow lane as the brake, and a wait for the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import trio

from actors.aside import read_aside
from actors.mailbox import Abandoned, Mailbox, Reply
from actors.messages import RequestReceived, StreamAccepted, StreamEnded, StreamStatus
from actors.ports import StreamClosed
from protocol.errors import RemoteError
from protocol.statuses import DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNAVAILABLE
from protocol.xds.repeated_names import RepeatedNames
from protocol.xds.requests import DeltaRequest, SotwRequest
from protocol.xds.session import HEALTH
from protocol.xds.wire_requests import MOST_NAMES, decode_delta_request, decode_sotw_request
from trierarch.push.token_bucket import Pace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.messages import ToConnection, ToConnections
    from actors.metrics import Metrics
    from actors.ports import StreamHandler, StreamPort
    from protocol.xds.requests import Request
    from trierarch.identity.authenticate import Caller
    from trierarch.push.token_bucket import TokenBucket

_SERVICE = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
SOTW_METHOD = _SERVICE + "StreamAggregatedResources"
DELTA_METHOD = _SERVICE + "DeltaAggregatedResources"

PATIENCE = 1.0
"""Seconds that a new stream may wait for its turn."""

INTRODUCTION = 30.0
"""Seconds within which a client must say who it is; Envoy does so at once."""

NAME_COST, NAMES_AHEAD = 10e-6, 2.0
"""Each name that a stream asks for costs its reader so many seconds, of which two may be spent ahead: 100,000 names a
second. That is three times what stepping a session by them takes.
"""


Identify = Callable[["StreamPort"], "Caller | None"]
"""Says who calls; None: nobody need prove anything. Raises `RemoteError` for somebody who cannot."""


def identify_nobody(_: StreamPort) -> None:
    """Of a port on which nobody need prove anything."""


def build_handlers(
    connections: Mailbox[ToConnections], metrics: Metrics, begins: TokenBucket, identify: Identify = identify_nobody
) -> Mapping[str, StreamHandler]:
    """The gRPC methods of ADS. `begins` says how often a stream may begin."""
    serve = partial(serve_stream, connections=connections, metrics=metrics, identify=identify)
    return {
        SOTW_METHOD: partial(serve_in_turn, begins, partial(serve, delta=False)),
        DELTA_METHOD: partial(serve_in_turn, begins, partial(serve, delta=True)),
    }


async def serve_in_turn(begins: TokenBucket, serve: StreamHandler, port: StreamPort) -> None:
    """Serve a stream when it is its turn; refuse it if that would take too long (xds-server.md §3.4)."""
    host, _, _ = port.peer.address.rpartition(":")
    wait = begins.reserve(trio.current_time(), PATIENCE, host)
    if wait is None:
        raise RemoteError(RESOURCE_EXHAUSTED, "too many new streams; try again later")
    await trio.sleep(wait)
    await serve(port)


async def serve_stream(
    port: StreamPort,
    *,
    connections: Mailbox[ToConnections],
    metrics: Metrics,
    delta: bool,
    identify: Identify = identify_nobody,
) -> None:
    """Serve one stream until its connection actor is done with it. Raises `RemoteError` for an end other than OK."""
    caller = identify(port)
    inbox: Mailbox[ToConnection] = Mailbox("connection", flow=1, control=100)
    ended: Reply[StreamStatus] = Reply()
    await connections.send(StreamAccepted(port=port, delta=delta, inbox=inbox, ended=ended, caller=caller))
    decode: Callable[[bytes], Request] = decode_delta_request if delta else decode_sotw_request
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_requests, port, inbox, decode, metrics)
            status = await _wait_for_end(ended)
            nursery.cancel_scope.cancel()
    finally:
        inbox.post(
            StreamEnded(reason="cut off")
        )  # whoever cancels this, the actor does not serve a stream that is gone
    if status.code:
        raise RemoteError(status.code, status.message)


async def read_requests(
    port: StreamPort, inbox: Mailbox[ToConnection], decode: Callable[[bytes], Request], metrics: Metrics
) -> None:
    """Pass requests on until the client has no more."""
    ended = StreamEnded(reason="closed by the client")
    reader = Reader(port, decode, metrics)
    try:
        while (request := await reader.read()) is not None:
            await inbox.send(RequestReceived(request=request))
            await reader.rest(request)
    except StreamClosed as closed:
        ended = StreamEnded(reason=closed.message)
    except RemoteError as error:
        ended = StreamEnded(reason=error.message, code=error.code)
    await inbox.send(ended)


class Reader:
    """Reads one stream's requests, no faster than others can bear."""

    def __init__(self, port: StreamPort, decode: Callable[[bytes], Request], metrics: Metrics) -> None:
        self._port = port
        self._decode = decode
        self._metrics = metrics
        self._introduction = trio.current_time() + INTRODUCTION
        self._pace = Pace(each=NAME_COST, ahead=NAMES_AHEAD)
        self._names = 0
        self._repeated = RepeatedNames()

    async def read(self) -> Request | None:
        """The next request; None after the last. Raises `RemoteError` for one that may not be or does not come."""
        message = await self._next_message()
        if message is None:
            return None
        self._metrics.note_request_size(len(message))
        request = await self._decoded(message)
        if request.type_url != HEALTH:
            self._introduction = inf
        return request

    async def _decoded(self, message: bytes) -> Request:
        rest, names = self._repeated.cut(message)
        request = await read_aside(self._decode, rest)
        if isinstance(request, SotwRequest):
            if names:
                return replace(request, names=names + request.names)
            return self._repeated.note(message, request)
        return request

    async def _next_message(self) -> bytes | None:
        if self._introduction == inf:
            return await self._port.receive()
        with trio.move_on_at(self._introduction):
            return await self._port.receive()
        raise RemoteError(DEADLINE_EXCEEDED, f"no discovery request came within {INTRODUCTION:.0f} s")

    async def rest(self, request: Request) -> None:
        """Wait for as long as the request was too much. A name more on top of many costs as the many do."""
        match request:
            case SotwRequest(names=names):
                self._names = len(names)
            case DeltaRequest():
                more = len(request.subscribe) + len(request.initial) - len(request.unsubscribe)
                self._names = min(max(0, self._names + more), MOST_NAMES)
        pause = self._pace.spend(self._names, trio.current_time())
        if pause:
            await trio.sleep(pause)


async def _wait_for_end(ended: Reply[StreamStatus]) -> StreamStatus:
    try:
        return await ended.wait()
    except Abandoned:
        return StreamStatus(code=UNAVAILABLE, message="the connection was lost; connect again")
