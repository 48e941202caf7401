"""Whatever happens between a server and its clients, and in whatever order: in the end a client has what it should.

Two clients, one of each dialect, meet the same changing world. Requests and responses travel in queues, each delivered
one by one at any time; a client may reject a response, or apply the half of it before it does, may hold its requests
back, and may lose its stream.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from protocol.xds.events import Asked
from protocol.xds.resources import EMPTY, ResourceSet
from protocol.xds.session import AdsSession
from tests.protocol.xds.client import SimulatedClient, accept_all
from tests.protocol.xds.conversation import Seen
from tests.protocol.xds.tables import CDS, EDS, LDS, NACK, RDS, TYPES, build_set

NAMES = "abcd"


def reject_all(_):
    """Refuse a response whole."""
    return NACK


@dataclass
class Link:
    """A client, its stream to the server, and what is on its way in both directions."""

    client: SimulatedClient
    world: dict[str, ResourceSet]
    session: AdsSession | None = None
    streams: int = 0
    requests: deque = field(default_factory=deque)
    responses: deque = field(default_factory=deque)
    verdicts: deque = field(default_factory=deque)

    def connect(self):
        """Begin a stream; what was on its way on the one before is lost."""
        self.streams += 1
        make = AdsSession.delta if self.client.is_delta else AdsSession.sotw
        self.session = make(TYPES, str(self.streams))
        self.responses.clear()
        self.requests = deque(self.client.connect())

    def resume(self):
        """What the server's actor does that was restarted: the session it had kept, and all that is watched again."""
        self.session = self.session.resumed()
        self.offer(*self.session.watched)

    def offer(self, *types):
        """Offer the client the world of today."""
        for type_url in self.session.due(types):
            self.session, response = self.session.respond(type_url, self.world.get(type_url, EMPTY))
            if response is not None:
                self.responses.append(b"".join(response.buffers))

    def deliver_request(self):
        """The server reads one request, if there is one, and answers it."""
        if self.requests:
            self.session, events = self.session.receive(self.requests.popleft())
            self.offer(*[event.type_url for event in events if isinstance(event, Asked)])

    def deliver_response(self, verdict="accept"):
        """The client reads one response, if there is one."""
        if self.responses:
            self.client.judge = {"accept": accept_all, "reject": reject_all, "half": self.take_half}[verdict]
            self.requests.extend(self.client.receive(self.responses.popleft()))

    def hold_back(self):
        """The client says nothing for a while."""
        self.client.hold_back()

    def release(self):
        """It says all that it has kept."""
        self.requests.extend(self.client.release())

    def drain(self):
        """Let everything that is on its way arrive."""
        self.release()
        while self.requests or self.responses:
            self.deliver_request()
            self.deliver_response()

    def take_half(self, seen: Seen):
        """Apply the half of a response, and refuse it."""
        half = dict(islice(seen.bodies.items(), (len(seen.bodies) + 1) // 2))
        if not self.client.is_delta and seen.type_url in (CDS, LDS):
            half = self.client.held[seen.type_url] | half  # Envoy adds and changes what is good, and removes nothing
        removed = seen.removed[: len(seen.removed) // 2]
        self.client.apply(
            Seen(
                type_url=seen.type_url,
                nonce=seen.nonce,
                version=seen.version,
                bodies=half,
                versions={name: seen.versions[name] for name in half if name in seen.versions},
                removed=removed,
            )
        )
        return NACK


def build_world(clusters, listeners, endpoints, routes, number=0):
    """The sets of a world: what exists of each type, with its content. Clusters are spread over two parts."""
    text = {CDS: clusters, LDS: listeners, EDS: endpoints, RDS: {f"{n}-routes": v for n, v in routes.items()}}
    told = {url: {name: f"{value}.{number}" for name, value in names.items()} for url, names in text.items()}
    first = {name: value for name, value in told[CDS].items() if name in "ab"}
    second = {name: value for name, value in told[CDS].items() if name not in "ab"}
    return {CDS: build_set(first, second)} | {url: build_set(told[url]) for url in (LDS, EDS, RDS)}


contents = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2))
worlds = st.builds(build_world, contents, contents, contents, contents)
links = st.integers(0, 1)
steps = st.one_of(
    st.tuples(st.just("change"), worlds),
    st.tuples(st.just("deliver_request"), links),
    st.tuples(st.just("deliver_request"), links),
    st.tuples(st.just("deliver_response"), links, st.just("accept")),
    st.tuples(st.just("deliver_response"), links, st.sampled_from(["reject", "half"])),
    st.tuples(st.just("connect"), links),
    st.tuples(st.just("resume"), links),
    st.tuples(st.sampled_from(["hold_back", "release"]), links),
)


def play(story):
    """Two links that have lived through a story, nothing being on its way any more."""
    both = [Link(SimulatedClient.sotw(), {}), Link(SimulatedClient.delta(), {})]
    for link in both:
        link.world |= build_world({}, {}, {}, {})
        link.connect()
    for verb, *arguments in story:
        if verb == "change":
            change(both, *arguments)
        else:
            getattr(both[arguments[0]], verb)(*arguments[1:])
    for link in both:
        link.drain()
    return both


def change(both, world):
    """Another world is there, and every stream is offered it."""
    for link in both:
        link.world |= world
        link.offer(*link.session.watched)


def expected(world):
    """What a client of this world should hold: all clusters and listeners, and what they refer to."""
    roots = {url: {resource.name: resource.body for resource in world[url]} for url in (CDS, LDS)}
    leaves = {
        EDS: {name: look_up(world, EDS, name) for name in roots[CDS]},
        RDS: {name: look_up(world, RDS, name) for name in (f"{listener}-routes" for listener in roots[LDS])},
    }
    return roots | leaves


def look_up(world, type_url, name):
    """The body of a resource, or of its placeholder."""
    return (world[type_url].get(name) or TYPES[type_url].placeholder(name)).body


def never_rejecting(story):
    """The same story with clients that accept everything."""
    return [(*step[:2], "accept") if step[0] == "deliver_response" else step for step in story]


@given(st.lists(steps, max_size=25))
def test_clients_that_accept_have_what_exists(story):
    """Once all messages have arrived, both clients hold the last world: clusters, listeners and what they refer to."""
    for link in play(never_rejecting(story)):
        assert link.client.held == expected(link.world)


def test_a_subscription_that_comes_with_an_answer_out_of_date():
    """Envoy says what it subscribes to once, with the next answer that it may send: even if a push crosses that answer,
    the new cluster gets its endpoints.
    """
    link = Link(SimulatedClient.delta(), build_world({"a": 0}, {}, {"a": 0, "b": 0}, {}))
    link.connect()
    link.drain()
    link.hold_back()
    for world in (
        build_world({"a": 0}, {}, {"a": 1, "b": 0}, {}),
        build_world({"a": 0, "b": 0}, {}, {"a": 1, "b": 0}, {}),
    ):
        change([link], world)
        link.deliver_response()
    change([link], build_world({"a": 0, "b": 0}, {}, {"a": 2, "b": 0}, {}))
    link.release()
    assert link.requests[0].subscribe == ("b",)
    assert link.requests[0].nonce != link.session.watches[EDS].nonce
    link.drain()
    assert link.client.held == expected(link.world)


@given(st.lists(steps, max_size=25), worlds)
def test_clients_that_rejected_are_whole_after_the_next_change(story, last):
    """A rejected response is not sent again, but the next one of its type leaves nothing of the rejection behind."""
    both = play(story)
    marks = {
        url: build_set({r.name: r.body.decode() + "!" for r in resources} | {"z": "z"})
        for url, resources in last.items()
    }
    change(both, marks)
    for link in both:
        link.drain()
        assert link.client.held == expected(link.world)
