"""Our session beside the rules of istiod (`istiod.py`): whatever a client asks and whatever changes meanwhile.

Answers must be the same; a push must leave the client with what exists. Left out are what is decided otherwise: names
in NACKs and in answers that are out of date are taken later, and what a client declares is not sent again.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from protocol.xds.session import AdsSession
from tests.protocol.xds.conversation import Conversation
from tests.protocol.xds.istiod import Istiod
from tests.protocol.xds.tables import CDS, LDS, NACK, SHORT, TYPES, URL, ask, build_set, placeholder, subscribe

SHORTS = ("CDS", "EDS", "LDS", "RDS", "ECDS", "SDS", "NDS")
WILDCARD = {"CDS", "LDS", "NDS"}
NAMES = "abcz"


class Pair:
    """One client, what istiod would tell it, and what it is told by us. `held`: type -> name -> body."""

    def __init__(self, *, is_delta: bool) -> None:
        self.is_delta = is_delta
        self.istiod = Istiod(is_delta=is_delta)
        self.talk = Conversation((AdsSession.delta if is_delta else AdsSession.sotw)(TYPES, "s"))
        self.held: dict[str, dict[str, bytes]] = defaultdict(dict)

    def request(self, asked):
        """The client asks: both answer the same."""
        url = URL[asked.short]
        word = "" if asked.nonce == "last" and url not in self.talk.nonces else asked.nonce
        nonce = self.talk.nonces.get(url, "") if word == "last" else word
        nack = NACK if asked.nack else None
        if self.is_delta:
            sets = [set(names) for names in (asked.subscribe, asked.unsubscribe, asked.initial)]
            expected = self.istiod.answer_delta(asked.short, *sets, word, nack=asked.nack)
            declared = dict.fromkeys(asked.initial, "another version")
            request = subscribe(
                url, *asked.subscribe, minus=asked.unsubscribe, initial=declared, nonce=nonce, nack=nack
            )
        else:
            expected = self.istiod.answer_sotw(asked.short, set(asked.subscribe), word, nack=asked.nack)
            request = ask(url, *asked.subscribe, nonce=nonce, nack=nack)
        seen = self.take(self.talk.answer(request))
        told = [(SHORT[one.type_url], tuple(sorted(one.bodies)), tuple(sorted(one.removed))) for one in seen]
        if asked.initial and asked.short == "CDS":  # what is declared need not be followed by its endpoints
            told, expected = told[:1], expected[:1]
        assert told == expected, asked

    def change(self, world):
        """Other things exist: afterwards the client has what does, and a second push has nothing to say."""
        self.talk.world |= {URL[short]: build_set(contents) for short, contents in world.items()}
        seen = self.take(self.talk.offer(*self.talk.session.watched))
        self.istiod.change(
            {short: set(contents) for short, contents in world.items()}, {SHORT[one.type_url] for one in seen}
        )
        for url, names in self.talk.session.watched.items():
            self.check(url, names)
        assert self.talk.offer(*self.talk.session.watched) == []

    def take(self, seen):
        """Hold what was sent."""
        for one in seen:
            held = self.held[one.type_url]
            if not self.is_delta and one.type_url in (CDS, LDS):
                held.clear()
            held |= one.bodies
            for name in one.removed:
                held.pop(name, None)
        return seen

    def check(self, url, names):
        """The client holds what exists of what it watches; in the state of the world it may hold more of some types."""
        there = {each.name: each.body for each in self.talk.world[url]}
        if SHORT[url] in WILDCARD:
            assert self.held[url] == there
            return
        for name in names:
            body = there.get(name) or (placeholder(name).body if TYPES[url].placeholder else None)
            assert body is None or self.held[url][name] == body


def names_of(short, more=""):
    """Some names of a type; the name table has but one resource, which is not asked for by name."""
    return st.just(()) if short == "NDS" else st.lists(st.sampled_from([*NAMES, *more]), max_size=4, unique=True)


@st.composite
def requests(draw, *, is_delta):
    """Any request; one that counts for nothing on a delta stream names nothing."""
    short = draw(st.sampled_from(SHORTS))
    nonce, nack = draw(st.sampled_from(["", "last", "last", "other"])), draw(st.sampled_from([False] * 9 + [True]))
    names, minus, initial = draw(names_of(short, "*" if is_delta else "")), (), ()
    if is_delta:
        minus, initial = draw(names_of(short, "*")), draw(st.just(()) | names_of(short))
        if nack or nonce == "other":
            names, minus, initial = (), (), ()
    return SimpleNamespace(short=short, nonce=nonce, nack=nack, subscribe=names, unsubscribe=minus, initial=initial)


contents = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"))
worlds = st.fixed_dictionaries({short: contents for short in SHORTS if short != "NDS"} | {"NDS": st.just({"": "1"})})


def stories(*, is_delta):
    """What happens on a stream."""
    return st.lists(requests(is_delta=is_delta) | requests(is_delta=is_delta) | worlds, max_size=20)


def play(is_delta, world, story):
    """Live through a story in a world."""
    pair = Pair(is_delta=is_delta)
    pair.change(world)
    for step in story:
        if isinstance(step, dict):
            pair.change(step)
        else:
            pair.request(step)


@given(worlds, stories(is_delta=False))
def test_state_of_the_world(world, story):
    """Every request is answered as istiod answers it."""
    play(False, world, story)


@given(worlds, stories(is_delta=True))
def test_delta(world, story):
    """Every request is answered as istiod answers it."""
    play(True, world, story)
