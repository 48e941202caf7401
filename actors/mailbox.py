"""Mailboxes: how actors are reached. Made by the wiring, never by an actor, and outlive it.

A mailbox has two bounded lanes. *Flow*, a trio memory channel, runs towards the proxies: `await send` is the
backpressure. *Control*, a queue, runs the other way: `post` never waits, and a full lane is a bug of ours, for its size
follows from the credits handed out. The owner waits beside the lanes, is woken by whoever puts something in, and then
drains control before flow. One lane would deadlock: a restarted debouncer asks intake to resend while intake waits to
send to it.

When an actor dies its mailbox stays: senders notice nothing, queued messages wait for the successor, and only the
message that was being handled is lost (which also drops a poisonous one).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import trio

from protocol.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

MessageT = TypeVar("MessageT")
MessageT_contra = TypeVar("MessageT_contra", contravariant=True)
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxStatistics:
    """How full a mailbox is and how much has gone through it."""

    name: str
    flow: int
    flow_capacity: int
    control: int
    control_capacity: int
    received: int


class Postbox(Protocol[MessageT_contra]):
    """A mailbox for those who only post to it, and only some of what its owner takes."""

    def post(self, message: MessageT_contra) -> None:
        """Put a message into the control lane."""
        ...


class ControlMailbox(Generic[MessageT]):
    """A control lane, and the wait of its owner beside it and whatever else brings messages, which subclasses say."""

    def __init__(self, name: str, *, control: int = 1000) -> None:
        self.name = name
        self._control: deque[MessageT] = deque()
        self._control_capacity = control
        self._idle = trio.lowlevel.ParkingLot()
        self._received = 0

    def post(self, message: MessageT) -> None:
        """Put a message into the control lane. Raises `LocalError` if it is full."""
        if len(self._control) >= self._control_capacity:
            raise LocalError(f"control lane of {self.name} is full")
        self._control.append(message)
        self.wake()

    def wake(self) -> None:
        """Have the owner look whether there is something."""
        if self._idle:
            self._idle.unpark()

    async def receive(self) -> MessageT:
        """The next message, control before flow. A checkpoint, but only one; a cancelled receive loses nothing."""
        if self._control or self._flow_waits():
            await trio.lowlevel.checkpoint()
        else:
            await self._idle.park()
        while (message := self.receive_nowait()) is None:
            await self._idle.park()
        return message

    def receive_nowait(self) -> MessageT | None:
        """The next message if there is one, else None. Not a checkpoint."""
        message = self._control.popleft() if self._control else self._take_flow()
        if message is not None:
            self._received += 1
        return message

    def _flow_waits(self) -> bool:
        """Whether there may be something beside the control lane."""
        return False

    def _take_flow(self) -> MessageT | None:
        """What there is beside the control lane."""
        return None

    def waiting(self, limit: int) -> Iterator[MessageT]:
        """Messages that are there, so many at most, for an owner who handles each in no time. Not a checkpoint."""
        for _ in range(limit):
            message = self.receive_nowait()
            if message is None:
                return
            yield message

    def statistics(self) -> MailboxStatistics:
        """How full the lanes are."""
        return MailboxStatistics(
            name=self.name,
            flow=0,
            flow_capacity=0,
            control=len(self._control),
            control_capacity=self._control_capacity,
            received=self._received,
        )


class Mailbox(ControlMailbox[MessageT]):
    """Two bounded lanes; one owner at a time receives, anybody sends."""

    def __init__(self, name: str, *, flow: int = 10, control: int = 1000) -> None:
        super().__init__(name, control=control)
        self._flow_in, self._flow_out = trio.open_memory_channel[MessageT](flow)
        self._flow_sent = 0
        self._flow_taken = 0

    async def send(self, message: MessageT) -> None:
        """Put a message into the flow lane; waits while it is full. Not a checkpoint if there is room."""
        try:
            self._flow_in.send_nowait(message)
        except trio.WouldBlock:
            await self._flow_in.send(message)
        self._flow_sent += 1
        self.wake()

    def _flow_waits(self) -> bool:
        return self._flow_sent > self._flow_taken

    def _take_flow(self) -> MessageT | None:
        try:
            message = self._flow_out.receive_nowait()
        except trio.WouldBlock:
            return None
        self._flow_taken += 1
        return message

    def statistics(self) -> MailboxStatistics:
        """How full the lanes are."""
        flow = self._flow_in.statistics()
        return replace(super().statistics(), flow=flow.current_buffer_used, flow_capacity=int(flow.max_buffer_size))


class Abandoned(Exception):  # noqa: N818 - an outcome, not an error
    """The actor that should have answered died while it held the question."""


class Reply(Generic[AnswerT]):
    """Where the answer to a question goes; carried in the message. Used as a context manager by whoever answers:
    leaving it unanswered (killed in the middle) tells the asker, who then asks again.
    """

    def __init__(self) -> None:
        self._settled = trio.Event()
        self._answers: list[AnswerT] = []

    def answer(self, value: AnswerT) -> None:
        """Answer once; never waits."""
        self._answers.append(value)
        self._settled.set()

    async def wait(self) -> AnswerT:
        """The answer, which is not kept here. Raises `Abandoned` if there will be none."""
        await self._settled.wait()
        if not self._answers:
            raise Abandoned
        return self._answers.pop()

    def __enter__(self) -> Reply[AnswerT]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._settled.set()


class PostedReply(Reply[AnswerT]):
    """A reply that is not waited for: whoever asked has other things to do, and gets the answer as a message.

    `deliver` puts it into a mailbox; None says that there will be no answer.
    """

    def __init__(self, deliver: Callable[[AnswerT | None], None]) -> None:
        super().__init__()
        self._deliver = deliver
        self._answered = False

    def answer(self, value: AnswerT) -> None:
        """Answer once; never waits."""
        self._answered = True
        self._deliver(value)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if not self._answered:
            self._deliver(None)


async def ask(mailbox: Mailbox[MessageT], question: Callable[[Reply[AnswerT]], MessageT]) -> AnswerT:
    """Ask over the flow lane until an answer comes. Questions must be safe to repeat."""
    while True:
        reply: Reply[AnswerT] = Reply()
        await mailbox.send(question(reply))
        try:
            return await reply.wait()
        except Abandoned:
            continue
