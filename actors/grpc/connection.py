"""One connection of the server: its nursery, from the accepted socket to the closed one.

In the nursery live the reader (the task that opened it), one task per call, and while the kernel's buffer is full one
that waits to write. What goes wrong with the peer or in here ends this connection and no other.
"""

import socket
from dataclasses import replace
from math import inf

import trio

from actors.grpc.calls import Dispatcher, unwrap
from actors.grpc.http2 import TrioProtocol
from actors.grpc.liveness import Liveness, Verdict
from actors.grpc.serving import Serving
from actors.grpc.tls import TlsTransport
from actors.grpc.transport import SocketTransport
from actors.ports import Peer


async def serve_connection(sock: socket.socket, address: str, serving: Serving, connections: set["Connection"]) -> None:
    """Serve one accepted, non-blocking socket until it is closed. `connections` holds the connection meanwhile."""
    connection = None
    try:
        async with trio.open_nursery() as nursery:
            connection = Connection(sock, address, serving, nursery)
            connections.add(connection)
            await connection.run()
            nursery.cancel_scope.cancel()
    except* Exception as crash:  # noqa: BLE001 (reported; it must not take the server with it)
        serving.totals.crashes += 1
        serving.on_crash(unwrap(crash))
    finally:
        if connection is not None:
            connection.close()
            connections.discard(connection)
        sock.close()


class Connection:
    """One peer. `serve_connection` runs it; the other methods are for the server, meanwhile."""

    def __init__(self, sock: socket.socket, address: str, serving: Serving, nursery: trio.Nursery) -> None:
        self._limits = serving.limits
        self._totals = serving.totals
        self._transport = (
            SocketTransport(sock, nursery, serving.limits)
            if serving.tls is None
            else TlsTransport(sock, nursery, serving.limits, serving.tls)
        )
        self._dispatcher = Dispatcher(nursery, serving, Peer(address=address))
        self._protocol = TrioProtocol(self._dispatcher, self._transport, serving.limits)
        self._liveness = Liveness(
            interval=serving.limits.keepalive_interval,
            timeout=serving.limits.keepalive_timeout,
            now=trio.current_time(),
        )
        self._begun = False
        self._gone = trio.Event()

    @property
    def open_calls(self) -> int:
        """Calls whose handlers have not ended."""
        return self._dispatcher.open_calls

    async def run(self) -> None:
        """Shake hands, then read until the peer, the network or the server has had enough."""
        try:
            with trio.move_on_after(self._limits.handshake_timeout) as greeting:
                await self._begin()
                await self._read(greeting)
            self._totals.handshakes_timed_out += greeting.cancelled_caught
        except OSError:
            # Not left to the nursery: an exception that cancels its siblings is held by the traces of their Cancelled,
            # in a cycle (trio 0.35 on Python 3.11), and the control plane runs with the garbage collector off.
            self._totals.connections_broken += 1
        except trio.Cancelled:
            self.goaway()
            raise

    def goaway(self) -> None:
        """Ask the peer to call somebody else from now on."""
        if self._begun:
            self._protocol.connection.goaway()

    def keep_alive(self, now: float) -> None:
        """To be called now and then: ask a silent peer for a sign of life, abort a dead one."""
        match self._liveness.check(now):
            case Verdict.ASK if self._begun and not self._transport.is_closing():
                self._protocol.connection.ping()
            case Verdict.BURY:
                self._totals.peers_dead += 1
                self.abort()
            case _:
                pass

    async def drain(self) -> None:
        """Say GOAWAY, end all calls, send what is unsent, and wait until the peer has closed. May take for ever."""
        if not self._begun:
            self.abort()
        self.goaway()
        await self._dispatcher.drain()
        await self._transport.flushed()
        self._transport.finish()
        await self._gone.wait()

    def abort(self) -> None:
        """End the connection now, whatever is unsent."""
        self._transport.abort()

    def close(self) -> None:
        """Release everything. For a connection whose tasks have ended."""
        self._protocol.connection_lost(None)
        self._gone.set()

    async def _begin(self) -> None:
        await self._transport.handshake()
        self._dispatcher.peer = replace(self._dispatcher.peer, identities=self._transport.identities())
        self._begun = True
        self._protocol.begin()

    async def _read(self, greeting: trio.CancelScope) -> None:
        """Read until there is nothing left to read, with no deadline once the peer speaks HTTP/2."""
        while not self._transport.is_closing():
            data = await self._transport.receive()
            if not data:
                return
            self._liveness.heard(trio.current_time())
            self._protocol.data_received(data)
            if self._protocol.processor.greeted:
                greeting.deadline = inf
