"""A connection's mailbox, whose flow lane is the client's stream: who is heard when, and that kills lose nothing."""

from __future__ import annotations

import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import aside
from actors.client_requests import INTRODUCTION, NAME_COST, NAMES_AHEAD, ClientRequests, ConnectionMailbox
from actors.messages import Announce, RequestReceived, StreamEnded
from actors.metrics import Metrics
from actors.ports import StreamClosed
from protocol.errors import RemoteError
from protocol.statuses import DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED
from protocol.xds.requests import SotwRequest
from protocol.xds.session import HEALTH
from protocol.xds.wire_requests import decode_sotw_request, encode_sotw_request
from tests.actors.fake_stream import FakeStream
from trierarch.envoy.types import CLUSTER

CLUSTERS = encode_sotw_request(SotwRequest(type_url=CLUSTER))
NEVER = float("inf")


class Stage:
    """A client and the mailbox of its connection."""

    def __init__(self) -> None:
        self.stream = FakeStream()
        self.inbox = ConnectionMailbox(ClientRequests(self.stream, decode_sotw_request, Metrics()))

    async def ask(self, *names, type_url=CLUSTER):
        """The client asks, and the connection takes it."""
        await self.stream.requests.send(encode_sotw_request(SotwRequest(type_url=type_url, names=names)))
        return await self.take()

    async def take(self):
        """What an actor does with the next message."""
        message = await self.inbox.receive_until(NEVER)
        return await self.inbox.requests.decode(message) if isinstance(message, RequestReceived) else message


@pytest.fixture
async def stage():
    """A client that has said nothing yet."""
    return Stage()


async def test_what_others_post_comes_before_what_the_client_asks(stage):
    """A push is older news to whoever asks meanwhile than his request is to us."""
    await stage.stream.requests.send(CLUSTERS)
    stage.inbox.post(Announce())
    assert await stage.inbox.receive_until(NEVER) == Announce()
    assert await stage.inbox.receive_until(NEVER) == RequestReceived(data=CLUSTERS)


@pytest.mark.parametrize("by", ["client", "others", "end"])
async def test_whoever_waits_is_woken(stage, nursery, autojump_clock, by):
    """By a request, by a message, and by the end of the stream."""
    found = []

    async def wait():
        found.append(await stage.inbox.receive_until(NEVER))

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    match by:
        case "client":
            await stage.stream.requests.send(CLUSTERS)
        case "others":
            stage.inbox.post(Announce())
        case _:
            stage.stream.requests.close()
    await wait_all_tasks_blocked()
    assert [type(each) for each in found] == [
        {"client": RequestReceived, "others": Announce, "end": StreamEnded}[by],
    ]


async def test_a_cancelled_wait_loses_nothing(stage):
    """What came stays where it came for the actor's next life."""
    await stage.stream.requests.send(CLUSTERS)
    with trio.CancelScope() as scope:
        scope.cancel()
        await stage.inbox.receive_until(NEVER)
    assert scope.cancelled_caught
    assert await stage.inbox.receive_until(NEVER) == RequestReceived(data=CLUSTERS)


async def test_a_wait_ends_at_its_time(stage, autojump_clock):
    """With nothing, and exactly then."""
    began = trio.current_time()
    assert await stage.inbox.receive_until(began + 3) is None
    assert trio.current_time() == began + 3


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (lambda stream: stream.requests.close(), 0),
        (lambda stream: stream.hang_up(), 0),
        (lambda stream: stream.reset(), 0),
    ],
    ids=["done", "hung up", "reset"],
)
async def test_the_end_of_a_stream_is_told_as_often_as_one_asks(stage, end, expected):
    """So that the next life hears of it too."""
    end(stage.stream)
    for _ in range(2):
        ended = await stage.inbox.receive_until(NEVER)
        assert isinstance(ended, StreamEnded)
        assert ended.code == expected


@pytest.mark.parametrize("error", [RemoteError(RESOURCE_EXHAUSTED, "too large"), StreamClosed("gone")])
async def test_a_message_that_may_not_be_ends_the_stream(stage, monkeypatch, error):
    """With its status; a stream that is over ends with none."""

    def refuse():
        raise error

    await stage.stream.requests.send(CLUSTERS)
    monkeypatch.setattr(stage.stream, "receive_nowait", refuse)
    code = 0 if isinstance(error, StreamClosed) else error.code
    assert await stage.take() == StreamEnded(reason=error.message, code=code)


async def test_who_does_not_say_who_it_is_is_ended(stage, autojump_clock):
    """After thirty seconds; reports of health say nothing, any other request does."""
    other = Stage()
    await other.ask()
    await stage.ask(type_url=HEALTH)
    began = trio.current_time()
    ended = await stage.take()
    assert (ended.code, trio.current_time() - began) == (DEADLINE_EXCEEDED, INTRODUCTION)
    assert await other.inbox.receive_until(trio.current_time() + 10 * INTRODUCTION) is None


async def test_reports_of_health_without_end_put_nothing_off(stage, autojump_clock):
    """Whoever sends them so fast that one always waits is asked who it is even so."""
    await stage.ask(type_url=HEALTH)
    await trio.sleep(INTRODUCTION)
    with pytest.raises(RemoteError, match="no discovery request"):
        await stage.ask(type_url=HEALTH)


async def test_many_names_put_off_what_comes_next(stage, autojump_clock):
    """As many as can be borne are spent ahead; then each request waits, and meanwhile others are heard."""
    names, asked = tuple(f"name-{number}" for number in range(10_000)), 0
    await stage.ask()
    while stage.inbox.requests.due_at() == NEVER:
        await stage.ask(*names)
        asked += 1
    await stage.ask(*names)
    began = trio.current_time()
    assert asked == pytest.approx(NAMES_AHEAD / (NAME_COST * len(names)), abs=1)
    await stage.stream.requests.send(CLUSTERS)
    stage.inbox.post(Announce())
    assert await stage.take() == Announce()
    assert trio.current_time() == began
    assert await stage.inbox.receive_until(began + 0.05) is None
    assert (await stage.take()).type_url == CLUSTER
    assert trio.current_time() - began == pytest.approx(NAME_COST * len(names))


async def test_a_kill_while_a_request_is_read_aside_does_not_lose_it(stage, monkeypatch):
    """It is in no mailbox any more: whoever is killed then has it before it dies."""
    monkeypatch.setattr(aside, "LARGE", 0)
    begun, go_on = threading.Event(), threading.Event()

    def slow(data, known=()):
        begun.set()
        go_on.wait()
        return decode_sotw_request(data, known)

    inbox = ConnectionMailbox(ClientRequests(stage.stream, slow, Metrics()))
    names = tuple(f"outbound|80||name-{number}" for number in range(500))
    await stage.stream.requests.send(encode_sotw_request(SotwRequest(type_url=CLUSTER, names=names)))
    received, found = await inbox.receive_until(NEVER), []
    async with trio.open_nursery() as nursery:

        async def read():
            found.append(await inbox.requests.decode(received))

        nursery.start_soon(read)
        await trio.to_thread.run_sync(begun.wait)
        nursery.cancel_scope.cancel()
        go_on.set()
    assert [request.names for request in found] == [names]
