"""What a message class says about its fields, as data from which code can be written.

The plan of a class is its fields in the order of their numbers. A field has a `Value` (what one value of it is) and a
`Presence` (how many there are, and when it counts as absent). It is read from the metadata that betterproto2 attaches
to dataclass fields, and from their type hints; nothing else of that library's inside is relied on.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, cast

import betterproto2

from protocol import wire

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from betterproto2 import FieldMetadata, Message


# --- what one value is -----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, a bool, text or bytes. `type` is protobuf's name for it, such as "uint32"."""

    type: str


@dataclass(frozen=True, slots=True)
class Enumeration:
    """A member of an enumeration. Unknown numbers are kept as unnamed members."""

    enum: type[betterproto2.Enum]


@dataclass(frozen=True, slots=True)
class Submessage:
    """A message within the message."""

    message: type[Message]


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A scalar that is a message on the wire, so that its zero is not its absence: UInt32Value and the like."""

    message: type[Message]
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Elapsed:
    """A google.protobuf.Duration, in Python a timedelta: whole microseconds."""

    message: type[Message]


@dataclass(frozen=True, slots=True)
class Instant:
    """A google.protobuf.Timestamp, in Python an aware datetime: whole microseconds, years 1 to 9999."""

    message: type[Message]


Value = Scalar | Enumeration | Submessage | Wrapped | Elapsed | Instant


# --- how many there are ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Implicit:
    """One; its zero is the same as its absence."""


@dataclass(frozen=True, slots=True)
class Explicit:
    """One or None. Of the members of a `oneof` at most one is there: the last on the wire."""

    oneof: str | None


@dataclass(frozen=True, slots=True)
class Repeated:
    """A list. Numbers are packed: one tag and length for all of them."""

    packed: bool


@dataclass(frozen=True, slots=True)
class Mapped:
    """A dict: each entry is a message with the key as field 1 and the value as field 2."""

    key: Scalar


Presence = Implicit | Explicit | Repeated | Mapped


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a message. `name` is that of the attribute."""

    number: int
    name: str
    value: Value
    presence: Presence


WIRE_TYPES = {
    "bool": wire.VARINT,
    "int32": wire.VARINT,
    "int64": wire.VARINT,
    "uint32": wire.VARINT,
    "uint64": wire.VARINT,
    "sint32": wire.VARINT,
    "sint64": wire.VARINT,
    "fixed32": wire.FIXED32,
    "sfixed32": wire.FIXED32,
    "float": wire.FIXED32,
    "fixed64": wire.FIXED64,
    "sfixed64": wire.FIXED64,
    "double": wire.FIXED64,
    "string": wire.DELIMITED,
    "bytes": wire.DELIMITED,
}
"""Protobuf's scalar types and how they travel. Enumerations travel as int32, all else is length-delimited."""


def wire_type(value: Value) -> int:
    """How one value travels."""
    match value:
        case Scalar(name):
            return WIRE_TYPES[name]
        case Enumeration():
            return wire.VARINT
        case _:
            return wire.DELIMITED


@cache
def plan_fields(message: type[Message]) -> tuple[Field, ...]:
    """The fields of a message class, by number."""
    hints = typing.get_type_hints(message, vars(sys.modules[message.__module__]))
    fields = (
        _plan_field(field.name, betterproto2.FieldMetadata.get(field), hints[field.name])
        for field in _declared(message)
    )
    return tuple(sorted(fields, key=lambda field: field.number))


def _declared(message: type[Message]) -> tuple[dataclasses.Field[object], ...]:
    """The dataclass fields of a message class, in the order of declaration."""
    return dataclasses.fields(cast("type[DataclassInstance]", message))


def _plan_field(name: str, metadata: FieldMetadata, hint: type) -> Field:
    """One field. The hint is `T`, `T | None`, `list[T]` or `dict[K, T]`."""
    arguments = typing.get_args(hint)
    if metadata.map_meta is not None:
        key, item = metadata.map_meta
        presence: Presence = Mapped(Scalar(key.proto_type))
        return Field(number=metadata.number, name=name, value=_plan_value(item, arguments[1]), presence=presence)
    value = _plan_value(metadata, arguments[0] if arguments else hint)
    return Field(number=metadata.number, name=name, value=value, presence=_plan_presence(metadata, value))


def _plan_presence(metadata: FieldMetadata, value: Value) -> Presence:
    """How many values a field has that is no map."""
    if metadata.repeated:
        return Repeated(packed=wire_type(value) != wire.DELIMITED)
    return Explicit(metadata.group) if metadata.optional or metadata.group else Implicit()


def _plan_value(metadata: FieldMetadata, hint: type) -> Value:
    """What one value of a field is. `hint` is its Python type."""
    if metadata.unwrap is not None:
        return _plan_wrapped(metadata.unwrap())
    match metadata.proto_type:
        case betterproto2.TYPE_MESSAGE:
            return Submessage(hint)
        case betterproto2.TYPE_ENUM:
            return Enumeration(hint)
        case scalar:
            return Scalar(scalar)


def _plan_wrapped(message: type[Message]) -> Value:
    """The well-known messages that have a Python type of their own."""
    match message.__name__:
        case "Duration":
            return Elapsed(message)
        case "Timestamp":
            return Instant(message)
        case _:
            (value,) = _declared(message)
            return Wrapped(message, Scalar(betterproto2.FieldMetadata.get(value).proto_type))
