"""The session as its driver sees it: what is due, what is shared, what ends a stream."""

import pytest

from protocol.errors import LocalError
from protocol.xds.events import NotServed
from protocol.xds.requests import Nack
from protocol.xds.resources import EMPTY, ResourceSet, digest
from protocol.xds.session import HEALTH, MOST_REFUSED, AdsSession
from tests.protocol.xds.conversation import Conversation
from tests.protocol.xds.tables import (
    BY_NAME,
    CDS,
    EDS,
    LDS,
    NACK,
    NDS,
    RDS,
    TYPES,
    ask,
    build_part,
    build_set,
    subscribe,
)

DIALECTS = {"sotw": (AdsSession.sotw, ask), "delta": (AdsSession.delta, subscribe)}


@pytest.fixture(params=DIALECTS)
def dialect(request):
    """How to begin a stream, and how to ask, in each dialect."""
    return DIALECTS[request.param]


def watching(dialect, *types, world=None):
    """A conversation with a client that watches these types."""
    begin, request = dialect
    talk = Conversation(begin(TYPES, "s"), world or {})
    for type_url in types:
        talk.send(request(type_url, "a"))
    return talk


def test_6_1_a_type_that_nobody_serves_is_told_of_once(dialect):
    """An empty type URL too. The stream goes on; a peer that makes types up is not remembered for ever."""
    begin, request = dialect
    session = begin(TYPES, "s")
    for type_url in ("type.googleapis.com/envoy.config.bootstrap.v3.Bootstrap", ""):
        session, events = session.receive(request(type_url))
        assert events == (NotServed(type_url=type_url),)
        assert session.receive(request(type_url)) == (session, ())
    for number in range(2 * MOST_REFUSED):
        session, _ = session.receive(request(f"made/up/{number}"))
    assert len(session.refused) == MOST_REFUSED
    assert not session.watches


def test_6_3_health_reports_are_passed_over(dialect):
    """They are no subscription and are never answered."""
    begin, request = dialect
    session = begin(TYPES, "s")
    assert session.receive(request(HEALTH, "a")) == (session, ())


def test_6_6_due_in_the_order_of_a_push(dialect):
    """Clusters, endpoints, listeners, routes, then the others, whatever the order in which they were asked for."""
    talk = watching(dialect, NDS, RDS, LDS, EDS, CDS)
    assert talk.session.due([NDS, RDS, LDS, EDS, CDS]) == (CDS, EDS, LDS, RDS, NDS)


def test_6_14_what_follows_is_due_too(dialect):
    """Endpoints with clusters, if they are watched; nothing that is not watched."""
    assert watching(dialect, CDS, EDS).session.due([CDS]) == (CDS, EDS)
    assert watching(dialect, CDS).session.due([CDS, LDS]) == (CDS,)
    assert watching(dialect, CDS, EDS).session.due([EDS]) == (EDS,)


def test_a_type_that_is_not_watched_is_not_offered(dialect):
    """An offer of it says nothing and changes nothing."""
    session = watching(dialect, CDS).session
    assert session.respond(LDS, build_set({"a": "1"})) == (session, None)


def test_what_is_watched(dialect):
    """Types with their names, for the debug pages."""
    session = watching(dialect, EDS, RDS).session
    assert session.watched == {EDS: {"a"}, RDS: {"a"}}
    assert (session.names(EDS), session.names(CDS)) == ({"a"}, frozenset())


def test_a_session_is_a_value(dialect):
    """Stepping gives another one and leaves the first as it was."""
    begin, request = dialect
    first = begin(TYPES, "s")
    second, _ = first.receive(request(CDS))
    third, _ = second.respond(CDS, build_set({"a": "1"}))
    assert (dict(first.watches), second.watches[CDS].nonce, third.watches[CDS].nonce) == ({}, "", "s-1")


def test_a_nonce_is_given_once_on_a_stream(dialect):
    """Over all types; its first half is the stream's own."""
    talk = watching(dialect, CDS, EDS, RDS, world={CDS: build_set({"a": "1"})})
    assert list(talk.nonces.values()) == ["s-1", "s-2", "s-3"]


def test_an_offer_with_nothing_new_leaves_the_session_as_it_is(dialect):
    """Not even a copy is made: most of what is offered in a push is not new to a client."""
    world = {CDS: build_set({"a": "1"}), EDS: build_set({"a": "1"})}
    session = watching(dialect, CDS, EDS, world=world).session
    assert all(session.respond(type_url, world[type_url])[0] is session for type_url in world)


def test_the_version_is_the_sets(dialect):
    """And a resource's is a digest of its bytes, so that several processes agree."""
    begin, request = dialect
    talk = Conversation(begin(TYPES, "s"), {CDS: build_set({"a": "1"})})
    (seen,) = talk.answer(request(CDS))
    assert seen.version == talk.world[CDS].version
    assert seen.versions in ({}, {"a": digest(b"a=1")})


def test_what_is_counted(dialect):
    """A response says how many resources it has and how many bytes."""
    begin, request = dialect
    session, _ = begin(TYPES, "s").receive(request(CDS))
    _, response = session.respond(CDS, build_set({"a": "1"}, {"b": "1"}))
    assert (response.sent, response.removed, response.size) == (2, 0, len(b"".join(response.buffers)))


def test_large_bodies_are_shared_between_streams(dialect):
    """Not one copy is made of them, whether a part is sent whole or a resource alone."""
    begin, request = dialect
    part = build_part({"big": "x" * 100_000, "other": "y"})
    (body,) = (resource.body for resource in part.resources.values() if resource.name == "big")
    for stream in ("one", "two"):
        session, _ = begin(TYPES, stream).receive(request(EDS, "big"))
        _, response = session.respond(EDS, ResourceSet(part))
        assert any(buffer is body for buffer in response.buffers)
        session, _ = begin(TYPES, stream).receive(request(CDS))
        _, response = session.respond(CDS, ResourceSet(part))
        assert any(buffer is body for buffer in response.buffers)


def test_blocks_of_whole_parts_are_shared_between_streams(dialect):
    """Two clients of one view hold the same buffers, but for the few bytes of their own at both ends."""
    begin, request = dialect
    resources = build_set({f"n{number}": "x" * 50 for number in range(100)})
    sent = []
    for stream in ("one", "two"):
        session, _ = begin(TYPES, stream).receive(request(CDS))
        sent.append(session.respond(CDS, resources)[1].buffers)
    assert all(one is other for one, other in zip(sent[0][1:-1], sent[1][1:-1], strict=True))
    assert len(sent[0]) == 3


def test_a_subscription_to_all_of_a_part_is_the_parts_own_set(dialect):
    """Held by every stream apart, the names of all endpoints would be the largest thing that a connection has."""
    begin, request = dialect
    part, next_part = build_part({"a": "1", "b": "1"}), build_part({"a": "2", "b": "1"})
    session, _ = begin(TYPES, "s").receive(request(EDS, "b", "a"))
    session, _ = session.respond(EDS, ResourceSet(part))
    assert session.names(EDS) is part.names
    session, _ = session.respond(EDS, ResourceSet(next_part))
    assert session.names(EDS) is next_part.names is part.names


def test_a_subscription_to_what_a_part_has_grown_to_is_its_own_set():
    """A service comes, and a thousand clients ask for its endpoints beside all that they had."""
    part, grown = build_part({"a": "1", "b": "1"}), build_part({"a": "1", "b": "1", "c": "1"})
    session, _ = AdsSession.delta(TYPES, "s").receive(subscribe(EDS, "a", "b"))
    session, _ = session.respond(EDS, ResourceSet(part))
    session, _ = session.respond(EDS, ResourceSet(grown))
    more, _ = session.receive(subscribe(EDS, "c"))
    assert more.names(EDS) is grown.names
    other, _ = session.receive(subscribe(EDS, "d"))
    assert other.names(EDS) == {"a", "b", "d"}


def test_only_what_will_be_sent_whole_is_encoded_ahead(dialect):
    """Of 200 resources of which one is asked for the rest is left alone; all are encoded for who asks for all."""
    begin, request = dialect
    names = tuple(f"n{number}" for number in range(200))
    resources = build_set(dict.fromkeys(names, "x" * 1000))
    session, _ = begin(TYPES, "s").receive(request(EDS, names[0]))
    assert list(session.prepare(EDS, resources)) == []
    session, _ = begin(TYPES, "s").receive(request(EDS, *names))
    assert len(list(session.prepare(EDS, resources))) > 1
    assert list(session.prepare(EDS, resources)) == [], "once for everybody"
    assert list(session.prepare(CDS, resources)) == [], "nobody asks"


def test_names_that_are_answered_one_by_one_are_counted(dialect):
    """Each takes its time, while a part that is asked for as a whole takes none."""
    begin, request = dialect
    resources = build_set({"a": "1", "b": "1"})
    session, _ = begin(TYPES, "s").receive(request(EDS, "a", "c", "d"))
    assert session.count_single(EDS, resources) == 3
    assert session.count_single(CDS, resources) == 0
    answered, _ = session.respond(EDS, resources)
    assert answered.count_single(EDS, resources) == 0
    session, _ = begin(TYPES, "s").receive(request(EDS, "a", "b", "c"))
    assert session.count_single(EDS, resources) == 1


def test_what_a_nack_goes_through_is_counted(dialect):
    """All that is in doubt, though a delta client names none of it: of fifty thousand names that is a thread's work."""
    begin, request = dialect
    session, _ = begin(TYPES, "s").receive(request(EDS, "a", "b", "c"))
    session, response = session.respond(EDS, build_set({"a": "1", "b": "1", "c": "1"}))
    acknowledgement = request(EDS, nonce=response.nonce)
    refusal = request(EDS, nonce=response.nonce, nack=Nack(code=13, message="no good"))
    assert session.count_touched(acknowledgement) == 0
    assert session.count_touched(refusal) == 4 * 3
    assert session.count_touched(request(EDS, "d", nonce=response.nonce)) == 1
    assert session.count_touched(request(CDS, nonce="7", nack=refusal.nack)) == 0
    settled, _ = session.receive(acknowledgement)
    assert settled.count_touched(refusal) == 0


def test_a_push_of_all_clusters_is_encoded_ahead_where_they_are_all_sent():
    """State of the world sends them again for one that changed."""
    resources, other = (build_set({f"n{number}": text * 1000 for number in range(200)}) for text in "xy")
    talk = watching(DIALECTS["sotw"], CDS, world={CDS: resources})
    assert len(list(talk.session.prepare(CDS, other))) > 1
    talk = watching(DIALECTS["delta"], CDS, world={CDS: resources})
    assert list(talk.session.prepare(CDS, other)) == []


def test_what_a_nack_leaves_in_doubt_is_encoded_ahead():
    """The next push tells of all of it again, though one resource has changed."""
    names = tuple(f"n{number}" for number in range(200))
    resources = build_set(dict.fromkeys(names, "x" * 1000))
    changed = build_set({**dict.fromkeys(names, "x" * 1000), "n7": "y"})
    talk = watching(DIALECTS["delta"])
    talk.world = {EDS: resources}
    talk.send(subscribe(EDS, *names))
    assert list(talk.session.prepare(EDS, changed)) == []
    talk.send(subscribe(EDS, nonce=talk.nonces[EDS], nack=NACK))
    assert len(list(talk.session.prepare(EDS, changed))) > 1


def test_resumed_owes_everything(dialect):
    """Whoever cannot know what was written last sends all that is watched again."""
    world = {CDS: build_set({"a": "1"}), EDS: build_set({"a": "1"})}
    talk = watching(dialect, CDS, EDS, world=world)
    assert talk.push() == []
    talk.session = talk.session.resumed()
    assert talk.push() == ["CDS a", "EDS a"]
    assert talk.push() == []


def test_resumed_tells_what_is_gone():
    """A delta client that may hold what was in the lost response, or before it, hears that it is no more."""
    talk = watching(DIALECTS["delta"], CDS, world={CDS: build_set({"a": "1", "b": "1"})})
    talk.push(CDS=build_set({"b": "1", "c": "1"}))
    talk.session = talk.session.resumed()
    assert talk.push(CDS=EMPTY) == ["CDS -a -b -c"]


def test_what_follows_says_nothing_of_names_that_are_gone(dialect):
    """A cluster that goes takes its endpoints along: they are not sent empty, unless the set changed by itself."""
    talk = watching(dialect, EDS)
    session, _ = talk.session.respond(EDS, build_set({"a": "1"}))
    followed, response = session.respond(EDS, EMPTY, following=True)
    assert response is None
    assert (followed.names(EDS), followed.lost(EDS)) == ({"a"}, {"a"})
    _, response = session.respond(EDS, EMPTY)
    assert response is not None
    back, response = followed.respond(EDS, build_set({"a": "1"}))
    assert response is not None, "when it comes back it is news"
    assert not back.lost(EDS)


def test_a_client_can_be_reminded_of_what_it_lost(dialect):
    """One that watches on though the cluster is gone is told once something is known to have changed there."""
    talk = watching(dialect, EDS, world={EDS: build_set({"a": "1"})})
    session, _ = talk.session.respond(EDS, EMPTY, following=True)
    _, response = session.respond(EDS, EMPTY)
    assert response is None, "of itself this is no news"
    reminded, response = session.reminded(EDS, session.lost(EDS)).respond(EDS, EMPTY)
    assert response is not None
    assert not reminded.lost(EDS)
    assert session.reminded(EDS, frozenset({"unwatched"})) is session
    assert session.reminded(CDS, frozenset({"a"})) is session


def test_what_was_lost_is_forgotten_with_its_subscription():
    """Nothing is kept of names that the client no longer asks for."""
    talk = watching(DIALECTS["delta"], EDS, world={EDS: build_set({"a": "1"})})
    session, _ = talk.session.respond(EDS, EMPTY, following=True)
    session, _ = session.receive(subscribe(EDS, minus=["a"]))
    assert not session.lost(EDS)


def test_the_rules_can_depend_on_the_client(dialect):
    """They are known once it has said who it is, and not changed under a subscription."""
    begin, request = dialect
    session = begin(TYPES, "s").under(BY_NAME)
    assert session.types is BY_NAME
    watched, _ = session.receive(request(CDS, "a"))
    with pytest.raises(LocalError):
        watched.under(TYPES)
