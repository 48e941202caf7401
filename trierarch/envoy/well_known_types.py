"""Small conversions into the well-known types that every other message is made of: bytes, Any, Struct, Duration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from protocol.codec import encode, pack
from protocol.proto.google.protobuf import ListValue, NullValue, Struct, Value
from protocol.xds.resources import Resource, build_resource

if TYPE_CHECKING:
    from betterproto2 import Message

__all__ = ["Plain", "duration", "encode", "encode_resource", "pack", "struct", "value"]

Plain: TypeAlias = bool | int | float | str | Sequence["Plain"] | Mapping[str, "Plain"] | None
"""What JSON can say."""


def encode_resource(name: str, message: Message) -> Resource:
    """A finished resource."""
    return build_resource(name, encode(message))


def duration(seconds: float) -> timedelta:
    """Seconds as the library wants them. None of our inputs is finer than a microsecond."""
    return timedelta(seconds=seconds)


def struct(values: Mapping[str, Plain]) -> Struct:
    """Plain values as a Struct, keys in order so that equal mappings have equal bytes."""
    return Struct(fields={key: value(values[key]) for key in sorted(values)})


def value(plain: Plain) -> Value:
    """One plain value. A bool is tested for before a number, because it is one in Python."""
    match plain:
        case None:
            return Value(null_value=NullValue.NULL_VALUE)
        case bool():
            return Value(bool_value=plain)
        case int() | float():
            return Value(number_value=float(plain))
        case str():
            return Value(string_value=plain)
        case Mapping():
            return Value(struct_value=struct(plain))
        case _:
            return Value(list_value=ListValue(values=[value(item) for item in plain]))
