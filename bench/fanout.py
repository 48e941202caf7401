"""What it costs to push: one message to many streams, small and large, in CPU of the server per push.

    python bench/fanout.py [--streams 1000] [--rounds 20] [--tls CERTIFICATE_AND_KEY.pem]

The clients are another process that reads and discards. All streams are sent the same buffers, as in an xDS push.
"p50" and "p99" are of the times after which a message had been handed over to so many streams: once in CPU time of the
server, in the median of the rounds, which does not depend on what else the machine does, and once by the clock, in the
best of them. The budget by the clock is the 150 ms of a small change; it is judged if the server had half a core.
The rounds are a little apart, as pushes are.
"""

import argparse
import gc
import resource
import selectors
import socket
import ssl
import subprocess
import sys
import time
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import trio
from common.table import Table
from hpack import Encoder
from hyperframe.frame import HeadersFrame, SettingsFrame, WindowUpdateFrame

from actors.grpc import Limits, Server
from actors.ports import StreamPort

METHOD = "/bench.Push/Stream"
WIDE = 2**31 - 1
CPU_BUDGETS = {336: 0.05, 2_000: 0.05, 100_000: 0.12, 1_000_000: 0.6}
"""Milliseconds for each stream, by the size of the message."""

SMALL, LATENCY_BUDGET, CPU_LATENCY_BUDGET = 2_000, 150.0, 50.0
"""Bytes of the message whose latency is measured, and milliseconds until 99 of 100 streams have it."""

QUIET = 0.5
"""The share of a core from which a time by the clock says something of the server; with less it waits for others."""

REST = 0.1
"""Seconds between two rounds."""

STREAM_BUDGET = 45.0
"""KB; with the 35 of bench/memory.py the 80 that a connection and its proxy may have."""

MOST_BYTES = 1_000_000_000
"""Per size, so that windows which are never widened suffice and a run takes seconds."""


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tls", type=Path)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    return parser.parse_args()


def opening() -> bytes:
    """All that a client ever says: preface, wide windows, one stream."""
    headers = {":method": "POST", ":scheme": "http", ":path": METHOD, ":authority": "bench"}
    block = Encoder().encode([*headers.items(), ("content-type", "application/grpc"), ("te", "trailers")])
    frames = (
        SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: WIDE}),
        WindowUpdateFrame(0, window_increment=WIDE - 65_535),
        HeadersFrame(1, block, flags=["END_HEADERS"]),
    )
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"".join(frame.serialize() for frame in frames)


def run_clients(address: str, streams: int, *, tls: bool) -> None:
    """Open `streams` connections with one stream each; read until all are closed."""
    host, port = address.rsplit(":", 1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    selector = selectors.DefaultSelector()
    for _ in range(streams):
        sock = socket.create_connection((host, int(port)))
        sock = context.wrap_socket(sock) if tls else sock
        sock.sendall(opening())
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ)
    while selector.get_map():
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket)
            discard(key.fileobj, selector)


def discard(sock: socket.socket, selector: selectors.BaseSelector) -> None:
    """Read what is there."""
    try:
        if sock.recv(1 << 18):
            return
    except (BlockingIOError, ssl.SSLWantReadError):
        return
    except OSError:
        pass
    selector.unregister(sock)
    sock.close()


class Handover(NamedTuple):
    """Milliseconds until a stream had been handed its message: by the clock, and of the server's CPU time."""

    clock: float
    cpu: float


async def push(streams: list[StreamPort], buffers: tuple[bytes, ...]) -> list[Handover]:
    """Send one message to all streams; when each was handed over, in their order."""
    times: list[Handover] = []
    clock, cpu = time.perf_counter(), time.process_time()

    async def send(stream: StreamPort) -> None:
        await stream.send(buffers)
        times.append(Handover((time.perf_counter() - clock) * 1000, (time.process_time() - cpu) * 1000))

    async with trio.open_nursery() as nursery:
        for stream in streams:
            nursery.start_soon(send, stream)
    return times


async def measure(streams: list[StreamPort], size: int, rounds: int, table: Table) -> None:
    """Print what pushes of `size` bytes cost."""
    rounds = max(1, min(rounds, MOST_BYTES // (size * len(streams)), WIDE // 4 // size))
    head, body = b"h" * 36, bytes(size - 36)
    pushes = []
    for _ in range(rounds):
        await trio.sleep(REST)
        pushes.append(await push(streams, (head, body)))
    table.value(
        f"{size} bytes: CPU for each stream", min(times[-1].cpu for times in pushes) / len(streams), CPU_BUDGETS[size]
    )
    if size == SMALL:
        half, most = ([times[len(times) * part // 100] for times in pushes] for part in (50, 99))
        table.value("  p50 in CPU time", median(each.cpu for each in half))
        table.value("  p99 in CPU time", median(each.cpu for each in most), CPU_LATENCY_BUDGET)
        best = min(most)
        share = best.cpu / best.clock
        table.value("  p50 by the clock", min(half).clock)
        table.value(
            f"  p99 by the clock, with {share:.0%} of a core", best.clock, LATENCY_BUDGET if share > QUIET else None
        )


def resident_kib() -> int:
    """Peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@cache
def server_context(pem: Path) -> ssl.SSLContext:
    """One context for all connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    context.set_alpn_protocols(["h2"])
    return context


async def run_server(arguments: argparse.Namespace) -> int:
    """Serve, wait for all clients, push; how many budgets are missed."""
    streams: list[StreamPort] = []
    complete = trio.Event()

    async def keep(stream: StreamPort) -> None:
        streams.append(stream)
        if len(streams) == arguments.streams:
            complete.set()
        await stream.receive()

    tls = partial(server_context, arguments.tls) if arguments.tls else None
    server = Server({METHOD: keep}, Limits(keepalive_interval=3600), tls, on_crash=print)
    gc.freeze()
    gc.disable()
    async with trio.open_nursery() as nursery:
        address = await nursery.start(server.serve, "127.0.0.1:0")
        before, cpu = resident_kib(), time.process_time()
        command = [sys.executable, __file__, "--client", address, "--streams", str(arguments.streams)]
        clients = subprocess.Popen(command + (["--tls", str(arguments.tls)] if arguments.tls else []))
        await complete.wait()
        each, cost = (resident_kib() - before) / len(streams), (time.process_time() - cpu) / len(streams)
        memory = Table(f"{len(streams)} idle streams", "KB")
        memory.value("memory of each", each, STREAM_BUDGET)
        table = Table(f"one message to {len(streams)} streams")
        table.value("CPU to connect one", cost * 1000)
        for size in CPU_BUDGETS:
            await measure(streams, size, arguments.rounds, table)
        await server.drain(1)
    clients.wait()
    return memory.missed + table.missed


def main() -> int:
    """Run as the server, or as its clients."""
    arguments = parse_arguments()
    if arguments.client:
        run_clients(arguments.client, arguments.streams, tls=arguments.tls is not None)
        return 0
    return 1 if trio.run(run_server, arguments) else 0


if __name__ == "__main__":
    sys.exit(main())
