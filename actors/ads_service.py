"""The Aggregated Discovery Service: hands each stream to a connection actor, which reads and writes it.

This is no actor but what runs in the task of each gRPC stream: it waits for the end, and says how the stream ended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from actors.client_requests import ClientRequests, ConnectionMailbox
from actors.mailbox import Abandoned, Reply
from actors.messages import StreamAccepted, StreamEnded, StreamStatus
from protocol.errors import RemoteError
from protocol.statuses import RESOURCE_EXHAUSTED, UNAVAILABLE
from protocol.xds.wire_requests import decode_delta_request, decode_sotw_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.mailbox import Mailbox
    from actors.messages import ToConnections
    from actors.metrics import Metrics
    from actors.ports import StreamHandler, StreamPort
    from trierarch.identity.authenticate import Caller
    from trierarch.push.token_bucket import TokenBucket

_SERVICE = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
SOTW_METHOD = _SERVICE + "StreamAggregatedResources"
DELTA_METHOD = _SERVICE + "DeltaAggregatedResources"

PATIENCE = 1.0
"""Seconds that a new stream may wait for its turn."""

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
    inbox = ConnectionMailbox(ClientRequests(port, decode_delta_request if delta else decode_sotw_request, metrics))
    ended: Reply[StreamStatus] = Reply()
    await connections.send(StreamAccepted(port=port, delta=delta, inbox=inbox, ended=ended, caller=caller))
    try:
        status = await _wait_for_end(ended)
    finally:
        # Whoever cancels this: the actor must not serve a stream that is gone.
        inbox.post(StreamEnded(reason="cut off"))
    if status.code:
        raise RemoteError(status.code, status.message)


async def _wait_for_end(ended: Reply[StreamStatus]) -> StreamStatus:
    try:
        return await ended.wait()
    except Abandoned:
        return StreamStatus(code=UNAVAILABLE, message="the connection was lost; connect again")
