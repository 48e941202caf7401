"""A gRPC server for trio: listens, accepts at a bounded rate, keeps its connections alive, drains.

server = Server({"/package.Service/Method": handler}, on_crash=log_crash)
address = await nursery.start(server.serve, "127.0.0.1:0")
...
await server.drain(deadline=10)      # then `serve` returns
"""

import errno
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict

import trio

from actors.grpc.budget import Allowance
from actors.grpc.connection import Connection, serve_connection
from actors.grpc.faults import PeerFault
from actors.grpc.limits import Limits
from actors.grpc.newcomers import Newcomers
from actors.grpc.serving import Serving
from actors.grpc.statistics import ServerStatistics, Totals
from actors.ports import StreamHandler

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_SWEEPS_PER_TIMEOUT = 4
_SWEPT_AT_ONCE = 50
"""Connections that are looked after in one turn of the loop: if all are due for a PING, a millisecond."""


class Server:
    """Serves gRPC streams. One `serve` in the life of a server; cancelling it tells every peer UNAVAILABLE."""

    def __init__(
        self,
        handlers: Mapping[str, StreamHandler],
        limits: Limits | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
        *,
        on_crash: Callable[[Exception], None],
        on_fault: Callable[[str, PeerFault], None] | None = None,
    ) -> None:
        """Serve `handlers` (by full method). `tls` is asked for each connection, so that certificates can change while
        others go on; what it gives must offer `h2` by ALPN, and decides about client certificates. None: plain text.

        `on_crash` is told each exception of a handler that is not a `RemoteError`; the server itself goes on.
        `on_fault` is told the address of each peer whose connection is ended for breaking a rule, and which.
        """
        self._limits = limits or Limits()
        self._totals = Totals()
        self._serving = Serving(
            handlers=handlers,
            limits=self._limits,
            tls=tls,
            totals=self._totals,
            newcomers=Newcomers(self._limits.max_newcomers),
            large_messages=Allowance(self._limits.large_messages),
            on_crash=on_crash,
            on_fault=on_fault or _ignore_fault,
        )
        self._connections: set[Connection] = set()
        self._accepting = trio.CancelScope()

    @property
    def room(self) -> int:
        """Connections that it may have."""
        return self._limits.max_connections

    async def serve(self, listen: str, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen on `HOST:PORT` (no host: all addresses; port 0: any) until drained. Started with the bound address.

        Raises OSError if the address cannot be had, and ValueError if it is none.
        """
        async with trio.open_nursery() as connections:
            with self._accepting, open_listener(listen, self._limits.backlog) as listener:
                task_status.started(format_address(listener.getsockname()))
                async with trio.open_nursery() as background:
                    background.start_soon(self._keep_alive)
                    await self._accept(listener, connections)

    async def drain(self, deadline: float) -> None:
        """End everything in good order, within `deadline` seconds; then `serve` returns.

        Closes the listener, sends GOAWAY, cancels the handlers (UNAVAILABLE), waits until each peer has taken what is
        unsent and has closed its connection, and aborts those that have not.
        """
        self._accepting.cancel()
        with trio.move_on_after(deadline):
            async with trio.open_nursery() as nursery:
                for connection in self._connections:
                    nursery.start_soon(connection.drain)
        for connection in tuple(self._connections):
            connection.abort()

    def statistics(self) -> ServerStatistics:
        """The numbers of now."""
        totals = self._totals
        return ServerStatistics(
            connections_open=len(self._connections),
            **asdict(totals),
        )

    async def _accept(self, listener: socket.socket, connections: trio.Nursery) -> None:
        """Accept for ever, a burst at a time."""
        while True:
            await trio.lowlevel.wait_readable(listener)
            burst = 0
            for sock, address in accept_waiting(listener, self._limits.accept_burst):
                connections.start_soon(self._serve_connection, sock, address)
                burst += 1
            self._totals.connections_accepted += burst
            if burst == 0 or burst == self._limits.accept_burst:
                await trio.sleep(self._limits.accept_pause)

    async def _serve_connection(self, sock: socket.socket, address: str) -> None:
        """Serve one connection, unless there are too many, or a drain began since it was accepted."""
        if self._accepting.cancel_called:
            sock.close()
        elif len(self._connections) >= self._limits.max_connections:
            self._totals.connections_refused += 1
            sock.close()
        else:
            await serve_connection(sock, address, self._serving, self._connections)

    async def _keep_alive(self) -> None:
        """Look after all connections in one task: ten thousand sleeping tasks would cost tens of megabytes."""
        while True:
            await trio.sleep(self._limits.keepalive_timeout / _SWEEPS_PER_TIMEOUT)
            now = trio.current_time()
            for number, connection in enumerate(tuple(self._connections), start=1):
                connection.keep_alive(now)
                if number % _SWEPT_AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()


def open_listener(listen: str, backlog: int) -> socket.socket:
    """A non-blocking listening socket on `HOST:PORT`; an IPv6 host stands in brackets, no host means every address."""
    host, separator, port = listen.rpartition(":")
    if not separator:
        raise ValueError(f"not HOST:PORT: {listen!r}")
    host = host.removeprefix("[").removesuffix("]")
    every_address = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if every_address or ":" in host else socket.AF_INET
    listener = socket.create_server((host, int(port)), family=family, backlog=backlog, dualstack_ipv6=every_address)
    listener.setblocking(False)
    return listener


def accept_waiting(listener: socket.socket, limit: int) -> Iterator[tuple[socket.socket, str]]:
    """Accept connections that wait, `limit` at most, with their peers' addresses."""
    for _ in range(limit):
        try:
            sock, address = listener.accept()
        except BlockingIOError:
            return
        except ConnectionError:  # it was reset while it waited
            continue
        except OSError as error:
            if error.errno not in _OUT_OF_RESOURCES:
                raise
            return  # it waits until others have closed
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock, format_address(address)


def format_address(address: tuple[object, ...]) -> str:
    """A socket's address as `HOST:PORT`, an IPv6 host in brackets."""
    host, port = str(address[0]), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _ignore_fault(_address: str, _fault: PeerFault) -> None:
    """For those who do not want to know."""
