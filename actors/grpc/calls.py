"""Calls: a stream as its handler sees it, from the handler's start to the trailers. One task per call.

How a call ends                         what the peer sees
  the handler returns                   status OK
  it raises RemoteError                 that status
  it crashes                            INTERNAL, and the crash is reported
  its deadline passes                   DEADLINE_EXCEEDED
  the peer does not take a message      UNAVAILABLE
  the server drains or is cancelled     UNAVAILABLE
  any of these within a message         RST_STREAM: trailers would follow half a message
  the peer resets or goes away          nothing
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import trio
from grpclib import protocol
from grpclib.const import Status
from grpclib.metadata import encode_grpc_message
from h2.errors import ErrorCodes

from actors.grpc.budget import Budget
from actors.grpc.http2 import TrioStream, open_stream
from actors.grpc.requests import CONTENT_TYPE, Headers, Refusal, Request, read_request
from actors.grpc.serving import Serving
from actors.ports import Peer, StreamHandler
from protocol.errors import RemoteError

_MAX_STATUS_MESSAGE = 1000
"""Characters of a status message: trailers must stay under the 8 KiB that gRPC clients accept, percent-encoded too."""

_RESPONSE_HEADERS: Headers = [
    (":status", "200"),
    ("content-type", CONTENT_TYPE),
    ("grpc-accept-encoding", "identity"),
]


@dataclass(frozen=True, slots=True)
class Ending:
    """A gRPC status and its message."""

    code: int
    message: str = ""

    def trailers(self) -> Headers:
        """The trailers that say so."""
        trailers = [("grpc-status", str(self.code))]
        if self.message:
            trailers.append(("grpc-message", encode_grpc_message(self.message[:_MAX_STATUS_MESSAGE])))
        return trailers


_OK = Ending(Status.OK.value)
_CRASHED = Ending(Status.INTERNAL.value, "Internal error")
_TOO_LATE = Ending(Status.DEADLINE_EXCEEDED.value, "Deadline exceeded")
_SHUTTING_DOWN = Ending(Status.UNAVAILABLE.value, "The server is shutting down")


class Call:
    """An `actors.ports.StreamPort` over HTTP/2."""

    def __init__(self, stream: TrioStream, request: Request, peer: Peer) -> None:
        self._stream = stream
        self._request = request
        self._peer = peer
        self._answering = False
        self.abandoned = False
        """Whether its peer gave it up."""
        timeout = inf if request.timeout is None else request.timeout
        self._scope = trio.CancelScope(deadline=trio.current_time() + timeout)
        self._if_cancelled = _TOO_LATE

    @property
    def method(self) -> str:
        """The full method, `/package.Service/Method`."""
        return self._request.method

    @property
    def metadata(self) -> Mapping[str, str]:
        """The caller's metadata."""
        return self._request.metadata

    @property
    def peer(self) -> Peer:
        """Who called."""
        return self._peer

    async def receive(self) -> bytes | None:
        """Wait for the next message; None once the peer has sent its last one."""
        await trio.lowlevel.checkpoint_if_cancelled()
        buffer = self._stream.buffer
        waits = buffer.waits
        message = await buffer.read_message()
        self._stream.connection.messages_received += message is not None
        if buffer.waits == waits:
            await trio.lowlevel.cancel_shielded_checkpoint()  # a message that was taken is not lost
        return message

    def receive_nowait(self) -> bytes | None:
        """The next message, if it is there."""
        message = self._stream.buffer.read_nowait()
        self._stream.connection.messages_received += message is not None
        return message

    def pending(self) -> bool:
        """Whether `receive_nowait` may have something to say."""
        return self._stream.buffer.pending()

    def due_at(self) -> float:
        """When it will have, whatever arrives."""
        return self._stream.buffer.due_at

    def on_arrival(self, wake: Callable[[], None]) -> None:
        """Wake somebody when something arrives."""
        self._stream.buffer.on_arrival(wake)

    async def send(self, *messages: Sequence[bytes]) -> None:
        """Send messages, each made of its buffers; return when the last byte is in the transport."""
        if not self._answering:
            self._stream.send_headers_nowait(_RESPONSE_HEADERS, end_stream=False)
            self._answering = True
        await self._stream.send_messages(messages)
        self._stream.connection.messages_sent += len(messages)

    def blocked(self) -> bool:
        """Whether a message sent now would have to wait."""
        return self._stream.blocked()

    async def end(self, code: int, message: str) -> None:
        """End the stream with this status."""
        self._stream.require_open()
        self._finish(Ending(code, message))
        await trio.lowlevel.checkpoint()

    def reset(self) -> None:
        """Drop the stream without a status."""
        if self._stream.closable:
            self._stream.reset_nowait(ErrorCodes.CANCEL)
        self._stream.__terminated__("The stream was reset from this side")

    def cancel(self) -> None:
        """Stop the handler of a call whose peer does not wait for it."""
        self.abandoned = True
        self._scope.cancel()

    def drain(self) -> None:
        """Stop the handler, and tell the peer to call another server."""
        self._if_cancelled = _SHUTTING_DOWN
        self._scope.cancel()

    async def serve(self, handler: StreamHandler, on_crash: Callable[[Exception], None]) -> None:
        """Run the handler and tell the peer how it ended. Raises nothing of the handler's but cancellation."""
        ending = _SHUTTING_DOWN  # in case that this very task is cancelled
        try:
            ending = await self._run(handler, on_crash)
        finally:
            self._finish(ending)

    async def _run(self, handler: StreamHandler, on_crash: Callable[[Exception], None]) -> Ending:
        ending = _OK
        try:
            with self._scope:
                await handler(self)
            if self._scope.cancelled_caught:
                ending = self._if_cancelled
        except* RemoteError as errors:
            ending = _first_status(errors)
        except* Exception as crash:  # noqa: BLE001 (reported; it must not take the connection with it)
            ending = _CRASHED
            on_crash(unwrap(crash))
        return ending

    def _finish(self, ending: Ending) -> None:
        """Tell the peer how the call ended, if it is still there and was not told. Never waits."""
        if self._stream.cut_off:
            self.reset()
        elif self._stream.closable:
            headers = ending.trailers() if self._answering else _RESPONSE_HEADERS + ending.trailers()
            end_stream(self._stream, headers)
        self._stream.__terminated__("The stream was ended from this side")


class Dispatcher(protocol.AbstractHandler):
    """Starts the handler of each stream that grpclib announces, and stops it when grpclib says so."""

    def __init__(self, nursery: trio.Nursery, serving: Serving, peer: Peer, wasted_calls: Budget) -> None:
        self._nursery = nursery
        self._serving = serving
        self._totals = serving.totals
        self._wasted_calls = wasted_calls
        self.peer = peer
        """Who calls; its identities are known after the handshake."""
        self.refusing = False
        """Whether calls are refused from now on."""
        self.was_called = False
        """Whether any call was accepted."""
        self._calls: dict[protocol.Stream, Call] = {}
        self._idle = trio.Event()

    @property
    def open_calls(self) -> int:
        """Calls whose handlers have not ended."""
        return len(self._calls)

    def accept(self, stream: protocol.Stream, headers: Headers, release_stream: Callable[[], None]) -> None:
        """Answer a call: by its handler, or with a refusal."""
        match read_request(headers, self._serving.handlers):
            case Request() as request if not self._full():
                self.was_called = True
                self._totals.calls_accepted += 1
                self._totals.calls_open += 1
                call = self._calls[stream] = Call(open_stream(stream), request, self.peer)
                self._nursery.start_soon(self._serve, stream, call, release_stream)
            case decided:
                self._totals.calls_refused += 1
                refuse(open_stream(stream), decided)
                release_stream()

    def _full(self) -> bool:
        """Whether a further call must be refused."""
        limits = self._serving.limits
        full = len(self._calls) >= limits.max_concurrent_streams or self._totals.calls_open >= limits.max_calls
        return full or self.refusing

    def cancel(self, stream: protocol.Stream) -> None:
        """The peer has reset a stream."""
        if stream in self._calls:
            self._calls[stream].cancel()

    def close(self) -> None:
        """The connection is gone."""
        for call in self._calls.values():
            call.cancel()

    async def drain(self) -> None:
        """Take no more calls, end those that are open, and wait until the last handler has ended."""
        self.refusing = True
        for call in self._calls.values():
            call.drain()
        if self._calls:
            await self._idle.wait()

    async def _serve(self, stream: protocol.Stream, call: Call, release_stream: Callable[[], None]) -> None:
        try:
            await call.serve(self._serving.handlers[call.method], self._crashed)
        finally:
            del self._calls[stream]
            self._totals.calls_open -= 1
            if not call.abandoned:
                self._wasted_calls.refund(1)
            release_stream()
            if self.refusing and not self._calls:
                self._idle.set()

    def _crashed(self, crash: Exception) -> None:
        self._totals.crashes += 1
        self._serving.on_crash(crash)


def end_stream(stream: TrioStream, headers: Headers) -> None:
    """Send the last headers, and ask a peer that has not sent its last message to stop (RFC 9113 §8.1)."""
    stream.send_headers_nowait(headers, end_stream=True)
    if stream.closable:
        stream.reset_nowait(ErrorCodes.NO_ERROR)


def refuse(stream: TrioStream, decided: Request | Refusal) -> None:
    """Answer a call that no handler will see, unless its peer has given it up already: in the same read, perhaps."""
    match decided:
        case _ if not stream.closable:
            return
        case Refusal():
            end_stream(stream, decided.headers())
        case Request():
            stream.reset_nowait(ErrorCodes.REFUSED_STREAM)  # safe to try elsewhere, RFC 9113 §8.7


def _first_status(errors: ExceptionGroup[RemoteError]) -> Ending:
    """The status of the first of the peer's errors; if that is a closed stream, nobody will be told."""
    error = errors.exceptions[0]
    return _first_status(error) if isinstance(error, ExceptionGroup) else Ending(error.code, error.message)


def unwrap(error: Exception) -> Exception:
    """A group of one is that one."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
