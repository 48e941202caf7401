"""The push scheduler alone: snapshots are real, its neighbours are played by the test."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, pairwise

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import push_scheduler
from actors.mailbox import Mailbox
from actors.messages import (
    ConnectionClosed,
    ConnectionOpened,
    FirstConfigurationAcked,
    GenerationFailed,
    Placed,
    PushTo,
    PushWritten,
    ResendSnapshot,
    RollCall,
    SnapshotBuilt,
    TypesWatched,
    Welcome,
)
from actors.metrics import Metrics
from actors.push_scheduler import LONGEST_UNPLACED
from protocol.xds.resources import Part, ResourceSet, build_resource
from tests.actors.meshes import SHOP, routing
from tests.push.fixtures import built, edited, objects, sidecar, view_of
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE
from trierarch.push.causes import Cause, Causes, ChangeEvent
from trierarch.push.history import History
from trierarch.push.request import PushRequest
from trierarch.push.status import Outcome

ALL = frozenset({CLUSTER, ENDPOINT, LISTENER, ROUTE})
WEB_1, WEB_2 = sidecar("web-1", "shop", "10.1.0.1"), sidecar("web-2", "shop", "10.1.0.2")
VAULT = sidecar("vault-1", "bank", "10.1.0.3")
SMALL, LARGE = 10, 100_000
"""Sizes of resources, in bytes."""


@dataclass
class Client:
    """A connection as the scheduler sees it."""

    name: str
    proxy: object
    mailbox: Mailbox
    delta: bool = True


class Stage:
    """The scheduler and its neighbours' mailboxes. `size`: how large the resources are that the generator answers, once
    `answers` is set.
    """

    def __init__(self, throttle=10, admitted=10) -> None:
        self.inbox = Mailbox("push_scheduler", flow=1)
        self.builder = Mailbox("snapshot_builder")
        self.connections = Mailbox("connections")
        self.generator = Mailbox("generator", flow=100)
        self.journal = Mailbox("journal")
        self.metrics = Metrics()
        self.opened = False
        self.answers = trio.Event()
        self.answers.set()
        self.size = SMALL
        self.questions = []
        self.context = built(view_of())
        self.history = History()
        self.ids = count(1)
        outlets = push_scheduler.Outlets(
            builder=self.builder, connections=self.connections, generator=self.generator, journal=self.journal,
            metrics=self.metrics, wall=lambda: 100.0, opened=self._open,
        )  # fmt: skip
        self.run = partial(push_scheduler.run, self.inbox, outlets=outlets, throttle=throttle, admitted=admitted)
        self.life = trio.CancelScope()

    def _open(self):
        self.opened = True

    async def start(self, nursery):
        """One life of the actor."""
        self.life = trio.CancelScope()
        await nursery.start(self._live)
        await wait_all_tasks_blocked()

    async def _live(self, *, task_status):
        with self.life:
            await self.run(task_status=task_status)

    async def generate(self):
        """Play the generator: each set has one resource that names the snapshot."""
        while True:
            question = await self.generator.receive()
            self.questions += question.wanted.items()
            await self.answers.wait()
            with question.reply as reply:
                reply.answer({view: self._sets(types, question.context) for view, types in question.wanted.items()})

    def _sets(self, types, context):
        return {url: self._resources(url, context) for url in types}

    def _resources(self, url, context):
        body = f"{url} {context.number}".encode().ljust(self.size)
        return ResourceSet(Part([build_resource("only", body)]))

    # --- what others say ---------------------------------------------------------------------------------------------
    async def snapshot(self, text, deletes=(), name="edit"):
        """The builder has built another snapshot."""
        gone = [each for item in deletes for each in objects(item)]
        before, self.context = self.context, built(edited(self.context.view, text, deletes=gone), self.context)
        request = PushRequest(
            keys=self.context.changed, forced=before.number == 1, reasons={"config": 1},
            causes=Causes(kept=(self.cause(name),)),
        )  # fmt: skip
        self.history = self.history.added(self.context.number, request)
        await self.inbox.send(SnapshotBuilt(context=self.context, request=request, history=self.history))
        await wait_all_tasks_blocked()

    def cause(self, name):
        """A cause of that name."""
        return Cause(
            id=next(self.ids), source="test", kind="VirtualService", namespace="shop", name=name, resource_version="",
            event=ChangeEvent.UPDATED, seen_at=1.0,
        )  # fmt: skip

    async def connect(self, proxy, *, types=frozenset(), snapshot=0, delta=True):
        """A connection announces itself."""
        client = Client(f"{proxy.id}-1", proxy, Mailbox(proxy.id), delta)
        await self.announce(client, types=types, snapshot=snapshot)
        return client

    async def announce(self, client, *, types=frozenset(), snapshot=0):
        """A connection announces itself, or does so again."""
        await self.say(
            ConnectionOpened(
                connection=client.name, proxy=client.proxy, mailbox=client.mailbox, delta=client.delta, types=types,
                snapshot=snapshot,
            )
        )  # fmt: skip

    async def watch(self, client, types=ALL):
        """A client watches these types from now on; it has acknowledged its first configuration."""
        await self.say(TypesWatched(connection=client.name, types=types))
        await self.say(FirstConfigurationAcked(connection=client.name))

    async def written(self, client):
        """A connection has written its push."""
        await self.say(PushWritten(connection=client.name))

    async def say(self, message):
        """Something that comes by the control lane."""
        self.inbox.post(message)
        await wait_all_tasks_blocked()

    # --- what it said ------------------------------------------------------------------------------------------------
    def served(self, proxy, types=ALL):
        """A client that is served and watches everything."""
        return self._serve(proxy, types)

    async def _serve(self, proxy, types):
        client = await self.connect(proxy)
        await self.watch(client, types)
        told(client.mailbox)
        return client

    def records(self):
        """What the journal was told."""
        return [message.record for message in told(self.journal)]


def told(mailbox):
    """Everything that is in a mailbox."""
    found = []
    while (message := mailbox.receive_nowait()) is not None:
        found.append(message)
    return found


def causes(message):
    """The names of the causes in a message."""
    return [cause.name for cause in message.request.causes.kept]


async def staged(nursery, **limits):
    """A scheduler that has its first snapshot."""
    stage = Stage(**limits)
    nursery.start_soon(stage.generate)
    await stage.start(nursery)
    await stage.snapshot(SHOP, name="start")
    return stage


@pytest.fixture
async def stage(nursery):
    """A scheduler that has its first snapshot."""
    return await staged(nursery)


# --- the beginning ---------------------------------------------------------------------------------------------------
async def test_it_asks_for_the_snapshot_and_calls_the_roll(nursery):
    """That is how it comes by everything that its predecessor knew."""
    stage = Stage()
    await stage.start(nursery)
    assert told(stage.builder) == [ResendSnapshot()]
    assert told(stage.connections) == [RollCall()]
    assert not stage.opened


async def test_clients_wait_for_the_first_snapshot(nursery):
    """None is welcomed to an empty mesh; with the snapshot the port may be opened."""
    stage = Stage()
    await stage.start(nursery)
    client = await stage.connect(WEB_1)
    assert told(client.mailbox) == []
    await stage.snapshot(SHOP)
    (welcome,) = told(client.mailbox)
    assert isinstance(welcome, Welcome)
    assert welcome.context is stage.context
    assert stage.opened


async def test_a_newcomer_has_missed_nothing(stage):
    """What it gets has no cause but its own request."""
    client = await stage.connect(WEB_1)
    (welcome,) = told(client.mailbox)
    assert welcome.request == PushRequest()
    assert welcome.view.outbound.scope.namespace == "shop"


async def test_newcomers_are_admitted_a_few_at_a_time(nursery, autojump_clock):
    """The next one when a first configuration is acknowledged, or when its client has gone, or after five seconds."""
    stage = await staged(nursery, admitted=1)
    first, second, third, fourth = [await stage.connect(sidecar(f"web-{number}")) for number in range(4)]
    assert [len(told(each.mailbox)) for each in (first, second, third, fourth)] == [1, 0, 0, 0]
    await stage.say(FirstConfigurationAcked(connection=first.name))
    assert [len(told(each.mailbox)) for each in (second, third, fourth)] == [1, 0, 0]
    await stage.say(ConnectionClosed(connection=second.name))
    assert [len(told(each.mailbox)) for each in (third, fourth)] == [1, 0]
    await trio.sleep(5.1)
    assert len(told(fourth.mailbox)) == 1


async def test_who_is_served_already_does_not_wait(nursery):
    """A connection that comes back after a restart costs no more than a push."""
    stage = await staged(nursery, admitted=1)
    await stage.connect(WEB_1)
    client = await stage.connect(WEB_2, types=ALL, snapshot=stage.context.number)
    assert len(told(client.mailbox)) == 1


# --- whom a snapshot concerns ----------------------------------------------------------------------------------------
async def test_a_change_is_built_once_for_a_view_and_pushed_to_its_members(stage):
    """Two proxies with equal views get the very same sets."""
    first = await stage.served(WEB_1)
    second = await stage.served(WEB_2)
    stage.questions.clear()
    await stage.snapshot(routing(2))
    (push,), (other,) = told(first.mailbox), told(second.mailbox)
    assert isinstance(push, PushTo)
    assert causes(push) == ["edit"]
    assert push.resources
    assert all(other.resources[url] is push.resources[url] for url in push.resources)
    assert len(stage.questions) == 1


async def test_a_change_out_of_reach_is_recorded_and_not_pushed(stage):
    """The record has the cause and the reason; the other view is pushed to."""
    web, vault = await stage.served(WEB_1), await stage.served(VAULT)
    await stage.snapshot(routing(2))
    assert len(told(web.mailbox)) == 1
    assert told(vault.mailbox) == []
    (record,) = stage.records()
    assert (record.proxy, record.outcome, record.snapshot) == ("vault-1.bank", Outcome.SKIPPED, stage.context.number)
    assert [cause.name for cause in record.causes.kept] == ["edit"]
    assert record.skipped == {"all": "out of reach of Sidecar bank/default: VirtualService shop/web"}


async def test_only_types_that_somebody_watches_are_built(stage):
    """The rest is asked for by connections, if somebody comes to watch it."""
    client = await stage.served(WEB_1, types=frozenset({CLUSTER}))
    stage.questions.clear()
    await stage.snapshot("Service shop/new: {ports: [{name: http, port: 80}], selector: {app: new}}")
    (push,) = told(client.mailbox)
    assert set(push.resources) == {CLUSTER}
    assert [types for _, types in stage.questions] == [(CLUSTER,)]
    await stage.written(client)
    await stage.watch(client, frozenset({CLUSTER, LISTENER}))
    await stage.snapshot("Service shop/new: {ports: [{name: http, port: 81}], selector: {app: new}}")
    (push,) = told(client.mailbox)
    assert set(push.resources) == {CLUSTER, LISTENER}


async def test_a_proxy_that_moves_to_another_view_gets_everything(stage):
    """A Pod's labels decide what its proxy serves: it is pushed to, and its former companions are not."""
    client = await stage.served(WEB_2)
    before = {view for view, _ in stage.questions}
    pod = "Pod shop/web-2: {metadata: {labels: {app: other}}, status: {phase: Running, podIP: 10.1.0.2}}"
    await stage.snapshot(pod, name="relabelled")
    (push,) = told(client.mailbox)
    assert push.view not in before
    assert set(push.resources) == ALL
    assert "relabelled" in causes(push)


async def test_a_proxy_that_a_sidecar_comes_to_apply_to_is_pushed_to(stage):
    """Its view is another one, with another scope."""
    client = await stage.served(WEB_1)
    await stage.snapshot('Sidecar shop/narrow: {egress: [{hosts: ["~/*"]}]}', name="narrowed")
    (push,) = told(client.mailbox)
    assert push.view.outbound.scope.sidecar.name == "narrow"
    assert push.scope.key == push.view.outbound.scope
    assert causes(push) == ["narrowed"]


async def test_a_proxy_that_moves_while_it_waits_keeps_its_causes(stage):
    """It waited for one change in its former view when another change moved it: its push has the causes of both."""
    await stage.served(sidecar("any", "one"))
    client = await stage.served(WEB_1)
    stage.answers = trio.Event()
    await stage.snapshot(routing(2), name="first")
    await stage.snapshot('Sidecar shop/narrow: {egress: [{hosts: ["./*"]}]}', name="narrowed")
    stage.answers.set()
    await wait_all_tasks_blocked()
    (push,) = told(client.mailbox)
    assert causes(push) == ["first", "narrowed"]


async def test_a_view_that_returns_is_not_out_of_date(stage):
    """A proxy leaves a view, the mesh changes, the proxy comes back: what was built for it then is not sent."""
    narrow = 'Sidecar shop/narrow: {egress: [{hosts: ["~/*"]}]}'
    client = await stage.served(WEB_1)
    await stage.snapshot(routing(2))
    await stage.snapshot(narrow)
    await stage.snapshot(routing(3))
    await stage.written(client)
    told(client.mailbox)
    await stage.snapshot("", deletes=[narrow])
    await stage.written(client)
    for push in told(client.mailbox):
        bodies = [each.body.strip().decode() for resources in push.resources.values() for each in resources]
        assert all(body.endswith(f" {stage.context.number}") for body in bodies), bodies


# --- handing out -----------------------------------------------------------------------------------------------------
async def test_one_push_at_a_time(stage):
    """What comes while a push is written is one push after it, with the causes of both and the newest sets."""
    client = await stage.served(WEB_1)
    await stage.snapshot(routing(2), name="first")
    await stage.snapshot(routing(3), name="second")
    await stage.snapshot(routing(4), name="third")
    (push,) = told(client.mailbox)
    assert causes(push) == ["first"]
    await stage.written(client)
    (push,) = told(client.mailbox)
    assert causes(push) == ["second", "third"]
    assert push.context is stage.context


async def test_large_pushes_are_limited_and_small_ones_are_not(nursery, autojump_clock):
    """A large push holds a credit until it is written; the next one waits for that. Small pushes need none."""
    stage = await staged(nursery, throttle=1)
    clients = [await stage.served(WEB_1), await stage.served(WEB_2)]
    stage.size = LARGE
    await stage.snapshot(routing(2))
    assert sorted(len(told(each.mailbox)) for each in clients) == [0, 1]
    await stage.written(clients[0])
    await stage.written(clients[1])
    assert sorted(len(told(each.mailbox)) for each in clients) == [0, 1]


async def test_clients_that_stall_keep_their_credits_from_nobody(nursery, autojump_clock):
    """Three times as many as there are credits, and first in line: those behind have their pushes in a moment."""
    stage = await staged(nursery, throttle=2)
    clients = [await stage.served(sidecar(f"any-{number}", "one")) for number in range(10)]
    stage.size = LARGE
    await stage.snapshot(routing(2))
    waiting = clients[6:]
    with trio.move_on_after(0.5):
        while waiting:
            await trio.sleep(0.01)
            for reader in [each for each in waiting if told(each.mailbox)]:
                waiting.remove(reader)
                await stage.written(reader)
    assert waiting == []


async def test_a_push_that_waited_brings_the_newest(nursery, autojump_clock):
    """A snapshot overtakes a push that waits for a credit, and the credit comes before its sets are built anew: it
    waits for them in its place, and is one push with all causes and no set of the older snapshot.
    """
    stage = await staged(nursery, throttle=2)
    first, second, last = [await stage.served(sidecar("any", namespace)) for namespace in ("one", "two", "three")]
    stage.size = LARGE
    await stage.snapshot(routing(2), name="first")
    assert [len(told(each.mailbox)) for each in (first, last)] == [1, 0]
    stage.answers = trio.Event()
    await stage.snapshot(routing(3), name="second")
    await stage.written(first)
    stage.answers.set()
    await wait_all_tasks_blocked()
    await stage.written(second)
    (push,) = told(last.mailbox)
    assert (causes(push), push.context) == (["first", "second"], stage.context)
    (body,) = {each.body.split()[-1] for resources in push.resources.values() for each in resources}
    assert body.decode() == str(stage.context.number)


# --- those who come back ---------------------------------------------------------------------------------------------
async def test_who_comes_back_is_told_what_it_missed(stage):
    """A restarted connection had snapshot 3; the causes of those after it are in its welcome."""
    client = await stage.served(WEB_1)
    had = stage.context.number
    await stage.snapshot(routing(2), name="second")
    await stage.snapshot(routing(3), name="third")
    told(client.mailbox)
    await stage.announce(client, types=ALL, snapshot=had)
    (welcome,) = told(client.mailbox)
    assert causes(welcome) == ["second", "third"]


async def test_what_was_in_flight_is_forgotten_when_a_connection_comes_back(stage):
    """Its push died with it; the welcome takes its place, and the next change is pushed at once."""
    client = await stage.served(WEB_1)
    await stage.snapshot(routing(2))
    await stage.announce(client, types=ALL, snapshot=stage.context.number - 1)
    told(client.mailbox)
    await stage.snapshot(routing(3), name="next")
    (push,) = told(client.mailbox)
    assert causes(push) == ["next"]


async def test_a_restarted_scheduler_serves_whoever_answers_the_roll_call(stage, nursery):
    """With the snapshot that the builder sends again, and with what each has missed."""
    client = await stage.served(WEB_1)
    had = stage.context.number
    stage.life.cancel()
    await stage.snapshot(routing(2), name="meanwhile")
    await stage.start(nursery)
    await stage.announce(client, types=ALL, snapshot=had)
    (welcome,) = told(client.mailbox)
    assert causes(welcome) == ["meanwhile"]
    assert welcome.context is stage.context


async def test_a_snapshot_that_comes_twice_counts_once(stage):
    """A restarted scheduler asks for it, though it may be in its mailbox already."""
    client = await stage.served(WEB_1)
    request = stage.history.entries[-1][1]
    await stage.inbox.send(SnapshotBuilt(context=stage.context, request=request, history=stage.history))
    await wait_all_tasks_blocked()
    assert told(client.mailbox) == []
    assert stage.records() == []


async def test_clients_are_counted_once(stage, nursery):
    """The gauge of connected clients does not double when the scheduler is restarted or a connection comes back."""
    client = await stage.served(WEB_1)
    await stage.announce(client, types=ALL)
    stage.life.cancel()
    await stage.start(nursery)
    await stage.announce(client, types=ALL)
    connected = partial(stage.metrics.registry.get_sample_value, "pilot_xds", {"version": ""})
    assert connected() == 1
    await stage.say(ConnectionClosed(connection=client.name))
    assert connected() is None


async def test_versions_that_nobody_has_any_more_are_not_shown(stage):
    """A client says what it likes, anew each time: the metric has no more than those who are here."""
    for number in range(20):
        client = await stage.served(replace(WEB_1, istio_version=f"1.{number}"))
        (metric,) = stage.metrics.connected.collect()
        assert [(sample.labels, sample.value) for sample in metric.samples] == [({"version": f"1.{number}"}, 1)]
        await stage.say(ConnectionClosed(connection=client.name))


# --- those whom nothing concerns -------------------------------------------------------------------------------------
async def test_old_snapshots_are_not_kept_for_ever(stage):
    """A proxy that no change concerns is told to answer from a newer snapshot now and then."""
    vault = await stage.served(VAULT)
    for seconds in range(1, LONGEST_UNPLACED + 2):
        await stage.snapshot(routing(seconds + 1))
    (placed,) = told(vault.mailbox)
    assert isinstance(placed, Placed)
    assert stage.context.number - placed.context.number <= 1


async def test_a_stuck_connection_is_not_told_more_and_more(stage):
    """Who does not read its mailbox would have it overflow some day: that would be an error of ours."""
    vault = await stage.served(VAULT)
    for seconds in range(1, 4 * LONGEST_UNPLACED):
        await stage.snapshot(routing(seconds + 1))
    assert len(told(vault.mailbox)) == 1


async def test_a_client_that_has_gone_is_forgotten(stage):
    """Nothing is pushed to it or built for it, nor recorded; what was built for it is not kept."""
    client = await stage.served(WEB_1)
    await stage.snapshot(routing(2))
    (push,) = told(client.mailbox)
    sets = [weakref.ref(resources) for resources in push.resources.values()]
    del push
    await stage.say(ConnectionClosed(connection=client.name))
    stage.questions.clear()
    await stage.snapshot(routing(3))
    assert told(client.mailbox) == []
    assert stage.questions == []
    assert stage.records() == []
    gc.collect()
    assert [each() for each in sets] == [None] * len(sets)


async def test_others_have_their_turn_while_many_pushes_are_handed_out(nursery, monkeypatch):
    """A change that concerns everybody is not handed out to all of them in one step."""
    monkeypatch.setattr(push_scheduler, "GRANTS_PER_STEP", 5)
    stage = await staged(nursery, admitted=100)
    clients = [await stage.served(sidecar(f"web-{number}")) for number in range(20)]
    seen = [0]

    async def count_at_each_turn():
        while seen[-1] < len(clients):
            await trio.lowlevel.checkpoint()
            seen.append(sum(client.mailbox.statistics().control for client in clients))

    nursery.start_soon(count_at_each_turn)
    await stage.snapshot(routing(2))
    longest = max(after - before for before, after in pairwise(seen))
    assert longest <= 2 * push_scheduler.GRANTS_PER_STEP  # between two turns there may be two of the scheduler's


async def test_a_push_that_waits_is_not_handed_out_while_its_sets_cannot_be_built(nursery, monkeypatch):
    """The connection would ask for them itself, and end its stream for the answer. It comes along when they can be."""
    stage = await staged(nursery, throttle=1)
    stage.size = LARGE
    first, second = [await stage.served(sidecar(f"web-{number}")) for number in range(2)]
    await stage.snapshot(routing(2), name="2")
    assert [len(told(client.mailbox)) for client in (first, second)] == [1, 0]
    with monkeypatch.context() as cursed:
        cursed.setattr(stage, "_sets", lambda *_: GenerationFailed(reason="a bug"))
        await stage.snapshot(routing(3), name="3")
    await stage.written(first)
    assert told(second.mailbox) == []
    await stage.snapshot(routing(4), name="4")
    await stage.written(first)
    (push,) = told(second.mailbox)
    assert causes(push) == ["2", "3", "4"]
    assert push.resources[ROUTE].get("only").body.split()[-1] == b"%d" % stage.context.number
