"""What a view and single members of it wait for."""

from __future__ import annotations

from tests.envoy.samples import inbound_key, outbound_key
from trierarch.push.due import Due, DueViews
from trierarch.push.request import ConfigKey, PushRequest
from trierarch.push.view import View

A_1, A_2, A_3 = (View(outbound=outbound_key(), inbound=inbound_key(address=address)) for address in "123")
B_1 = View(outbound=outbound_key(network="elsewhere"), inbound=inbound_key())


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


def test_views_of_one_key_are_taken_together():
    """The key that waits longest comes first; of its views only so many, and the rest stays where it is."""
    waiting = DueViews()
    for view in (A_1, B_1, A_2, A_3):
        waiting.of(view)
    assert [tuple(waiting.take(2)) for _ in range(3)] == [(A_1, A_2), (A_3,), (B_1,)]
    assert not waiting


def test_a_view_waits_until_it_is_taken_or_gone():
    """It is found meanwhile with what it waits for; a view that nobody has waits for nothing."""
    waiting = DueViews()
    due = [waiting.of(view) for view in (A_1, A_2, B_1)]
    assert waiting.left(A_1) is due[0]
    waiting.keep({A_2})
    assert (waiting.left(A_1), waiting.left(B_1)) == (None, None)
    assert waiting.take(9) == {A_2: due[1]}


def test_what_could_not_be_built_comes_along_later():
    """Until then nothing waits, though it is not forgotten either; and it is owed once."""
    waiting, due = DueViews(), Due()
    waiting.owe(A_1, due)
    assert (bool(waiting), waiting.left(A_1)) == (False, due)
    assert waiting.of(A_1) is due
    waiting.take(9)
    assert waiting.left(A_1) is None
    waiting.owe(A_1, due)
    waiting.keep({A_2})
    assert waiting.left(A_1) is None
