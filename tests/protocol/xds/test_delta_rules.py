"""The rules of the delta dialect, named after their places in xds-server.md §6."""

import pytest

from protocol.xds.events import Acked, Asked, Nacked
from protocol.xds.resources import EMPTY
from protocol.xds.session import AdsSession
from tests.protocol.xds.conversation import Conversation
from tests.protocol.xds.tables import CDS, ECDS, EDS, LDS, NACK, NDS, RDS, SDS, TYPES, build_set, subscribe

WORLD = {CDS: {"a": "1", "b": "1"}, EDS: {"a": "1", "b": "1", "c": "1"}, LDS: {"l": "1"}, RDS: {"80": "1"}}


@pytest.fixture
def talk():
    """A conversation with a client of which nothing has come yet."""
    return Conversation(AdsSession.delta(TYPES, "s"), {url: build_set(contents) for url, contents in WORLD.items()})


def versions(talk, type_url, *names):
    """The versions of what is there, as a client declares them."""
    return {name: talk.world[type_url].get(name).version for name in names}


def test_6_9_case_1_names_of_a_nack_are_not_taken(talk):
    """The same subscription later is a new one and is answered."""
    talk.send(subscribe(EDS, "a"))
    assert talk.send(subscribe(EDS, "b", nonce="s-1", nack=NACK)) == []
    assert [type(event) for event in talk.events] == [Nacked]
    assert talk.send(subscribe(EDS, "b")) == ["EDS b"]


def test_6_9_case_3_a_stale_nonce_is_ignored_with_its_names(talk):
    """Neither subscriptions nor unsubscriptions of such a request count."""
    talk.send(subscribe(EDS, "a"))
    talk.push(EDS=build_set({"a": "2"}))
    assert talk.send(subscribe(EDS, "b", minus="a", nonce="s-1")) == []
    assert talk.session.names(EDS) == {"a"}


def test_6_9_case_4_an_empty_nonce_is_no_ack(talk):
    """A spontaneous request acknowledges nothing, whether it changes the subscription or not."""
    talk.send(subscribe(EDS, "a"))
    assert talk.send(subscribe(EDS)) == []
    assert talk.events == ()
    talk.send(subscribe(EDS, "b"))
    assert talk.events == (Asked(type_url=EDS, first=False),)


def test_6_9_case_4c_a_subscription_in_an_ack_is_answered(talk):
    """It is an ACK too."""
    talk.send(subscribe(EDS, "a"))
    assert talk.send(subscribe(EDS, "b", nonce="s-1")) == ["EDS b"]
    assert talk.events == (Acked(type_url=EDS, nonce="s-1"), Asked(type_url=EDS, first=False))


def test_6_9_names_only_is_a_wildcard_for_root_types(talk):
    """Who names one cluster gets all, is not answered when he names another one, and is pushed new ones."""
    assert talk.send(subscribe(CDS, "a")) == ["CDS a b"]
    assert talk.send(subscribe(CDS, "b")) == []
    assert talk.push(CDS=build_set({"a": "1", "b": "1", "c": "1"})) == ["CDS c"]


def test_6_9_star_and_minus_star_gets_everything(talk):
    """To subscribe to nothing exists for workload types only."""
    assert talk.send(subscribe(CDS, "*", minus="*")) == ["CDS a b"]
    assert talk.send(subscribe(CDS, "a")) == []
    assert talk.send(subscribe(CDS, "*")) == ["CDS a b"]


def test_6_9_leaf_types_have_no_wildcard(talk):
    """The name "*" brings nothing of them, now or later."""
    assert talk.send(subscribe(EDS, "*")) == []
    assert talk.push(EDS=build_set({"a": "2"})) == []
    assert talk.send(subscribe(EDS, "a", "*")) == ["EDS a"]


def test_6_9_names_that_came_by_the_wildcard_alone_can_be_given_up_silently(talk):
    """Where istiod answers with everything, we do not: the client has lost nothing and pushes go on."""
    talk.send(subscribe(LDS))
    assert talk.send(subscribe(LDS, minus="l")) == []
    assert talk.push(LDS=build_set({"l": "2"})) == ["LDS l"]


def test_6_10_all_that_a_request_subscribes_to_is_sent(talk):
    """A request that names a new and a held resource is answered with both; with held ones only it is not answered."""
    talk.send(subscribe(EDS, "a"))
    assert talk.send(subscribe(EDS, "a", "b")) == ["EDS a b"]
    assert talk.send(subscribe(EDS, "a", "b")) == []


def test_6_10_declared_names_are_subscribed(talk):
    """Also in the middle of a stream, where the protocol does not want them, and for pushes."""
    talk.send(subscribe(EDS, "a", initial={"b": "old"}))
    assert talk.session.names(EDS) == {"a", "b"}
    assert talk.send(subscribe(EDS, initial={"c": "old"})) == ["EDS c"]
    assert talk.push(EDS=build_set({"a": "1", "b": "1", "c": "2"})) == ["EDS c"]


def test_6_10_endpoints_follow_each_answer_about_clusters(talk):
    """Unasked, for the clusters that were sent, after them."""
    talk.send(subscribe(EDS, "a", "b"))
    assert talk.send(subscribe(CDS)) == ["CDS a b", "EDS a b"]
    assert talk.send(subscribe(CDS, nonce="s-2")) == []


def test_6_11_item_2_giving_up_leaves_is_not_answered(talk):
    """The set of names just becomes empty, and a later push of the type sends nothing."""
    talk.send(subscribe(EDS, "a"))
    assert talk.send(subscribe(EDS, minus="a")) == []
    assert talk.push(EDS=build_set({"a": "2"})) == []
    assert talk.send(subscribe(EDS, "a")) == ["EDS a"]


def test_6_11_item_4_unknown_secrets_are_neither_answered_nor_removed(talk):
    """Until they are there."""
    assert talk.send(subscribe(SDS, "cert")) == []
    assert talk.push(SDS=build_set({"cert": "1"})) == ["SDS cert"]
    assert talk.push(SDS=EMPTY) == []


def test_6_11_item_5_removals_are_told(talk):
    """Of root types; leaves with a placeholder get that instead."""
    talk.send(subscribe(CDS))
    talk.send(subscribe(EDS, "a", "b"))
    assert talk.push(CDS=build_set({"a": "1"}), EDS=build_set({"a": "1"})) == ["CDS -b", "EDS b"]


def test_6_11_item_7_extensions_are_never_removed(talk):
    """A request for one that is not there is answered by nothing, a push about one that is gone is not made."""
    assert talk.send(subscribe(ECDS, "filter")) == ["ECDS"]
    assert talk.push(ECDS=build_set({"filter": "1"})) == ["ECDS filter"]
    assert talk.push(ECDS=EMPTY) == []
    assert talk.send(subscribe(ECDS, minus=["filter"])) == ["ECDS"]


def test_6_11_a_reconnect_is_told_what_is_gone(talk):
    """What a client declares of a root type and what does not exist is removed."""
    declared = {**versions(talk, CDS, "a", "b"), "gone": "old"}
    assert talk.send(subscribe(CDS, initial=declared)) == ["CDS -gone"]


def test_a_reconnect_costs_what_differs(talk):
    """What is declared with the version of today is left out, the rest is sent; a version is a digest of the bytes."""
    declared = {**versions(talk, EDS, "a"), "b": "old"}
    assert talk.send(subscribe(EDS, "a", "b", "c", initial=declared)) == ["EDS b c"]


def test_a_reconnect_that_changes_nothing_is_answered(talk):
    """By an empty response, whose ACK says that client and server agree."""
    assert talk.send(subscribe(CDS, initial=versions(talk, CDS, "a", "b"))) == ["CDS"]
    assert talk.send(subscribe(RDS, "80", initial=versions(talk, RDS, "80"))) == ["RDS"]


def test_6_14_endpoints_of_a_changed_cluster_come_though_declared(talk):
    """The client waits for them, whatever it holds."""
    talk.send(subscribe(EDS, "a", "b", initial=versions(talk, EDS, "a", "b")))
    declared = {**versions(talk, CDS, "a"), "b": "old"}
    assert talk.send(subscribe(CDS, initial=declared)) == ["CDS b", "EDS b"]


def test_6_13_after_a_nack_removals_are_told_again(talk):
    """A client that refused a response may not have removed what it named."""
    talk.send(subscribe(CDS))
    talk.send(subscribe(CDS, nonce="s-1"))
    assert talk.push(CDS=build_set({"a": "2"})) == ["CDS a -b"]
    talk.send(subscribe(CDS, nonce="s-2", nack=NACK))
    assert talk.push(CDS=build_set({"a": "2", "c": "1"})) == ["CDS a c -b"]


def test_the_name_table_has_an_empty_name(talk):
    """Which is a name like any other."""
    talk.world[NDS] = build_set({"": "1"})
    assert talk.send(subscribe(NDS)) == ["NDS "]
    assert talk.push(NDS=build_set({"": "2"})) == ["NDS "]


def test_a_name_owed_and_given_up_before_the_answer_is_not_sent(talk):
    """Requests may be read one after the other before the first is answered."""
    session, _ = talk.session.receive(subscribe(EDS, "a", "b"))
    session, _ = session.receive(subscribe(EDS, minus="b"))
    talk.session = session
    assert [str(seen) for seen in talk.offer(EDS)] == ["EDS a"]


def test_a_name_asked_for_again_is_asked_for_without_its_declaration(talk):
    """Of two requests before one answer, the later one counts."""
    session, _ = talk.session.receive(subscribe(EDS, "a", "b", initial=versions(talk, EDS, "a", "b")))
    session, _ = session.receive(subscribe(EDS, minus="b"))
    session, _ = session.receive(subscribe(EDS, "b"))
    talk.session = session
    assert [str(seen) for seen in talk.offer(EDS)] == ["EDS b"]


def test_changes_of_a_subscription_in_an_answer_out_of_date_are_taken_with_the_next(talk):
    """They are not answered at once, as with istiod (§6.9 case 3), but not forgotten either."""
    talk.send(subscribe(EDS, "a"))
    talk.push(EDS=build_set({"a": "2", "b": "1", "c": "1"}))
    assert talk.send(subscribe(EDS, "b", "c", minus=["a"], nonce="s-1")) == []
    assert talk.send(subscribe(EDS, minus=["c"], nonce="s-1")) == []
    assert talk.session.names(EDS) == {"a"}
    assert talk.send(subscribe(EDS, nonce="s-2")) == ["EDS b"]
    assert talk.session.names(EDS) == {"b"}
    assert talk.session.watches[EDS].late is None


def test_names_of_a_nack_are_taken_with_the_ack_of_a_later_response(talk):
    """Not of the same one, as with istiod."""
    talk.send(subscribe(EDS, "a"))
    talk.send(subscribe(EDS, "b", nonce="s-1", nack=NACK))
    assert talk.send(subscribe(EDS, nonce="s-1")) == []
    talk.push(EDS=build_set({"a": "2", "b": "1"}))
    assert talk.send(subscribe(EDS, nonce="s-2")) == ["EDS b"]


def test_what_the_client_says_meanwhile_overrules_what_is_late(talk):
    """Names that it asks for or takes back by itself are settled by that."""
    talk.send(subscribe(EDS, "a"))
    talk.push(EDS=build_set({"a": "2", "b": "1"}))
    talk.send(subscribe(EDS, "b", minus=["a"], nonce="s-1"))
    assert talk.send(subscribe(EDS, "a", minus=["b"])) == []
    assert talk.session.watches[EDS].late is None
    assert talk.send(subscribe(EDS, nonce="s-2")) == []
    assert talk.session.names(EDS) == {"a"}


def test_a_subscription_of_many_names_is_held_once(talk):
    """What is watched, and what is owed of it, is one set: fifty thousand names are a millisecond's work, not ten."""
    names = [f"cluster-{number}" for number in range(1000)]
    session, _ = talk.session.receive(subscribe(EDS, *names))
    watch = session.watches[EDS]
    assert watch.names is watch.owed.names
    assert watch.names == frozenset(names)
