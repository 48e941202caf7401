"""The short way for common frames: h2's events, windows, answers and errors, whatever arrives and however it is cut."""

from itertools import product

import pytest
from h2.events import WindowUpdated
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes
from hpack import Encoder
from hyperframe.frame import (
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.grpc.bounded_h2 import BoundedH2Connection
from actors.grpc.limits import Limits
from actors.grpc.quick_h2 import QuickH2Connection

LIMITS = Limits(stream_window=3000, connection_window=5000)
REQUEST = [(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "b")]


def headers(stream_id, *fields, end_headers=True, end_stream=False):
    """A request; its header block refers to no table, for others may be left out."""
    block = Encoder().encode([(name, value, True) for name, value in [*REQUEST, *fields]])
    flags = [name for name, wanted in [("END_HEADERS", end_headers), ("END_STREAM", end_stream)] if wanted]
    return HeadersFrame(stream_id, block, flags=flags).serialize()


def window_update(stream_id, increment, length=4, flags=0):
    """A WINDOW_UPDATE, right or wrong."""
    body = increment.to_bytes(4, "big").ljust(length, b"\0")[:length]
    return length.to_bytes(3, "big") + bytes([WindowUpdateFrame.type, flags]) + stream_id.to_bytes(4, "big") + body


def data(stream_id, size, *, padded=False, end=False):
    """A part of a request."""
    flags = [name for name, wanted in [("PADDED", padded), ("END_STREAM", end)] if wanted]
    frame = DataFrame(1, b"d" * size, pad_length=7 if padded else 0, flags=flags).serialize()
    return frame[:5] + stream_id.to_bytes(4, "big") + frame[9:]


FRAMES = [
    *(window_update(0, increment) for increment in (1, 2**31 - 65_536, 2**31, 0)),
    *(window_update(1, increment) for increment in (1, 2**31 - 65_536, 2**31, 0)),
    *(window_update(number, 1) for number in (2, 5, 7, 2**31, 2**31 + 1)),
    window_update(0, 1, length=3),
    window_update(0, 1, length=5),
    window_update(1, 1, flags=0xFF),
    *(data(1, size) for size in (0, 2900, 16_385)),
    *(data(number, 100) for number in (2, 5, 7, 9, 2**31 + 1)),
    data(0, 1),
    data(1, 100, padded=True),
    data(1, 100, end=True),
    headers(5),
    headers(7, end_stream=True),
    headers(9, ("content-length", "99")),
    headers(9, end_headers=False),
    RstStreamFrame(1).serialize(),
    PingFrame(0, b"12345678").serialize(),
    PingFrame(0, b"12345678", flags=["ACK"]).serialize(),
    PingFrame(0, b"12345678").serialize()[:5] + b"\0\0\0\1" + b"12345678",  # of a stream
    b"\0\0\7" + PingFrame(0, b"12345678").serialize()[3:-1],
    PriorityFrame(1, depends_on=0, stream_weight=3).serialize(),
    SettingsFrame(0, settings={SettingCodes.INITIAL_WINDOW_SIZE: 2**30}).serialize(),
    GoAwayFrame(0).serialize(),
    bytes.fromhex("000003 fe 00 00000001 616263"),  # of a kind that nobody knows
    b"\0\0",
]
DOINGS = [
    lambda h2: h2.reset_stream(1),
    lambda h2: h2.send_headers(1, [(":status", "200")], end_stream=True),
    lambda h2: h2.acknowledge_received_data(1500, 3),
    lambda h2: h2.close_connection(),
]


def test_it_makes_of_any_two_frames_what_h2_makes_of_them():
    """Right or wrong, in one read or in two: same events, answers, windows and errors."""
    for first, second in product(FRAMES, FRAMES):
        assert_same([first + second])
        assert_same([first, second])


@settings(deadline=None)
@given(st.lists(st.one_of(st.lists(st.sampled_from(FRAMES)), st.sampled_from(DOINGS)), max_size=5), st.data())
def test_it_makes_of_any_story_what_h2_makes_of_it(story, draw):
    """However what arrives is cut into reads, and whatever we do in between."""
    steps = []
    for step in story:
        steps += cut(b"".join(step), draw) if isinstance(step, list) else [step]
    assert_same(steps)


def assert_same(steps):
    """What comes of the steps is the same with and without the short way, up to the first error of the peer's."""
    quick, plain = greeted(QuickH2Connection), greeted(BoundedH2Connection)
    for step in steps:
        came, due = outcome(quick, step), outcome(plain, step)
        assert came == due
        assert state(quick) == state(plain)
        if isinstance(step, bytes) and isinstance(due[0], type):
            return


def greeted(kind):
    """A connection with two open streams."""
    connection = kind(LIMITS)
    connection.initiate_connection()
    connection.receive_data(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SettingsFrame(0).serialize() + headers(1) + headers(3)
    )
    return connection


def cut(arrived, draw):
    """The same bytes in two reads, or in one."""
    at = draw.draw(st.integers(0, len(arrived)))
    return [part for part in (arrived[:at], arrived[at:]) if part]


def outcome(h2, step):
    """What comes of bytes that arrive, or of what is done; and what is to be sent then. Whether one is told of windows
    that were open already is left to either.
    """
    try:
        done = h2.receive_data(step) if isinstance(step, bytes) else step(h2)
    except (ProtocolError, KeyError) as error:
        return type(error), str(error), h2.data_to_send()
    told = [event for event in done or () if not isinstance(event, WindowUpdated)]
    events = [(repr(event), getattr(event, "data", b"")) for event in told]
    return events, h2.data_to_send()


def state(h2):
    """The windows of the connection and of its streams, and what the streams are in."""
    streams = {
        number: (stream.state_machine.state, stream.outbound_flow_control_window, stream.inbound_flow_control_window)
        for number, stream in h2.streams.items()
    }
    return h2.state_machine.state, h2.outbound_flow_control_window, h2.inbound_flow_control_window, streams


def test_common_frames_do_not_reach_h2s_buffer(monkeypatch):
    """WINDOW_UPDATEs, PINGs and the DATA of open streams go the short way: it is not there for nothing."""
    connection = greeted(QuickH2Connection)
    monkeypatch.setattr(type(connection.incoming_buffer), "add_data", None)
    ping = PingFrame(0, b"12345678").serialize()
    read = window_update(0, 9) + data(1, 100) + window_update(1, 9) + data(3, 0) + ping
    assert kinds(connection.receive_data(read)) == ["DataReceived", "DataReceived", "PingReceived"]


@pytest.mark.parametrize("stream_id", [0, 1])
def test_a_window_that_was_closed_is_news(stream_id):
    """Whoever waits for it is told, but only while it has no room: when there was some, nobody had to wait."""
    connection = greeted(QuickH2Connection)
    window = connection.streams[stream_id] if stream_id else connection
    window.outbound_flow_control_window = -5
    for opened in (["WindowUpdated"], ["WindowUpdated"], []):
        assert kinds(connection.receive_data(window_update(stream_id, 5))) == opened
    assert window.outbound_flow_control_window == 10


def kinds(events):
    """The names of their classes."""
    return [type(event).__name__ for event in events]
