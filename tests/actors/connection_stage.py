"""A connection alone: the test plays its client, the scheduler, the generator, the authority and the journal."""

from __future__ import annotations

from functools import partial

import trio
from trio.testing import wait_all_tasks_blocked

from actors import connection
from actors.client_requests import ClientRequests, ConnectionMailbox
from actors.mailbox import Mailbox
from actors.messages import Generate, PushTo, Welcome
from actors.metrics import Metrics
from actors.push_records import PushRecords
from actors.slot import Slot
from protocol.xds.requests import SotwRequest
from protocol.xds.resources import Part, ResourceSet, build_resource
from protocol.xds.session import AdsSession
from protocol.xds.wire_requests import decode_sotw_request, encode_sotw_request
from tests.actors.certificates import certificate_terms
from tests.actors.fake_stream import FakeStream, encode_node
from tests.protocol.xds.conversation import decode_sotw, name_in_text
from tests.push.fixtures import built, scope_of, sidecar, view_in, view_of
from trierarch.envoy.types import CLUSTER, LISTENER, TYPE_RULES
from trierarch.push.causes import Cause, Causes, ChangeEvent
from trierarch.push.request import PushRequest

NODE = encode_node("sidecar~10.1.0.1~web-1.shop~shop.svc.cluster.local")
EDIT = Cause(
    id=7, source="test", kind="VirtualService", namespace="shop", name="web", resource_version="",
    event=ChangeEvent.UPDATED, seen_at=1.0,
)  # fmt: skip
CHANGE = PushRequest(reasons={"config": 1}, causes=Causes(kept=(EDIT,)))


def resources(**contents):
    """A set of resources by name and content."""
    return ResourceSet(Part(build_resource(name, f"{name}={text}".encode()) for name, text in contents.items()))


class Stage:
    """A connection, its neighbours' mailboxes, and what the generator would answer: `world`, by type URL."""

    name_of = staticmethod(name_in_text)
    """How a resource's name is read in its body."""

    def __init__(self, authority=None, caller=None) -> None:
        self.scheduler = Mailbox("push_scheduler")
        self.generator = Mailbox("generator")
        self.journal = Mailbox("journal")
        self.stream = FakeStream()
        self.inbox = ConnectionMailbox(ClientRequests(self.stream, decode_sotw_request, Metrics()))
        self.outlets = connection.Outlets(
            scheduler=self.scheduler, generator=self.generator, journal=self.journal, metrics=Metrics(),
            certificates=certificate_terms(authority), wall=lambda: 100.0, cluster="Kubernetes",
        )  # fmt: skip
        session = AdsSession.sotw(TYPE_RULES, "1")
        self.slot = Slot(number=1, port=self.stream, delta=False, connected_at=50.0, session=session, caller=caller)
        self.world = {CLUSTER: resources(a="1"), LISTENER: resources(l="1")}
        self.questions = []
        self.status = None
        self.context = built(view_of(), built(view_of()))
        self.proxy = sidecar()
        self.place = {
            "context": self.context,
            "view": view_in(self.proxy, self.context),
            "scope": scope_of(self.proxy, self.context),
        }
        self.life = trio.CancelScope()

    async def start(self, nursery):
        """One life of the actor, with a generator."""
        self.life = trio.CancelScope()
        nursery.start_soon(self._generate)
        await nursery.start(self._live)

    async def _live(self, *, task_status):
        run = partial(connection.run, self.inbox, slot=self.slot, outlets=self.outlets)
        with self.life:
            self.status = await run(task_status=task_status)

    async def _generate(self):
        while True:
            question = await self.generator.receive()
            assert isinstance(question, Generate)
            self.questions.append(question.types)
            with question.reply as reply:
                reply.answer({url: self.world.get(url, ResourceSet()) for url in question.types})

    # --- what others say ---------------------------------------------------------------------------------------------
    async def request(self, url, *names, node=b"", **fields):
        """The client asks."""
        request = SotwRequest(type_url=url, names=names, node=node, **fields)
        await self.stream.requests.send(encode_sotw_request(request))
        await wait_all_tasks_blocked()

    async def welcome(self, request=PushRequest()):  # noqa: B008 - an immutable value
        """The scheduler lets the client in."""
        self.inbox.post(Welcome(**self.place, request=request))
        await wait_all_tasks_blocked()

    def push(self, types, resources, request=CHANGE):
        """The scheduler hands out a push."""
        now = trio.current_time()
        self.inbox.post(
            PushTo(
                **self.place, request=request, types=frozenset(types), resources=resources, queued_at=now,
                granted_at=now,
            )
        )  # fmt: skip

    # --- what it said ------------------------------------------------------------------------------------------------
    async def responses(self):
        """What the client was sent by now."""
        await wait_all_tasks_blocked()
        found = []
        while True:
            try:
                found.append(decode_sotw(self.stream.responses.receive_nowait(), self.name_of))
            except trio.WouldBlock:
                return found

    async def told(self, mailbox):
        """What a neighbour was told by now."""
        await wait_all_tasks_blocked()
        found = []
        while (message := mailbox.receive_nowait()) is not None:
            found.append(message)
        return found

    def push_records(self):
        """The records of this connection's pushes, as the factory finishes them."""
        return PushRecords(self.slot, self.journal, self.outlets.wall)

    async def records(self):
        """What the journal was told by now."""
        return [message.record for message in await self.told(self.journal)]
