"""The rules of the state-of-the-world dialect, named after their places in xds-server.md §6."""

import pytest

from protocol.xds.events import Acked, Asked, Nacked
from protocol.xds.resources import EMPTY
from protocol.xds.session import AdsSession
from tests.protocol.xds.conversation import Conversation
from tests.protocol.xds.tables import CDS, ECDS, EDS, NACK, NDS, RDS, SDS, TYPES, ask, build_set

WORLD = {CDS: {"a": "1", "b": "1"}, EDS: {"a": "1", "b": "1"}, RDS: {"80": "1"}}


@pytest.fixture
def talk():
    """A conversation with a client of which nothing has come yet."""
    return Conversation(AdsSession.sotw(TYPES, "s"), {url: build_set(contents) for url, contents in WORLD.items()})


def events(talk):
    """The kinds of what was said last."""
    return [type(event) for event in talk.events]


def test_6_4_case_1_a_nack_keeps_what_was_acknowledged_before(talk):
    """`acked` stays at the last good nonce, and the rejection is kept until an ACK follows."""
    talk.send(ask(EDS, "a"))
    talk.send(ask(EDS, "a", nonce="s-1"))
    talk.push(EDS=build_set({"a": "2", "b": "1"}))
    talk.send(ask(EDS, "a", nonce="s-2", nack=NACK))
    watch = talk.session.watches[EDS]
    assert (watch.acked, watch.rejection.nonce) == ("s-1", "s-2")
    talk.push(EDS=build_set({"a": "3", "b": "1"}))
    talk.send(ask(EDS, "a", nonce="s-3"))
    watch = talk.session.watches[EDS]
    assert (watch.acked, watch.rejection) == ("s-3", None)


def test_6_4_case_1_names_of_a_nack_are_not_taken(talk):
    """The same names in the next request are the ones that are answered."""
    talk.send(ask(EDS, "a"))
    assert talk.send(ask(EDS, "a", "b", nonce="s-1", nack=NACK)) == []
    assert talk.send(ask(EDS, "a", "b", nonce="s-1")) == ["EDS b"]


def test_6_4_case_1_a_request_under_a_rejected_nonce_is_no_ack(talk):
    """After a NACK a client goes on naming that nonce when its names change; that accepts nothing."""
    talk.send(ask(EDS, "a"))
    talk.send(ask(EDS, "a", nonce="s-1", nack=NACK))
    talk.send(ask(EDS, "a", "b", nonce="s-1"))
    assert events(talk) == [Asked]
    assert talk.session.watches[EDS].rejection is not None


def test_6_4_case_2_a_first_request_without_names_leaves_no_watch(talk):
    """Nothing is said and nothing is watched, so the next one is a first one."""
    assert talk.send(ask(EDS)) == []
    assert (talk.events, dict(talk.session.watched)) == ((), {})


def test_6_4_case_3_a_nonce_of_another_stream_means_nothing(talk):
    """Without a watch every request is a first one, whatever its nonce."""
    assert talk.send(ask(EDS, "a", nonce="other-9")) == ["EDS a"]
    assert talk.events == (Asked(type_url=EDS, first=True),)


def test_6_4_case_3_a_request_without_nonce_starts_anew(talk):
    """It is answered in full in the middle of a stream, and the nonce before is stale from then on."""
    talk.send(ask(CDS))
    assert talk.send(ask(CDS)) == ["CDS a b"]
    assert talk.events == (Asked(type_url=CDS, first=False),)


def test_6_4_case_5_version_info_decides_nothing(talk):
    """Only error_detail makes a NACK, whatever version a request carries."""
    talk.send(ask(CDS))
    assert talk.send(ask(CDS, nonce="s-1", version="some other version")) == []
    assert talk.events == (Acked(type_url=CDS, nonce="s-1"),)


def test_6_4_case_5_an_ack_is_told_once(talk):
    """However often a client repeats it."""
    talk.send(ask(CDS))
    told = []
    for _ in range(3):
        talk.send(ask(CDS, nonce="s-1"))
        told.append(events(talk))
    assert told == [[Acked], [], []]


def test_11_10_a_second_request_under_one_nonce_is_answered_if_its_names_changed(talk):
    """A nonce is not used up by the first request that names it."""
    talk.send(ask(EDS, "a"))
    assert talk.send(ask(EDS, "a", nonce="s-1")) == []
    assert talk.send(ask(EDS, "a", "b", nonce="s-1")) == ["EDS b"]


def test_6_7_item_3_nothing_found_is_not_answered(talk):
    """The watch is there without a nonce: pushes reach it, and a nonce before is stale (§11.12)."""
    assert talk.send(ask(SDS, "cert")) == []
    assert talk.session.watches[SDS].nonce == ""
    assert talk.push(SDS=build_set({"cert": "1", "other": "1"})) == ["SDS cert"]


def test_6_7_item_3_some_types_answer_with_nothing(talk):
    """An extension that does not exist gets a response without resources, but not a push without resources."""
    assert talk.send(ask(ECDS, "filter")) == ["ECDS"]
    assert talk.push(ECDS=build_set({"filter": "1"})) == ["ECDS filter"]
    assert talk.send(ask(ECDS, "filter", "other", nonce="s-2")) == ["ECDS"]
    assert talk.push(ECDS=EMPTY) == []


def test_6_7_root_types_are_complete(talk):
    """One changed cluster sends them all, and so does one that is gone, even the last one."""
    talk.send(ask(CDS))
    assert talk.push(CDS=build_set({"a": "2", "b": "1"})) == ["CDS a b"]
    assert talk.push(CDS=build_set({"b": "1"})) == ["CDS b"]
    assert talk.push(CDS=EMPTY) == ["CDS"]


def test_6_7_leaf_types_are_partial(talk):
    """Only what has changed of what is watched is pushed."""
    talk.send(ask(EDS, "a", "b"))
    assert talk.push(EDS=build_set({"a": "2", "b": "1", "c": "1"})) == ["EDS a"]


def test_5_6_what_is_gone_is_replaced_by_its_placeholder(talk):
    """Endpoints of a service that is no more are an empty assignment, never left as they were."""
    talk.send(ask(EDS, "a", "b"))
    talk.world[EDS] = build_set({"a": "1"})
    (seen,) = talk.offer(EDS)
    assert seen.bodies == {"b": b"b="}


def test_6_7_a_wildcard_that_is_not_complete_is_partial(talk):
    """The name table is one resource with an empty name; unchanged it is not sent."""
    assert talk.send(ask(NDS)) == []
    assert talk.push(NDS=build_set({"": "1"})) == ["NDS "]
    assert talk.push() == []


def test_6_13_a_nack_triggers_no_resend(talk):
    """Neither at once nor with a push that has nothing new."""
    talk.send(ask(CDS))
    assert talk.send(ask(CDS, nonce="s-1", nack=NACK)) == []
    assert events(talk) == [Nacked]
    assert talk.push() == []


def test_6_13_after_a_nack_the_next_push_leaves_nothing_out(talk):
    """A client that refused the endpoints of two clusters gets both when one of them changes."""
    talk.send(ask(EDS, "a", "b"))
    talk.send(ask(EDS, "a", "b", nonce="s-1", nack=NACK))
    assert talk.push(EDS=build_set({"a": "2", "b": "1"})) == ["EDS a b"]
    talk.send(ask(EDS, "a", "b", nonce="s-2"))
    assert talk.push(EDS=build_set({"a": "3", "b": "1"})) == ["EDS a"]


def test_6_13_a_nack_of_an_older_response_is_not_settled_by_a_later_ack(talk):
    """The ACK of the second response says nothing of what was in the first."""
    talk.send(ask(EDS, "a", "b"))
    talk.push(EDS=build_set({"a": "1", "b": "2"}))
    talk.send(ask(EDS, "a", "b", nonce="s-1", nack=NACK))
    talk.send(ask(EDS, "a", "b", nonce="s-2"))
    assert talk.push(EDS=build_set({"a": "1", "b": "3"})) == ["EDS a b"]


def test_6_14_clusters_asked_for_press_once_for_endpoints(talk):
    """The next request for endpoints is answered though it looks like an ACK; the one after is an ACK."""
    talk.send(ask(EDS, "a"))
    talk.send(ask(CDS))
    assert talk.send(ask(EDS, "a", nonce="s-1")) == ["EDS a"]
    assert talk.send(ask(EDS, "a", nonce="s-3")) == []


def test_6_14_a_pushed_cluster_brings_its_endpoints(talk):
    """In the same push, though they have not changed, and those of changed clusters only; it presses nobody."""
    talk.send(ask(CDS))
    talk.send(ask(EDS, "a", "b"))
    assert talk.push(CDS=build_set({"a": "2", "b": "1"})) == ["CDS a b", "EDS a"]
    assert talk.send(ask(EDS, "a", "b", nonce="s-4")) == []


def test_pushes_do_not_wait_for_acks(talk):
    """A client that never acknowledges is pushed to each time."""
    talk.send(ask(EDS, "a"))
    for number in "23456":
        assert talk.push(EDS=build_set({"a": number})) == ["EDS a"]
