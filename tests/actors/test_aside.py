"""Work that is put aside: small pieces at once, large ones in a thread, one at a time."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from actors.aside import LARGE, LONG, read_aside, work_aside
from protocol.errors import RemoteError


async def test_small_work_is_done_at_once():
    """In this thread, and before anybody else has a turn."""
    with trio.testing.assert_no_checkpoints():
        assert await read_aside(lambda data: (threading.current_thread(), data), b"x") == (
            threading.current_thread(),
            b"x",
        )


async def test_large_work_leaves_turns_to_others():
    """It is done in a thread: the event loop goes on meanwhile."""
    go, done = threading.Event(), []

    def slow(data):
        go.wait(5)
        return len(data), threading.current_thread()

    async def work():
        done.append(await read_aside(slow, bytes(LARGE)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await trio.testing.wait_all_tasks_blocked()
        assert not done
        go.set()
    assert done[0][0] == LARGE
    assert done[0][1] is not threading.current_thread()


async def test_one_piece_at_a_time():
    """However many clients send much at once, one thread works for them."""
    at_work, most = 0, 0

    def count(_):
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        at_work -= 1

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(read_aside, count, bytes(LARGE))
    assert most == 1


async def test_what_is_wrong_is_raised():
    """The client's fault comes back from the thread as what it is."""

    def refuse(_):
        raise RemoteError(3, "no")

    with pytest.raises(RemoteError):
        await read_aside(refuse, bytes(LARGE))


async def test_long_work_is_put_aside_by_what_is_expected_of_it():
    """At once if it is short, else in a thread; and it is finished, though whoever asked is cancelled meanwhile."""
    with trio.testing.assert_no_checkpoints():
        assert await work_aside(threading.current_thread, LONG / 2) is threading.current_thread()
    with trio.CancelScope() as scope:
        scope.cancel()
        assert await work_aside(threading.current_thread, LONG) is not threading.current_thread()
        done = True
    assert done
