"""One connection of the server: its nursery, from the accepted socket to the closed one.

In the nursery live the reader (the task that opened it), one task per call, and while the kernel's buffer is full one
that waits to write. What goes wrong with the peer or in here ends this connection and no other.
"""

import socket
from dataclasses import replace

import trio

from actors.grpc.calls import Dispatcher, unwrap
from actors.grpc.faults import PeerFault
from actors.grpc.http2 import TrioProtocol
from actors.grpc.liveness import Liveness, Verdict
from actors.grpc.meter import FrameMeter
from actors.grpc.serving import Serving
from actors.grpc.tls import TlsTransport
from actors.grpc.transport import SocketTransport
from actors.ports import Peer

_MOST_DISCARDED = 64
"""Reads of 64 KiB that a peer may still make us do when it is dismissed."""


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
        self._on_fault = serving.on_fault
        self._transport = (
            SocketTransport(sock, nursery, serving.limits)
            if serving.tls is None
            else TlsTransport(sock, nursery, serving.limits, serving.tls())
        )
        now = trio.current_time()
        peer = Peer(address=address, encrypted=serving.tls is not None)
        self._meter = FrameMeter(serving.limits, now)
        self._dispatcher = Dispatcher(nursery, serving, peer, self._meter.calls)
        self._large_messages = serving.large_messages
        self._newcomers = serving.newcomers
        self._protocol: TrioProtocol | None = None
        """None until hands are shaken: whoever only connects is to cost little."""
        self._liveness = Liveness(
            interval=serving.limits.keepalive_interval, timeout=serving.limits.keepalive_timeout, now=now
        )
        self._busy_at = now
        self._gone = trio.Event()

    @property
    def open_calls(self) -> int:
        """Calls whose handlers have not ended."""
        return self._dispatcher.open_calls

    async def run(self) -> None:
        """Shake hands, then read until the peer, the network or the server has had enough."""
        try:
            await self._serve()
        except OSError:
            # Not left to the nursery: an exception that cancels its siblings is held by the traces of their Cancelled,
            # in a cycle (trio 0.35 on Python 3.11), and what lives as long as a connection is not collected.
            self._totals.connections_broken += 1
        except trio.Cancelled:
            self.goaway()
            raise

    def goaway(self) -> None:
        """Ask the peer to call somebody else from now on."""
        if self._protocol is not None:
            self._protocol.connection.goaway()

    def keep_alive(self, now: float) -> None:
        """To be called now and then: ask a silent peer for a sign of life, part with one that is dead or idle."""
        if self._transport.is_closing():
            return
        stuck_since = self._transport.stuck_since
        if stuck_since is not None and now - stuck_since >= self._limits.stuck_timeout:
            self._totals.peers_stuck += 1
            self.abort()
            return
        match self._liveness.check(now):
            case Verdict.ASK if self._protocol is not None:
                self._protocol.connection.ping()
            case Verdict.BURY:
                self._totals.peers_dead += 1
                self.abort()
            case _:
                self._retire(now)

    def _retire(self, now: float) -> None:
        """Ask a peer that has had no call for long to leave; close at the next sweep if it has not."""
        if self._dispatcher.open_calls or self._protocol is None:
            self._busy_at = now
        elif self._dispatcher.refusing:
            self._transport.close()
        elif now - self._busy_at >= self._patience():
            self._totals.peers_idle += 1
            self._dispatcher.refusing = True
            self.goaway()

    def _patience(self) -> float:
        """Seconds that the peer may be without a call."""
        return self._limits.idle_timeout if self._dispatcher.was_called else self._limits.unused_timeout

    async def drain(self) -> None:
        """Say GOAWAY, end all calls, send what is unsent, and wait until the peer has closed. May take for ever."""
        if self._protocol is None:
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
        if self._protocol is not None:
            self._protocol.connection_lost(None)
        self._gone.set()

    async def _serve(self) -> None:
        try:
            protocol = await self._greet()
            while protocol is not None and await self._read(protocol):
                pass
        except PeerFault as fault:
            self._dismiss(fault)
            await self._see_off()

    async def _greet(self) -> TrioProtocol | None:
        """Shake hands, and read until the peer speaks HTTP/2. None if it does not in time, or leaves."""
        with trio.move_on_after(self._limits.handshake_timeout) as greeting:
            with self._newcomers.waiting(greeting.cancel):
                protocol = await self._begin()
                while await self._read(protocol):
                    if protocol.processor.greeted:
                        return protocol
        self._totals.handshakes_timed_out += greeting.cancelled_caught
        return None

    async def _begin(self) -> TrioProtocol:
        await self._transport.handshake()
        self._dispatcher.peer = replace(self._dispatcher.peer, identities=self._transport.identities())
        protocol = TrioProtocol(self._dispatcher, self._transport, self._limits, self._large_messages)
        self._protocol = protocol
        protocol.begin()
        return protocol

    async def _read(self, protocol: TrioProtocol) -> bool:
        """Read once, and process it. False when there is nothing left to read."""
        if self._transport.is_closing():
            return False
        data = await self._transport.receive()
        if data:
            await self._process(protocol, data, trio.current_time())
        return bool(data)

    async def _process(self, protocol: TrioProtocol, data: bytes, now: float) -> None:
        """Process what was read, step by step, and rest if it was more than a peer may ask of us."""
        self._liveness.heard(now)
        self._meter.sent(protocol.connection.data_sent)
        steps = iter(self._meter.steps(data, now))
        protocol.data_received(next(steps))
        for step in steps:
            await trio.lowlevel.checkpoint()
            protocol.data_received(step)
        pause = self._meter.pause(len(data), now)
        if pause:
            await trio.sleep(pause)

    def _dismiss(self, fault: PeerFault) -> None:
        """End all calls and say GOAWAY."""
        self._totals.peers_dismissed += 1
        self._on_fault(self._dispatcher.peer.address, fault)
        if self._protocol is not None:
            self._protocol.connection.dismiss(fault)
        self._dispatcher.close()

    async def _see_off(self) -> None:
        """Let the peer read why it must go: a socket that is closed with unread input takes its last words back."""
        if self._transport.stuck_since is not None:
            return
        self._transport.finish()
        with trio.move_on_after(self._limits.farewell):
            for _ in range(_MOST_DISCARDED):
                if not await self._transport.discard():
                    return
