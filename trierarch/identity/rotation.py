"""When a certificate is due to be replaced, by the part of its life that is left. Times: seconds since the epoch."""

from __future__ import annotations

REMAINING = 0.5
"""The part of its life that a workload's certificate has left when it is replaced (platform.md §1.5)."""

JITTER = 0.01
"""By as much, to either side, that part differs from one certificate to the next: they were made at the same time."""


def due_at(not_before: float, not_after: float, *, remaining: float = REMAINING, shift: float = 0.0) -> float:
    """When no more than this part of its life remains. `shift`: -1 to 1, how much of the jitter to add."""
    return not_after - (not_after - not_before) * (remaining + shift * JITTER)
