"""Durations and timestamps: Python's types beside protobuf's messages. Both count seconds and nanoseconds.

Python counts microseconds, so nanoseconds below a thousand are dropped, towards zero.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from protocol.codec.scalars import int32, int64
from protocol.wire_reading import check_end, read_int32, read_int64, read_tag, skip

_MICROSECOND = timedelta(microseconds=1)
_PER_SECOND = 10**6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1024)
def duration(elapsed: timedelta) -> bytes:
    """The body of a google.protobuf.Duration. Both its fields have the sign of the whole.

    A mesh has few different timeouts, and repeats them in every cluster and route: hence the cache.
    """
    sign = -1 if elapsed.days < 0 else 1
    seconds, microseconds = divmod(abs(elapsed) // _MICROSECOND, _PER_SECOND)
    return _seconds_and_nanoseconds(sign * seconds, sign * microseconds * 1000)


def timestamp(instant: datetime) -> bytes:
    """The body of a google.protobuf.Timestamp, whose nanoseconds count forward. The datetime must be aware."""
    seconds, microseconds = divmod((instant - _EPOCH) // _MICROSECOND, _PER_SECOND)
    return _seconds_and_nanoseconds(seconds, microseconds * 1000)


def _seconds_and_nanoseconds(seconds: int, nanoseconds: int) -> bytes:
    """Both messages: seconds 1, nanos 2; zero is absent."""
    first = b"\x08" + int64(seconds) if seconds else b""
    return first + b"\x10" + int32(nanoseconds) if nanoseconds else first


def elapsed(body: bytes) -> timedelta:
    """A Duration. Raises OverflowError beyond the range of timedelta, which is wider than Duration's own."""
    seconds, nanoseconds = _read(body)
    return timedelta(0, seconds, int(nanoseconds / 1000))


def instant(body: bytes) -> datetime:
    """A Timestamp. Raises OverflowError outside of the years 1 to 9999, which are Timestamp's own range."""
    seconds, nanoseconds = _read(body)
    return _EPOCH + timedelta(0, seconds, nanoseconds // 1000)


def _read(body: bytes) -> tuple[int, int]:
    """Seconds and nanoseconds of either message. Raises what `wire_reading.MALFORMED` lists."""
    seconds = nanoseconds = position = 0
    while position < len(body):
        tag, position = read_tag(body, position)
        if tag == 8:
            seconds, position = read_int64(body, position)
        elif tag == 16:
            nanoseconds, position = read_int32(body, position)
        else:
            position = skip(body, position, tag)
    check_end(position, len(body))
    return seconds, nanoseconds
