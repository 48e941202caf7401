"""Work that is too long to be done between two other things, in a thread. No actor: actors call it.

One piece at a time in each of two lanes: more threads would take the interpreter from the event loop more often, and
whoever sends much can wait for others who do. Whoever sends no more than many do, a Node with a list of extensions,
does not wait for those whose megabytes take a second. A piece of work holds the loop up by some five milliseconds at a
time (`sys.getswitchinterval`), not by its whole length.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from protocol.errors import LocalError, RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable

ResultT = TypeVar("ResultT")

LONG = 4.0
"""Milliseconds from which work is put aside."""

LARGE = 8 * 1024
"""Bytes from which reading a client's message is put aside. The worst that somebody can make of them, a Node of lists
in lists, takes four milliseconds; a request of nothing but groups in groups, two and a half. A thread costs 0.07 ms.
"""

HUGE = 128 * 1024
"""Bytes from which it waits in another lane: of less, the worst takes 60 ms."""

_LANE, _SLOW_LANE = trio.CapacityLimiter(1), trio.CapacityLimiter(1)


async def read_aside(read: Callable[[bytes], ResultT], data: bytes, weigh: Callable[[bytes], int] = len) -> ResultT:
    """What `read` makes of the data: at once if it is small, else in a thread. Raises what `read` raises.

    `weigh` says how many of the bytes may take long, if that is not all of them.
    """
    size = len(data)
    if size < LARGE or (size < HUGE and weigh(data) < LARGE):
        return read(data)
    return await _put_aside(partial(read, data), _LANE if size < HUGE else _SLOW_LANE)


async def work_aside(work: Callable[[], ResultT], expected: float) -> ResultT:
    """What the work comes to: at once if it takes little time, `expected` milliseconds, else in a thread."""
    return work() if expected < LONG else await _put_aside(work, _SLOW_LANE)


async def _put_aside(work: Callable[[], ResultT], lane: trio.CapacityLimiter) -> ResultT:
    """Do it in a thread. Whoever asked may be killed meanwhile, but not before it has what came of it: nobody else
    has what went in.
    """
    with trio.CancelScope(shield=True):
        found = await trio.to_thread.run_sync(_outcome, work, limiter=lane)
        try:
            if isinstance(found, RemoteError):
                raise found
            return found
        finally:
            del found  # or the error would hold this frame, and this frame the error
    raise LocalError("a shield was cancelled")  # nobody else has it; but to type checkers a scope may swallow its end


def _outcome(work: Callable[[], ResultT]) -> ResultT | RemoteError:
    """What the work comes to, or why it is refused. What is raised in a thread comes back in a cycle with the thread's
    frames, and these have what the client sent; of what dies in a cycle nothing is collected for long.
    """
    try:
        return work()
    except RemoteError as refusal:
        return refusal.with_traceback(None)
