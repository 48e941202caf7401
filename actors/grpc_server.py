"""Opens the xDS port once the first snapshot is built, and closes it in good order.

Owns: the gRPC server of one life.
Receives: nothing; it waits for the latch that the push scheduler opens.
Sends: nothing; streams go to the ADS service's handlers.
Dies when: the port cannot be opened.
Recovers by: opening it again; Envoys reconnect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from actors.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.grpc import PeerFault, Server

DRAIN = 10.0
"""Seconds that peers have to take what is unsent and to close, when the server is drained."""

log = get_logger("grpc_server")


@dataclass(slots=True, kw_only=True)
class Endpoint:
    """Where xDS is served. `make` builds the server of one life; `bound` is its address while it listens, else ""."""

    address: str
    make: Callable[[], Server]
    bound: str = ""
    server: Server | None = field(default=None)

    async def drain(self) -> None:
        """End all streams in good order; the server then returns."""
        if self.server is not None:
            await self.server.drain(DRAIN)


async def run(
    *, endpoint: Endpoint, ready: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve xDS for ever, once there is something to serve."""
    task_status.started()
    await ready.wait()
    endpoint.server = server = endpoint.make()
    try:
        async with trio.open_nursery() as nursery:
            endpoint.bound = await nursery.start(server.serve, endpoint.address)
            log.info("xds_opened", address=endpoint.bound)
    finally:
        endpoint.bound, endpoint.server = "", None
    await trio.sleep_forever()  # drained: the process is about to end


def report_crash(error: Exception) -> None:
    """Log what went wrong in a stream's handler."""
    log.error("stream_crashed", exc_info=error)


def report_fault(address: str, fault: PeerFault) -> None:
    """Log why a client's connection was ended."""
    log.warning("peer_dismissed", peer=address, error=fault.code.name, reason=fault.reason)
