"""Mailboxes: two lanes and a doorbell; and questions that survive the death of whoever was asked."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors.mailbox import Abandoned, Mailbox, Reply, ask
from protocol.errors import LocalError


async def test_control_comes_before_flow():
    """Within a lane in order; the control lane first."""
    mailbox = Mailbox("m")
    await mailbox.send("flow 1")
    await mailbox.send("flow 2")
    mailbox.post("control 1")
    mailbox.post("control 2")
    assert [await mailbox.receive() for _ in range(4)] == ["control 1", "control 2", "flow 1", "flow 2"]
    assert mailbox.receive_nowait() is None


@pytest.mark.parametrize("lane", ["flow", "control"])
async def test_a_waiting_receiver_is_woken_by_either_lane(lane, nursery, autojump_clock):
    """The doorbell rings for both lanes."""
    mailbox = Mailbox("m")
    received = []

    async def receive():
        received.append(await mailbox.receive())

    nursery.start_soon(receive)
    await wait_all_tasks_blocked()
    if lane == "flow":
        await mailbox.send("message")
    else:
        mailbox.post("message")
    await wait_all_tasks_blocked()
    assert received == ["message"]


async def test_a_full_flow_lane_is_backpressure(nursery, autojump_clock):
    """Senders wait until there is room, and go on in order."""
    mailbox, sent = Mailbox("m", flow=1), []

    async def send(number):
        await mailbox.send(number)
        sent.append(number)

    for number in range(3):
        nursery.start_soon(send, number)
        await wait_all_tasks_blocked()
    assert sent == [0]
    assert [await mailbox.receive() for _ in range(3)] == [0, 1, 2]
    await wait_all_tasks_blocked()
    assert sent == [0, 1, 2]


async def test_a_full_flow_lane_does_not_hold_up_control(nursery, autojump_clock):
    """Two actors that send to each other cannot block each other: one direction never waits."""
    mailbox = Mailbox("m", flow=1)
    await mailbox.send("flow 1")
    nursery.start_soon(mailbox.send, "flow 2")
    await wait_all_tasks_blocked()
    mailbox.post("control")
    assert [await mailbox.receive() for _ in range(3)] == ["control", "flow 1", "flow 2"]


async def test_a_full_control_lane_is_a_bug():
    """Whoever posts more than the lane holds breaks a rule; nothing is lost silently."""
    mailbox = Mailbox("m", control=1)
    mailbox.post("a")
    with pytest.raises(LocalError, match="control lane of m is full"):
        mailbox.post("b")


async def test_a_cancelled_receive_loses_nothing(autojump_clock):
    """Cancelled before a message comes, or with the message there already: the next receive gets it."""
    mailbox = Mailbox("m")
    with trio.move_on_after(1):
        await mailbox.receive()
    await mailbox.send("a")
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.receive()
    assert await mailbox.receive() == "a"


async def test_a_message_and_a_cancellation_at_once_lose_nothing(nursery, autojump_clock):
    """A message that comes together with the cancellation is received now or later."""
    mailbox, scope, received = Mailbox("m"), trio.CancelScope(), []

    async def receive():
        with scope:
            received.append(await mailbox.receive())

    nursery.start_soon(receive)
    await wait_all_tasks_blocked()
    mailbox.post("a")
    scope.cancel()
    await wait_all_tasks_blocked()
    assert [*received, mailbox.receive_nowait()] in (["a", None], ["a"])


async def test_messages_wait_for_a_successor(autojump_clock):
    """The mailbox outlives its owner: what was queued is received by the next one."""
    mailbox = Mailbox("m")

    async def owner():
        await mailbox.receive()
        raise ValueError("poisonous")

    mailbox.post("poison")
    mailbox.post("good")
    with pytest.raises(ValueError, match="poisonous"):
        await owner()
    assert await mailbox.receive() == "good"


async def test_receive_is_a_checkpoint():
    """Even with messages there, so that an actor that always has some lets others run."""
    mailbox = Mailbox("m")
    mailbox.post("a")
    with trio.testing.assert_checkpoints():
        await mailbox.receive()
    with trio.testing.assert_no_checkpoints():
        mailbox.post("b")
        mailbox.receive_nowait()


async def test_statistics():
    """How full it is, what it holds at most, and what has gone through."""
    mailbox = Mailbox("m", flow=2, control=3)
    await mailbox.send("a")
    mailbox.post("b")
    mailbox.post("c")
    await mailbox.receive()
    statistics = mailbox.statistics()
    assert (statistics.name, statistics.received) == ("m", 1)
    assert (statistics.flow, statistics.flow_capacity, statistics.control, statistics.control_capacity) == (1, 2, 1, 3)


async def test_a_question_is_answered(nursery, autojump_clock):
    """`ask` sends a message with a reply in it and returns the answer."""
    mailbox = Mailbox("m")

    async def double():
        number, reply = await mailbox.receive()
        with reply:
            reply.answer(number * 2)

    nursery.start_soon(double)
    assert await ask(mailbox, lambda reply: (21, reply)) == 42


async def test_a_question_survives_the_death_of_whoever_was_asked(nursery, autojump_clock):
    """An actor that dies with the question leaves it unanswered, and it is asked again."""
    mailbox, lives = Mailbox("m"), []

    async def life(answers):
        number, reply = await mailbox.receive()
        lives.append(number)
        with reply:
            if not answers:
                raise ValueError("dies")
            reply.answer(number * 2)

    async def dies_then_lives():
        with pytest.raises(ValueError, match="dies"):
            await life(answers=False)
        await life(answers=True)

    nursery.start_soon(dies_then_lives)
    assert await ask(mailbox, lambda reply: (21, reply)) == 42
    assert lives == [21, 21]


async def test_an_answer_is_kept_for_a_slow_asker(autojump_clock):
    """Answering never waits, and leaving the block after an answer does not take it back."""
    reply = Reply()
    with reply:
        reply.answer("yes")
    assert await reply.wait() == "yes"
    with pytest.raises(Abandoned):
        await reply.wait()
