"""How a connection hears of its client: a mailbox whose flow lane is the client's stream.

There is no task between the two, for it would be woken for each request only to wake the actor. The actor takes a
request when it has done with the one before; until then requests stay where they came, and HTTP/2's window is the
brake. All of this outlives the actor.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol

import trio

from actors.aside import read_aside
from actors.mailbox import ControlMailbox
from actors.messages import RequestReceived, StreamEnded
from actors.ports import StreamClosed
from protocol.errors import RemoteError
from protocol.statuses import DEADLINE_EXCEEDED
from protocol.xds.names import dense_size
from protocol.xds.repeated_names import LEAST, RepeatedNames
from protocol.xds.requests import DeltaRequest, SotwRequest
from protocol.xds.session import HEALTH
from protocol.xds.wire_requests import MOST_NAMES, cut_known
from trierarch.push.token_bucket import Pace

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.messages import ToConnection
    from actors.metrics import Metrics
    from actors.ports import StreamPort
    from protocol.xds.requests import Request

INTRODUCTION = 30.0
"""Seconds within which a client must say who it is; Envoy does so at once."""

NAME_COST, NAMES_AHEAD = 10e-6, 2.0
"""Each name that a stream asks for costs its reader so many seconds, of which two may be spent ahead: 100,000 names a
second. That is three times what stepping a session by them takes.
"""

MOST_POSTED = 100
"""Messages of others that a connection may have before it."""

_TOO_LATE = StreamEnded(reason=f"no discovery request came within {INTRODUCTION:.0f} s", code=DEADLINE_EXCEEDED)
_DONE = StreamEnded(reason="closed by the client")


class Decode(Protocol):
    """Reads a request; `known`: the first of its names, if they were cut out."""

    def __call__(self, data: bytes, known: tuple[str, ...] = ()) -> Request:
        """Raises `RemoteError` for one that may not be."""
        ...


class ClientRequests:
    """One stream's requests, taken no faster than others can bear. Times are in seconds of trio's clock."""

    def __init__(self, port: StreamPort, decode: Decode, metrics: Metrics) -> None:
        self._port = port
        self._decode = decode
        self._metrics = metrics
        self._introduction = trio.current_time() + INTRODUCTION
        self._pace = Pace(each=NAME_COST, ahead=NAMES_AHEAD)
        self._rests_until = -inf
        self._names = 0
        self._repeated = RepeatedNames()

    def on_arrival(self, wake: Callable[[], None]) -> None:
        """Have `wake` called whenever something comes from the client."""
        self._port.on_arrival(wake)

    def pending(self) -> bool:
        """Whether `take` may have something to say."""
        return not self._resting() and (self._port.pending() or self._is_late())

    def due_at(self) -> float:
        """When it will have, though nothing comes."""
        return self._rests_until if self._rests_until != -inf else min(self._introduction, self._port.due_at())

    def take(self) -> RequestReceived | StreamEnded | None:
        """The next request as it came; how the stream ended, if it has; None if there is nothing to say now."""
        if self._resting():
            return None
        try:
            data = self._port.receive_nowait()
        except trio.WouldBlock:
            return _TOO_LATE if self._is_late() else None
        except StreamClosed as closed:
            return StreamEnded(reason=closed.message)
        except RemoteError as error:
            return StreamEnded(reason=error.message, code=error.code)
        return _DONE if data is None else RequestReceived(data=data)

    async def decode(self, received: RequestReceived) -> Request:
        """A request that was taken, which may put off the next. Raises `RemoteError` for one that may not be.

        Not cancelled before it is done: nobody else has this request.
        """
        data = received.data
        self._metrics.note_request_size(len(data))
        request = self._decode(data) if len(data) < LEAST else await self._decode_large(data)
        if request.type_url != HEALTH:
            self._introduction = inf
        elif self._is_late():
            raise RemoteError(_TOO_LATE.code, _TOO_LATE.reason)
        self._rest_after(request)
        return request

    async def _decode_large(self, data: bytes) -> Request:
        """Cut out of a request what is known of it, for it mostly says what it, or another client, has said before."""
        rest, repeated = self._repeated.cut(data)
        rest, known = cut_known(rest)
        request = await read_aside(partial(self._decode, known=known), rest, dense_size)
        if isinstance(request, SotwRequest):
            if repeated:
                return replace(request, names=repeated + request.names)
            return self._repeated.note(data, request)
        return request

    def _is_late(self) -> bool:
        """Whether the client should have said who it is by now."""
        return self._introduction != inf and self._introduction <= trio.current_time()

    def _resting(self) -> bool:
        """Whether what came before was too much for now."""
        if self._rests_until != -inf and self._rests_until <= trio.current_time():
            self._rests_until = -inf
        return self._rests_until != -inf

    def _rest_after(self, request: Request) -> None:
        """Rest for as long as the request was too much. A name more on top of many costs as the many do."""
        match request:
            case SotwRequest(names=names):
                self._names = len(names)
            case DeltaRequest():
                more = len(request.subscribe) + len(request.initial) - len(request.unsubscribe)
                self._names = min(max(0, self._names + more), MOST_NAMES)
        now = trio.current_time()
        pause = self._pace.spend(self._names, now)
        if pause:
            self._rests_until = now + pause


class ConnectionMailbox(ControlMailbox["ToConnection"]):
    """What others post to a connection, before what its client asks."""

    def __init__(self, requests: ClientRequests) -> None:
        super().__init__("connection", control=MOST_POSTED)
        self.requests = requests
        requests.on_arrival(self.wake)

    async def receive_until(self, due_at: float) -> ToConnection | None:
        """The next message; None when that time has come. A checkpoint; a cancelled wait loses nothing."""
        if self._control or self.requests.pending():
            await trio.lowlevel.checkpoint()
        else:
            await self._sleep_until(due_at)
        while (message := self.receive_nowait()) is None and trio.current_time() < due_at:
            await self._sleep_until(due_at)
        return message

    async def _sleep_until(self, due_at: float) -> None:
        """Wait to be woken, or for that time, or for the one at which the stream has something to say anyway."""
        wake_at = min(due_at, self.requests.due_at())
        if wake_at == inf:
            await self._idle.park()
            return
        with trio.move_on_at(wake_at):
            await self._idle.park()

    def _flow_waits(self) -> bool:
        return self.requests.pending()

    def _take_flow(self) -> ToConnection | None:
        return self.requests.take()
