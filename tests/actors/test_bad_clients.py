"""Clients that stall, say nothing, never acknowledge, ask without end or talk nonsense, in the whole tree.

Each is ended with the right status or left to itself, and nobody else is delayed.

What the network does to them is in tests/actors/grpc/test_abuse.py.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from math import inf

import pytest
import trio
from envoy.config.core.v3 import base_pb2
from google.protobuf import struct_pb2

from actors import ads_service, aside
from actors.ports import Peer
from protocol.errors import RemoteError
from protocol.xds.requests import DeltaRequest, SotwRequest
from protocol.xds.session import HEALTH
from protocol.xds.wire_requests import MOST_NAMES, encode_delta_request, encode_sotw_request
from tests.actors.fake_stream import FakeEnvoy, FakeStream, encode_node
from tests.actors.meshes import SHOP, routing
from tests.actors.system import start_mesh
from trierarch.envoy.node import MOST_VALUES
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE
from trierarch.push.context import PushContext
from trierarch.push.status import Outcome
from trierarch.push.token_bucket import TokenBucket

OK, INVALID, TOO_LATE, EXHAUSTED = 0, 3, 4, 8
NODE = encode_node("sidecar~10.1.0.2~web-2.shop~shop.svc.cluster.local")


class Client:
    """A raw stream, served; `status` is how it was ended, None while it lasts."""

    def __init__(self, mesh, *, delta=True) -> None:
        self.stream = FakeStream(ads_service.DELTA_METHOD if delta else ads_service.SOTW_METHOD)
        self.delta = delta
        self.status = None
        mesh.nursery.start_soon(self._serve, mesh.system)

    async def _serve(self, system) -> None:
        mail, metrics = system.shared.mail.connections, system.shared.metrics
        try:
            await ads_service.serve_stream(self.stream, connections=mail, metrics=metrics, delta=self.delta)
            self.status = OK
        except* RemoteError as errors:
            self.status = errors.exceptions[0].code
        finally:
            self.stream.reset()

    async def ask(self, type_url, *names, node=b"", **fields) -> None:
        """Send one request."""
        if self.delta:
            request = encode_delta_request(
                DeltaRequest(type_url=type_url, subscribe=names, node=node, **{"initial": {}, **fields})
            )
        else:
            request = encode_sotw_request(SotwRequest(type_url=type_url, names=names, node=node, **fields))
        await self.stream.requests.send(request)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """No threads: virtual time would not wait for them."""
    monkeypatch.setattr(aside, "LARGE", inf)
    monkeypatch.setattr(aside, "LONG", inf)


@pytest.fixture
async def mesh(nursery):
    """A mesh with one honest client for each dialect."""
    envoys = [FakeEnvoy("web-1.shop", "10.1.0.1", delta=delta) for delta in (True, False)]
    return await start_mesh(nursery, SHOP, envoys=envoys)


async def served(mesh, edit) -> float:
    """Seconds until every honest client has an edit of routes."""
    began, before = trio.current_time(), _routes(mesh)
    mesh.edit(edit)
    with trio.fail_after(60):
        while any(now == then for now, then in zip(_routes(mesh), before, strict=True)):
            await trio.sleep(0.01)
    return trio.current_time() - began


def _routes(mesh):
    return [dict(envoy.client.held[ROUTE]) for envoy in mesh.envoys]


def check_unharmed(mesh) -> None:
    """Nobody crashed, and the honest have everything."""
    assert mesh.restarts() == {}
    mesh.check()


# --- silence ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("delta", [True, False])
async def test_a_stream_that_never_asks_is_ended(autojump_clock, mesh, delta):
    """Who has not said who it is within 30 seconds loses the stream: DEADLINE_EXCEEDED."""
    client = Client(mesh, delta=delta)
    await trio.sleep(29)
    assert client.status is None
    await trio.sleep(2)
    assert client.status == TOO_LATE
    check_unharmed(mesh)


async def test_reports_of_health_are_no_introduction(autojump_clock, mesh):
    """They may come first (xds-server.md §4.3), but do not keep a stream alive that asks for nothing."""
    client = Client(mesh)
    for _ in range(5):
        await client.ask(HEALTH, node=NODE)
        await trio.sleep(5)
    assert client.status is None
    await trio.sleep(10)
    assert client.status == TOO_LATE


async def test_who_has_asked_once_may_be_silent(autojump_clock, mesh):
    """A stream may wait for hours for something to change."""
    client = Client(mesh)
    await client.ask(CLUSTER, node=NODE)
    await trio.sleep(10_000)
    assert client.status is None


# --- clients that do not play along ----------------------------------------------------------------------------------
async def test_a_client_that_never_acknowledges_delays_nobody(autojump_clock, mesh):
    """Its pushes are recorded as unanswered; the others have each edit as soon as without it."""
    alone = await served(mesh, routing(2))
    client = Client(mesh)
    for type_url in (CLUSTER, LISTENER):
        await client.ask(type_url, node=NODE)
    await mesh.settle()
    assert max([await served(mesh, routing(seconds)) for seconds in range(3, 9)]) <= alone + 0.02
    await mesh.settle()
    assert {record.outcome for record in mesh.records if record.proxy == "web-2.shop"} <= {
        Outcome.UNANSWERED,
        Outcome.SKIPPED,
        Outcome.UNCHANGED,
    }
    assert client.status is None
    check_unharmed(mesh)


@pytest.mark.slow
async def test_a_stalled_client_holds_one_push_and_delays_nobody(autojump_clock, mesh, nursery):
    """While it takes nothing, edits pile up nowhere: its mailbox holds one push, memory no row of snapshots. When it
    reads again it is told the newest state at once, not each one that it missed.
    """
    alone = await served(mesh, routing(2))
    stalled = await mesh.connect("web-2.shop", "10.1.0.2")
    await mesh.settle()
    others = _snapshots_alive()
    stalled.stream.stall()
    seen = stalled.stream.responses.statistics()
    mesh.envoys.remove(stalled)
    assert max([await served(mesh, routing(seconds)) for seconds in range(3, 43)]) <= alone + 0.02
    assert _most_waiting(mesh) <= 1
    assert _snapshots_alive() - others <= 5
    assert seen.tasks_waiting_receive == 1
    before = len(mesh.records_of(stalled))
    stalled.stream.resume()
    mesh.envoys.append(stalled)
    await mesh.settle()
    check_unharmed(mesh)
    sent = [record for record in mesh.records_of(stalled)[before:] if record.sent]
    assert 1 <= len(sent) <= 3


def _snapshots_alive() -> int:
    """Snapshots in memory; other tests of this process may hold some too."""
    gc.collect()
    return sum(isinstance(each, PushContext) for each in gc.get_objects())


def _most_waiting(mesh) -> int:
    """The fullest mailbox of a connection."""
    boxes = [each for each in gc.get_objects() if type(each).__name__ == "ConnectionMailbox"]
    return max(box.statistics().control for box in boxes)


async def test_newcomers_that_never_acknowledge_do_not_keep_others_out(autojump_clock, mesh):
    """A hundred clients take what they are sent and say nothing; the next one is served within seconds."""
    for number in range(100):
        client = Client(mesh)
        node = encode_node(f"sidecar~10.1.1.{number}~web-{number + 10}.shop~shop.svc.cluster.local")
        await client.ask(LISTENER, node=node)
    newcomer = await mesh.connect("web-2.shop", "10.1.0.2")
    await trio.sleep(12)
    assert newcomer.client.held[LISTENER]
    check_unharmed(mesh)


async def test_two_streams_of_one_proxy_are_both_served(autojump_clock, mesh):
    """A proxy that connects again before its old stream is gone has two: neither takes anything from the other."""
    one = await mesh.connect("web-2.shop", "10.1.0.2")
    other = await mesh.connect("web-2.shop", "10.1.0.2", delta=False)
    await mesh.settle()
    await served(mesh, routing(7))
    assert (one.streams, other.streams) == (1, 1)
    one.drop()
    await served(mesh, routing(8))
    check_unharmed(mesh)


# --- too many streams ------------------------------------------------------------------------------------------------
async def test_a_flood_of_streams_leaves_turns_for_other_hosts(autojump_clock):
    """One host opens fifty streams a second; each stream of another host still begins within two seconds."""
    bucket, refused, waits = TokenBucket(10.0), [], []

    async def serve(_port):
        pass

    async def begin(host, outcome):
        port, began = FakeStream(), trio.current_time()
        port.peer = Peer(address=f"{host}:1234")
        try:
            await ads_service.serve_in_turn(bucket, serve, port)
            outcome.append(trio.current_time() - began)
        except RemoteError as error:
            outcome.append(error.code)

    async with trio.open_nursery() as nursery:
        for tick in range(500):
            nursery.start_soon(begin, "10.9.9.9", refused)
            if tick % 50 == 25:
                nursery.start_soon(begin, "10.1.0.1", waits)
            await trio.sleep(0.02)
    assert refused.count(EXHAUSTED) > 300
    assert all(wait <= 2.0 for wait in waits)
    assert EXHAUSTED not in waits


# --- nonsense and monsters -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("delta", [True, False])
@pytest.mark.parametrize(
    "garbage",
    [b"\xff", b"\x0a\x05ab", b"\x1a\x02\xff\xfe", bytes(100), b"\x0b" * 5000, b"\x1a" + b"\xff" * 9 + b"\x01"],
)
async def test_garbage_is_the_clients_fault(autojump_clock, mesh, delta, garbage):
    """What is no discovery request ends its stream with INVALID_ARGUMENT, first or later."""
    client, later = Client(mesh, delta=delta), Client(mesh, delta=delta)
    await client.stream.requests.send(garbage)
    await later.ask(CLUSTER, node=NODE)
    await later.stream.requests.send(garbage)
    await trio.sleep(5)
    assert (client.status, later.status) == (INVALID, INVALID)
    check_unharmed(mesh)


def node_with(metadata) -> bytes:
    """A Node whose id is good and whose metadata is this Struct."""
    node = base_pb2.Node(id="sidecar~10.1.0.2~web-2.shop~shop.svc.cluster.local")
    node.metadata.CopyFrom(metadata)
    return node.SerializeToString()


def deep(levels) -> bytes:
    """A Node with a Struct in a Struct, and so on. Google's library does not write more than a hundred levels."""
    inner = b""
    for level in range(levels, 0, -1):
        name = b"PROXY_CONFIG" if level == 1 else b"a"
        entry = b"\x0a" + _delimited(name) + b"\x12" + _delimited(b"\x2a" + _delimited(inner))
        inner = b"\x0a" + _delimited(entry)
    return base_pb2.Node(id="sidecar~10.1.0.2~web-2.shop~shop.svc.cluster.local").SerializeToString() + (
        b"\x1a" + _delimited(inner)
    )


def _delimited(data: bytes) -> bytes:
    length, out = len(data), b""
    while length > 127:
        out, length = out + bytes([length & 127 | 128]), length >> 7
    return out + bytes([length]) + data


def wide(size, key="ANNOTATIONS") -> bytes:
    """A Node with a long text in its metadata."""
    metadata = struct_pb2.Struct()
    metadata[key] = "x" * size
    return node_with(metadata)


def many(values) -> bytes:
    """A Node with so many empty lists in its metadata: in memory each takes twenty times its bytes."""
    metadata = struct_pb2.Struct()
    metadata["PROXY_CONFIG"] = [[]] * (values - 1)
    return node_with(metadata)


@pytest.mark.parametrize(
    "node",
    [
        b"",
        b"\xff",
        b"\x0a\x03abc",
        deep(101),
        deep(300),
        deep(700),
        deep(5000),
        deep(50_000),
        wide(600_000),
        wide(40_000, "PROXY_CONFIG"),
        many(MOST_VALUES + 1),
    ],
    ids=[
        "none",
        "malformed",
        "bad id",
        "101",
        "300",
        "700",
        "5000",
        "50000",
        "600 KB",
        "40 KB kept",
        "too many values",
    ],
)
async def test_a_node_that_cannot_be_is_the_clients_fault(autojump_clock, mesh, node):
    """No node, no id, metadata that is huge or nested beyond all use: INVALID_ARGUMENT, and no recursion."""
    client = Client(mesh)
    await client.ask(CLUSTER, node=node)
    await trio.sleep(5)
    assert client.status == INVALID
    check_unharmed(mesh)


async def test_the_most_values_that_a_node_may_have(autojump_clock, mesh):
    """They are served."""
    client = Client(mesh)
    await client.ask(CLUSTER, node=many(MOST_VALUES))
    await trio.sleep(5)
    assert client.status is None


@pytest.mark.parametrize("metadata", [{"POD_PORTS": "[" * 50_000}, {"IDLE_TIMEOUT": "9999999999999999999h"}])
async def test_what_a_node_says_is_no_bug_of_ours(autojump_clock, mesh, metadata):
    """Metadata that nobody can work with is passed over or refused, not found out by a crash in the scheduler or in the
    generator, though that harms nobody else.
    """
    client = Client(mesh)
    await client.ask(LISTENER, node=encode_node("sidecar~10.1.0.77~web-9.shop~shop.svc.cluster.local", **metadata))
    await mesh.settle()
    (contained,) = mesh.system.shared.metrics.contained_errors.collect()
    assert not any(sample.value for sample in contained.samples if sample.name.endswith("_total"))
    assert client.status in (None, INVALID)


@pytest.mark.parametrize("node", [deep(90), wide(400_000)], ids=["90 levels", "400 KB"])
async def test_a_node_that_is_only_strange_is_served(autojump_clock, mesh, node):
    """Metadata that nobody reads is nobody's business."""
    client = Client(mesh)
    await client.ask(LISTENER, node=node)
    await trio.sleep(10)
    assert client.status is None
    assert client.stream.responses.statistics().current_buffer_used == 1


@pytest.mark.parametrize("delta", [True, False])
async def test_a_request_with_too_many_names_is_refused(autojump_clock, mesh, delta):
    """RESOURCE_EXHAUSTED; as many as allowed are served."""
    names = tuple(f"outbound|80||{number}.example.com" for number in range(MOST_NAMES))
    good, bad = Client(mesh, delta=delta), Client(mesh, delta=delta)
    await good.ask(ENDPOINT, *names, node=NODE)
    await bad.ask(ENDPOINT, *names, "one more", node=NODE)
    await trio.sleep(10)
    assert (good.status, bad.status) == (None, EXHAUSTED)
    check_unharmed(mesh)


async def test_a_subscription_that_grows_without_end_is_ended(autojump_clock, mesh):
    """Many small requests may not do what one large request may not."""
    client = Client(mesh)
    await client.ask(CLUSTER, node=NODE)
    with suppress(trio.BrokenResourceError):
        for batch in range(60):
            names = (f"outbound|80||{batch}-{number}.example.com" for number in range(1000))
            await client.ask(ENDPOINT, *names)
            await trio.sleep(1)
    assert client.status == EXHAUSTED
    check_unharmed(mesh)


async def test_types_that_nobody_serves_are_told_once_and_forgotten(autojump_clock, mesh, lines):
    """A thousand unknown types cost a line for each of the first twenty, and nothing is remembered of the others."""
    client = Client(mesh)
    await client.ask(CLUSTER, node=NODE)
    for number in range(1000):
        await client.ask(f"type.googleapis.com/example.Type{number}", "name")
    await mesh.settle()
    assert client.status is None
    assert sum(line["event"] == "type_not_served" for line in lines) == 20


async def test_a_stream_is_read_no_faster_than_its_names_allow(autojump_clock, mesh):
    """Each request of a stream with 10,000 names counts as so many: after twenty of them it is read ten times a second.
    Nobody else waits.
    """
    client = Client(mesh)
    names = tuple(f"outbound|80||{number}.example.com" for number in range(10_000))
    await client.ask(ENDPOINT, *names, node=NODE)
    began = trio.current_time()
    for number in range(150):
        await client.ask(ENDPOINT, unsubscribe=(names[number],))
    waiting = client.stream.requests.statistics().current_buffer_used
    assert waiting > 50
    assert await served(mesh, routing(9)) < 1
    while client.stream.requests.statistics().current_buffer_used:
        await trio.sleep(0.1)
    assert 10 < trio.current_time() - began < 15
    assert client.status is None
