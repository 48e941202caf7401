"""What is told again after a NACK, and what is not: what was refused for itself, as long as its bytes stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.xds.doubt import CERTAIN, TOLD_APART, Doubt
from protocol.xds.requests import Nack
from protocol.xds.session import AdsSession
from tests.protocol.xds.conversation import Conversation
from tests.protocol.xds.tables import CDS, EDS, TYPES, ask, build_set, subscribe

BAD = "bad"


def nack(talk, url, words, *names):
    """Refuse the last response."""
    error = Nack(code=13, message=words)
    request = subscribe if talk.session.dialect.__name__.endswith("delta") else ask
    names = () if request is subscribe else names
    return talk.send(request(url, *names, nonce=talk.nonces[url], nack=error))


def start(dialect, url, **contents):
    """A client that has acknowledged this world."""
    talk = Conversation(getattr(AdsSession, dialect)(TYPES, "s"), {url: build_set(contents)})
    request = subscribe if dialect == "delta" else ask
    talk.send(request(url, *contents))
    talk.send(request(url, *(() if dialect == "delta" else contents), nonce=talk.nonces[url]))
    return talk


@pytest.mark.parametrize("dialect", ["sotw", "delta"])
def test_the_only_one_that_was_refused_is_not_told_again(dialect):
    """Whatever the client said: there was nothing else in the response."""
    talk = start(dialect, EDS, a="1", b="1")
    assert talk.push(EDS=build_set({"a": BAD, "b": "1"})) == ["EDS a"]
    assert nack(talk, EDS, "no good", "a", "b") == []
    assert talk.push(EDS=build_set({"a": BAD, "b": "2"})) == ["EDS b"]


def test_what_the_words_name_is_not_told_again():
    """Nor are the others: Envoy has taken them."""
    talk = start("delta", CDS, a="1", b="1", c="1", d="1")
    assert talk.push(CDS=build_set({"a": "2", "b": BAD, "c": "2", "d": "1"})) == ["CDS a b c"]
    nack(talk, CDS, "Error adding/updating cluster(s) b: no such thing")
    assert talk.push(CDS=build_set({"a": "2", "b": BAD, "c": "2", "d": "2"})) == ["CDS d"]


def test_what_was_unsure_before_stays_so_whatever_the_words_name():
    """A NACK before said nothing of what it was about."""
    talk = start("delta", CDS, a="1", b="1", c="1", d="1")
    talk.push(CDS=build_set({"a": BAD, "b": "1", "c": "1", "d": "1"}))
    older = talk.nonces[CDS]
    talk.push(CDS=build_set({"a": BAD, "b": BAD, "c": "1", "d": "1"}))
    talk.send(subscribe(CDS, nonce=older, nack=Nack(code=13, message="no good")))
    nack(talk, CDS, "Error adding/updating cluster(s) b: no such thing")
    assert talk.push(CDS=build_set({"a": BAD, "b": BAD, "c": "1", "d": "2"})) == ["CDS a b d"]


def test_what_is_refused_twice_is_not_told_a_third_time():
    """Where the client names nothing all of a response are suspects; what came after the first NACK is one still."""
    talk = start("delta", EDS, a="1", b="1", c="1", d="1")
    talk.push(EDS=build_set({"a": "2", "b": BAD, "c": "1", "d": "1"}))
    nack(talk, EDS, "malformed")
    assert talk.push(EDS=build_set({"a": "2", "b": BAD, "c": "2", "d": "1"})) == ["EDS a b c"]
    nack(talk, EDS, "malformed")
    assert talk.push(EDS=build_set({"a": "2", "b": BAD, "c": "2", "d": "2"})) == ["EDS c d"]


def test_other_bytes_are_told():
    """What was refused may be mended."""
    talk = start("delta", CDS, a="1")
    talk.push(CDS=build_set({"a": BAD}))
    nack(talk, CDS, "no good")
    assert talk.push(CDS=build_set({"a": "3"})) == ["CDS a"]


def test_what_is_asked_for_is_told():
    """The client knows why it asks."""
    talk = start("delta", EDS, a="1", b="1")
    talk.push(EDS=build_set({"a": BAD, "b": "1"}))
    nack(talk, EDS, "no good")
    talk.send(subscribe(EDS, minus=["a"]))
    assert talk.send(subscribe(EDS, "a")) == ["EDS a"]


def test_what_was_refused_and_goes_is_told_as_removed():
    """The client has what it had before."""
    talk = start("delta", CDS, a="1", b="1")
    talk.push(CDS=build_set({"a": BAD, "b": "1"}))
    nack(talk, CDS, "no good")
    assert talk.push(CDS=build_set({"b": "1"})) == ["CDS -a"]


def test_a_complete_response_holds_it_all_the_same():
    """In the state of the world leaving out is removing."""
    talk = start("sotw", CDS, a="1", b="1")
    talk.push(CDS=build_set({"a": BAD, "b": "1"}))
    nack(talk, CDS, "Error adding/updating cluster(s) a: no such thing")
    assert talk.push(CDS=build_set({"a": BAD, "b": "2"})) == ["CDS a b"]


def test_an_older_response_that_is_refused_blames_nothing():
    """What it held may be another by now."""
    talk = start("delta", CDS, a="1", b="1")
    talk.push(CDS=build_set({"a": BAD, "b": "1"}))
    older = talk.nonces[CDS]
    talk.push(CDS=build_set({"a": "3", "b": "1"}))
    talk.send(subscribe(CDS, nonce=older, nack=Nack(code=13, message="a: no good")))
    assert talk.push(CDS=build_set({"a": "3", "b": "2"})) == ["CDS a b"]


def test_an_ack_leaves_no_doubt():
    """Unless a NACK was not made up for yet; and a client that acknowledges all costs nothing to remember."""
    told = CERTAIN.told((frozenset("a"),), whole=False)
    assert told.settled() is CERTAIN
    rejected = told.rejected("", build_set({"a": "1", "b": "1"}), latest=False)
    assert rejected.settled() == rejected
    assert rejected.told((frozenset("a"),), whole=True).settled() is CERTAIN
    assert CERTAIN.told((), whole=True) is CERTAIN


def test_names_are_gathered_where_nobody_acknowledges():
    """A hundred sets of one name are rebuilt into one from time to time."""
    doubt = CERTAIN
    for number in range(100):
        doubt = doubt.told((frozenset({str(number)}),), whole=False)
    assert len(doubt.names) == 100
    assert len(doubt.unsettled) <= TOLD_APART


worlds = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["1", "2", BAD]), min_size=1)


@given(st.lists(worlds, min_size=1, max_size=8))
def test_a_client_that_says_what_it_refuses_is_told_it_once(history):
    """And it always holds what is good, however many bad ones there are beside: as Envoy treats clusters."""
    talk = start("delta", CDS, z="0")
    held, refused = {"z": b"z=0"}, set()
    for contents in history:
        talk.world[CDS] = build_set({"z": "0", **contents})
        for seen in talk.offer(CDS):
            bad = {name for name, body in seen.bodies.items() if body.endswith(b"bad")}
            held |= {name: body for name, body in seen.bodies.items() if name not in bad}
            held = {name: body for name, body in held.items() if name not in seen.removed}
            assert not bad & refused, "told again with the same bytes"
            refused = (refused - seen.bodies.keys() - set(seen.removed)) | bad
            words = "Error adding/updating cluster(s) " + ", ".join(f"{name}: no good" for name in sorted(bad))
            talk.send(subscribe(CDS, nonce=seen.nonce, nack=Nack(code=13, message=words) if bad else None))
        good = {name: f"{name}={text}".encode() for name, text in contents.items() if text != BAD}
        assert good.items() <= held.items()


def test_a_doubt_is_a_value():
    """Steps leave it as it was."""
    doubt = Doubt(unsettled=(frozenset("ab"),))
    doubt.rejected("a: x", build_set({"a": "1", "b": "1"}), latest=True)
    assert doubt == Doubt(unsettled=(frozenset("ab"),))
