"""The push queue: places, merging, credits (xds-server.md §3)."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trierarch.push.queue import STANDSTILL, PushQueue
from trierarch.push.request import ConfigKey, PushRequest


def request(*names):
    """A request about services of these names."""
    return PushRequest(keys=frozenset(ConfigKey("ServiceEntry", "shop", name) for name in names))


def granted(queue, now=0.0):
    """The names that are granted now."""
    return [grant.name for grant in queue.grant(now)]


@pytest.fixture
def queue():
    """A queue with two credits."""
    return PushQueue(2)


def test_grants_come_in_order(queue):
    """First come, first served."""
    for name in ("a", "b"):
        queue.offer(name, request(name), 0.0)
    assert granted(queue) == ["a", "b"]
    assert granted(queue) == []


def test_what_waits_is_merged_and_keeps_its_place(queue):
    """A pending connection keeps its place and the time of its oldest change; the keys are united."""
    queue.offer("a", request("x"), 1.0)
    queue.offer("b", request("x"), 2.0)
    queue.offer("a", request("y"), 3.0)
    first, second = queue.grant(4.0)
    assert (first.name, first.request.keys, first.queued_at) == ("a", request("x", "y").keys, 1.0)
    assert second.name == "b"


def test_who_is_not_ready_keeps_its_place(queue):
    """The others pass; the next time it is the first, also in the line for credits."""
    for name in "abcd":
        queue.offer(name, request("x"), 0.0)
    assert [grant.name for grant in queue.grant(0.0, lambda name: name != "a")] == ["b", "c"]
    queue.done("b", 0.0)
    assert [grant.name for grant in queue.grant(0.0, lambda name: name != "d")] == ["a"]
    queue.done("c", 0.0)
    assert granted(queue) == ["d"]


def test_what_comes_in_flight_goes_to_the_tail(queue):
    """A connection is never granted twice at a time; what came meanwhile is merged and waits behind the others."""
    queue.offer("a", request("x"), 0.0)
    assert granted(queue) == ["a"]
    queue.offer("a", request("y"), 1.0)
    queue.offer("a", request("z"), 2.0)
    queue.offer("b", request("x"), 3.0)
    queue.offer("c", request("x"), 3.0, large=False)
    assert granted(queue, 3.0) == ["b", "c"]
    queue.done("a", 0.0)
    (grant,) = queue.grant(4.0)
    assert (grant.name, grant.request.keys, grant.queued_at) == ("a", request("y", "z").keys, 1.0)
    assert queue.deadline() is None


def test_large_pushes_wait_for_a_credit(queue):
    """Two credits: the third large push waits until one of the first two is written."""
    for name in "abcd":
        queue.offer(name, request(name), 0.0)
    assert granted(queue) == ["a", "b"]
    assert (len(queue), queue.statistics().credits_used) == (2, 2)
    queue.done("b", 0.05)
    assert granted(queue, 0.05) == ["c"]


def test_small_pushes_need_no_credit(queue):
    """Small pushes pass large ones that wait, and hold nothing."""
    for name in "abc":
        queue.offer(name, request(name), 0.0)
    for name in "de":
        queue.offer(name, request(name), 0.0, large=False)
    assert granted(queue) == ["a", "b", "d", "e"]
    assert queue.statistics() == type(queue.statistics())(pending=1, in_flight=4, credits_used=2)


def test_merging_a_large_push_makes_a_large_push(queue):
    """Small and large together are large."""
    queue.offer("a", request("x"), 0.0)
    queue.offer("b", request("x"), 0.0)
    queue.offer("c", request("x"), 0.0, large=False)
    queue.offer("c", request("y"), 0.0)
    assert granted(queue) == ["a", "b"]


def test_a_credit_comes_back_after_two_seconds(queue):
    """A reader that stalls while others read loses its credit to those that wait, in order, and gets nothing until it
    has drained.
    """
    names = [f"{number:02}" for number in range(50)]
    for name in ("stalled", *names):
        queue.offer(name, request(name), 10.0)
    assert granted(queue, 10.0) == ["stalled", "00"]
    for number in range(39):  # another one each 0.05 s
        queue.done(names[number], 10.05 + number * 0.05)
        assert granted(queue, 10.05 + number * 0.05) == [names[number + 1]]
    assert queue.deadline() == 12.0
    assert granted(queue, 12.0) == ["40"]
    queue.offer("stalled", request("more"), 12.0, large=False)
    assert granted(queue, 12.0) == []
    queue.done("stalled", 12.0)
    assert granted(queue, 12.0) == ["stalled"]


def test_readers_that_all_stall_lose_their_credits_at_once(queue):
    """Nothing has moved for a moment: whoever holds a credit is stuck, and those behind are served without them."""
    for name in "abcdefg":
        queue.offer(name, request(name), 10.0)
    assert granted(queue, 10.0) == ["a", "b"]
    assert queue.deadline() == 10.0 + STANDSTILL
    assert granted(queue, 10.0 + STANDSTILL / 2) == []
    assert granted(queue, 10.2) == ["c", "d"]
    queue.done("d", 10.25)
    assert granted(queue, 10.25) == ["e"]
    assert queue.deadline() == 10.25 + STANDSTILL
    queue.done("a", 10.3)
    assert granted(queue, 10.3) == []


def test_no_deadline_without_anybody_waiting(queue):
    """A credit that nobody waits for may run out unnoticed."""
    queue.offer("a", request("x"), 0.0)
    assert granted(queue) == ["a"]
    assert queue.deadline() is None


def test_forgetting_frees_everything(queue):
    """A connection that has gone leaves no place, no credit and no request behind, wherever it was."""
    for name in "abcd":
        queue.offer(name, request(name), 0.0)
    assert granted(queue) == ["a", "b"]
    queue.offer("e", request("e"), 0.0)
    for name in "ace":
        queue.forget(name)
    assert granted(queue) == ["d"]
    queue.done("c", 0.0)  # too late, and harmless
    assert granted(queue) == []


def test_stopping_in_the_middle_loses_nothing(queue):
    """Grants are made one at a time: who stops asking finds the rest later."""
    for name in "abc":
        queue.offer(name, request(name), 0.0, large=False)
    assert next(queue.grant(0.0)).name == "a"
    assert granted(queue) == ["b", "c"]


def test_equal_merges_are_shared(queue):
    """Connections that wait with the same two requests share the merged one."""
    older, newer = request("x"), request("y")
    for name in "ab":
        queue.offer(name, older, 0.0)
    for name in "ab":
        queue.offer(name, newer, 1.0)
    first, second = queue.grant(2.0)
    assert first.request is second.request
    assert first.request.keys == request("x", "y").keys


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), st.sampled_from("abcde"), st.booleans()),
        st.tuples(st.just("done"), st.sampled_from("abcde"), st.none()),
        st.tuples(st.just("grant"), st.integers(1, 5), st.none()),
        st.tuples(st.just("wait"), st.sampled_from([0.5, 1.0, 2.0]), st.none()),
    ),
    max_size=60,
)


@given(ACTIONS, st.integers(1, 3))
def test_nothing_is_lost_or_doubled(actions, limit):
    """Whatever the order of things: each key offered is granted to its connection exactly once, credits never exceed
    the limit, and nobody is granted a push while one is in flight.
    """
    queue, now, number = PushQueue(limit), 0.0, 0
    offered = {name: [] for name in "abcde"}
    received = {name: [] for name in "abcde"}
    in_flight = set()

    def take(grants):
        for grant in grants:
            assert grant.name not in in_flight
            in_flight.add(grant.name)
            received[grant.name] += sorted(int(key.name) for key in grant.request.keys)
        assert queue.statistics().credits_used <= limit

    for action, subject, large in actions:
        match action:
            case "offer":
                number += 1
                offered[subject].append(number)
                queue.offer(subject, request(str(number)), now, large=large)
            case "done":
                in_flight.discard(subject)
                queue.done(subject, now)
            case "grant":
                take(islice(queue.grant(now), subject))
            case "wait":
                now += subject
    for _ in range(20):
        for name in "abcde":
            in_flight.discard(name)
            queue.done(name, now)
        take(queue.grant(now))
    assert received == offered
