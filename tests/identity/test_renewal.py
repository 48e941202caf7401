"""When certificates are renewed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trierarch.identity.renewal import SHORTEST, seconds_to_renewal

DAY = 86400.0


@given(left=st.floats(-DAY, 90 * DAY), chance=st.floats(0, 1))
def test_about_half_of_what_is_left_passes(left, chance):
    """At 49 to 51 per cent of it there is a new one; what is expired is renewed in a second, not at once."""
    wait = seconds_to_renewal(left=left, chance=chance)
    assert wait == SHORTEST if left < SHORTEST else max(SHORTEST, 0.489 * left) <= wait <= max(SHORTEST, 0.511 * left)


def test_not_all_at_once():
    """A thousand certificates of one moment are renewed over half an hour, not in one moment."""
    waits = [seconds_to_renewal(left=DAY, chance=number / 1000) for number in range(1000)]
    assert max(waits) - min(waits) > 1700
