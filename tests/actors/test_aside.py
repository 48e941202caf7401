"""Work that is put aside: small pieces at once, large ones in a thread, one at a time."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from contextlib import suppress
from functools import partial

import pytest
import trio
import trio.testing

from actors.aside import HUGE, LARGE, LONG, read_aside, work_aside
from protocol.codec import encode
from protocol.errors import RemoteError
from protocol.proto.envoy.config.core.v3 import Node
from protocol.proto.google.protobuf import ListValue, Struct, Value
from protocol.xds.wire_requests import decode_delta_request, decode_sotw_request
from tests.actors.fake_stream import encode_node
from trierarch.envoy.node import decode_proxy


async def test_small_work_is_done_at_once():
    """In this thread, and before anybody else has a turn."""
    with trio.testing.assert_no_checkpoints():
        assert await read_aside(lambda data: (threading.current_thread(), data), b"x") == (
            threading.current_thread(),
            b"x",
        )


def _lists_in_lists(depth: int) -> Value:
    return Value(list_value=ListValue(values=[_lists_in_lists(depth - 1)] if depth else []))


def _metadata(value: Value, size: int) -> bytes:
    """A Node with so many bytes of this value in its metadata."""
    values = ListValue(values=[value] * (size // len(encode(ListValue(values=[value])))))
    metadata = Struct(fields={"x": Value(list_value=values)})
    return encode_node("sidecar~10.1.0.1~web-1.shop~shop.svc.cluster.local") + encode(Node(metadata=metadata))


def _spelled(size: int, *addresses: str) -> bytes:
    """A Node that says its addresses so often."""
    listed = ",".join(addresses * (size // len(",".join(addresses))))
    return encode(
        Node(
            id="sidecar~10.1.0.1~web-1.shop~shop.svc.cluster.local",
            metadata=Struct(fields={"INSTANCE_IPS": Value(string_value=listed)}),
        )
    )


@pytest.mark.parametrize(
    ("read", "build"),
    [
        (partial(decode_proxy, cluster="k"), partial(_metadata, _lists_in_lists(45))),
        (partial(decode_proxy, cluster="k"), partial(_metadata, Value(struct_value=Struct()))),
        (partial(decode_proxy, cluster="k"), lambda size: _spelled(size, "::")),
        (decode_sotw_request, lambda size: (b"\x7b" * 400 + b"\x7c" * 400) * (size // 800)),
        (decode_sotw_request, lambda size: b"\x80\x01\x00" * (size // 3)),
        (decode_delta_request, lambda size: b"\x7b\x7c" * (size // 2)),
    ],
)
def test_the_worst_that_is_read_at_once_takes_no_longer_than_a_step_may(read, build):
    """Five milliseconds, on a machine that is not busy: thrice that is allowed here."""
    data, taken = build(LARGE - 200)[: LARGE - 1], []
    for _ in range(3):
        began = time.thread_time()
        with suppress(RemoteError):
            read(data)
        taken.append(time.thread_time() - began)
    assert min(taken) < 0.015


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


async def test_what_is_large_is_done_at_once_if_little_of_it_takes_long():
    """Not so what is huge: it would take long to find out."""
    with trio.testing.assert_no_checkpoints():
        assert await read_aside(lambda _: threading.current_thread(), bytes(LARGE), lambda _: LARGE - 1)
    assert (
        await read_aside(lambda _: threading.current_thread(), bytes(HUGE), lambda _: 0)
        is not threading.current_thread()
    )


async def test_who_sends_what_many_do_does_not_wait_for_who_sends_megabytes():
    """A newcomer's Node is read while a monster is."""
    go = threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_aside, lambda _: go.wait(5), bytes(HUGE))
        await trio.testing.wait_all_tasks_blocked()
        assert not await read_aside(lambda _: go.is_set(), bytes(LARGE))
        go.set()


async def test_what_is_wrong_is_raised():
    """The client's fault comes back from the thread as what it is."""

    def refuse(_):
        raise RemoteError(3, "no")

    with pytest.raises(RemoteError):
        await read_aside(refuse, bytes(LARGE))


async def test_what_is_wrong_leaves_nothing_behind():
    """What dies in a cycle is not collected for long: whoever sends nonsense again and again would fill memory."""

    async def refused():
        def refuse(_):
            raise RemoteError(3, "no")

        with suppress(RemoteError):
            await read_aside(refuse, bytes(LARGE))
        return weakref.ref(refuse)  # bytes cannot be referred to so; whoever holds them holds it

    gc.disable()
    try:
        remembered = [await refused() for _ in range(3)]
        await read_aside(len, bytes(LARGE))  # a thread at rest may hold its last piece
        assert [each() for each in remembered] == [None, None, None]
    finally:
        gc.enable()


async def test_long_work_is_put_aside_by_what_is_expected_of_it():
    """At once if it is short, else in a thread; and it is finished, though whoever asked is cancelled meanwhile."""
    with trio.testing.assert_no_checkpoints():
        assert await work_aside(threading.current_thread, LONG / 2) is threading.current_thread()
    with trio.CancelScope() as scope:
        scope.cancel()
        assert await work_aside(threading.current_thread, LONG) is not threading.current_thread()
        done = True
    assert done
