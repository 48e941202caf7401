"""The token bucket: never more than its rate, in order, and nobody waits longer than he will."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trierarch.push.token_bucket import Pace, TokenBucket


def test_a_burst_is_spread_out():
    """Each waits one interval longer than the one before, until patience ends; then nothing is reserved."""
    bucket = TokenBucket(rate=2.0)
    assert [bucket.reserve(10.0, patience=1.0) for _ in range(5)] == [0.0, 0.5, 1.0, None, None]
    assert bucket.reserve(10.5, patience=1.0) == 1.0


def test_time_without_use_is_not_saved_up():
    """After a pause one begins at once, not several."""
    bucket = TokenBucket(rate=1.0)
    assert [bucket.reserve(now, patience=9.0) for now in (0.0, 100.0, 100.0)] == [0.0, 0.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=50), st.floats(1, 100))
def test_never_more_than_the_rate(pauses, rate):
    """Whenever they ask, those that may begin are an interval apart."""
    bucket, now, begins = TokenBucket(rate), 0.0, []
    for pause in pauses:
        now += pause
        wait = bucket.reserve(now, patience=1.0)
        if wait is not None:
            begins.append(now + wait)
    assert all(later - earlier >= 1 / rate - 1e-9 for earlier, later in pairwise(begins))


def test_hosts_share_the_rate():
    """A host that asks without end takes its share; another gets its turn each time it asks."""
    bucket, refused, waits = TokenBucket(rate=20.0), 0, []
    for tick in range(1000):
        now = tick / 100
        for _ in range(5):
            refused += bucket.reserve(now, 1.0, "greedy") is None
        if tick % 20 == 10:
            waits.append(bucket.reserve(now, 1.0, "modest"))
    assert refused > 4000
    assert None not in waits
    assert max(waits) <= 1.1
    assert max(waits[25:]) < 0.1


def test_alone_a_host_may_have_everything():
    """Nobody is held back for others that are not there, or have not asked for ten seconds."""
    bucket = TokenBucket(rate=10.0)
    for host in "abc":
        bucket.reserve(0.0, 1.0, host)
    granted = [bucket.reserve(20.0, 1.0, "a") for _ in range(10)]
    assert granted == pytest.approx([number / 10 for number in range(10)])


def test_many_clients_behind_one_address_get_a_quarter():
    """However many hosts share, none is left with less."""
    bucket, granted = TokenBucket(rate=100.0), 0
    for tick in range(1000):
        now = tick / 100
        for host in range(20):
            bucket.reserve(now, 1.0, f"host {host}")
        granted += bucket.reserve(now, 1.0, "gateway") is not None
    assert granted >= 10


def test_a_pace_is_paid_by_waiting():
    """Two seconds may be spent ahead, then each unit takes its time; what time pays is not saved up beyond that."""
    pace = Pace(each=0.01, ahead=2.0)
    assert [pace.spend(100, 10.0) for _ in range(4)] == pytest.approx([0.0, 0.0, 1.0, 2.0])
    assert pace.spend(0, 12.0) == pytest.approx(0.0)
    assert pace.spend(300, 100.0) == pytest.approx(1.0)
