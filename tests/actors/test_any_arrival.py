"""A connection's mailbox over the real bytes of a stream, beside a model of what its owner must have heard by when.

However requests are cut, whoever posts meanwhile, and whenever the owner is killed or away: nothing is lost, nothing
lies about while the owner sleeps, and half a message is given up exactly at its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.client_requests import ClientRequests, ConnectionMailbox
from actors.grpc.budget import Allowance
from actors.grpc.framing import MESSAGE_PREFIX
from actors.grpc.limits import Limits
from actors.grpc.messages import MessageBuffer
from actors.messages import RequestReceived, StreamEnded
from actors.metrics import Metrics
from protocol.statuses import DEADLINE_EXCEEDED
from protocol.xds.requests import SotwRequest
from protocol.xds.wire_requests import decode_sotw_request, encode_sotw_request
from trierarch.envoy.types import CLUSTER

LIMITS = Limits()
SIZES = (0, 3, 40, 200)
"""Characters of the names that are asked for."""


def encode(number):
    """A request that can be told from others, as it travels."""
    name = str(number) + "x" * SIZES[number % len(SIZES)]
    body = encode_sotw_request(SotwRequest(type_url=CLUSTER, names=(name,)))
    return MESSAGE_PREFIX.pack(0, len(body)) + body


SPOKEN = [encode(number) for number in range(100)]
STREAM = b"".join(SPOKEN)
ENDS = [sum(map(len, SPOKEN[: number + 1])) for number in range(len(SPOKEN))]


class Port:
    """What a connection's mailbox knows of its stream."""

    def __init__(self, buffer) -> None:
        self.receive_nowait, self.pending, self.on_arrival = buffer.read_nowait, buffer.pending, buffer.on_arrival
        self.due_at = lambda: buffer.due_at


@dataclass
class Model:
    """`sent`: bytes that came; `taken`: those that the owner has looked at. `begun`: since when half a message counts;
    `lain_since`: when the first of those came that the owner has not looked at.
    """

    sent: int = 0
    taken: int = 0
    begun: float = inf
    lain_since: float = inf

    def send(self, size, now):
        """More bytes come."""
        if self.sent == self.taken:
            self.lain_since = now
        self.sent += size

    def look(self, now):
        """The owner looks at all that came."""
        before, whole = self.taken, max((end for end in ENDS if end <= self.sent), default=0)
        if self.sent == whole:
            self.begun = inf
        elif before <= whole:
            self.begun = now
        elif self.sent > before:
            self.begun += now - self.lain_since
        self.taken = self.sent

    @property
    def heard(self):
        """How many requests the owner has heard."""
        return sum(end <= self.taken for end in ENDS)

    def due(self):
        """When half a message that was looked at is given up."""
        done = ENDS[self.heard - 1] if self.heard else 0
        if self.taken - done < MESSAGE_PREFIX.size:
            return self.begun + LIMITS.message_timeout
        return self.begun + LIMITS.time_for(len(SPOKEN[self.heard]))


class Stage:
    """A client, a mailbox, and its owner, who may die."""

    def __init__(self, nursery) -> None:
        self.buffer = MessageBuffer(lambda _: None, LIMITS, Allowance(LIMITS.large_messages))
        self.inbox = ConnectionMailbox(ClientRequests(Port(self.buffer), decode_sotw_request, Metrics()))
        self.model = Model()
        self.asked, self.posted, self.ended = [], [], []
        self.posts = 0
        self._nursery = nursery
        self._life = trio.CancelScope()

    def send(self, size):
        """The client's next bytes arrive."""
        self.buffer.add(STREAM[self.model.sent : self.model.sent + size], size)
        self.model.send(size, trio.current_time())

    def post(self):
        """Somebody else has something to say."""
        self.inbox.post(self.posts)
        self.posts += 1

    def revive(self):
        """Another life begins; the one before, if it is there, gets no further than its next checkpoint."""
        self.kill()
        self._life = trio.CancelScope()
        self._nursery.start_soon(self._own, self._life)

    def kill(self):
        """The owner dies, for now."""
        self._life.cancel()

    async def _own(self, life):
        with life:
            while not self.ended:
                match await self.inbox.receive_until(inf):
                    case RequestReceived() as received:
                        self.asked.append((await self.inbox.requests.decode(received)).names)
                    case StreamEnded(code=code):
                        self.ended.append((code, trio.current_time()))
                    case other:
                        self.posted.append(other)

    async def settle(self):
        """Let the owner do all that it has to do, and compare."""
        await wait_all_tasks_blocked()
        self.model.look(trio.current_time())
        heard = SPOKEN[: self.model.heard]
        assert self.asked == [decode_sotw_request(each[MESSAGE_PREFIX.size :]).names for each in heard]
        assert self.posted == list(range(self.posts))
        given_up = self.model.due() <= trio.current_time()
        assert [code for code, _ in self.ended] == [DEADLINE_EXCEEDED] * given_up

    async def wait(self, seconds):
        """Half a message is given up neither too early nor too late."""
        await self.settle()
        due, until = self.model.due(), trio.current_time() + seconds
        if not self.ended:
            await trio.sleep_until(until)
            await self.settle()
            assert self.ended == [(DEADLINE_EXCEEDED, due)] * (due <= until)

    async def be_away(self, size):
        """Some time without an owner, in which more bytes come and lie about."""
        await self.settle()
        self.kill()
        await trio.sleep(size / 3)
        self.send(size)
        await trio.sleep(size)
        self.revive()
        await self.settle()

    async def step(self, kind, amount):
        """Bytes or seconds: so many."""
        match kind:
            case "send":
                self.send(amount)
            case "post":
                self.post()
            case "revive":
                self.revive()
            case "be away":
                await self.be_away(amount)
            case _:
                await self.wait(amount)


async def play(steps):
    """The steps one after the other; after those that say so the owner gets to do all that it has to do."""
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery)
        stage.send(len(SPOKEN[0]))  # so that it has said who it is
        stage.revive()
        await stage.settle()
        for kind, amount, settles in steps:
            await stage.step(kind, amount)
            if settles:
                await stage.settle()
            if stage.ended:
                break
        nursery.cancel_scope.cancel()


KINDS = ("send", "send", "post", "revive", "be away", "wait")
STEPS = st.tuples(st.sampled_from(KINDS), st.integers(1, 150), st.booleans())


@given(st.lists(STEPS, max_size=20))
def test_whatever_comes_is_heard_once_and_in_time(steps):
    """In the client's order, by whichever life of the owner, and nobody sleeps while something waits for him."""
    trio.run(play, steps, clock=MockClock(autojump_threshold=0))
