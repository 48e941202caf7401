"""The factory of connections: one supervised connection actor for each stream.

Owns: the map of live connections and their slots.
Receives: `StreamAccepted` from the ADS service, `RollCall` from a restarted scheduler, `Describe` from the debug pages,
    `AuthorityChanged` from the certificate authority.
Sends: `Announce` and `TrustChanged` to connections, `ConnectionClosed` to the scheduler; answers `ended`, `Describe`.
Dies when: nothing known. A connection that crashes twice within 5 s ends its own stream only.
Recovers by: nothing to do: its death resets all streams, and their Envoys come back with what they have.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, assert_never

import trio

from actors import connection
from actors.factory import Factory, open_factory
from actors.identity_messages import AuthorityChanged
from actors.messages import Announce, ConnectionClosed, Describe, RollCall, StreamAccepted, StreamStatus, TrustChanged
from actors.own_certificate import trust_cause
from actors.push_records import PushRecords
from actors.slot import Slot, describe
from actors.tree import ChildSpec, Restart
from protocol.statuses import UNAVAILABLE
from protocol.xds.session import AdsSession
from trierarch.envoy.types import TYPE_RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.connection import Outlets
    from actors.descriptions import ConnectionDescription
    from actors.mailbox import Mailbox
    from actors.messages import ToConnections
    from actors.supervision import SupervisorHandle


CONNECTION_NUMBERS = count(1)
"""Unique in the process: a restarted factory goes on counting, so that no two streams have the same id and nonces."""


INTERVAL = 1.0
"""Seconds between two looks at what clients have not answered."""

SLOTS_PER_STEP = 1000
"""After looking at so many the event loop gets its turn: a millisecond of work."""


async def run(
    inbox: Mailbox[ToConnections],
    *,
    outlets: Outlets,
    handle: SupervisorHandle,
    numbers: Iterator[int] = CONNECTION_NUMBERS,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Start a connection for each stream, for ever."""
    with ExitStack() as afterwards:
        async with open_factory("connections", handle=handle, intensity=1, period=5.0) as factory:
            connections = Connections(factory, outlets, numbers)
            afterwards.callback(connections.abandon)  # when none of them lives any more that might announce itself
            task_status.started()
            while True:
                message = await connections.next_message(inbox)
                if message is not None:
                    await connections.handle(message)


class Connections:
    """The live connections, by number."""

    def __init__(self, factory: Factory, outlets: Outlets, numbers: Iterator[int]) -> None:
        self._factory = factory
        self._outlets = outlets
        self._numbers = numbers
        self._live: dict[int, tuple[Slot, StreamAccepted]] = {}
        self._next_look = 0.0

    async def next_message(self, inbox: Mailbox[ToConnections]) -> ToConnections | None:
        """The next message, or None after a look at what clients have not answered in time: one alarm for all."""
        if not self._live:
            return await inbox.receive()
        with trio.move_on_at(self._next_look):
            return await inbox.receive()
        now = trio.current_time()
        self._next_look = now + INTERVAL
        for number, (slot, _) in enumerate(tuple(self._live.values()), start=1):
            if slot.open.deadline() <= now:
                self._records(slot).give_up(now)
            if number % SLOTS_PER_STEP == 0:
                await trio.lowlevel.checkpoint()
        return None

    async def handle(self, message: ToConnections) -> None:
        """Step by one message."""
        match message:
            case StreamAccepted() as stream:
                await self.start(stream)
            case RollCall():
                self.call_the_roll()
            case Describe(proxy_id=proxy_id, reply=reply):
                with reply:
                    reply.answer(await self.describe(proxy_id))
            case AuthorityChanged() as authority:
                self.pass_on(authority)
            case never:
                assert_never(never)

    async def start(self, stream: StreamAccepted) -> None:
        """A connection actor for a stream; the stream is told when it is done."""
        number = next(self._numbers)
        make = AdsSession.delta if stream.delta else AdsSession.sotw
        slot = Slot(
            number=number,
            port=stream.port,
            delta=stream.delta,
            connected_at=time.time(),
            session=make(TYPE_RULES, f"{number:x}"),
            caller=stream.caller,
        )
        spec = ChildSpec(
            name=f"connection-{number}", start=partial(self._serve, stream, slot), restart=Restart.TRANSIENT
        )
        self._live[number] = (slot, stream)
        await self._factory.start(spec, on_giving_up=partial(self._give_up, stream, slot))

    async def _serve(self, stream: StreamAccepted, slot: Slot, *, task_status: trio.TaskStatus[None]) -> None:
        if slot.number not in self._live:
            return  # killed at its very end, when all had been said: it must not announce itself again
        status = await connection.run(stream.inbox, slot=slot, outlets=self._outlets, task_status=task_status)
        self._end(stream, slot, status)

    def _give_up(self, stream: StreamAccepted, slot: Slot, _: str) -> None:
        self._outlets.metrics.internal_errors.inc()
        self._end(stream, slot, StreamStatus(code=UNAVAILABLE, message="the connection failed; connect again"))

    def _end(self, stream: StreamAccepted, slot: Slot, status: StreamStatus) -> None:
        """Once for each stream, though an actor that is killed at its very end has another life."""
        if self._live.pop(slot.number, None) is None:
            return
        with stream.ended as ended:
            self._records(slot).close()
            if slot.proxy is not None:
                self._outlets.scheduler.post(ConnectionClosed(connection=slot.name))
            ended.answer(status)

    def _records(self, slot: Slot) -> PushRecords:
        return PushRecords(slot, self._outlets.journal, self._outlets.wall)

    def abandon(self) -> None:
        """Tell all streams and the scheduler that nobody serves these connections any more."""
        status = StreamStatus(code=UNAVAILABLE, message="the control plane restarts its connections; connect again")
        for slot, stream in tuple(self._live.values()):
            self._end(stream, slot, status)

    def call_the_roll(self) -> None:
        """Let everybody announce itself."""
        for _, stream in self._live.values():
            stream.inbox.post(Announce())

    def pass_on(self, authority: AuthorityChanged) -> None:
        """Tell everybody whom to trust from now on."""
        changed = TrustChanged(authority=authority, cause=trust_cause(next(self._outlets.certificates.cause_ids)))
        for _, stream in self._live.values():
            stream.inbox.post(changed)

    async def describe(self, proxy_id: str) -> tuple[ConnectionDescription, ...]:
        """The connections whose id contains `proxy_id`. Their slots tell, so that one that is stuck is shown too."""
        found = []
        for slot, _ in tuple(self._live.values()):
            if slot.proxy is not None and proxy_id in slot.name:
                found.append(describe(slot, slot.proxy))
                await trio.lowlevel.checkpoint()
        return tuple(found)
