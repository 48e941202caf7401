"""Floods of connections that do not begin to speak: they put out each other, nobody else."""

import pytest
import trio
import trio.testing

from actors.grpc.newcomers import Newcomers
from tests.actors.grpc.test_connections import say_hello


@pytest.mark.parametrize("secure", [False, True])
async def test_a_flood_of_silent_connections_puts_out_its_oldest(start, tls, echo, secure):
    """However many connect and say nothing: so many are held, with TLS or without."""
    running = await start(echo, tls=tls.server(ask=False) if secure else None, max_newcomers=3)
    silent = await connect_silently(running, 8)
    for stream in silent[:5]:
        await running.expect_close(stream)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert running.server.statistics().connections_open == 3
    assert running.server.statistics().handshakes_timed_out == 5
    assert running.crashes == []


async def test_a_flood_of_silent_connections_keeps_nobody_out(start, echo):
    """Who comes to speak is served while the room is full, and so are those who speak already."""
    running = await start(echo, max_newcomers=3)
    await say_hello(running)
    silent = await connect_silently(running, 3)
    await say_hello(running)
    await running.expect_close(silent[0])
    assert running.server.statistics().connections_open == 4


async def connect_silently(running, count):
    """Connections that say nothing, each in the room before the next comes."""
    silent = []
    for _ in range(count):
        silent.append(await running.connect_bytes())
        await trio.testing.wait_all_tasks_blocked(0.01)
    return silent


async def test_who_has_begun_to_speak_is_no_newcomer(start, echo):
    """A room for one is room enough for any number that come one after the other, and they stay."""
    running = await start(echo, max_newcomers=1)
    for number in range(5):
        await say_hello(running)
        assert running.server.statistics().connections_open == number + 1
    assert running.server.statistics().handshakes_timed_out == 0


def test_the_room_is_left_by_whoever_is_done():
    """In whatever order, put out or not; and nobody is put out twice."""
    room, put_out = Newcomers(2), []
    with room.waiting(lambda: put_out.append("a")):
        with room.waiting(lambda: put_out.append("b")):
            with room.waiting(lambda: put_out.append("c")):
                assert (len(room), put_out) == (2, ["a"])
            assert len(room) == 1
        assert len(room) == 0
    assert (len(room), put_out) == (0, ["a"])
