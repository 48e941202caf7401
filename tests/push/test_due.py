"""What a view and single members of it wait for."""

from __future__ import annotations

from trierarch.push.due import Due
from trierarch.push.request import ConfigKey, PushRequest


def request(name):
    """A request about one service."""
    return PushRequest(keys=frozenset({ConfigKey("ServiceEntry", "shop", name)}))


def names(found):
    """The names in a request, or None."""
    return found and sorted(key.name for key in found.keys)


def test_a_change_concerns_all_members():
    """Changes that come one after the other are merged."""
    due = Due()
    assert due.of("a") is None
    due.add(request("x"))
    due.add(request("y"))
    assert names(due.of("a")) == names(due.of("b")) == ["x", "y"]


def test_a_newcomer_waits_for_more():
    """For what it waited for elsewhere, for what moved it, and for what comes after that; not for what came before."""
    due = Due()
    due.add(request("before"))
    due.add_newcomer("a", request("elsewhere"), request("moved"))
    due.add(request("after"))
    assert names(due.of("a")) == ["after", "elsewhere", "moved"]
    assert names(due.of("b")) == ["after", "before"]
    assert [names(each) for each in due.requests()] == [["after", "elsewhere", "moved"], ["after", "before"]]


def test_only_a_newcomer_may_wait():
    """Then there is nothing that all wait for."""
    due = Due()
    due.add_newcomer("a", None, request("moved"))
    assert names(due.of("a")) == ["moved"]
    assert due.of("b") is None
    assert len(tuple(due.requests())) == 1
