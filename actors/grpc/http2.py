"""grpclib's protocol classes, subclassed to run on trio. Nothing is patched; nothing here knows methods or handlers.

    H2Protocol        bytes from the transport  -> h2 -> events
    EventsProcessor   events                    -> streams and their dispatcher
    Connection        what h2 wants to say      -> bytes for the transport
    Stream            one call's headers, messages, trailers

Their constructors are not documented by grpclib, and the DATA path moves h2's flow-control windows: both libraries are
pinned by minor version, and tests/actors/grpc is the contract.

Each method that lets h2 produce bytes also flushes them: between two calls h2 never holds anything back.
"""

# pyright: reportIncompatibleVariableOverride=false
# The subclasses narrow the types of attributes that only they assign.

from collections.abc import Iterable, Sequence
from functools import partial
from typing import cast

import trio
from grpclib import protocol
from grpclib.config import Configuration
from grpclib.const import Status
from grpclib.utils import Wrapper
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from h2.events import Event, RemoteSettingsChanged, WindowUpdated
from h2.exceptions import ProtocolError

from actors.grpc.bounded_h2 import H2_CONFIGURATION
from actors.grpc.budget import Allowance
from actors.grpc.faults import PeerFault
from actors.grpc.flag import Flag
from actors.grpc.framing import DataFrames, Piece, goaway_frame, prefixed
from actors.grpc.limits import Limits
from actors.grpc.messages import MessageBuffer
from actors.grpc.quick_h2 import QuickH2Connection
from actors.grpc.requests import Headers
from actors.grpc.transport import SocketTransport
from actors.ports import StreamClosed
from protocol.errors import LocalError, RemoteError

_CONFIGURATION = Configuration().__for_server__()
"""grpclib's own settings. Its windows and keepalive are not used: `Limits` has ours."""

_PING_DATA = b"keepaliv"


class TrioStream(protocol.Stream):
    """One HTTP/2 stream that carries gRPC messages. What a handler sees of it is `actors.grpc.calls.Call`."""

    connection: "TrioConnection"
    buffer: MessageBuffer
    window_updated: Flag
    id: int
    _transport: SocketTransport

    def __init__(
        self,
        connection: "TrioConnection",
        h2_connection: H2Connection,
        transport: SocketTransport,
        limits: Limits,
        stream_id: int | None,
    ) -> None:
        self._limits = limits
        super().__init__(connection, h2_connection, transport, stream_id=stream_id)
        self.window_updated = Flag()
        self.headers_received = Flag()
        self.trailers_received = Flag()
        self.cut_off = False
        """Whether a part of a message was sent and its end was not."""
        self._sending = False
        self._over: str | None = None

    def init_stream(self, stream_id: int, connection: protocol.Connection) -> None:
        """Get the number under which the peer knows this stream."""
        super().init_stream(stream_id, connection)
        self.buffer = MessageBuffer(partial(connection.ack, stream_id), self._limits, self.connection.large_messages)

    @property
    def closable(self) -> bool:
        """Whether anything can still be sent."""
        return self._over is None and super().closable

    def require_open(self) -> None:
        """Raise `StreamClosed` unless something can still be sent."""
        if not self.closable:
            raise StreamClosed(self._over or "The stream is closed")

    def send_headers_nowait(self, headers: Headers, *, end_stream: bool) -> None:
        """Send headers or trailers. They need no window, and even a full transport has room for them."""
        self.require_open()
        self._h2_connection.send_headers(self.id, headers, end_stream=end_stream)
        self.connection.flush()

    def reset_nowait(self, error_code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Send RST_STREAM. For an open stream."""
        self._h2_connection.reset_stream(self.id, error_code=error_code)
        self.connection.flush()

    async def send_messages(self, bodies: Iterable[Sequence[bytes]]) -> None:
        """Send gRPC messages, whose bodies are buffers, a batch at a time, as the windows and the transport admit.

        Returns when the last byte is in the transport; not a checkpoint if that is at once. Cancelled earlier, it has
        sent nothing or is `cut_off`. Raises `StreamClosed`, and `RemoteError` if the peer does not take it in time.
        """
        if self._sending or self.cut_off:
            raise LocalError("a message was begun before the one before it was complete")
        self._sending = True
        try:
            frames = DataFrames(self.id, [buffer for body in bodies for buffer in prefixed(body)])
            deadline = trio.current_time() + self._limits.time_for(frames.remaining)
            await trio.lowlevel.checkpoint_if_cancelled()
            self._send_batch(frames, await self._wait_for_window(deadline))
            while frames.remaining:
                if self._room() > 0:  # else others have their turn anyway
                    await trio.lowlevel.checkpoint()
                self._send_batch(frames, await self._wait_for_window(deadline))
        finally:
            self._sending = False

    def blocked(self) -> bool:
        """Whether `send_messages` would have to wait for its turn, a window or the transport."""
        return self._sending or (self.closable and self._room() <= 0)

    async def _wait_for_window(self, deadline: float) -> int:
        """Wait until the transport and both windows have room. Returns the windows' (> 0)."""
        while True:
            self.require_open()
            window = self._window()
            if not self.connection.write_ready.is_set():
                await self._wait_for(self.connection.write_ready, deadline)
            elif window <= 0:
                self.window_updated.clear()
                await self._wait_for(self.window_updated, deadline)
            else:
                return window

    async def _wait_for(self, room: Flag, deadline: float) -> None:
        with trio.move_on_at(deadline) as waiting:
            await room.wait()
        if waiting.cancelled_caught:
            raise RemoteError(Status.UNAVAILABLE.value, "The peer does not read what it is sent")

    def _room(self) -> int:
        """What can be sent now. None while the transport is full."""
        return self._window() if self.connection.write_ready.is_set() else 0

    def _window(self) -> int:
        """What the peer lets us send now. A change of its settings can make it negative (RFC 9113 §6.9.2)."""
        return self._h2_connection.local_flow_control_window(self.id)

    def widened(self) -> None:
        """Wake whoever waits for the windows, if they are open now."""
        if not self.window_updated.is_set() and self.closable and self._window() > 0:
            self.window_updated.set()

    def _send_batch(self, frames: DataFrames, window: int) -> None:
        """Send as many frames as fit into the window and a batch, and take them off both of h2's windows."""
        pieces, size = frames.cut(min(window, self._transport.batch_size), self._h2_connection.max_outbound_frame_size)
        self._h2_connection.outbound_flow_control_window -= size
        self._h2_connection.streams[self.id].outbound_flow_control_window -= size
        self.cut_off = frames.remaining > 0
        self.data_sent += size
        self.connection.data_sent += size
        self._transport.write_pieces(pieces)

    def __terminated__(self, reason: str) -> None:
        """The stream is over: wake whoever waits for it, to be told `StreamClosed`."""
        self._over = self._over or reason
        self.buffer.close(self._over)
        self.window_updated.set()
        self.connection.write_ready.nudge()
        super().__terminated__(reason)


class TrioConnection(protocol.Connection):
    """One HTTP/2 connection: between h2's state and the transport."""

    write_ready: Flag
    _connection: QuickH2Connection
    _transport: SocketTransport

    def __init__(
        self, h2_connection: QuickH2Connection, transport: SocketTransport, limits: Limits, large_messages: Allowance
    ) -> None:
        super().__init__(h2_connection, transport, config=_CONFIGURATION)
        self._limits = limits
        self.large_messages = Allowance(2 * limits.max_message_size, within=large_messages)
        """What the large messages that arrive here may hold."""
        self.write_ready = Flag(is_set=True)
        self.stream_close_waiter = Flag()

    def create_stream(self, *, stream_id: int | None = None, wrapper: Wrapper | None = None) -> TrioStream:
        """Make the stream that the peer has just opened."""
        return TrioStream(self, self._connection, self._transport, self._limits, stream_id)

    def begin(self) -> None:
        """Send our SETTINGS and widen the connection's window, for which there is no setting."""
        self._connection.initiate_connection()
        extra = self._limits.connection_window - self._connection.inbound_flow_control_window
        if extra > 0:
            self._connection.increment_flow_control_window(extra)
        self.flush()

    def feed(self, data: Piece) -> list[Event]:
        """What the peer's next bytes mean. Raises h2's `ProtocolError`."""
        return self._connection.receive_data(data)

    def flush(self) -> None:
        """Send what h2 wants to say, which mostly is nothing, unless nobody listens."""
        if self._connection.has_to_send and not self.is_closing():
            super().flush()

    def ack(self, stream_id: int, size: int) -> None:
        """Give the peer back a part of its window, unless it is gone."""
        if not self.is_closing():
            super().ack(stream_id, size)

    def ping(self) -> None:
        """Ask for a sign of life."""
        self._connection.ping(_PING_DATA)
        self.flush()

    def goaway(self) -> None:
        """Ask the peer to open no more streams here. The open ones go on."""
        if not self.is_closing():
            self._transport.write(goaway_frame())

    def dismiss(self, fault: PeerFault) -> None:
        """Tell the peer why it must go. Nothing can be sent after that, not even trailers."""
        if self._connection.state_machine.state is not ConnectionState.CLOSED:
            self._connection.close_connection(fault.code, fault.reason.encode())
        self.flush()

    def close(self) -> None:
        """Close the transport, after h2's last word (which may be why: GOAWAY with an error)."""
        self.flush()
        super().close()
        self.write_ready.set()


class TrioEventsProcessor(protocol.EventsProcessor):
    """Hands h2's events to streams. What they may cost was judged before, by `actors.grpc.meter`."""

    greeted = False
    """Whether the peer's first SETTINGS came: it speaks HTTP/2."""

    def process(self, event: Event) -> None:
        """Process one event. Those without a processor are extensions, to be ignored (RFC 9113 §5.5)."""
        process = getattr(self, "processors", {}).get(type(event))  # gone when the connection is
        if process is not None:
            process(event)

    def process_window_updated(self, event: WindowUpdated) -> None:
        """The peer takes more, of one stream or of all together. It says so of both, one after the other, and only
        when both have room is there something to do.
        """
        streams = self.streams.values() if event.stream_id == 0 else filter(None, [self.streams.get(event.stream_id)])
        for stream in streams:
            open_stream(stream).widened()

    def process_remote_settings_changed(self, event: RemoteSettingsChanged) -> None:
        """The peer said or changed its settings."""
        self.greeted = True
        super().process_remote_settings_changed(event)


class TrioProtocol(protocol.H2Protocol):
    """Everything that grpclib knows of one connection. Feed it what arrives."""

    processor: TrioEventsProcessor
    connection: TrioConnection

    def __init__(
        self,
        dispatcher: protocol.AbstractHandler,
        transport: SocketTransport,
        limits: Limits,
        large_messages: Allowance,
    ) -> None:
        super().__init__(dispatcher, _CONFIGURATION, H2_CONFIGURATION)
        self.connection = TrioConnection(QuickH2Connection(limits), transport, limits, large_messages)
        self.processor = TrioEventsProcessor(dispatcher, self.connection)
        transport.start(self)

    def begin(self) -> None:
        """Send our SETTINGS. For a transport that has shaken hands."""
        self.connection.begin()

    def data_received(self, data: Piece) -> None:
        """Process what arrived, unless it is too late. Raises `PeerFault` if it breaks HTTP/2's rules."""
        if self.connection.is_closing():
            return
        try:
            events = self.connection.feed(data)
        except ProtocolError as error:
            raise PeerFault(error.error_code, str(error)) from None
        for event in events:
            self.processor.process(event)
        self.connection.flush()


def open_stream(stream: protocol.Stream) -> TrioStream:
    """The stream as what it is: a `TrioProtocol` makes no others."""
    return cast("TrioStream", stream)
