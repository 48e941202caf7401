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


def test_what_was_missed_is_one_request():
    """Whoever comes without a snapshot has missed nothing."""
    history = History().added(1, request(1)).added(2, request(2)).added(3, request(3))
    assert dict(history.missed(1).reasons) == {"2": 1, "3": 1}
    assert history.missed(0) == history.missed(3) == PushRequest()
