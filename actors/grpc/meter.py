"""What a peer's frames cost, told from their headers before h2 sees them. Pure: the time is given.

h2 answers with events when it has processed all that it was fed: too late for a flood, for 64 KiB hold 7,000 frames of
9 bytes, a tenth of a second of work. It also waits for a whole frame before it judges its length, and gives no event
for frames on streams that are gone. So the meter walks over the bytes first. It charges each frame, stops at the first
that is too much, and cuts the rest into steps between which others have their turn.
"""

import struct
from collections.abc import Iterator

from h2.errors import ErrorCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from actors.grpc.budget import Budget
from actors.grpc.faults import PeerFault
from actors.grpc.framing import Piece
from actors.grpc.limits import KIB, Limits, Rate

_PREFACE_SIZE = 24
CALL_STEP = 8
"""A call is as much work as so many other frames: its task, its handler."""

_HEADER = struct.Struct(">HBBB")
"""Length in 16 + 8 bits, type, flags (RFC 9113 §4.1); the stream follows, which does not matter here."""

_HEADER_SIZE = 9
_ACK = 0x1
_SETTING_SIZE = 6

SMALL_DATA = 64
"""DATA with less payload than this is charged: it costs us as much as a full frame. A request has more."""

LEAST_WORK = 4 * KIB
"""What a HEADERS or DATA frame counts at least, as work: a request costs us about as much as reading 4 KiB of names."""

COSTS = {
    PingFrame.type: (5, "too_many_pings"),
    SettingsFrame.type: (50, "too_many_settings"),
    RstStreamFrame.type: (1, "too_many_resets"),
    WindowUpdateFrame.type: (1, "too_many_window_updates"),
    PriorityFrame.type: (1, "too_many_priorities"),
    ContinuationFrame.type: (1, "too_many_continuations"),
    PushPromiseFrame.type: (1, "too_many_push_promises"),
    DataFrame.type: (1, "too_much_small_data"),
}
"""Frame type -> points, and what the peer is told. DATA is charged if it is small; SETTINGS cost a point more for each
setting; an acknowledgement costs one point. "too_many_pings" is gRPC's own word, at which its clients ping less often.
"""

_OTHERS = (1, "too_many_frames")


class FrameMeter:
    """One connection's frames, from its first byte on."""

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._points = Budget(limits.cheap_frames, now)
        self._work = Budget(limits.work, now)
        wasted = limits.wasted_calls
        self.calls = Budget(Rate(wasted.burst + limits.max_concurrent_streams, wasted.per_second), now)
        """For calls that are open and calls that were wasted. Who serves one to its end refunds its point."""
        self._preface = _PREFACE_SIZE
        self._ahead = 0
        self._cut = b""
        self._block = 0
        self._sent = 0

    def steps(self, data: bytes, now: float) -> Iterator[Piece]:
        """The same bytes, in steps of a few frames each. Raises `PeerFault` before a frame that is too much."""
        if self._preface:
            preface, data = data[: self._preface], data[self._preface :]
            self._preface -= len(preface)
            yield preface
        begin, frames = 0, 0
        for at, length, kind, flags in self._walk(data):
            if frames >= self._limits.frames_per_step:
                yield memoryview(data)[begin:at]
                begin, frames = at, 0
            self._charge(length, kind, flags, now)
            frames += CALL_STEP if kind == HeadersFrame.type else 1
        yield memoryview(data)[begin:] if begin else data

    def sent(self, total: int) -> None:
        """Bytes of DATA sent since the beginning: they earn points."""
        self._points.earn((total - self._sent) / self._limits.data_per_point)
        self._sent = total

    def pause(self, size: int, now: float) -> float:
        """Seconds for which a peer of which so many bytes were read should not be read now."""
        return self._work.borrow(size, now)

    def _walk(self, data: bytes) -> Iterator[tuple[int, int, int, int]]:
        """Where in the data each frame begins whose header ends there, and its length, type and flags."""
        cut = len(self._cut)
        text = self._cut + data if cut else data
        at, self._cut = self._ahead, b""
        while at + _HEADER_SIZE <= len(text):
            high, low, kind, flags = _HEADER.unpack_from(text, at)
            length = high << 8 | low
            yield max(0, at - cut), length, kind, flags
            at += _HEADER_SIZE + length
        self._ahead = max(0, at - len(text))
        self._cut = text[at:]

    def _charge(self, length: int, kind: int, flags: int, now: float) -> None:
        """Charge one frame. The common one, DATA with a request in it, is only counted as work."""
        if length > self._limits.max_frame_size:
            raise PeerFault(ErrorCodes.FRAME_SIZE_ERROR, "frame_too_large")
        if kind == HeadersFrame.type:
            self._work.borrow(max(0, LEAST_WORK - length), now)
            self._require(self.calls.spend(1, now), "too_many_wasted_calls")
            self._charge_headers(length, begin=True)
        elif kind == DataFrame.type and length >= SMALL_DATA:
            self._work.borrow(max(0, LEAST_WORK - length), now)
        else:
            cost, excess = _price(kind, flags, length)
            self._require(self._points.spend(cost, now), excess)
            if kind == ContinuationFrame.type:
                self._charge_headers(length, begin=False)

    def _charge_headers(self, length: int, *, begin: bool) -> None:
        """HEADERS and its CONTINUATIONs are held together until the last has come."""
        self._block = length if begin else self._block + length
        self._require(self._block <= self._limits.max_header_list_size, "headers_too_large")

    @staticmethod
    def _require(kept: bool, excess: str) -> None:
        if not kept:
            raise PeerFault(ErrorCodes.ENHANCE_YOUR_CALM, excess)


def _price(kind: int, flags: int, length: int) -> tuple[int, str]:
    """What a frame costs in points, and what is said to whom it is too much."""
    cost, excess = COSTS.get(kind, _OTHERS)
    if kind in (PingFrame.type, SettingsFrame.type) and flags & _ACK:
        return 1, excess
    return (cost + length // _SETTING_SIZE if kind == SettingsFrame.type else cost), excess
