"""The public description of the protocol, section by section, against a session in both dialects.

It is Envoy's page "xDS REST and gRPC protocol" (envoyproxy.io, api-docs/xds_protocol). Each part below has the name of
a section there, each test that of a rule in it, in our own words. Left out is what only a client does: file system
subscriptions, validation by annotations, bootstrap, timeouts, and polling over REST, which is not offered.

Where we keep to istiod instead of the page, the test says so: an Envoy gets all clusters and listeners whatever it
names (gRPC clients, which go by names, are treated as the page says), endpoints or routes that nobody defines come
empty instead of being reported missing, and a leaf that is subscribed to again by itself is not sent again.
"""

import pytest
from envoy.service.discovery.v3 import discovery_pb2

from protocol.xds.events import Acked, Asked, NotServed
from protocol.xds.requests import Nack
from protocol.xds.session import AdsSession
from tests.protocol.xds.conversation import Conversation
from tests.protocol.xds.tables import (
    BY_NAME,
    CDS,
    EDS,
    LDS,
    RDS,
    SDS,
    TYPES,
    ask,
    build_set,
    subscribe,
)

ROOTS, LEAVES = (CDS, LDS), (EDS, RDS)


class Peer:
    """A client of one stream that says the same in either dialect, and a world of resources `name=content`."""

    def __init__(self, dialect, types=TYPES, stream="s", **world) -> None:
        self.is_delta = dialect == "delta"
        self.talk = Conversation(getattr(AdsSession, dialect)(types, stream))
        self.wanted = {}
        self.change(**world)

    def change(self, **world):
        """Other resources are there from now on; nothing is pushed yet."""
        urls = {"CDS": CDS, "EDS": EDS, "LDS": LDS, "RDS": RDS, "SDS": SDS}
        self.talk.world |= {urls[short]: build_set(contents) for short, contents in world.items()}

    def want(self, url, *names, nonce=None):
        """Ask for just these names from now on (none: all), under the last nonce unless another one is given."""
        before, self.wanted[url] = self.wanted.get(url, ()), names
        nonce = self.talk.nonces.get(url, "") if nonce is None else nonce
        if not self.is_delta:
            return self.talk.send(ask(url, *names, nonce=nonce))
        added = [name for name in names if name not in before]
        return self.talk.send(subscribe(url, *added, minus=[name for name in before if name not in names], nonce=nonce))

    def answer(self, url, nack=None, nonce=None):
        """Acknowledge the last response of a type, or refuse it."""
        nonce = self.talk.nonces[url] if nonce is None else nonce
        if self.is_delta:
            return self.talk.send(subscribe(url, nonce=nonce, nack=nack))
        return self.talk.send(ask(url, *self.wanted[url], nonce=nonce, nack=nack))

    def push(self, **world):
        """The world changes and everything watched is offered."""
        self.change(**world)
        return self.talk.push()

    def see(self, url):
        """Offer one type, and look at the response as the client does."""
        (seen,) = self.talk.offer(url)
        return seen


@pytest.fixture(params=["sotw", "delta"])
def dialect(request):
    """State of the world, or incremental."""
    return request.param


@pytest.fixture
def peer(dialect):
    """A client of a small world that has not asked for anything yet."""
    return Peer(
        dialect,
        CDS={"a": "1", "b": "1"},
        EDS={"a": "1", "b": "1"},
        LDS={"l": "1"},
        RDS={"l-routes": "1"},
    )


# --- Resource types --------------------------------------------------------------------------------------------------
def test_a_response_states_the_type_url_that_was_asked_for(peer):
    """So does each resource in it."""
    for url in (CDS, EDS, LDS):
        peer.talk.session, _ = peer.talk.session.receive((subscribe if peer.is_delta else ask)(url, "a"))
        _, response = peer.talk.session.respond(url, peer.talk.world[url])
        message = discovery_pb2.DeltaDiscoveryResponse if peer.is_delta else discovery_pb2.DiscoveryResponse
        decoded = message.FromString(b"".join(response.buffers))
        bodies = [one.resource for one in decoded.resources] if peer.is_delta else decoded.resources
        assert {decoded.type_url, *(body.type_url for body in bodies)} == {url}


def test_a_type_that_is_not_known_is_passed_over(peer):
    """The page says nothing of it; the stream and its other types go on."""
    assert peer.want("type.googleapis.com/envoy.service.runtime.v3.Runtime", "a") == []
    assert [type(event) for event in peer.talk.events] == [NotServed]
    assert peer.want(CDS) == ["CDS a b"]


# --- API flow --------------------------------------------------------------------------------------------------------
def test_a_proxy_begins_with_the_roots_and_follows_their_references(peer):
    """Clusters and listeners first; then the endpoints and routes that these refer to."""
    assert peer.want(CDS) == ["CDS a b"]
    assert peer.want(EDS, "a", "b") == ["EDS a b"]
    assert peer.want(LDS) == ["LDS l"]
    assert peer.want(RDS, "l-routes") == ["RDS l-routes"]


def test_a_client_without_a_proxy_begins_with_a_listener_that_it_knows(dialect):
    """It gets just what it names, of every type."""
    peer = Peer(dialect, BY_NAME, LDS={"l": "1", "m": "1"}, CDS={"a": "1", "b": "1"})
    assert peer.want(LDS, "l") == ["LDS l"]
    assert peer.want(CDS, "b") == ["CDS b"]


# --- Variants of the transport protocol ------------------------------------------------------------------------------
def test_each_type_is_a_stream_of_its_own_within_the_one_stream(peer):
    """What is said of one type is no answer to another, and does not change its subscription."""
    peer.want(CDS)
    peer.want(EDS, "a")
    assert peer.answer(CDS, nonce=peer.talk.nonces[EDS]) == []
    assert Acked not in map(type, peer.talk.events)
    assert peer.push(EDS={"a": "2", "b": "1"}) == ["EDS a"]
    assert peer.talk.session.watches[CDS].acked == ""


# --- Basic protocol overview -----------------------------------------------------------------------------------------
def test_further_responses_come_when_resources_change(peer):
    """At any time, without being asked, and without waiting for an answer to the one before."""
    peer.want(EDS, "a", "b")
    for content in "234":
        assert peer.push(EDS={"a": content, "b": "1"}) == ["EDS a"]


def test_every_response_has_a_nonce_of_its_own(peer):
    """So that it can be told which one a request answers."""
    peer.want(CDS)
    nonces = [peer.talk.nonces[CDS]]
    for content in "23":
        peer.push(CDS={"a": content})
        nonces.append(peer.talk.nonces[CDS])
    assert len(set(nonces)) == 3
    assert all(nonces)


def test_a_nonce_does_not_outlive_its_stream(dialect):
    """A reconnecting client that still names one is answered as one that names none."""
    first = Peer(dialect, stream="1", CDS={"a": "1"})
    first.want(CDS)
    second = Peer(dialect, stream="2", CDS={"a": "1"})
    assert second.want(CDS, nonce=first.talk.nonces[CDS]) == ["CDS a"]
    assert second.talk.nonces[CDS] != first.talk.nonces[CDS]


# --- ACK, NACK and the version of a type -----------------------------------------------------------------------------
def test_the_version_changes_whenever_a_resource_does(peer):
    """And only then."""
    peer.want(CDS)
    versions = []
    for content in ("2", "3"):
        peer.change(CDS={"a": content})
        versions.append(peer.see(CDS).version)
    assert len(set(versions)) == 2
    assert peer.talk.offer(CDS) == []


def test_the_version_is_a_property_of_the_resources_and_not_of_the_stream(dialect):
    """Another stream, even of another process, sees the same for the same resources."""
    versions = set()
    for stream in "12":
        peer = Peer(dialect, stream=stream, CDS={"a": "1"})
        (seen,) = peer.talk.answer((subscribe if peer.is_delta else ask)(CDS))
        versions.add((seen.version, *seen.versions.values()))
    assert len(versions) == 1


def test_each_type_has_its_own_version(peer):
    """A change of endpoints leaves that of the clusters alone."""
    peer.want(CDS)
    before = peer.talk.world[CDS].version
    peer.want(EDS, "a")
    peer.push(EDS={"a": "2"})
    assert peer.talk.session.watches[CDS].sent.version == before


def test_an_ack_needs_no_answer(peer):
    """It says that all is well."""
    peer.want(CDS)
    assert peer.answer(CDS) == []
    assert peer.talk.events == (Acked(type_url=CDS, nonce=peer.talk.nonces[CDS]),)


def test_a_nack_is_known_by_its_error_and_by_nothing_else():
    """Not by the version: a client that subscribes to more may well name an older one."""
    peer = Peer("sotw", EDS={"a": "1", "b": "1"})
    peer.want(EDS, "a")
    peer.talk.send(ask(EDS, "a", nonce=peer.talk.nonces[EDS], version="not the one that was sent"))
    assert [type(event) for event in peer.talk.events] == [Acked]


def test_after_a_nack_a_later_version_may_succeed(peer):
    """The refused one is not sent again meanwhile."""
    peer.want(EDS, "a")
    peer.push(EDS={"a": "bad"})
    assert peer.answer(EDS, Nack(code=13, message="bad")) == []
    assert peer.push() == []
    assert peer.push(EDS={"a": "3"}) == ["EDS a"]
    peer.answer(EDS)
    assert [type(event) for event in peer.talk.events] == [Acked]


# --- When to send an update ------------------------------------------------------------------------------------------
def test_what_has_not_changed_is_not_sent_again(peer):
    """However often it is offered: work for nothing on both sides."""
    peer.want(CDS)
    peer.want(EDS, "a", "b")
    assert peer.push() == peer.push() == []


def test_a_later_request_of_a_type_supersedes_those_before(peer):
    """Two requests that are read before the first is answered need one answer, to the latter."""
    say = subscribe if peer.is_delta else ask
    for names in (["a"], ["a", "b"]):
        peer.talk.session, _ = peer.talk.session.receive(say(EDS, *names))
    assert [str(seen) for seen in peer.talk.offer(EDS)] == ["EDS a b"]
    assert peer.talk.offer(EDS) == []


# --- How the client specifies what resources to return ---------------------------------------------------------------
def test_named_resources_are_sent_if_they_exist(peer):
    """These and no others."""
    assert peer.want(EDS, "b") == ["EDS b"]


def test_a_name_that_is_newly_asked_for_is_sent_even_if_it_was_sent_before(peer):
    """Unchanged, and though the client may have it still."""
    peer.want(EDS, "a", "b")
    peer.want(EDS, "a")
    assert peer.want(EDS, "a", "b") == ["EDS b"]


def test_no_names_at_all_mean_no_interest_in_a_leaf_type(peer):
    """Nothing more is sent of it."""
    peer.want(EDS, "a")
    peer.want(EDS)
    assert peer.push(EDS={"a": "2"}) == []


@pytest.mark.parametrize("names", [(), ("*",)])
@pytest.mark.parametrize("url", ROOTS)
def test_the_wildcard_is_a_star_or_nothing_as_first_words(peer, names, url):
    """The server knows which resources that means."""
    assert peer.want(url, *names) == [{CDS: "CDS a b", LDS: "LDS l"}[url]]


def test_a_star_beside_a_name_is_the_wildcard_still(peer):
    """The name brings nothing more."""
    assert peer.want(CDS, "*", "a") == ["CDS a b"]
    assert peer.push(CDS={"a": "1", "b": "1", "c": "1"}) in (["CDS a b c"], ["CDS c"])


def test_an_envoy_that_gives_up_the_wildcard_gets_everything_still(peer):
    """As with istiod: which clusters and listeners an Envoy has is not for it to say."""
    peer.want(CDS, "*", "a")
    peer.want(CDS, "a")
    assert peer.push(CDS={"a": "1", "b": "2"}) in (["CDS a b"], ["CDS b"])


def test_a_client_by_names_that_clears_its_list_has_unsubscribed(dialect):
    """Once it has named something, no names no longer mean all."""
    peer = Peer(dialect, BY_NAME, CDS={"a": "1", "b": "1"})
    assert peer.want(CDS, "a") == ["CDS a"]
    assert peer.want(CDS) == []
    assert peer.push(CDS={"a": "2", "b": "2"}) == []


# --- Grouping resources into responses -------------------------------------------------------------------------------
def test_a_response_holds_only_what_changed(peer):
    """Of every type in the incremental dialect, of all but clusters and listeners in the other."""
    peer.want(CDS)
    peer.want(LDS)
    peer.want(EDS, "a", "b")
    pushed = peer.push(CDS={"a": "1", "b": "2"}, EDS={"a": "2", "b": "1"}, LDS={"l": "1", "m": "1"})
    roots = ["CDS b", "LDS m"] if peer.is_delta else ["CDS a b", "LDS l m"]
    assert pushed == [roots[0], "EDS a b", roots[1]], "endpoints of b follow their cluster"


# --- Duplicate resource names ----------------------------------------------------------------------------------------
def test_no_name_comes_twice_in_a_response(peer):
    """Not even if it is asked for twice, owed and changed at once (what reads responses here refuses such ones)."""
    say = subscribe if peer.is_delta else ask
    peer.talk.session, _ = peer.talk.session.receive(say(EDS, "a", "a", "b"))
    peer.change(EDS={"a": "2", "b": "1"})
    assert [str(seen) for seen in peer.talk.offer(EDS)] == ["EDS a b"]


# --- Deleting resources ----------------------------------------------------------------------------------------------
def test_what_is_deleted_is_named_or_left_out(peer):
    """Incrementally it is named; in the state of the world clusters and listeners that are missing are gone."""
    peer.want(CDS)
    assert peer.push(CDS={"b": "1"}) == (["CDS -a"] if peer.is_delta else ["CDS b"])


def test_an_empty_world_deletes_everything(peer):
    """Also the last resource is told of."""
    peer.want(CDS)
    assert peer.push(CDS={}) == (["CDS -a -b"] if peer.is_delta else ["CDS"])


def test_leaves_are_deleted_through_what_refers_to_them(peer):
    """A cluster that goes takes its endpoints along: the client is told of the cluster alone."""
    peer.want(CDS)
    peer.want(EDS, "a", "b")
    peer.change(CDS={"b": "1"}, EDS={"b": "1"})
    session, response = peer.talk.session.respond(CDS, peer.talk.world[CDS])
    assert response is not None
    assert session.respond(EDS, peer.talk.world[EDS], following=True)[1] is None


# --- Knowing when a requested resource does not exist ----------------------------------------------------------------
def test_a_name_that_does_not_exist_is_remembered(peer):
    """Should it spring into existence, the client gets it without asking again."""
    peer.want(SDS, "cert")
    assert peer.push(SDS={"cert": "1"}) == ["SDS cert"]


def test_incrementally_a_root_that_does_not_exist_is_reported_removed():
    """At once, so that the client need not wait for a timeout."""
    for types in (TYPES, BY_NAME):
        peer = Peer("delta", types, CDS={"a": "1"})
        assert peer.want(CDS, "a", "nowhere") == ["CDS a -nowhere"]


def test_endpoints_and_routes_that_do_not_exist_come_empty(peer):
    """In both dialects, as with istiod: Envoy would wait for them, and serve nothing that refers to them meanwhile."""
    for url in LEAVES:
        peer.talk.session, _ = peer.talk.session.receive((subscribe if peer.is_delta else ask)(url, "nowhere"))
        seen = peer.see(url)
        assert (seen.bodies, seen.removed) == ({"nowhere": b"nowhere="}, ())


# --- Unsubscribing from resources ------------------------------------------------------------------------------------
def test_what_is_no_longer_asked_for_is_no_longer_sent(peer):
    """And giving it up needs no answer."""
    peer.want(EDS, "a", "b")
    assert peer.want(EDS, "a") == []
    assert peer.push(EDS={"a": "1", "b": "2"}) == []


def test_single_resources_of_the_wildcard_cannot_be_given_up(peer):
    """The set is the server's: pushes of them go on."""
    peer.want(CDS)
    if peer.is_delta:
        assert peer.talk.send(subscribe(CDS, minus=["a"])) == []
    assert peer.push(CDS={"a": "2", "b": "1"}) in (["CDS a b"], ["CDS a"])


# --- Requesting multiple resources on a single stream ----------------------------------------------------------------
def test_names_may_come_together_or_one_after_the_other(peer):
    """Both ways lead to the same subscription."""
    assert peer.want(EDS, "a") == ["EDS a"]
    assert peer.want(EDS, "a", "b") == ["EDS b"]
    assert peer.push(EDS={"a": "2", "b": "2"}) == ["EDS a b"]


# --- Resource updates ------------------------------------------------------------------------------------------------
def test_a_client_may_subscribe_to_more_under_the_version_that_it_has(peer):
    """As it does when it learns of a cluster: only what is new is sent, and the request is an ACK as well."""
    peer.want(EDS, "a")
    assert peer.want(EDS, "a", "b") == ["EDS b"]
    assert [type(event) for event in peer.talk.events] == [Acked, Asked]


def test_a_request_that_crosses_a_response_is_no_rejection_of_it(peer):
    """The nonce tells which response it belongs to; it gets no answer, for another request will come."""
    peer.want(EDS, "a")
    older = peer.talk.nonces[EDS]
    peer.push(EDS={"a": "2", "b": "1"})
    assert peer.want(EDS, "a", "b", nonce=older) == []
    assert peer.talk.session.watches[EDS].rejection is None
    assert peer.answer(EDS) == ["EDS b"], "the names that crossed are not lost"


def test_several_requests_under_one_nonce_are_each_processed(peer):
    """Until there is something newer."""
    peer.want(EDS, "a")
    nonce = peer.talk.nonces[EDS]
    say = subscribe if peer.is_delta else ask
    session, _ = peer.talk.session.receive(say(EDS, "a", nonce=nonce))
    session, events = session.receive(say(EDS, "a", "b", nonce=nonce))
    assert Asked in map(type, events)
    assert session.names(EDS) == {"a", "b"}


# --- Resource warming ------------------------------------------------------------------------------------------------
def test_a_changed_cluster_is_followed_by_its_endpoints_though_they_are_the_same(peer):
    """In the same push: Envoy keeps the cluster warming until it gets them, and does not ask."""
    peer.want(CDS)
    peer.want(EDS, "a", "b")
    assert peer.push(CDS={"a": "2", "b": "1"}) == (["CDS a", "EDS a"] if peer.is_delta else ["CDS a b", "EDS a"])


def test_clusters_that_are_asked_for_anew_are_followed_by_their_endpoints(peer):
    """Incrementally unasked; in the state of the world by answering the client's next request, once."""
    peer.want(EDS, "a")
    if peer.is_delta:
        assert peer.want(CDS) == ["CDS a b", "EDS a"]
    else:
        assert peer.want(CDS) == ["CDS a b"]
        assert peer.answer(EDS) == ["EDS a"]
    assert peer.answer(EDS) == []


# --- Eventual consistency considerations -----------------------------------------------------------------------------
def test_make_before_break_is_the_order_of_a_push(peer):
    """Clusters, their endpoints, listeners, routes: nothing is referred to before it is there."""
    for url, names in ((RDS, ("l-routes",)), (LDS, ()), (EDS, ("a",)), (CDS, ())):
        peer.want(url, *names)
    pushed = peer.push(CDS={"a": "2"}, EDS={"a": "2"}, LDS={"l": "2"}, RDS={"l-routes": "2"})
    assert [response.split()[0] for response in pushed] == ["CDS", "EDS", "LDS", "RDS"]


# --- TTL -------------------------------------------------------------------------------------------------------------
def test_resources_are_valid_until_they_are_replaced():
    """A time to live is optional, and not set: an Envoy that loses its control plane keeps what it has."""
    session, _ = AdsSession.delta(TYPES, "s").receive(subscribe(EDS, "a"))
    _, response = session.respond(EDS, build_set({"a": "1"}))
    decoded = discovery_pb2.DeltaDiscoveryResponse.FromString(b"".join(response.buffers))
    assert not any(resource.HasField("ttl") or resource.cache_control.do_not_cache for resource in decoded.resources)


# --- Incremental xDS -------------------------------------------------------------------------------------------------
def test_a_spontaneous_request_has_no_nonce_and_acknowledges_nothing():
    """It only adds names or takes them away."""
    peer = Peer("delta", EDS={"a": "1", "b": "1"})
    peer.want(EDS, "a")
    assert peer.want(EDS, "a", "b", nonce="") == ["EDS b"]
    assert [type(event) for event in peer.talk.events] == [Asked]


def test_changes_of_a_subscription_count_even_under_a_nonce_that_is_out_of_date():
    """They are taken with the next ACK, which is as soon as istiod's clients may expect an answer."""
    peer = Peer("delta", EDS={"a": "1", "b": "1"})
    peer.want(EDS, "a")
    older = peer.talk.nonces[EDS]
    peer.push(EDS={"a": "2", "b": "1"})
    assert peer.want(EDS, "b", nonce=older) == []
    assert peer.answer(EDS) == ["EDS b"]
    assert peer.push(EDS={"a": "3", "b": "1"}) == []


def test_a_reconnect_is_sent_what_differs_from_what_it_declares():
    """By version; what is gone is told as removed, what it holds already is not sent."""
    peer = Peer("delta", CDS={"a": "1", "b": "2", "c": "1"})
    held = {name: peer.talk.world[CDS].get(name).version for name in ("a", "c")} | {"b": "old", "gone": "old"}
    assert peer.talk.send(subscribe(CDS, initial=held)) == ["CDS b -gone"]


def test_a_reconnecting_client_names_all_that_it_is_interested_in_again():
    """Nothing is kept of the stream before. What it declares counts as named, as with istiod."""
    peer = Peer("delta", EDS={"a": "1", "b": "1", "c": "1"})
    peer.talk.send(subscribe(EDS, "a", initial={"b": "old"}))
    assert peer.push(EDS={"a": "2", "b": "2", "c": "2"}) == ["EDS a b"]


@pytest.mark.parametrize("names", [(), ("*",)])
def test_a_reconnect_to_the_wildcard_says_so_in_either_way(names):
    """By a star, or by nothing at all beside what it holds."""
    peer = Peer("delta", CDS={"a": "1"})
    assert peer.talk.send(subscribe(CDS, *names, initial={"a": "old"})) == ["CDS a"]
    assert peer.push(CDS={"a": "1", "b": "1"}) == ["CDS b"]


# --- Resource names --------------------------------------------------------------------------------------------------
def test_resources_have_names_and_no_aliases():
    """None are sent, and a name that is not a resource's own means nothing."""
    session, _ = AdsSession.delta(TYPES, "s").receive(subscribe(CDS))
    _, response = session.respond(CDS, build_set({"a": "1"}))
    decoded = discovery_pb2.DeltaDiscoveryResponse.FromString(b"".join(response.buffers))
    assert [(resource.name, list(resource.aliases)) for resource in decoded.resources] == [("a", [])]


# --- Subscribing to resources ----------------------------------------------------------------------------------------
def test_the_wildcard_that_is_subscribed_to_again_is_answered_in_full():
    """The client may have forgotten what it had."""
    peer = Peer("delta", CDS={"a": "1", "b": "1"})
    peer.want(CDS, "*")
    assert peer.talk.send(subscribe(CDS, "*")) == ["CDS a b"]


def test_a_name_beside_held_ones_brings_these_too():
    """All that a request subscribes to is sent. But where it names nothing new it is taken for an ACK, as by istiod."""
    peer = Peer("delta", EDS={"a": "1", "b": "1"})
    peer.want(EDS, "a")
    assert peer.talk.send(subscribe(EDS, "a", "b")) == ["EDS a b"]
    assert peer.talk.send(subscribe(EDS, "a", "b")) == []


# --- Unsubscribing from resources (incremental) ----------------------------------------------------------------------
def test_giving_up_what_was_not_subscribed_to_is_passed_over():
    """No error, no answer."""
    peer = Peer("delta", EDS={"a": "1"})
    peer.want(EDS, "a")
    assert peer.talk.send(subscribe(EDS, minus=["a", "phantom"])) == []
    assert peer.talk.send(subscribe(EDS, minus=["phantom"])) == []


def test_a_name_given_up_beside_the_wildcard_is_answered():
    """The client must hear whether the wildcard holds it still. It does: an Envoy's wildcard is all that there is."""
    peer = Peer("delta", CDS={"a": "1", "b": "1"})
    assert peer.want(CDS, "*", "a", "nowhere") == ["CDS a b -nowhere"]
    assert peer.talk.send(subscribe(CDS, minus=["a"])) == ["CDS a b"]
