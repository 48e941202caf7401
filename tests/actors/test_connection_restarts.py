"""A connection that is killed, or whose stream is cut off, before and after its welcome. Its neighbours are played."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import trio

from actors import ads_service, connection
from actors.client_requests import ClientRequests, ConnectionMailbox
from actors.mailbox import Mailbox
from actors.messages import ConnectionOpened, Generate, StreamEnded, TypesWatched, Welcome
from actors.metrics import Metrics
from actors.slot import Slot
from protocol.proto.envoy.config.core.v3 import Node
from protocol.xds.requests import DeltaRequest
from protocol.xds.resources import Part, ResourceSet, build_resource
from protocol.xds.session import AdsSession
from protocol.xds.wire_requests import decode_delta_request, encode_delta_request
from tests.actors.certificates import certificate_terms
from tests.actors.fake_stream import FakeStream
from trierarch.envoy.types import CLUSTER, TYPE_RULES
from trierarch.push.request import PushRequest

NODE = bytes(Node(id="sidecar~127.0.0.1~web-1.shop~shop.svc.cluster.local"))
ASK_FOR_CLUSTERS = encode_delta_request(DeltaRequest(type_url=CLUSTER, initial={}, node=NODE))
WELCOME = Welcome(context=SimpleNamespace(number=1), view=None, scope=None, request=PushRequest())


class Stage:
    """One stream's slot and mailboxes, which outlive the lives of its actor."""

    def __init__(self) -> None:
        self.scheduler, self.generator = Mailbox("push_scheduler"), Mailbox("generator")
        self.port = FakeStream()
        self.inbox = ConnectionMailbox(ClientRequests(self.port, decode_delta_request, Metrics()))
        session = AdsSession.delta(TYPE_RULES, "1")
        self.slot = Slot(number=1, port=self.port, delta=True, connected_at=0.0, session=session)
        outlets = connection.Outlets(
            scheduler=self.scheduler,
            generator=self.generator,
            journal=Mailbox("journal"),
            certificates=certificate_terms(),
            metrics=Metrics(),
            wall=lambda: 0.0,
            cluster="Kubernetes",
        )
        self.run = partial(connection.run, self.inbox, slot=self.slot, outlets=outlets)

    async def generate(self):
        """Answer one question with one cluster; returns it."""
        question = await self.generator.receive()
        assert isinstance(question, Generate)
        with question.reply as reply:
            reply.answer({url: ResourceSet(Part([build_resource("web", b"")])) for url in question.types})
        return question.types


def written(stage):
    """How many responses the client was sent."""
    return stage.port.responses.statistics().current_buffer_used


async def live(stage, *messages):
    """One life: it hears these messages and is killed when it has come to rest."""
    async with trio.open_nursery() as nursery:
        await nursery.start(stage.run)
        for message in messages:
            if isinstance(message, bytes):
                await stage.port.requests.send(message)
            else:
                stage.inbox.post(message)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_a_request_outlives_a_kill_before_the_welcome(autojump_clock):
    """A client asks once. What it asked before its connection was welcomed is answered by the next life."""
    stage = Stage()
    await live(stage, ASK_FOR_CLUSTERS)
    assert isinstance(await stage.scheduler.receive(), ConnectionOpened)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live, stage, WELCOME)
        assert await stage.generate() == (CLUSTER,)
    assert isinstance(await stage.scheduler.receive(), ConnectionOpened)
    assert await stage.scheduler.receive() == TypesWatched(connection="web-1.shop-1", types=frozenset({CLUSTER}))
    assert written(stage) == 1
    assert stage.slot.session.watches[CLUSTER].owed is None


async def test_an_unanswered_question_is_asked_again_after_a_kill(autojump_clock):
    """Killed while the generator has its question, the next life asks again."""
    stage = Stage()
    await live(stage, ASK_FOR_CLUSTERS, WELCOME)
    assert written(stage) == 0
    await stage.generator.receive()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live, stage, WELCOME)
        assert await stage.generate() == (CLUSTER,)
    assert written(stage) == 1


async def test_the_actor_of_a_cut_off_stream_is_told(autojump_clock):
    """GRPC cancels the task of a stream that its client resets: the actor hears of it all the same."""
    connections = Mailbox("connections")
    async with trio.open_nursery() as nursery:
        serve = partial(ads_service.serve_stream, connections=connections, metrics=Metrics(), delta=True)
        nursery.start_soon(serve, FakeStream())
        accepted = await connections.receive()
        nursery.cancel_scope.cancel()
    assert isinstance(await accepted.inbox.receive(), StreamEnded)
