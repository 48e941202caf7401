"""Mutated HTTP/2: whatever bytes come, a connection goes on or is ended with a reason; nothing is raised."""

from __future__ import annotations

import struct
from random import Random

import pytest
import trio
import trio.testing
from hpack import Encoder

from actors.grpc.budget import Allowance
from actors.grpc.calls import Dispatcher
from actors.grpc.faults import PeerFault
from actors.grpc.http2 import TrioProtocol
from actors.grpc.limits import Limits, Rate
from actors.grpc.meter import FrameMeter
from actors.grpc.newcomers import Newcomers
from actors.grpc.serving import Serving
from actors.grpc.statistics import Totals
from actors.ports import Peer
from tests.fuzz.mutation import mutate

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
METHOD = "/test.Service/Talk"
MESSAGE = b"\0\0\0\0\x05hello"
GENEROUS = Limits(
    cheap_frames=Rate(10**6, 1), wasted_calls=Rate(10**6, 1), max_concurrent_streams=20, max_message_size=1000
)
DATA, HEADERS, PRIORITY, RST, SETTINGS, _, PING, _, UPDATE, CONTINUATION = range(10)
END_HEADERS, PADDED = 0x4, 0x8


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    """One frame."""
    return struct.pack(">HBBBI", len(body) >> 8, len(body) & 0xFF, kind, flags, stream) + body


def headers(path: str = METHOD) -> bytes:
    """A call's headers, which need no table."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "a", "te": "trailers"}
    return Encoder().encode([*fields.items(), ("content-type", "application/grpc")])


class FakeTransport:
    """Takes everything and forgets it."""

    batch_size = 2**20

    def __init__(self) -> None:
        self.closing = False

    def start(self, flow) -> None:
        """Nobody will be told to stop."""

    def write(self, data) -> None:
        """Gone."""

    def write_pieces(self, pieces) -> None:
        """Gone."""

    def is_closing(self) -> bool:
        """Whether `close` was called."""
        return self.closing

    def close(self) -> None:
        """No more."""
        self.closing = True


class Talker:
    """A client that mostly keeps to the rules."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._last = -1
        self._open: list[int] = []

    def conversation(self) -> bytes:
        """Its frames, from the first SETTINGS on."""
        window = self._random.choice((0, 1, 65_535, 2**20))
        said = [frame(SETTINGS, 0, 0, struct.pack(">HI", 4, window)), self._call()]
        said += [self._random.choice(self.SAYINGS)(self) for _ in range(self._random.randint(1, 25))]
        return b"".join(said)

    def _call(self) -> bytes:
        self._last += 2
        block = headers(self._random.choice((METHOD, METHOD, METHOD, "/no/such")))
        if self._random.random() < 0.2:
            return frame(HEADERS, 0, self._last, block[:9]) + frame(CONTINUATION, END_HEADERS, self._last, block[9:])
        ended = self._random.random() < 0.2
        if not ended:
            self._open.append(self._last)
        return frame(HEADERS, END_HEADERS | ended, self._last, block)

    def _stream(self) -> int:
        return self._random.choice(self._open or [self._last])

    def _message(self) -> bytes:
        if not self._open:
            return self._call()
        stream = self._stream()
        ended = self._random.random() < 0.2
        if ended:
            self._open.remove(stream)
        return frame(DATA, int(ended), stream, MESSAGE * self._random.randint(0, 3))

    def _padded(self) -> bytes:
        if not self._open:
            return self._call()
        return frame(DATA, PADDED, self._stream(), bytes([self._random.randrange(10)]) + MESSAGE)

    def _reset(self) -> bytes:
        return frame(RST, 0, self._stream(), struct.pack(">I", self._random.randrange(20)))

    def _update(self) -> bytes:
        stream, size = self._random.choice((0, self._stream())), self._random.choice((1, 1000, 2**20))
        return frame(UPDATE, 0, stream, struct.pack(">I", size))

    def _ping(self) -> bytes:
        return frame(PING, self._random.choice((0, 1)), 0, bytes(8))

    def _settings(self) -> bytes:
        name, value = self._random.choice(((1, 0), (1, 2**32 - 1), (3, 5), (4, 100), (5, 20_000), (6, 0), (0xFFFF, 1)))
        return frame(SETTINGS, 0, 0, struct.pack(">HI", name, value))

    def _odd(self) -> bytes:
        kind = self._random.choice((PRIORITY, 0xA, 0xFE))
        return frame(kind, 0, self._stream(), struct.pack(">IB", 0, 3))

    def _wrong(self) -> bytes:
        kind, flags = self._random.randrange(12), self._random.randrange(256)
        return frame(
            kind, flags, self._random.randrange(8), self._random.randbytes(self._random.choice((0, 4, 5, 8, 20)))
        )

    SAYINGS = (_call, _call, *[_message] * 5, _padded, _reset, _update, _update, _ping, _settings, _odd) * 4 + (_wrong,)


async def echo(stream) -> None:
    """Send back each message."""
    while (message := await stream.receive()) is not None:
        await stream.send([message])


async def play(random: Random, data: bytes) -> tuple[str, list[Exception]]:
    """Serve one connection that sends these bytes. How it ended, and what crashed."""
    crashes: list[Exception] = []
    serving = Serving(
        handlers={METHOD: echo}, limits=GENEROUS, tls=None, totals=Totals(), large_messages=Allowance(10**6),
        newcomers=Newcomers(1), on_crash=crashes.append, on_fault=lambda address, fault: None,
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        meter = FrameMeter(GENEROUS, 0.0)
        dispatcher = Dispatcher(nursery, serving, Peer(address="x"), meter.calls)
        protocol = TrioProtocol(dispatcher, FakeTransport(), GENEROUS, serving.large_messages)
        protocol.begin()
        ended = await feed(random, protocol, meter, data)
        await trio.testing.wait_all_tasks_blocked()
        protocol.connection_lost(None)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert serving.totals.calls_open == 0
    assert serving.large_messages.left == 10**6
    return ended, crashes


async def feed(random: Random, protocol: TrioProtocol, meter: FrameMeter, data: bytes) -> str:
    """Feed a connection in pieces of any size, until it has had enough."""
    at = 0
    try:
        while at < len(data) and not protocol.connection.is_closing():
            size = random.choice((1, 9, 100, 10_000))
            for step in meter.steps(data[at : at + size], 0.0):
                protocol.data_received(step)
                await trio.lowlevel.checkpoint()
            at += size
    except PeerFault as fault:
        protocol.connection.dismiss(fault)
        return "dismissed"
    return "open"


async def play_many(seed: int, cases: int) -> dict[str, int]:
    """Play so many mutated conversations."""
    random, outcomes = Random(seed), {"open": 0, "dismissed": 0}
    for case in range(cases):
        data = Talker(random).conversation()
        if random.random() < 0.4:
            data = mutate(random, data, (data, headers(), MESSAGE))
        ended, crashes = await play(random, PREFACE + data)
        assert not crashes, (seed, case, crashes)
        outcomes[ended] += 1
    return outcomes


async def test_mutated_connections() -> None:
    """A few hundred: nothing is raised, some are dismissed and some go on."""
    assert min((await play_many(1, 200)).values()) > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_many_mutated_connections(seed) -> None:
    """Fifteen hundred for each seed."""
    assert sum((await play_many(100 + seed, 1500)).values()) == 1500
