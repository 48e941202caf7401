"""Opens a port for gRPC once there is something to serve, and closes it in good order.

Owns: the gRPC server of one life.
Receives: nothing; it waits for latches that others open: the push scheduler with the first snapshot, the certificate
    rotor with the first certificate.
Sends: nothing; streams go to the services' handlers.
Dies when: the port cannot be opened.
Recovers by: opening it again; Envoys reconnect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from actors.descriptions import PortDescription
from actors.grpc import Limits
from actors.line_budget import LineBudget
from actors.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from actors.grpc import PeerFault, Server

DRAIN = 10.0
"""Seconds that peers have to take what is unsent and to close, when the server is drained."""

RESERVE = 1_000
"""Descriptors that connections leave to files, debug pages, keys that are fetched and names that are looked up: without
any, no change is read, and whoever asks whether the process is well is not heard.
"""

log = get_logger("grpc_server")


@dataclass(slots=True, kw_only=True)
class Endpoint:
    """Where gRPC is served. `make` builds the server of one life; `bound` is its address while it listens, else ""."""

    name: str
    address: str
    make: Callable[[], Server]
    encrypted: bool = False
    bound: str = ""
    server: Server | None = field(default=None)

    async def drain(self) -> None:
        """End all streams in good order; the server then returns."""
        if self.server is not None:
            await self.server.drain(DRAIN)


async def run(
    *, endpoint: Endpoint, ready: Collection[trio.Event], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve for ever, once all that it takes is there."""
    task_status.started()
    for each in ready:
        await each.wait()
    endpoint.server = server = endpoint.make()
    try:
        async with trio.open_nursery() as nursery:
            endpoint.bound = await nursery.start(server.serve, endpoint.address)
            log.info("xds_opened", address=endpoint.bound, encrypted=endpoint.encrypted, room=server.room)
    finally:
        endpoint.bound, endpoint.server = "", None
    await trio.sleep_forever()  # drained: the process is about to end


def connections_of_a_port(descriptors: int, ports: int) -> int:
    """How many each of the ports may have, where the process may have so many descriptors."""
    spare = max(descriptors - RESERVE, descriptors // 2)
    return min(Limits().max_connections, spare // max(ports, 1))


def describe(endpoints: Iterable[Endpoint]) -> tuple[PortDescription, ...]:
    """What the debug pages show of those that have an address. Safe in another thread, where metrics are collected."""
    return tuple(
        PortDescription(
            name=each.name,
            address=each.bound or each.address,
            encrypted=each.encrypted,
            statistics=server.statistics() if (server := each.server) is not None else None,
        )
        for each in endpoints
        if each.address
    )


def report_crash(error: Exception) -> None:
    """Log what went wrong in a stream's handler."""
    log.error("stream_crashed", exc_info=error)


def fault_log() -> Callable[[str, PeerFault], None]:
    """What logs why a client's connection was ended, unless its host has filled the log enough."""
    lines = LineBudget()

    def report(address: str, fault: PeerFault) -> None:
        left_out = lines.left_out(address, trio.current_time())
        if left_out is not None:
            log.warning("peer_dismissed", peer=address, error=fault.code.name, reason=fault.reason, left_out=left_out)

    return report
