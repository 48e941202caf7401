"""Decoders: for each message class a function from bytes to a message. `decoder_source.py` writes it, with its theory.

What must not be here: anything about how a field is read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar, cast

from betterproto2 import Enum, Message

from protocol import wire_reading
from protocol.codec import scalars, times
from protocol.codec.compiling import compile_function, defer
from protocol.codec.decoder_source import decoder_lines, unwrapper_lines, zero
from protocol.codec.plan import Enumeration, Field, Implicit, Scalar, Submessage, Wrapped, plan_fields

if TYPE_CHECKING:
    from protocol.codec.compiling import Namespace

Decoder = Callable[..., Message]
"""(data, position, end, message that is there already or None) -> message."""

MessageT = TypeVar("MessageT", bound=Message)


class _Decoders(dict[type[Message], Decoder]):
    """The decoders made so far."""

    def __missing__(self, message: type[Message]) -> Decoder:
        decoder = self[message] = _build_decoder(message)
        return decoder


_DECODERS = _Decoders()


def decode(message: type[MessageT], data: bytes) -> MessageT:
    """The message that these bytes are. Raises `DecodeError` if they are none of that class."""
    decoder = _DECODERS[message]
    try:
        return cast("MessageT", decoder(data, 0, len(data)))
    except wire_reading.MALFORMED as error:
        raise wire_reading.malformed(message.__name__, error) from error


def _build_decoder(message: type[Message]) -> Decoder:
    """Write and compile the decoder of a class."""
    fields = plan_fields(message)
    namespace: Namespace = {
        **_GLOBALS,
        "message": message,
        "defaults": {**{field.name: _default(field) for field in fields}, "_unknown_fields": b""},
    }
    for field in fields:
        _name_types(field, namespace)
    compile_function("decode", message, decoder_lines(fields), namespace)
    return cast("Decoder", namespace["decode"])


def _name_types(field: Field, namespace: Namespace) -> None:
    """What the code for one field refers to: the decoder of its message or wrapper, its enumeration."""
    match field.value:
        case Enumeration(enum):
            namespace[f"enum_{field.name}"] = _members(enum)
        case Submessage(message):
            defer(namespace, f"decode_{field.name}", partial(_DECODERS.__getitem__, message))
        case Wrapped(message, scalar):
            defer(namespace, f"decode_{field.name}", partial(_build_unwrapper, message, scalar))
        case _:
            pass


@cache
def _build_unwrapper(message: type[Message], scalar: Scalar) -> Callable[..., object]:
    """Write and compile a decoder of a wrapper message that gives its value."""
    namespace = dict(_GLOBALS)
    compile_function("decode", message, unwrapper_lines(scalar), namespace)
    return cast("Callable[..., object]", namespace["decode"])


class _Members(dict[int, Enum]):
    """The members of an enumeration by number; a number that is none becomes one without a name."""

    def __init__(self, enum: type[Enum]) -> None:
        super().__init__((member.value, member) for member in enum)
        self._enum = enum

    def __missing__(self, number: int) -> Enum:
        return self._enum(number)


_members = cache(_Members)


def _default(field: Field) -> object:
    """The value of an absent field. Lists and dicts, which must not be shared, are made by the decoder."""
    match field.presence, field.value:
        case Implicit(), Scalar(name):
            return zero(name)
        case Implicit(), Enumeration(enum):
            return _members(enum)[0]
        case _:
            return None


def _keep_unknown(attributes: dict[str, bytes | bytearray], fields: list[bytes]) -> None:
    """Remember unknown fields, to be encoded again. In place: a message may come in a million pieces."""
    there = attributes["_unknown_fields"]
    if isinstance(there, bytearray):
        there += b"".join(fields)
    else:
        attributes["_unknown_fields"] = bytearray(there) + b"".join(fields) if there else b"".join(fields)


_GLOBALS: Namespace = {
    "new": object.__new__,
    "keep": _keep_unknown,
    "check_end": wire_reading.check_end,
    "skip": wire_reading.skip,
    "rest_of_tag": wire_reading.rest_of_tag,
    "rest_of_varint": wire_reading.rest_of_varint,
    "rest_of_uint32": wire_reading.rest_of_uint32,
    "rest_of_int32": wire_reading.rest_of_int32,
    "rest_of_int64": wire_reading.rest_of_int64,
    "unzigzag": wire_reading.unzigzag,
    "duration": times.duration,
    "timestamp": times.timestamp,
    "elapsed": times.elapsed,
    "instant": times.instant,
    **{f"unpack_{name}": fixed.unpack_from for name, fixed in scalars.FIXED.items()},
}
"""What generated code refers to, beside what `_name_types` adds."""
