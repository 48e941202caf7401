"""What has changed lately."""

from __future__ import annotations

from trierarch.push.history import KEPT, History
from trierarch.push.request import PushRequest


def request(number):
    """A request that is told apart by its reason."""
    return PushRequest(reasons={str(number): 1})


def test_it_tells_what_came_after_a_snapshot():
    """Oldest first; nothing after the newest."""
    history = History()
    for number in (4, 6, 9):
        history = history.added(number, request(number))
    assert [dict(each.reasons) for each in history.after(4)] == [{"6": 1}, {"9": 1}]
    assert history.after(9) == ()


def test_it_is_bounded():
    """The oldest are forgotten."""
    history = History()
    for number in range(KEPT + 50):
        history = history.added(number, request(number))
    assert len(history.after(-1)) == KEPT
    assert history.after(-1)[-1] == request(KEPT + 49)
