"""Plays recorded streams of a real istiod against a session of ours.

A recording tells responses by name and says which of them had changed, and no more is needed: the sets that our session
is offered are made up from that (`World`), the client behaves as the recorded one did (`Client`), and `Replay` judges
as the recordings' own page says: answers to requests must be istiod's, pushes must have istiod's effect.
"""

from collections import defaultdict

from protocol.xds.requests import DeltaRequest, Nack, SotwRequest
from protocol.xds.session import AdsSession
from tests.protocol.xds.conversation import Conversation
from tests.protocol.xds.tables import CDS, LDS, RDS, SHORT, TYPES, URL, build_set

COMPLETE = {CDS, LDS}
PUSHES = {"edit", "delete"}
VERBS = {"start", "connect", "send", "ack", "close"} | PUSHES


def changed_names(event) -> set[str]:
    """Names in a recorded response whose content was new to its client."""
    return set(event["names"] if event["changed"] == "all" else event["changed"])


def absorb(held, event, *, is_delta):
    """Bring the names that a client holds of a type up to date with a recorded response."""
    if not is_delta and URL[event["type"]] in COMPLETE:
        held.clear()
    held |= set(event["names"])
    held -= set(event.get("removed", ()))


class World:
    """What exists, as far as a recorded stream tells: for each name a number, raised whenever the content changed."""

    def __init__(self, *, is_delta: bool) -> None:
        self.is_delta = is_delta
        self.numbers = defaultdict(dict)
        self.sets = {}

    def learn(self, event, *, changes: bool):
        """Take in a response. `changes`: what it calls changed is so since we last heard of it, not only new to it."""
        url = URL[event["type"]]
        before = self.numbers[url]
        names = set(before)
        absorb(names, event, is_delta=self.is_delta)
        raised = changed_names(event) if changes else set()
        self.numbers[url] = {name: before.get(name, 0) + (name in raised) for name in sorted(names)}
        self.sets[url] = build_set({name: str(number) for name, number in self.numbers[url].items()})


class Client:
    """The client of one stream, over its reconnects: what it asks, and what it holds (name -> version)."""

    def __init__(self, name: str, world: World) -> None:
        self.name, self.world, self.is_delta = name, world, world.is_delta
        self.held = defaultdict(dict)
        self.routes = set()
        self.nonces = {}
        self.connections = 0
        self.connect()

    def connect(self, *, ack=True, fresh=False):
        """Begin a new stream. `ack`: acknowledge whatever comes; `fresh`: as a client that holds nothing."""
        if fresh:
            self.held.clear()
        self.connections += 1
        make = AdsSession.delta if self.is_delta else AdsSession.sotw
        self.talk = Conversation(make(TYPES, f"{self.name}{self.connections}"), self.world.sets)
        self.before = {url: nonces[-1] for url, nonces in self.nonces.items() if nonces}
        self.nonces, self.names, self.ack = defaultdict(list), defaultdict(tuple), ack

    def ask(self, spec):
        """Send a request as the scenario describes it; the responses."""
        return self.take(self.talk.answer(self.build_request(**spec)))

    def take(self, seen):
        """Hold what came and acknowledge it. No ACK may be answered."""
        for one in seen:
            held = self.held[one.type_url]
            if not self.is_delta and one.type_url in COMPLETE:
                held.clear()
            held |= {name: one.versions.get(name, "") for name in one.bodies}
            for name in one.removed:
                held.pop(name, None)
            self.nonces[one.type_url].append(one.nonce)
            if self.ack:
                assert self.talk.answer(self.build_request(type=SHORT[one.type_url], nonce="last")) == []
        return seen

    def build_request(self, **spec):
        """A request from its description, in this stream's dialect."""
        url = URL[spec["type"]]
        nack = Nack(code=13, message=spec["error"]) if "error" in spec else None
        if self.is_delta:
            initial = spec.get("initial", {})
            return DeltaRequest(
                type_url=url,
                subscribe=self.expand(spec.get("subscribe", ())),
                unsubscribe=self.expand(spec.get("unsubscribe", ())),
                initial=dict(self.held[url]) if initial == "held" else initial,
                nonce=self.find_nonce(url, spec.get("nonce", "none")),
                nack=nack,
            )
        if "names" in spec:
            self.names[url] = self.expand(spec["names"])
        nonce = self.find_nonce(url, spec.get("nonce", "last"))
        return SotwRequest(type_url=url, names=self.names[url], nonce=nonce, nack=nack)

    def expand(self, names):
        """Put names in the place of "$clusters" and "$routes"."""
        stands = {
            "$clusters": sorted(name for name in self.held[CDS] if name.startswith("outbound|")),
            "$routes": sorted(self.routes),
        }
        return tuple(one for name in names for one in stands.get(name, [name]))

    def find_nonce(self, url, word):
        """The nonce that a scenario means by a word."""
        sent = self.nonces[url]
        known = {"none": "", "last": "".join(sent[-1:]), "stale": "".join(sent[-2:-1])}
        return known.get(word, self.before.get(url, "") if word == "previous" else word)


class Replay:
    """One recorded stream, step by step. `taken_back`: what we do not answer, and istiod does, by decision."""

    def __init__(self, stream: str, *, is_delta: bool, taken_back: bool) -> None:
        self.world = World(is_delta=is_delta)
        self.client = Client(stream, self.world)
        self.taken_back = taken_back
        self.with_istiod = defaultdict(set)  # names that the client held with istiod

    def look_around(self, steps, recorded):
        """Learn of the names that are there before the first change, though nobody has asked for them yet."""
        for step, events in zip(steps, recorded, strict=True):
            if PUSHES & step.keys():
                break
            for event in events:
                if URL[event["type"]] not in COMPLETE:
                    self.world.learn(event, changes=False)

    def play(self, step, events):
        """Do a step, and compare what came with what came from istiod."""
        verb = next(verb for verb in step if verb in VERBS)
        for event in events:
            new_to_stream = URL[event["type"]] not in self.client.talk.session.watched
            self.world.learn(event, changes=new_to_stream or verb in PUSHES)
            absorb(self.with_istiod[URL[event["type"]]], event, is_delta=self.client.is_delta)
        self.client.routes |= {name for event in events if URL[event["type"]] == RDS for name in event["names"]}
        getattr(self, f"do_{verb}", self.do_push)(step[verb], events)

    def do_start(self, spec, events):
        """Subscribe as Envoy does: the clusters' endpoints and the listeners' routes after these."""
        types = spec.get("types") if isinstance(spec, dict) else None
        seen = []
        for short in types or ["CDS", "EDS", "LDS", "RDS"]:
            names = next((event["names"] for event in events if event["type"] == short and short in ("EDS", "RDS")), [])
            seen += self.client.ask({"type": short, "subscribe": names, "names": names})
        self.must_equal(seen, events)

    def do_connect(self, spec, _):
        """Begin a new stream."""
        options = dict(spec) if isinstance(spec, dict) else {"stream": spec}
        if options.pop("stream") == self.client.name:
            self.client.connect(**options)

    def do_send(self, spec, events):
        """Send requests."""
        mine = [one for one in (spec if isinstance(spec, list) else [spec]) if self.is_mine(one)]
        seen = [answer for one in mine for answer in self.client.ask(one)]
        if self.taken_back and any("unsubscribe" in one for one in mine):
            assert seen == []
        elif any(one.get("initial") == "held" for one in mine):
            self.must_have_effect(seen, events)
        else:
            self.must_equal(seen, events)

    def do_ack(self, spec, _):
        """Acknowledge by itself or not, from here on."""
        if self.is_mine(spec):
            self.client.ack = spec["automatic"]

    def do_close(self, _, __):
        """End the stream: nothing to do, as the next step is a new one."""

    def do_push(self, _, events):
        """Offer everything that is watched."""
        offered = self.client.talk.offer(*self.client.talk.session.watched)
        self.must_have_effect(self.client.take(offered), events)

    def is_mine(self, spec):
        """Whether a part of a step is about this stream."""
        return spec.get("stream", self.client.name) == self.client.name

    @staticmethod
    def must_equal(seen, events) -> None:
        """The same responses in the same order, with the same names."""
        ours = [(SHORT[one.type_url], sorted(one.bodies), sorted(one.removed)) for one in seen]
        assert ours == [(event["type"], event["names"], event.get("removed", [])) for event in events]

    def must_have_effect(self, seen, events):
        """What changed was sent, endpoints of changed clusters too, and the client holds what it held with istiod."""
        for url in {URL[event["type"]] for event in events}:
            assert self.client.held[url].keys() == self.with_istiod[url]
        sent = {(SHORT[one.type_url], name) for one in seen for name in one.bodies}
        warming = set().union(*(changed_names(event) for event in events if event["type"] == "CDS"))
        for event in events:
            follows = warming & set(event["names"]) if event["type"] == "EDS" else set()
            assert {(event["type"], name) for name in changed_names(event) | follows} <= sent
