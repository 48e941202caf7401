"""The token bucket: never more than its rate, in order, and nobody waits longer than he will."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from trierarch.push.token_bucket import TokenBucket


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
