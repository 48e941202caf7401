"""Reading protobuf by hand: the primitives under `protocol.codec` and the decoders of requests.

A reader takes the data and a position and returns a value and the position behind it. Readers that are called for the
first byte's sake get that byte too: most varints are one byte long, which their caller reads without a call.

Nobody here knows where the message ends: who reads a message checks at the end that it stopped exactly there. So a
field that claims to be longer than its message is always noticed, a read behind the data raises IndexError, and all
that goes wrong (`MALFORMED`) is made one `DecodeError` by whoever began to read.
"""

from __future__ import annotations

from struct import error as struct_error

from protocol import wire
from protocol.errors import RemoteError
from protocol.statuses import INVALID_ARGUMENT

_REASONS: dict[type[Exception], str] = {
    IndexError: "it ends too soon",
    struct_error: "it ends too soon",
    UnicodeDecodeError: "text that is not UTF-8",
    OverflowError: "a time beyond all calendars",
    RecursionError: "nested too deeply",
}
"""What malformed data makes the reading code raise, and what that means. Beside these, a ValueError says it itself."""

MALFORMED: tuple[type[Exception], ...] = (*_REASONS, ValueError)
"""What to catch around the reading of a message."""

_INT32 = 1 << 32
_INT64 = 1 << 64
_LONGEST_VARINT = 63  # the shift of its tenth byte


class DecodeError(RemoteError):
    """What a peer sent is not the encoding of the message that it should be."""

    def __init__(self, message: str) -> None:
        super().__init__(INVALID_ARGUMENT, message)


def malformed(what: str, error: Exception) -> DecodeError:
    """The error that says what could not be read and why. Of the data itself it repeats nothing."""
    return DecodeError(f"malformed {what}: {_REASONS.get(type(error), error)}")


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A varint of up to 64 bits."""
    first = data[position]
    return (first, position + 1) if first < 0x80 else rest_of_varint(data, position + 1, first)


def read_int32(data: bytes, position: int) -> tuple[int, int]:
    """A varint of 32 bits in two's complement."""
    first = data[position]
    return (first, position + 1) if first < 0x80 else rest_of_int32(data, position + 1, first)


def read_int64(data: bytes, position: int) -> tuple[int, int]:
    """A varint of 64 bits in two's complement."""
    first = data[position]
    return (first, position + 1) if first < 0x80 else rest_of_int64(data, position + 1, first)


def rest_of_varint(data: bytes, position: int, first: int) -> tuple[int, int]:
    """A varint of which `first` was read and promises more. Bits beyond the 64th are dropped, as elsewhere."""
    value = first & 0x7F
    for shift in range(7, _LONGEST_VARINT + 1, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (_INT64 - 1), position
    raise ValueError("a varint of more than ten bytes")


def rest_of_uint32(data: bytes, position: int, first: int) -> tuple[int, int]:
    """The same, cut to 32 bits."""
    value, position = rest_of_varint(data, position, first)
    return value & (_INT32 - 1), position


def rest_of_int32(data: bytes, position: int, first: int) -> tuple[int, int]:
    """The same, cut to 32 bits in two's complement."""
    value, position = rest_of_uint32(data, position, first)
    return (value - _INT32 if value >= _INT32 >> 1 else value), position


def rest_of_int64(data: bytes, position: int, first: int) -> tuple[int, int]:
    """The same in two's complement."""
    value, position = rest_of_varint(data, position, first)
    return (value - _INT64 if value >= _INT64 >> 1 else value), position


def read_tag(data: bytes, position: int) -> tuple[int, int]:
    """What a field opens with: number and wire type in one."""
    first = data[position]
    return (first, position + 1) if first < 0x80 else rest_of_tag(data, position + 1, first)


def rest_of_tag(data: bytes, position: int, first: int) -> tuple[int, int]:
    """A tag of which `first` was read. Raises ValueError for one beyond 32 bits."""
    value, position = rest_of_varint(data, position, first)
    if value >= _INT32:
        raise ValueError("a tag of more than 32 bits")
    return value, position


def unzigzag(value: int) -> int:
    """A signed number from its zigzag form: 0, -1, 1, -2, ... are numbered from 0."""
    return value >> 1 ^ -(value & 1)


def check_end(position: int, end: int) -> None:
    """Raise ValueError unless what was read ends where its message ends."""
    if position != end:
        raise ValueError("a field is longer than its message")


def skip(data: bytes, position: int, tag: int) -> int:
    """The position behind a field whose tag was read. Raises ValueError for what no field may be."""
    if tag < 1 << 3:
        raise ValueError("field number 0")
    match tag & 7:
        case wire.VARINT:
            return read_varint(data, position)[1]
        case wire.FIXED64:
            return position + 8
        case wire.DELIMITED:
            length, position = read_varint(data, position)
            return position + length
        case wire.START_GROUP:
            return _skip_group(data, position, tag)
        case wire.FIXED32:
            return position + 4
        case wire_type:
            raise ValueError(f"wire type {wire_type}")


def _skip_group(data: bytes, position: int, opening: int) -> int:
    """The position behind the end of a group whose start was read. Groups are of old; we keep them as we get them."""
    while True:
        tag, position = read_tag(data, position)
        if tag & 7 == wire.END_GROUP:
            if tag >> 3 != opening >> 3:
                raise ValueError("the end of another group")
            return position
        position = skip(data, position, tag)
