"""The generator alone, with a real snapshot."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import generator
from actors.mailbox import Mailbox, ask
from actors.messages import Generate, GenerateEach, GenerationFailed
from actors.metrics import Metrics
from actors.static_supervisor import supervise
from actors.supervision import SupervisorHandle
from actors.tree import ChildSpec, SupervisorSpec
from tests.actors.meshes import SHOP, routing
from tests.push.fixtures import built, edited, scope_of, sidecar, snapshot, view_in
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE, SECRET

WEB_1, WEB_2 = sidecar("web-1", "shop", "10.1.0.1"), sidecar("web-2", "shop", "10.1.0.2")


class Stage:
    """A supervised generator."""

    def __init__(self) -> None:
        self.inbox = Mailbox("generator", flow=100)
        self.metrics = Metrics()
        self.handle = SupervisorHandle()
        start = partial(generator.run, self.inbox, memo_size=10_000, metrics=self.metrics)
        self.tree = SupervisorSpec(name="root", children=(ChildSpec(name="generator", start=start),))

    async def ask(self, proxy, context, *types):
        """The resources of a proxy."""
        view, scope = view_in(proxy, context), scope_of(proxy, context)
        return await ask(
            self.inbox, lambda reply: Generate(view=view, scope=scope, context=context, types=types, reply=reply)
        )

    def lookups(self, result):
        """How many units of generation were found in the memo ("hit") or built ("miss")."""
        value = self.metrics.registry.get_sample_value("trierarch_memo_lookups_total", {"result": result})
        return int(value or 0)


@pytest.fixture
async def stage(nursery):
    """A generator that is up."""
    stage = Stage()
    await nursery.start(partial(supervise, stage.tree, handle=stage.handle))
    return stage


async def test_an_answer_has_a_set_for_each_type(stage):
    """Of a type of which nothing is generated it is empty."""
    answer = await stage.ask(WEB_1, snapshot(SHOP), CLUSTER, LISTENER, SECRET)
    assert set(answer) == {CLUSTER, LISTENER, SECRET}
    assert len(answer[CLUSTER]) > 1
    assert len(answer[SECRET]) == 0


async def test_equal_questions_get_the_same_sets(stage):
    """From two proxies with equal views too; and the second one builds nothing."""
    context = snapshot(SHOP)
    first = await stage.ask(WEB_1, context, CLUSTER, ENDPOINT, LISTENER, ROUTE)
    built_before = stage.lookups("miss")
    second = await stage.ask(WEB_2, context, CLUSTER, ENDPOINT, LISTENER, ROUTE)
    assert all(second[url] is resources for url, resources in first.items())
    assert stage.lookups("miss") == built_before > 0


async def test_what_did_not_change_is_the_same_in_the_next_snapshot(stage):
    """A changed VirtualService leaves clusters and endpoints what they were."""
    old = snapshot(SHOP)
    first = await stage.ask(WEB_1, old, CLUSTER, ENDPOINT, ROUTE)
    new = built(edited(old.view, routing(5)), old)
    second = await stage.ask(WEB_1, new, CLUSTER, ENDPOINT, ROUTE)
    assert second[CLUSTER] is first[CLUSTER]
    assert second[ENDPOINT] is first[ENDPOINT]
    assert second[ROUTE] is not first[ROUTE]


async def test_an_abandoned_question_is_asked_again(stage):
    """The generator is killed in the middle of an answer; its successor, with an empty memo, gives it."""
    context, answers = snapshot(SHOP), []

    async def wait_for_answer():
        answers.append(await stage.ask(WEB_1, context, CLUSTER, LISTENER, ROUTE))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_answer)
        while not stage.inbox.statistics().received:
            await trio.sleep(0)
        await trio.sleep(0)  # it has begun, and comes to a checkpoint after each unit
        assert stage.handle.kill("generator")
    assert set(answers[0]) == {CLUSTER, LISTENER, ROUTE}
    assert stage.inbox.statistics().received == 2


async def test_a_queued_question_waits_for_the_successor(stage):
    """Whoever is killed while a question waits behind another: each is answered once."""
    context, answers = snapshot(SHOP), []

    async def wait_for_answer(proxy):
        answers.append(await stage.ask(proxy, context, CLUSTER))

    async with trio.open_nursery() as nursery:
        for proxy in (WEB_1, WEB_2, WEB_1):
            nursery.start_soon(wait_for_answer, proxy)
        await trio.sleep(0)
        stage.handle.kill("generator")
    assert len(answers) == 3
    assert len({id(answer[CLUSTER]) for answer in answers}) <= 2


async def test_others_have_their_turn_while_it_builds(stage):
    """No unit of work is followed by the next without a checkpoint: the event loop is never held for long."""
    services = "\n".join(
        f"Service shop/s{number}: {{ports: [{{name: http, port: {1000 + number}}}], selector: {{app: x}}}}"
        for number in range(30)
    )
    turns, done = 0, False

    async def wait_for_answer():
        nonlocal done
        await stage.ask(WEB_1, snapshot(services), CLUSTER)
        done = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_answer)
        while not done:
            await trio.sleep(0)
            turns += 1
    assert turns > 30
    await wait_all_tasks_blocked()


async def test_several_views_are_answered_at_once(stage):
    """Each with the types wanted for it; what their outbound key decides is the same object for all."""
    context = snapshot(SHOP)
    view, scope = view_in(WEB_1, context), scope_of(WEB_1, context)
    neighbour = replace(view, inbound=replace(view.inbound, address="10.1.0.9"))
    wanted = {view: (CLUSTER, ROUTE), neighbour: (CLUSTER, LISTENER, ROUTE)}
    answers = await ask(
        stage.inbox, lambda reply: GenerateEach(wanted=wanted, scope=scope, context=context, reply=reply)
    )
    assert {each: tuple(sets) for each, sets in answers.items()} == wanted
    assert answers[view] == await stage.ask(WEB_1, context, CLUSTER, ROUTE)
    assert answers[neighbour][ROUTE] is answers[view][ROUTE]


async def test_a_view_that_cannot_be_generated_is_no_trouble_for_others(stage, monkeypatch):
    """It alone is answered with the reason."""
    context = snapshot(SHOP)
    view, scope = view_in(WEB_1, context), scope_of(WEB_1, context)
    cursed = replace(view, inbound=replace(view.inbound, address="10.1.0.9"))
    generate = generator.generate_set

    def fail(each, *arguments):
        if each == cursed:
            raise ZeroDivisionError("a bug")
        return (yield from generate(each, *arguments))

    monkeypatch.setattr(generator, "generate_set", fail)
    wanted = dict.fromkeys((cursed, view), (CLUSTER,))
    answers = await ask(
        stage.inbox, lambda reply: GenerateEach(wanted=wanted, scope=scope, context=context, reply=reply)
    )
    assert answers[cursed] == GenerationFailed(reason="ZeroDivisionError: a bug")
    assert len(answers[view][CLUSTER]) > 1
