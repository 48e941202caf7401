"""The factory of connections, with the ADS service before it: streams come, each is served by an actor, and they go."""

from __future__ import annotations

from functools import partial
from math import inf
from types import SimpleNamespace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import ads_service, connection, connections
from actors.mailbox import Mailbox, ask
from actors.messages import ConnectionClosed, ConnectionOpened, Describe, Placed, PushTo, RollCall
from actors.metrics import Metrics
from actors.static_supervisor import supervise
from actors.supervision import SupervisorHandle
from actors.tree import ChildSpec, SupervisorSpec
from protocol.errors import RemoteError
from protocol.xds.requests import SotwRequest
from protocol.xds.resources import Part, ResourceSet, build_resource
from protocol.xds.wire_requests import encode_sotw_request
from tests.actors.certificates import certificate_terms
from tests.actors.fake_stream import FakeStream, encode_node
from tests.push.fixtures import built, scope_of, sidecar, view_in, view_of
from trierarch.envoy.types import CLUSTER
from trierarch.push.open_pushes import PATIENCE, OpenPushes
from trierarch.push.request import PushRequest
from trierarch.push.status import Outcome
from trierarch.push.token_bucket import TokenBucket


class Stage:
    """The factory, supervised, and the mailboxes around it."""

    def __init__(self) -> None:
        self.inbox = Mailbox("connections", flow=100)
        self.scheduler = Mailbox("push_scheduler")
        self.generator = Mailbox("generator")
        self.journal = Mailbox("journal")
        self.metrics = Metrics()
        self.handle = SupervisorHandle()
        self.endings = {}
        outlets = connection.Outlets(
            scheduler=self.scheduler, generator=self.generator, journal=self.journal, metrics=self.metrics,
            certificates=certificate_terms(), wall=lambda: 100.0, cluster="Kubernetes",
        )  # fmt: skip
        start = partial(connections.run, self.inbox, outlets=outlets, handle=self.handle)
        self.tree = SupervisorSpec(name="root", children=(ChildSpec(name="connections", start=start),))

    async def open(self, nursery, name="web-1.shop"):
        """A stream whose client has asked for clusters; also the scope by which the server cancels its handler."""
        stream, scope = FakeStream(), trio.CancelScope()
        nursery.start_soon(self._serve, name, stream, scope)
        node = encode_node(f"sidecar~10.1.0.1~{name}~shop.svc.cluster.local")
        await stream.requests.send(encode_sotw_request(SotwRequest(type_url=CLUSTER, node=node)))
        await wait_all_tasks_blocked()
        return stream, scope

    async def place(self, *opened):
        """The scheduler places these clients, and they get the clusters that they have asked for."""
        for each in opened:
            each.mailbox.post(Placed(context=SimpleNamespace(number=1), view=None, scope=None))
            with (await self.generator.receive()).reply as reply:
                reply.answer({CLUSTER: ResourceSet(Part([build_resource("web", b"")]))})
        await wait_all_tasks_blocked()

    async def _serve(self, name, stream, scope):
        self.endings[name] = None
        try:
            with scope:
                await ads_service.serve_stream(stream, connections=self.inbox, metrics=self.metrics, delta=False)
            self.endings[name] = "cancelled" if scope.cancelled_caught else "ok"
        except* RemoteError as errors:
            self.endings[name] = errors.exceptions[0].code

    async def told(self):
        """What the scheduler was told by now."""
        await wait_all_tasks_blocked()
        found = []
        while (message := self.scheduler.receive_nowait()) is not None:
            found.append(message)
        return found

    def live(self):
        """The names of the connection actors that are there."""
        return [child.name for child in self.handle.statistics() if child.supervisor == "connections"]

    async def describe(self, proxy_id=""):
        """What the debug pages are told."""
        return await ask(self.inbox, lambda reply: Describe(proxy_id=proxy_id, reply=reply))


@pytest.fixture
async def stage(nursery):
    """The factory, up."""
    stage = Stage()
    await nursery.start(partial(supervise, stage.tree, handle=stage.handle))
    return stage


# --- coming and going ------------------------------------------------------------------------------------------------
async def test_each_stream_has_an_actor_of_its_own(stage, nursery):
    """And each actor announces its proxy, under a name that no other has."""
    await stage.open(nursery, "web-1.shop")
    await stage.open(nursery, "web-1.shop")
    opened = [message for message in await stage.told() if isinstance(message, ConnectionOpened)]
    assert [each.proxy.id for each in opened] == ["web-1.shop", "web-1.shop"]
    assert len({each.connection for each in opened} | set(stage.live())) == 4


async def test_a_client_that_ends_its_stream_is_gone(stage, nursery):
    """The actor ends, the scheduler is told, and the stream ends with OK."""
    stream, _ = await stage.open(nursery)
    await stage.told()
    stream.requests.close()
    (closed,) = await stage.told()
    assert isinstance(closed, ConnectionClosed)
    assert stage.live() == []
    assert stage.endings == {"web-1.shop": "ok"}


async def test_a_stream_that_is_cut_off_takes_its_actor_along(stage, nursery):
    """When a peer is gone the server cancels the stream's handler: nothing may stay behind that is pushed to."""
    _, scope = await stage.open(nursery)
    await stage.told()
    scope.cancel()
    (closed,) = await stage.told()
    assert isinstance(closed, ConnectionClosed)
    assert stage.live() == []


async def test_a_stream_that_is_cut_off_before_it_is_served_leaves_nothing(stage, nursery):
    """The handler is cancelled while the factory has yet to start the actor."""
    stage.handle.kill("connections")
    _, scope = await stage.open(nursery)
    scope.cancel()
    await wait_all_tasks_blocked()
    assert stage.live() == []


async def test_who_never_said_its_name_is_not_missed(stage, nursery):
    """The scheduler hears nothing of a stream whose client was not known yet."""
    stream = FakeStream()
    nursery.start_soon(stage._serve, "?", stream, trio.CancelScope())
    await wait_all_tasks_blocked()
    stream.requests.close()
    assert await stage.told() == []
    assert stage.endings == {"?": "ok"}


# --- failing ---------------------------------------------------------------------------------------------------------
async def crash(stage):
    """Make the only connection crash, by a message that makes no sense."""
    (slot,) = [message for message in await stage.told() if isinstance(message, ConnectionOpened)][-1:]
    slot.mailbox.post(object())
    await wait_all_tasks_blocked()


async def test_a_connection_that_crashes_once_goes_on(stage, nursery):
    """Its client notices nothing."""
    await stage.open(nursery)
    await crash(stage)
    assert stage.endings == {"web-1.shop": None}
    assert len(stage.live()) == 1


async def test_a_connection_that_crashes_twice_loses_its_stream_only(stage, nursery):
    """Within five seconds, that is. The stream ends with UNAVAILABLE, the metric counts it, and the others live on."""
    await stage.open(nursery, "other.shop")
    await stage.told()
    await stage.open(nursery)
    await crash(stage)
    await crash(stage)
    assert stage.endings == {"other.shop": None, "web-1.shop": 14}
    assert len(stage.live()) == 1
    assert stage.metrics.registry.get_sample_value("pilot_total_xds_internal_errors_total") == 1
    assert any(isinstance(message, ConnectionClosed) for message in await stage.told())


@pytest.mark.parametrize("deaths", [0, 1])
async def test_a_connection_that_is_killed_at_its_very_end_has_ended(
    stage, nursery, monkeypatch, autojump_clock, deaths
):
    """Too late to be cancelled it counts as killed all the same: its next life, or giving it up, says nothing again."""
    end = connections.Connections._end

    def end_and_kill(self, stream, slot, status):
        end(self, stream, slot, status)
        stage.handle.kill(f"connection-{slot.number}")

    await stage.open(nursery, "web-2.shop")
    stream, _ = await stage.open(nursery, "web-1.shop")
    for _ in range(deaths):
        await crash(stage)
        await trio.sleep(1)
    await stage.told()
    monkeypatch.setattr(connections.Connections, "_end", end_and_kill)
    stream.requests.close()
    await trio.sleep(1)
    assert [type(each) for each in await stage.told()] == [ConnectionClosed]
    assert stage.endings == {"web-1.shop": "ok", "web-2.shop": None}
    assert len(stage.live()) == 1


async def test_when_the_factory_dies_all_streams_end(stage, nursery):
    """With UNAVAILABLE; the scheduler is told of each, and of nobody after that."""
    await stage.open(nursery, "web-1.shop")
    await stage.open(nursery, "web-2.shop")
    await stage.place(*await stage.told())
    await stage.told()
    stage.inbox.post(RollCall())
    stage.handle.kill("connections")
    told = await stage.told()
    closed = [message.connection for message in told if isinstance(message, ConnectionClosed)]
    assert len(closed) == 2
    assert all(isinstance(message, ConnectionClosed) for message in told[-2:])
    assert stage.endings == {"web-1.shop": 14, "web-2.shop": 14}


async def test_a_new_factory_does_not_use_numbers_again(stage, nursery):
    """Two streams must not have the same id: nonces begin with it, and records are kept by it."""
    await stage.open(nursery)
    before = stage.live()
    stage.handle.kill("connections")
    await wait_all_tasks_blocked()
    await stage.open(nursery)
    assert len(set(before + stage.live())) == 2


async def test_a_stream_waits_for_the_next_factory(stage, nursery):
    """What was put into the mailbox while nobody was there is served by the successor."""
    stage.handle.kill("connections")
    await stage.open(nursery)
    assert len(stage.live()) == 1
    assert [type(message) for message in await stage.told()] == [ConnectionOpened]


# --- waiting for answers ---------------------------------------------------------------------------------------------
async def test_it_gives_up_on_answers_that_do_not_come(stage, nursery, autojump_clock):
    """It looks after all connections, those too whose actors are stuck in a write."""
    stream, _ = await stage.open(nursery)
    opened = (await stage.told())[0]
    await stage.place(opened)
    stream.stall()
    opened.mailbox.post(push(opened))
    await trio.sleep(PATIENCE + connections.INTERVAL)
    assert stage.journal.receive_nowait().record.outcome is Outcome.UNANSWERED
    assert stage.journal.receive_nowait() is None
    stream.resume()


async def test_connections_may_end_while_it_looks_after_all(stage, nursery, autojump_clock, monkeypatch):
    """For it gives others their turn meanwhile."""
    scopes = [(await stage.open(nursery, f"web-{number}.shop"))[1] for number in range(20)]
    monkeypatch.setattr(connections, "SLOTS_PER_STEP", 1)
    live = []

    def deadline(_pushes):
        live.append(len(stage.live()))
        scopes[-1].cancel()
        return inf

    monkeypatch.setattr(OpenPushes, "deadline", deadline)
    await trio.sleep(1.5 * connections.INTERVAL)
    assert (len(live), live[0], live[-1]) == (20, 20, 19)


# --- questions -------------------------------------------------------------------------------------------------------
async def test_everybody_announces_itself_at_a_roll_call(stage, nursery):
    """With what it watches."""
    await stage.open(nursery, "web-1.shop")
    await stage.open(nursery, "web-2.shop")
    await stage.place(*await stage.told())
    await stage.told()
    stage.inbox.post(RollCall())
    assert sorted((each.proxy.id, each.types) for each in await stage.told()) == [
        ("web-1.shop", frozenset({CLUSTER})), ("web-2.shop", frozenset({CLUSTER}))
    ]  # fmt: skip


async def test_connections_are_described_by_id(stage, nursery):
    """All of them, or those whose id contains a text; not those whose client is not known yet."""
    await stage.open(nursery, "web-1.shop")
    await stage.open(nursery, "web-2.shop")
    await stage.place(*await stage.told())
    nursery.start_soon(stage._serve, "?", FakeStream(), trio.CancelScope())
    assert [each.proxy.id for each in await stage.describe()] == ["web-1.shop", "web-2.shop"]
    (found,) = await stage.describe("web-2")
    assert (found.delta, found.address, set(found.watches)) == (False, "127.0.0.1:1", {CLUSTER})


async def test_a_stuck_connection_is_described_and_may_be_asked_about_often(stage, nursery):
    """A client that takes nothing blocks its own actor, not the pages, and questions about it do not pile up."""
    stream, _ = await stage.open(nursery)
    opened = (await stage.told())[0]
    stream.stall()
    opened.mailbox.post(push(opened))
    await wait_all_tasks_blocked()
    for _ in range(300):
        assert len(await stage.describe()) == 1
    assert opened.mailbox.statistics().control == 0
    stream.resume()


def push(opened):
    """A push of no clusters at all, which a state-of-the-world client is told of."""
    context = built(view_of())
    view, scope = view_in(sidecar(), context), scope_of(sidecar(), context)
    return PushTo(
        context=context, view=view, scope=scope, request=PushRequest(), types=frozenset({CLUSTER}),
        resources={CLUSTER: ResourceSet()}, queued_at=0.0, granted_at=0.0,
    )  # fmt: skip


# --- the ADS service -------------------------------------------------------------------------------------------------
async def test_a_request_that_cannot_be_decoded_ends_the_stream(stage, nursery):
    """With INVALID_ARGUMENT; the actor ends as well."""
    stream, _ = await stage.open(nursery)
    await stream.requests.send(b"\xff\xff\xff")
    await wait_all_tasks_blocked()
    assert stage.endings == {"web-1.shop": 3}
    assert stage.live() == []


async def test_the_largest_request_is_measured(stage, nursery):
    """The gauge is that of the largest so far."""
    await stage.open(nursery)
    largest = stage.metrics.registry.get_sample_value("pilot_xds_recv_max")
    assert largest > 50


async def test_requests_wait_for_the_actor(stage, nursery):
    """A client that asks faster than it is answered fills its own stream, not our memory."""
    stream, _ = await stage.open(nursery)
    opened = (await stage.told())[0]
    stream.stall()
    opened.mailbox.post(push(opened))
    await wait_all_tasks_blocked()
    for _ in range(50):
        await stream.requests.send(encode_sotw_request(SotwRequest(type_url=CLUSTER)))
    await wait_all_tasks_blocked()
    assert stream.requests.statistics().current_buffer_used == 50
    stream.resume()


async def test_streams_begin_in_turn(stage, nursery, autojump_clock):
    """At most `rate` in a second; who would have to wait for longer than a second is refused."""
    begins, ends = [], []

    async def serve(port):
        begins.append(trio.current_time())

    async def begin(bucket):
        try:
            await ads_service.serve_in_turn(bucket, serve, FakeStream())
        except RemoteError as error:
            ends.append(error.code)

    bucket = TokenBucket(10.0)
    async with trio.open_nursery() as streams:
        for _ in range(15):
            streams.start_soon(begin, bucket)
    assert [round(each - begins[0], 3) for each in begins] == [round(number / 10, 3) for number in range(11)]
    assert ends == [8] * 4
