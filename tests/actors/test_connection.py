"""A connection alone: the test plays its client, the scheduler, the generator and the journal."""

from __future__ import annotations

from math import inf

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import aside
from actors.messages import (
    Announce,
    ConnectionOpened,
    FirstConfigurationAcked,
    Placed,
    PushWritten,
    StreamStatus,
    TypesWatched,
)
from protocol.statuses import INVALID_ARGUMENT
from protocol.xds.bounds import MOST_CHARACTERS
from protocol.xds.requests import Nack
from protocol.xds.session import HEALTH
from tests.actors.connection_stage import CHANGE, EDIT, NODE, Stage, resources
from tests.actors.fake_stream import encode_node
from tests.push.fixtures import built, view_of
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER
from trierarch.push.status import Outcome


@pytest.fixture
async def stage(nursery):
    """A connection that is up."""
    stage = Stage()
    await stage.start(nursery)
    return stage


async def served(stage):
    """Let the client get clusters and listeners and acknowledge both; nothing of that is left in any mailbox."""
    await stage.request(CLUSTER, node=NODE)
    await stage.request(LISTENER)
    await stage.welcome()
    for response in await stage.responses():
        await stage.request(response.type_url, nonce=response.nonce, version=response.version)
    await stage.told(stage.scheduler)
    await stage.told(stage.journal)
    stage.questions.clear()


# --- the beginning of a stream ---------------------------------------------------------------------------------------
async def test_the_first_request_must_say_who_it_is(stage):
    """Without a node the stream ends with INVALID_ARGUMENT, and nobody hears of it."""
    await stage.request(CLUSTER)
    assert stage.status == StreamStatus(code=3, message="missing node information")
    assert await stage.told(stage.scheduler) == []


async def test_a_node_that_makes_no_sense_ends_the_stream(stage):
    """The status says what is wrong with it."""
    await stage.request(CLUSTER, node=encode_node("nonsense"))
    assert stage.status.code == 3
    assert "nonsense" in stage.status.message


async def test_a_health_report_does_not_introduce_a_client(stage):
    """The agent may send one before the proxy has said who it is, and later; it is never answered."""
    await stage.request(HEALTH)
    assert await stage.told(stage.scheduler) == []
    await stage.request(CLUSTER, node=NODE)
    await stage.request(HEALTH)
    await stage.welcome()
    opened, watched = await stage.told(stage.scheduler)
    assert isinstance(opened, ConnectionOpened)
    assert watched.types == {CLUSTER}


async def test_a_client_without_identity_is_told_nothing_of_the_mesh_itself(stage):
    """Debug types and kinds of configuration end its stream."""
    await stage.request("istio.io/debug/syncz", node=NODE)
    assert stage.status.code == 16
    assert "istio.io/debug/syncz" in stage.status.message


async def test_it_announces_itself_once_the_client_is_known(stage):
    """The scheduler learns of the proxy, and then of the types that it watches."""
    await stage.request(CLUSTER, node=NODE)
    await stage.welcome()
    opened, watched = await stage.told(stage.scheduler)
    assert isinstance(opened, ConnectionOpened)
    assert (opened.connection, opened.proxy.id, opened.mailbox) == ("web-1.shop-1", "web-1.shop", stage.inbox)
    assert watched == TypesWatched(connection="web-1.shop-1", types=frozenset({CLUSTER}))


async def test_requests_before_the_welcome_are_answered_after_it(stage):
    """Nothing is sent before; then each is answered by itself, in its client's order and not in that of a push."""
    stage.world[ENDPOINT] = resources(a="10.1.0.1", b="10.1.0.2")
    await stage.request(LISTENER, node=NODE)
    await stage.request(ENDPOINT, "a")
    await stage.request(CLUSTER)
    await stage.request(ENDPOINT, "a", "b")
    assert await stage.responses() == []
    await stage.welcome()
    assert [str(response) for response in await stage.responses()] == ["LDS l", "EDS a", "CDS a", "EDS a b"]


async def test_a_request_before_the_welcome_outlives_the_actor(stage, nursery):
    """Killed while its client waits, it answers in its next life: the client would not ask again."""
    await stage.request(CLUSTER, node=NODE)
    stage.life.cancel()
    await stage.start(nursery)
    await stage.welcome()
    assert [str(response) for response in await stage.responses()] == ["CDS a"]


async def test_many_requests_before_the_welcome_cost_nothing(stage):
    """A client that goes on asking while it waits for its turn is answered once."""
    await stage.request(CLUSTER, node=NODE)
    for _ in range(200):
        await stage.request(CLUSTER)
    assert stage.slot.waiting == ()
    await stage.welcome()
    assert [str(response) for response in await stage.responses()] == ["CDS a"]


# --- answers and pushes ----------------------------------------------------------------------------------------------
async def test_a_new_subscription_is_answered_from_the_generator(stage):
    """Only the type that was asked for is generated."""
    await served(stage)
    stage.world[ENDPOINT] = resources(a="10.1.0.1")
    await stage.request(ENDPOINT, "a")
    assert [str(response) for response in await stage.responses()] == ["EDS a"]
    assert stage.questions == [(ENDPOINT,)]


async def test_large_requests_before_the_welcome_are_not_kept(stage, monkeypatch):
    """Nor what they say beside names: a client could have ten times as much remembered as one that is served."""
    monkeypatch.setattr(aside, "LARGE", inf)  # no thread, which the test would have to wait for
    await stage.request(LISTENER, node=NODE)
    await stage.request(CLUSTER, node=NODE)
    assert [each.node for each in stage.slot.waiting] == [b"", b""]
    await stage.request(ENDPOINT, "a" * (MOST_CHARACTERS // 2))
    assert len(stage.slot.waiting) == 3
    await stage.request(ENDPOINT, "b" * (MOST_CHARACTERS // 2 + 1))
    assert len(stage.slot.waiting) == 0


async def test_a_push_brings_what_differs(stage):
    """Sets that came with the push are not asked for; a type that does not differ is not sent."""
    await served(stage)
    stage.push([CLUSTER, LISTENER], {CLUSTER: resources(a="2"), LISTENER: stage.world[LISTENER]})
    assert [str(response) for response in await stage.responses()] == ["CDS a"]
    assert stage.questions == []
    assert await stage.told(stage.scheduler) == [PushWritten(connection="web-1.shop-1")]


async def test_what_came_with_a_push_answers_the_requests_that_follow_it(stage):
    """A new cluster is followed by the question for its endpoints; they came along. In another snapshot they may be
    others.
    """
    await served(stage)
    await stage.request(ENDPOINT, "a")
    (first,) = await stage.responses()
    stage.questions.clear()
    stage.push([CLUSTER, ENDPOINT], {CLUSTER: resources(a="1", b="1"), ENDPOINT: resources(b="10.1.0.2")})
    assert [str(response) for response in await stage.responses()] == ["CDS a b"]
    await stage.request(ENDPOINT, "a", "b", nonce=first.nonce)
    assert [str(response) for response in await stage.responses()] == ["EDS b"]
    assert stage.questions == []
    stage.inbox.post(Placed(**stage.place))
    await stage.request(ENDPOINT, "c")
    assert stage.questions == [(ENDPOINT,)]


async def test_a_type_that_is_watched_by_now_is_asked_for(stage):
    """The scheduler did not know of it when it had the sets built."""
    await served(stage)
    stage.world[CLUSTER] = resources(a="2")
    stage.push([CLUSTER, LISTENER], {LISTENER: resources(l="2")})
    assert [str(response) for response in await stage.responses()] == ["CDS a", "LDS l"]
    assert stage.questions == [(CLUSTER,)]


async def test_requests_that_come_during_a_push_are_answered_after_it(stage, nursery):
    """While its client takes nothing it writes nothing else, and it takes no request off the stream."""
    await served(stage)
    stage.world[ENDPOINT] = resources(a="10.1.0.1")
    stage.stream.stall()
    stage.push([CLUSTER], {CLUSTER: resources(a="2")})
    await wait_all_tasks_blocked()
    await stage.request(ENDPOINT, "a")
    assert stage.inbox.requests.pending()
    assert await stage.told(stage.scheduler) == []
    stage.stream.resume()
    assert [str(response) for response in await stage.responses()] == ["CDS a", "EDS a"]
    written, watched = await stage.told(stage.scheduler)
    assert isinstance(written, PushWritten)
    assert isinstance(watched, TypesWatched)


async def test_placed_anew_it_answers_from_there_and_sends_nothing(stage):
    """A snapshot that holds nothing new for it replaces the one that it would keep in memory."""
    await served(stage)
    newer = built(view_of(), stage.context)
    stage.inbox.post(Placed(**(stage.place | {"context": newer})))
    assert await stage.responses() == []
    assert stage.slot.snapshot == newer.number
    assert await stage.records() == []


async def test_the_first_listeners_make_room_for_the_next_client(stage):
    """Once, when the client has acknowledged listeners or routes."""
    await stage.request(CLUSTER, node=NODE)
    await stage.request(LISTENER)
    await stage.welcome()
    clusters, listeners = await stage.responses()
    await stage.request(CLUSTER, nonce=clusters.nonce)
    assert not [each for each in await stage.told(stage.scheduler) if isinstance(each, FirstConfigurationAcked)]
    await stage.request(LISTENER, nonce=listeners.nonce)
    assert await stage.told(stage.scheduler) == [FirstConfigurationAcked(connection="web-1.shop-1")]
    stage.push([LISTENER], {LISTENER: resources(l="2")})
    (listeners,) = await stage.responses()
    await stage.request(LISTENER, nonce=listeners.nonce)
    assert await stage.told(stage.scheduler) == [PushWritten(connection="web-1.shop-1")]


# --- records ---------------------------------------------------------------------------------------------------------
async def test_a_push_is_recorded_when_it_is_acknowledged(stage, lines, autojump_clock):
    """The record says why, what was sent and what not, and how it ended; the log says the same."""
    await served(stage)
    stage.push([CLUSTER, LISTENER], {CLUSTER: resources(a="2", b="1"), LISTENER: stage.world[LISTENER]})
    (response,) = await stage.responses()
    assert await stage.records() == []
    await trio.sleep(2)
    await stage.request(CLUSTER, nonce=response.nonce)
    (record,) = await stage.records()
    assert (record.proxy, record.connection, record.outcome) == ("web-1.shop", "web-1.shop-1", Outcome.ACKED)
    assert record.causes.kept == (EDIT,)
    assert record.reasons == {"config": 1}
    (sent,) = record.sent
    assert (sent.short, sent.sent, sent.removed, sent.nonce, sent.error) == ("CDS", 2, 0, response.nonce, "")
    assert record.skipped == {"LDS": "nothing differs"}
    assert record.answered_at - record.written_at == 2
    assert record.finished_wall == 100.0
    (line,) = [line for line in lines if line["event"] == "push_finished" and line["causes"]]
    assert (line["proxy"], line["outcome"], line["causes"][0]["name"]) == ("web-1.shop", "acked", "web")


async def test_a_rejected_push_says_what_the_client_said(stage, lines):
    """The outcome is NACKED, with the client's words; the metric counts it."""
    await served(stage)
    stage.push([CLUSTER], {CLUSTER: resources(a="2")})
    (response,) = await stage.responses()
    await stage.request(CLUSTER, nonce=response.nonce, nack=Nack(code=13, message="no such thing"))
    (record,) = await stage.records()
    assert record.outcome is Outcome.NACKED
    assert record.sent[0].error == "no such thing"
    assert [line["reason"] for line in lines if line["event"] == "resources_rejected"] == ["no such thing"]
    rejects = stage.outlets.metrics.registry.get_sample_value("pilot_total_xds_rejects_total", {"type": "cds"})
    assert rejects == 1


async def test_who_asks_for_nothing_more_has_answered(stage):
    """A client that takes back its last name of a type does it in its answer to a push: the push was acknowledged."""
    await served(stage)
    stage.world[ENDPOINT] = resources(a="1")
    await stage.request(ENDPOINT, "a")
    (response,) = await stage.responses()
    await stage.request(ENDPOINT, nonce=response.nonce)
    assert ENDPOINT not in stage.slot.session.watched
    assert stage.slot.open.deadline() == inf


async def test_a_push_that_nobody_answers_is_recorded_after_thirty_seconds(stage):
    """The outcome is UNANSWERED; the stream goes on."""
    await served(stage)
    stage.push([CLUSTER], {CLUSTER: resources(a="2")})
    await wait_all_tasks_blocked()
    written = trio.current_time()
    stage.push_records().give_up(written + 29)
    assert await stage.records() == []
    stage.push_records().give_up(written + 31)
    (record,) = await stage.records()
    assert record.outcome is Outcome.UNANSWERED
    assert stage.status is None


async def test_a_push_that_changes_nothing_is_recorded(stage):
    """A change that concerned the client but not its bytes is no secret."""
    await served(stage)
    stage.push([CLUSTER], {CLUSTER: stage.world[CLUSTER]})
    (record,) = await stage.records()
    assert (record.outcome, record.sent, record.causes.kept) == (Outcome.UNCHANGED, (), (EDIT,))


async def test_a_push_is_recorded_though_the_stream_breaks(stage):
    """The client hangs up while it is written to: the outcome is CLOSED, and the stream ends without a complaint."""
    await served(stage)
    stage.stream.stall()
    stage.push([CLUSTER], {CLUSTER: resources(a="2")})
    await wait_all_tasks_blocked()
    stage.stream.hang_up()
    (record,) = await stage.records()
    assert (record.outcome, record.causes.kept) == (Outcome.CLOSED, (EDIT,))
    assert stage.status == StreamStatus()


# --- the end of a stream, and of a life ------------------------------------------------------------------------------
async def test_the_client_may_end_the_stream(stage):
    """The status is OK."""
    await served(stage)
    stage.stream.requests.close()
    await wait_all_tasks_blocked()
    assert stage.status == StreamStatus()


async def test_a_broken_rule_ends_the_stream_with_its_status(stage):
    """Such as a request that cannot be decoded."""
    await stage.stream.requests.send(b"\xff")
    await wait_all_tasks_blocked()
    assert stage.status.code == INVALID_ARGUMENT


async def test_what_was_not_answered_is_recorded_at_the_end(stage):
    """When the factory closes the slot: the outcome is CLOSED."""
    await served(stage)
    stage.push([CLUSTER], {CLUSTER: resources(a="2")})
    await stage.responses()
    stage.push_records().close()
    (record,) = await stage.records()
    assert record.outcome is Outcome.CLOSED


async def test_in_its_next_life_it_announces_itself_with_what_is_watched(stage, nursery):
    """And with the snapshot that its client has."""
    await served(stage)
    stage.life.cancel()
    await stage.start(nursery)
    (opened,) = await stage.told(stage.scheduler)
    assert (opened.types, opened.snapshot) == (frozenset({CLUSTER, LISTENER}), stage.context.number)


async def test_in_its_next_life_it_sends_everything_again(stage, nursery):
    """It cannot be sure of anything; the record says why, and what the client has missed."""
    await served(stage)
    stage.life.cancel()
    await stage.start(nursery)
    await stage.welcome(CHANGE)
    clusters, listeners = await stage.responses()
    await stage.request(CLUSTER, nonce=clusters.nonce)
    await stage.request(LISTENER, nonce=listeners.nonce)
    (record,) = await stage.records()
    assert (record.causes.kept, record.reasons) == ((EDIT,), {"config": 1, "restart": 1})


async def test_an_answer_is_recorded_though_the_actor_died_meanwhile(stage, nursery):
    """A push that was written before is acknowledged in the next life: its record ends as if nothing had happened."""
    await served(stage)
    stage.push([CLUSTER], {CLUSTER: resources(a="2")})
    (response,) = await stage.responses()
    stage.life.cancel()
    await stage.start(nursery)
    await stage.request(CLUSTER, nonce=response.nonce)
    (record,) = await stage.records()
    assert (record.outcome, record.causes.kept) == (Outcome.ACKED, (EDIT,))


async def test_killed_within_a_message_it_ends_the_stream(stage, nursery):
    """Nothing can follow half a message: the client has to connect again. The push is recorded."""
    await served(stage)
    stage.stream.stall()
    stage.push([CLUSTER], {CLUSTER: resources(a="2")})
    await wait_all_tasks_blocked()
    stage.life.cancel()
    await stage.start(nursery)
    await wait_all_tasks_blocked()
    assert stage.status.code == 14
    (record,) = await stage.records()
    assert (record.outcome, record.causes.kept) == (Outcome.CLOSED, (EDIT,))


async def test_at_a_roll_call_it_announces_itself(stage):
    """As after a restart; who is not known yet has nothing to say."""
    stage.inbox.post(Announce())
    assert await stage.told(stage.scheduler) == []
    await served(stage)
    stage.inbox.post(Announce())
    (opened,) = await stage.told(stage.scheduler)
    assert isinstance(opened, ConnectionOpened)
