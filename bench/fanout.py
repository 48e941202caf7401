"""What it costs to push: one message to many streams, small and large, in CPU of the server per push.

    python bench/fanout.py [--streams 1000] [--rounds 20] [--tls CERTIFICATE_AND_KEY.pem]

The clients are another process that reads and discards. All streams are sent the same buffers, as in an xDS push.
"p50" and "p99" are of the times after which a message had been handed over to so many streams, in the best of the
rounds; on a machine that does other things they are longer than the budget, which is the 150 ms of a small change.
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
from pathlib import Path

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

SMALL, LATENCY_BUDGET = 2_000, 150.0
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


async def push(streams: list[StreamPort], buffers: tuple[bytes, ...], times: list[float]) -> None:
    """Send one message to all streams; note when each was handed over."""
    begin = time.perf_counter()

    async def send(stream: StreamPort) -> None:
        await stream.send(buffers)
        times.append(time.perf_counter() - begin)

    async with trio.open_nursery() as nursery:
        for stream in streams:
            nursery.start_soon(send, stream)


async def measure(streams: list[StreamPort], size: int, rounds: int, table: Table) -> None:
    """Print what pushes of `size` bytes cost."""
    rounds = max(1, min(rounds, MOST_BYTES // (size * len(streams)), WIDE // 4 // size))
    head, body = b"h" * 36, bytes(size - 36)
    cpu, handed_over = [], []
    for _ in range(rounds):
        times: list[float] = []
        start = time.process_time()
        await push(streams, (head, body), times)
        cpu.append((time.process_time() - start) / len(streams) * 1000)
        handed_over.append([times[len(times) * part // 100] * 1000 for part in (50, 99)])
    table.value(f"{size} bytes: CPU for each stream", min(cpu), CPU_BUDGETS[size])
    if size == SMALL:
        p50, p99 = min(handed_over)
        table.value("  p50", p50)
        table.value("  p99", p99, LATENCY_BUDGET)


def resident_kib() -> int:
    """Peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def run_server(arguments: argparse.Namespace) -> int:
    """Serve, wait for all clients, push; how many budgets are missed."""
    streams: list[StreamPort] = []
    complete = trio.Event()

    async def keep(stream: StreamPort) -> None:
        streams.append(stream)
        if len(streams) == arguments.streams:
            complete.set()
        await stream.receive()

    context = None
    if arguments.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments.tls)
        context.set_alpn_protocols(["h2"])
    server = Server({METHOD: keep}, Limits(keepalive_interval=3600), context, on_crash=print)
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
