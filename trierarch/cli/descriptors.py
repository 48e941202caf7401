"""How many files and sockets the process may have open."""

from __future__ import annotations

import resource

ENOUGH = 50_000
"""More than both ports with as many connections as they take, and everything else."""


def raise_limit() -> int:
    """Have as many as the process may give itself, which is often far more than it began with, `ENOUGH` at most.
    Returns how many it has.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
