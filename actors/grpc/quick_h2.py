"""h2's connection, with a short way for the three frames that a client of long streams sends over and over.

For each frame hyperframe makes an object, and h2 formats it as text, which no logger wants, before it looks up what to
do. Here the header is read and h2's windows are moved, which takes a fifth of the time: 1 us. Rules and errors stay
h2's: whatever is not a whole frame of these kinds, without flags, for the connection or an open stream, within its
windows, goes to h2 with all that follows it. PING is among them because gRPC's clients in Go measure the way with one
for nearly each answer.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from h2.connection import ConnectionState
from h2.events import DataReceived, PingReceived, WindowUpdated
from h2.frame_buffer import FrameBuffer
from h2.stream import StreamState
from hyperframe.frame import DataFrame, PingFrame, WindowUpdateFrame

from actors.grpc.bounded_h2 import BoundedH2Connection

if TYPE_CHECKING:
    from h2.events import Event
    from h2.stream import H2Stream
    from typing_extensions import Buffer

    from actors.grpc.limits import Limits

_HEADER = struct.Struct(">HBBBI")
"""Length in 16 + 8 bits, type, flags, stream (RFC 9113 §4.1)."""

_INCREMENT = struct.Struct(">I")
_HIGHEST_WINDOW = 2**31 - 1
_PING_SIZE = 8
_PONG = PingFrame(0, flags=["ACK"]).serialize()[: _HEADER.size]


class QuickH2Connection(BoundedH2Connection):
    """A server's end of HTTP/2. It makes of any bytes what h2 makes of them, but says nothing of a window that was open
    when it was widened: nobody waits for it.
    """

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._frames = self.incoming_buffer = _FrameBuffer(server=True)
        self._max_frame_size = self.max_inbound_frame_size

    @property
    def has_to_send(self) -> bool:
        """Whether it wants to say something."""
        return bool(self._data_to_send)

    def receive_data(self, data: Buffer) -> list[Event]:
        """What the peer's next bytes mean. Raises h2's `ProtocolError`."""
        events: list[Event] = []
        rest = memoryview(data)
        if self.state_machine.state is ConnectionState.SERVER_OPEN and self._frames.between_frames:
            rest = self._take(rest, events)
        if rest:
            events += super().receive_data(rest)
        return events

    def _take(self, data: memoryview, events: list[Event]) -> memoryview:
        """Process frames from the beginning of the data until there is one for h2. Returns it and all that follows."""
        begin = 0
        while len(data) - begin >= _HEADER.size:
            high, low, kind, flags, stream_id = _HEADER.unpack_from(data, begin)
            body = begin + _HEADER.size
            end = body + (high << 8 | low)
            if flags or end > len(data):
                break
            if kind == WindowUpdateFrame.type and end - body == _INCREMENT.size:
                taken = self._widen(stream_id, _INCREMENT.unpack_from(data, body)[0], events)
            elif kind == DataFrame.type and end - body <= self._max_frame_size:
                taken = self._receive(stream_id, bytes(data[body:end]), events)
            elif kind == PingFrame.type and end - body == _PING_SIZE:
                taken = self._answer(stream_id, bytes(data[body:end]), events)
            else:
                break
            if not taken:
                break
            begin = end
        return data[begin:]

    def _widen(self, stream_id: int, increment: int, events: list[Event]) -> bool:
        """Let more be sent (RFC 9113 §6.9). False if that is for h2 to judge."""
        widened = self._open_stream(stream_id) if stream_id else self
        if widened is None:
            return False
        window = widened.outbound_flow_control_window
        if not 1 <= increment <= _HIGHEST_WINDOW - window:
            return False
        widened.outbound_flow_control_window = window + increment
        if window <= 0:
            events.append(WindowUpdated(stream_id=stream_id, delta=increment))
        return True

    def _receive(self, stream_id: int, data: bytes, events: list[Event]) -> bool:
        """Receive a part of a request (RFC 9113 §6.1). False if that is for h2 to judge."""
        stream, size = self._open_stream(stream_id), len(data)
        if stream is None or stream._expected_content_length is not None:
            return False
        ours, its = self._inbound_flow_control_window_manager, stream._inbound_window_manager
        if size > ours.current_window_size or size > its.current_window_size:
            return False
        ours.window_consumed(size)
        its.window_consumed(size)
        events.append(DataReceived(stream_id=stream_id, data=data, flow_controlled_length=size))
        return True

    def _answer(self, stream_id: int, text: bytes, events: list[Event]) -> bool:
        """Answer a PING (RFC 9113 §6.7). False if that is for h2 to judge."""
        if stream_id != 0:
            return False
        self._data_to_send += _PONG + text
        events.append(PingReceived(ping_data=text))
        return True

    def _open_stream(self, stream_id: int) -> H2Stream | None:
        stream = self.streams.get(stream_id)
        return stream if stream is not None and stream.state_machine.state is StreamState.OPEN else None


class _FrameBuffer(FrameBuffer):
    """Says whether h2 waits for the rest of something."""

    @property
    def between_frames(self) -> bool:
        """Whether the next byte begins a frame, of any kind: it is in neither a frame nor a block of headers."""
        return not (self._data or self._headers_buffer)
