"""The encodings of numbers that generated code does not write in line. Out of range is our own bug: `LocalError`."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from protocol.errors import LocalError
from protocol.wire import varint

if TYPE_CHECKING:
    from collections.abc import Callable


def _integer(bits: int, *, signed: bool) -> Callable[[int], bytes]:
    """Varints of a type. Negative ones have ten bytes, whatever the type: two's complement of 64 bits."""
    lowest, end = (-1 << bits - 1, 1 << bits - 1) if signed else (0, 1 << bits)

    def encode(number: int) -> bytes:
        if not lowest <= number < end:
            raise LocalError(f"{number} is out of range for {bits} bits")
        return varint(number & 0xFFFF_FFFF_FFFF_FFFF)

    return encode


def _zigzag(bits: int) -> Callable[[int], bytes]:
    """Signed numbers of a type, numbered from 0: 0, -1, 1, -2, ..."""
    check = _integer(bits, signed=True)

    def encode(number: int) -> bytes:
        check(number)
        return varint(number << 1 if number >= 0 else ~(number << 1))

    return encode


uint32 = _integer(32, signed=False)
uint64 = _integer(64, signed=False)
int32 = _integer(32, signed=True)
int64 = _integer(64, signed=True)
sint32 = _zigzag(32)
sint64 = _zigzag(64)

FIXED = {
    "float": Struct("<f"),
    "double": Struct("<d"),
    "fixed32": Struct("<I"),
    "fixed64": Struct("<Q"),
    "sfixed32": Struct("<i"),
    "sfixed64": Struct("<q"),
}
"""Types of a fixed number of bytes: little-endian."""
