"""The meter: finds frames however the bytes are cut, charges them, and changes nothing."""

import pytest
from h2.errors import ErrorCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    ExtensionFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given
from hypothesis import strategies as st

from actors.grpc.faults import PeerFault
from actors.grpc.limits import KIB, Limits, Rate
from actors.grpc.meter import FrameMeter

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
REQUEST = DataFrame(1, bytes(100)).serialize()
GREAT = Rate(10**9, 0)


def meter(**limits):
    """A meter at time 0."""
    return FrameMeter(Limits(**limits), now=0.0)


def charge(meter, *chunks, now=0.0):
    """Let the meter see these chunks. Returns the fault, or None."""
    try:
        for chunk in chunks:
            for _ in meter.steps(chunk, now):
                pass
    except PeerFault as fault:
        return fault.code, fault.reason
    return None


@given(st.lists(st.binary(max_size=200), max_size=20), st.integers(1, 50), st.integers(1, 5))
def test_steps_are_the_same_bytes(payloads, size, step):
    """Whatever the cuts, the steps joined are what came, and none begins more frames than allowed."""
    data = PREFACE + b"".join(DataFrame(1, payload).serialize() for payload in payloads)
    metered = meter(frames_per_step=step, cheap_frames=GREAT)
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert b"".join(bytes(each) for chunk in chunks for each in metered.steps(chunk, 0.0)) == data
    whole = [bytes(each) for each in meter(frames_per_step=step, cheap_frames=GREAT).steps(data, 0.0)]
    assert whole[0] == PREFACE
    assert b"".join(whole) == data
    assert len(whole) == 1 + max(1, -(-len(payloads) // step))


@given(st.integers(1, 40))
def test_frames_are_charged_once_however_they_are_cut(size):
    """A flood is noticed at the same frame whether it comes at once or byte by byte."""
    flood = PREFACE + PingFrame(0, bytes(8)).serialize() * 20
    chunks = [flood[at : at + size] for at in range(0, len(flood), size)]
    assert charge(meter(cheap_frames=Rate(100, 0)), *chunks) is None
    chunks.append(PingFrame(0, bytes(8)).serialize())
    assert charge(meter(cheap_frames=Rate(100, 0)), *chunks) == (ErrorCodes.ENHANCE_YOUR_CALM, "too_many_pings")


@pytest.mark.parametrize(
    ("frame", "points"),
    [
        (PingFrame(0, bytes(8)), 5),
        (PingFrame(0, bytes(8), flags=["ACK"]), 1),
        (SettingsFrame(0), 50),
        (SettingsFrame(0, settings={1: 4096, 4: 65535}), 52),
        (SettingsFrame(0, flags=["ACK"]), 1),
        (RstStreamFrame(1), 1),
        (WindowUpdateFrame(1, window_increment=1), 1),
        (PriorityFrame(1), 1),
        (DataFrame(1), 1),
        (DataFrame(1, bytes(63)), 1),
        (DataFrame(1, bytes(64)), 0),
        (ContinuationFrame(1), 1),
        (ExtensionFrame(0xFE, 0), 1),
        (HeadersFrame(1, bytes(40)), 0),
    ],
)
def test_prices(frame, points):
    """Each kind of frame costs what the table says: as many fit as the points pay for."""
    data = frame.serialize()
    assert charge(meter(cheap_frames=Rate(points, 0)), PREFACE, data) is None
    if points:
        assert charge(meter(cheap_frames=Rate(points - 1, 0)), PREFACE, data) is not None


def test_calls_have_a_budget_of_their_own_and_get_it_back():
    """Each HEADERS takes a point: one may be open here, and one wasted. Who serves the call refunds it."""
    metered = meter(wasted_calls=Rate(1, 0), max_concurrent_streams=1)
    headers = HeadersFrame(1, b"x", flags=["END_HEADERS"]).serialize()
    assert charge(metered, PREFACE + headers * 2) is None
    metered.calls.refund(1)
    assert charge(metered, headers) is None
    assert charge(metered, headers) == (ErrorCodes.ENHANCE_YOUR_CALM, "too_many_wasted_calls")


def test_a_frame_is_judged_by_its_header():
    """Nine bytes that announce 16 MiB are enough; nothing is held for them."""
    header = b"\xff\xff\xff\0\0\0\0\0\1"
    assert charge(meter(), PREFACE, header) == (ErrorCodes.FRAME_SIZE_ERROR, "frame_too_large")


def test_continuations_are_added_up():
    """A block of headers is bounded over all its frames, and the next one begins anew."""
    metered = meter(max_header_list_size=250, cheap_frames=GREAT)
    block = HeadersFrame(1, bytes(100)).serialize() + ContinuationFrame(1, bytes(100)).serialize()
    assert charge(metered, PREFACE + block + block) is None
    more = ContinuationFrame(1, bytes(51)).serialize()
    assert charge(metered, more) == (ErrorCodes.ENHANCE_YOUR_CALM, "headers_too_large")


def test_who_is_sent_much_may_answer_much():
    """DATA that we sent earns points, for WINDOW_UPDATEs and PINGs that measure the way."""
    metered = meter(cheap_frames=Rate(1, 0), data_per_point=4 * KIB)
    metered.sent(40 * KIB)
    metered.sent(400 * KIB)
    update = WindowUpdateFrame(0, window_increment=1).serialize()
    assert charge(metered, PREFACE + update * 101) is None
    assert charge(metered, update) is not None


def test_requests_beyond_the_rate_are_read_later():
    """A small request counts as 4 KiB of work: a connection in debt rests until it is paid."""
    metered = meter(work=Rate(40 * KIB, 4 * KIB))
    assert charge(metered, PREFACE + REQUEST * 10) is None
    assert metered.pause(len(REQUEST) * 10, 0.0) < 0.1
    assert charge(metered, REQUEST * 10) is None
    assert metered.pause(len(REQUEST) * 10, 0.0) == pytest.approx(10, abs=0.2)
    assert metered.pause(0, 100.0) == 0
