"""Nothing that happens here leaves cycles behind, which only a collector could free: counting references does.

The collector looks at each object while it is young, and never again (`actors/collector.py`). So what lives long, such
as a connection or a snapshot, must not die in a cycle.
"""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from math import inf
from queue import SimpleQueue
from random import Random
from types import CoroutineType, FrameType, FunctionType

import grpc
import pytest
import trio

import supervisor
from actors import ads_service, aside
from actors.identity_messages import IssueIdentity
from actors.mailbox import ask
from protocol.xds.requests import DeltaRequest, Nack
from protocol.xds.wire_requests import MOST_NAMES, encode_delta_request
from tests.actors.edits import edit_endpoints, edit_labels, edit_routing, edit_services, edit_sidecars
from tests.actors.fake_stream import FakeEnvoy
from tests.actors.meshes import SHOP, routing
from tests.actors.system import SETTINGS, SOURCE, WITH_IDENTITIES, World, run_seeded, start_mesh
from tests.actors.test_bad_clients import NODE, Client
from trierarch.envoy.types import CLUSTER, ENDPOINT

EDITS = (edit_routing, edit_endpoints, edit_services, edit_labels, edit_sidecars)
ACTORS = (SOURCE, "intake", "debouncer", "snapshot_builder", "generator", "push_scheduler", "journal", "authority")
IDENTITY = "spiffe://cluster.local/ns/shop/sa/web"
SERVER = "istiod.istio-system.svc"
PATIENCE = 20

BUGS = (
    "actors.snapshot_builder.build_push_context",
    "actors.generator.generate_set",
    "actors.push_scheduler.Scheduler.handle",
    "actors.connection.Connection.handle",
)
"""Functions that fail for a while."""


# --- looking for garbage ---------------------------------------------------------------------------------------------
@contextmanager
def no_garbage(logged=()):
    """Whatever becomes unreachable in this block is freed at once. `logged`: lines, which may hold errors."""
    gc.disable()
    gc.freeze()
    try:
        yield
        assert _left_behind(logged) == {}
    finally:
        gc.unfreeze()
        gc.enable()


def _left_behind(logged):
    """What only a collector frees, counted by what it is."""
    del logged[:]
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = Counter(_describe(each) for each in gc.garbage)
    gc.garbage.clear()
    return found


def _describe(item):
    if isinstance(item, FrameType):
        return f"frame of {item.f_code.co_qualname}"
    kind = type(item)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return f"{name} {item.__qualname__}" if isinstance(item, (FunctionType, CoroutineType)) else name


def test_garbage_is_found():
    """A cycle is."""
    with pytest.raises(AssertionError, match=r"builtins\.list"), no_garbage([]):
        _tie_a_knot()


def _tie_a_knot():
    knot = []
    knot.append(knot)


# --- the whole tree, without sockets ---------------------------------------------------------------------------------
@pytest.fixture
def leaves_no_garbage(lines, monkeypatch):
    """Runs something in a mesh with a client for each dialect, which have certificates of their own."""
    monkeypatch.setattr(aside, "LARGE", inf)
    monkeypatch.setattr(aside, "LONG", inf)

    async def play(deed):
        async with trio.open_nursery() as nursery:
            envoys = [FakeEnvoy("web-1.shop", "10.1.0.1", delta=delta, account="web") for delta in (True, False)]
            mesh = await start_mesh(nursery, SHOP, envoys=envoys, settings=WITH_IDENTITIES, patient=True)
            with no_garbage(lines):
                await deed(mesh)
                await mesh.settle()
                mesh.records.clear()
            nursery.cancel_scope.cancel()

    return partial(run_seeded, 0, play)


def test_clients_come_and_go(leaves_no_garbage):
    """Fifty connect, lose their streams, connect again and are kept up to date."""

    async def deed(mesh):
        for number in range(5, 55):
            await mesh.connect(f"web-{number}.shop", f"10.1.0.{number}", delta=number % 2 == 0, account="web")
        await mesh.settle()
        for envoy in mesh.envoys:
            envoy.drop()
        await mesh.settle()
        mesh.edit(routing(7))

    leaves_no_garbage(deed)


def test_changes_of_all_kinds(leaves_no_garbage):
    """Fifty edits and deletions, one snapshot each."""

    async def deed(mesh):
        dice = Random(1)
        for edit in islice(cycle(EDITS), 50):
            edit(mesh, dice)
            await mesh.settle()

    leaves_no_garbage(deed)


@pytest.mark.parametrize("actor", [*ACTORS, "connections", "connection"])
def test_deaths(leaves_no_garbage, actor):
    """Each actor is killed in the midst of an edit, three times."""

    async def deed(mesh):
        for seconds in (3, 4, 5):
            mesh.edit(routing(seconds))
            await trio.sleep(0.05)
            mesh.kill(mesh.number_of(mesh.envoys[0]) if actor == "connection" else actor)
            await mesh.settle()

    leaves_no_garbage(deed)


@pytest.mark.parametrize("place", BUGS)
def test_bugs(leaves_no_garbage, monkeypatch, place):
    """What fails in the builder, the generator or a connection is freed when its error has been logged."""

    def fail(*_arguments, **_more):
        raise ZeroDivisionError("a bug")

    async def deed(mesh):
        with monkeypatch.context() as patched:
            patched.setattr(place, fail)
            mesh.edit("Service shop/more: {ports: [{name: http, port: 80}], selector: {app: web}}")
            await mesh.settle()
        mesh.edit(routing(9))

    leaves_no_garbage(deed)


def test_bad_clients(leaves_no_garbage):
    """Rejections, nonsense, too many names, silence and streams that end in the middle of something."""

    async def deed(mesh):
        for misbehave in (_reject, _talk_nonsense, _ask_for_too_much, _say_nothing, _stall):
            client = Client(mesh)
            await misbehave(client)
            await mesh.settle()
            client.stream.hang_up()
            await mesh.settle()

    leaves_no_garbage(deed)


async def _reject(client):
    await client.ask(CLUSTER, node=NODE)
    await trio.sleep(1)
    for nonce in ("1", "2", "3"):
        await client.ask(CLUSTER, nonce=nonce, nack=Nack(code=13, message="no " * 10_000))


async def _talk_nonsense(client):
    await client.stream.requests.send(b"\xff" * 1000)


async def _ask_for_too_much(client):
    await client.ask(CLUSTER, node=NODE)
    await client.ask(ENDPOINT, *(f"name-{number}" for number in range(MOST_NAMES + 1)))


async def _say_nothing(_client):
    await trio.sleep(60)


async def _stall(client):
    await client.ask(CLUSTER, node=NODE)
    client.stream.stall()


# --- real ports ------------------------------------------------------------------------------------------------------
@pytest.mark.slow
async def test_connections_to_both_ports(nursery, lines):
    """Streams over plain text and TLS, and strangers, with a change now and then."""
    settings = replace(SETTINGS, grpc_addr="127.0.0.1:0", secure_grpc_addr="127.0.0.1:0", root_ca_dir="/nowhere")
    world = World(SHOP)
    system = supervisor.build_system(settings, (supervisor.SourceSpec(name=SOURCE, start=world.run),))
    await nursery.start(supervisor.run, system)
    with trio.fail_after(PATIENCE):
        authority = system.shared.mail.authority
        own = await ask(authority, lambda reply: IssueIdentity(identities=(IDENTITY,), reply=reply))
        while not (system.secure.bound and system.xds.bound):
            await trio.sleep(0.01)
    credentials = grpc.ssl_channel_credentials(own.roots_pem, own.key_pem, own.chain_pem)
    await _use(system, credentials)  # what is made once stays
    with no_garbage(lines):
        for seconds in (2, 3, 4):
            await _use(system, credentials)
            world.edit(routing(seconds))
            await trio.sleep(0.5)


async def _use(system, credentials):
    for endpoint, known in ((system.xds, None), (system.secure, credentials)):
        await trio.to_thread.run_sync(_stream, endpoint.bound, known)
        await _say_garbage(endpoint.bound)
    with trio.fail_after(PATIENCE):
        while system.shared.metrics.registry.get_sample_value("pilot_xds", {"version": "unknown"}):
            await trio.sleep(0.01)


def _stream(address, credentials):
    """Take one response and go."""
    requests = SimpleQueue()
    requests.put(encode_delta_request(DeltaRequest(type_url=CLUSTER, initial={}, node=NODE)))
    options = [("grpc.ssl_target_name_override", SERVER)]
    with (
        grpc.secure_channel(address, credentials, options) if credentials else grpc.insecure_channel(address)
    ) as channel:
        call = channel.stream_stream(ads_service.DELTA_METHOD)(iter(requests.get, None), timeout=PATIENCE)
        next(call)
        call.cancel()
        requests.put(None)


async def _say_garbage(address):
    host, _, port = address.rpartition(":")
    stream = await trio.open_tcp_stream(host, int(port))
    async with stream:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(b"GET / HTTP/1.1\r\n\r\n" * 20)
            while await stream.receive_some():
                pass
