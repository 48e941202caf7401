"""When a certificate is renewed: well before it expires, and not all of them at once (platform.md §1.5)."""

from __future__ import annotations

GRACE_RATIO = 0.5
"""The part of a certificate's life that is left when it is renewed. Istio's agent: SECRET_GRACE_PERIOD_RATIO."""
JITTER_RATIO = 0.01
"""The ratio varies by so much up or down."""
SHORTEST = 1.0
"""Seconds. A certificate that lives shorter is not renewed more often."""


def seconds_to_renewal(*, left: float, chance: float) -> float:
    """How long to wait before a certificate is renewed that is new now; `left`: seconds until it expires.

    When it begins to be valid does not count: that lies back a little, for clocks differ. `chance`, from 0 to 1,
    decides where in the jitter it falls.
    """
    ratio = GRACE_RATIO + JITTER_RATIO * (2 * chance - 1)
    return max(SHORTEST, left * (1 - ratio))
