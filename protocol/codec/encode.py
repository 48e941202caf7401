r"""Encoders: for each message class one function from a message to its bytes, written as source and compiled.

Theory. Metadata that is interpreted for each field of each message is what makes the library slow; written out, a field
that is absent costs one attribute access and one test, and a string that is there one line of expression. For

    message Node { string id = 1; repeated Address addresses = 2; google.protobuf.UInt32Value weight = 3; }

the function is, shortened,

    def encode(m):
        o = b""
        if v := m.id:
            o += b"\n" + (VARINTS[n] if (n := len(b := v.encode())) < 16384 else varint(n)) + b
        if values := m.addresses:
            p = []
            for v in values:
                p += (b"\x12", VARINTS[n] if (n := len(b := encode_addresses(v))) < 16384 else varint(n), b)
            o += b"".join(p)
        if (v := m.weight) is not None:
            ...
        return o + m._unknown_fields

Each kind of `Value` has its expression (`_element`), each kind of `Presence` its statement (`_statement`). Fields are
written by number and map entries by key, so equal messages have equal bytes in every process; apart from the order of
map entries these are the bytes of Google's deterministic serialization.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import copysign
from typing import TYPE_CHECKING, cast

from betterproto2 import Message

from protocol import wire
from protocol.codec import scalars, times
from protocol.codec.compiling import compile_function, defer, indent
from protocol.codec.plan import (
    Elapsed,
    Enumeration,
    Explicit,
    Field,
    Implicit,
    Instant,
    Mapped,
    Repeated,
    Scalar,
    Submessage,
    Value,
    Wrapped,
    plan_fields,
    wire_type,
)

if TYPE_CHECKING:
    from protocol.codec.compiling import Namespace

Encoder = Callable[[Message], bytes]


class _Encoders(dict[type[Message], Encoder]):
    """The encoders made so far."""

    def __missing__(self, message: type[Message]) -> Encoder:
        encoder = self[message] = _build_encoder(message)
        return encoder


_ENCODERS = _Encoders()


def encode(message: Message) -> bytes:
    """The canonical bytes of a message. Raises `LocalError` for a number outside of its field's type."""
    return _ENCODERS[type(message)](message)


def prepare(message: type[Message]) -> None:
    """Make the encoder of a class now: a millisecond or more that the first encoding need not take."""
    _ENCODERS[message]


def _build_encoder(message: type[Message]) -> Encoder:
    """Write and compile the encoder of a class."""
    fields = plan_fields(message)
    namespace: Namespace = dict(_GLOBALS)
    for field in fields:
        if isinstance(field.value, Submessage):
            defer(namespace, f"encode_{field.name}", partial(_ENCODERS.__getitem__, field.value.message))
    compile_function("encode", message, _encoder_lines(fields), namespace)
    return cast("Encoder", namespace["encode"])


_GLOBALS: Namespace = {
    "VARINTS": wire.VARINTS,
    "varint": wire.varint,
    "copysign": copysign,
    "duration": times.duration,
    "timestamp": times.timestamp,
    "uint32": scalars.uint32,
    "uint64": scalars.uint64,
    "int32": scalars.int32,
    "int64": scalars.int64,
    "sint32": scalars.sint32,
    "sint64": scalars.sint64,
    **{f"pack_{name}": fixed.pack for name, fixed in scalars.FIXED.items()},
}
"""What generated code refers to, beside the encoders of nested messages."""


# --- statements ------------------------------------------------------------------------------------------------------
def _encoder_lines(fields: tuple[Field, ...]) -> list[str]:
    """The whole function."""
    statements = [line for field in fields for line in _statement(field)]
    return ["def encode(m):", *indent(['o = b""', *statements, "return o + m._unknown_fields"])]


def _statement(field: Field) -> list[str]:
    """The lines that add one field to `o`, if it is there."""
    match field.presence:
        case Implicit():
            return [f"if {_is_sent(field.value, f'v := m.{field.name}')}:", f"    o += {_element(field)}"]
        case Explicit():
            return [f"if (v := m.{field.name}) is not None:", f"    o += {_element(field)}"]
        case Repeated(packed=True):
            return _packed(field)
        case Repeated():
            return _repeated(field)
        case Mapped(key):
            return _mapped(field, key)


def _repeated(field: Field) -> list[str]:
    """One element for each value. They are joined, for adding to `o` copies what is there."""
    return [
        f"if values := m.{field.name}:",
        "    p = []",
        "    for v in values:",
        f"        p += ({_tag(field.number, wire.DELIMITED)}, {_length(_body(field.value, 'v', field.name))}, b)",
        '    o += b"".join(p)',
    ]


def _packed(field: Field) -> list[str]:
    """All numbers behind one tag."""
    body = f'b"".join([{_payload(field.value, "v")} for v in values])'
    return [f"if values := m.{field.name}:", f"    o += {_tag(field.number, wire.DELIMITED)} + {_sized(body)}"]


def _mapped(field: Field, key: Scalar) -> list[str]:
    """One message for each entry; key and value are in it even if they are zero."""
    entry = f"{_tagged(key, 1, 'k')} + {_tagged(field.value, 2, 'v', field.name)}"
    return [
        f"if values := m.{field.name}:",
        "    p = []",
        "    for k in sorted(values):",
        "        v = values[k]",
        f"        p += ({_tag(field.number, wire.DELIMITED)}, {_length(entry)}, b)",
        '    o += b"".join(p)',
    ]


# --- expressions -----------------------------------------------------------------------------------------------------
def _element(field: Field) -> str:
    """Tag and payload of the field's value `v`."""
    return _tagged(field.value, field.number, "v", field.name)


def _tagged(value: Value, number: int, variable: str, name: str = "") -> str:
    """Tag and payload of the value that is in `variable`."""
    return f"{_tag(number, wire_type(value))} + {_payload(value, variable, name)}"


def _payload(value: Value, variable: str, name: str = "") -> str:
    """What follows the tag."""
    match value:
        case Enumeration():
            return _varint(variable, "int32")
        case Scalar("bool"):
            return f'(b"\\x01" if {variable} else b"\\x00")'
        case Scalar("uint32" | "uint64" | "int32" | "int64" as name):
            return _varint(variable, name)
        case Scalar("sint32" | "sint64" as name):
            return f"{name}({variable})"
        case Scalar(name) if name in scalars.FIXED:
            return f"pack_{name}({variable})"
        case _:
            return _sized(_body(value, variable, name))


def _body(value: Value, variable: str, name: str) -> str:
    """The bytes of a value that is sent with their number."""
    match value:
        case Scalar("string"):
            return f"{variable}.encode()"
        case Submessage():
            return f"encode_{name}({variable})"
        case Wrapped(_, scalar):
            return f'({_tagged(scalar, 1, variable)} if {_is_sent(scalar, variable)} else b"")'
        case Elapsed():
            return f"duration({variable})"
        case Instant():
            return f"timestamp({variable})"
        case _:
            return variable


def _is_sent(value: Value, fetch: str) -> str:
    """Whether a value without presence of its own is sent: unless it is zero, which -0.0 is not. `fetch` makes `v`."""
    if value in (Scalar("float"), Scalar("double")):
        return f"({fetch}) or copysign(1.0, v) < 0"
    return fetch


def _varint(variable: str, function: str) -> str:
    """A number as a varint: a look-up if it is small, else a function that checks the type's range."""
    return f"(VARINTS[{variable}] if 0 <= {variable} < {len(wire.VARINTS)} else {function}({variable}))"


def _sized(body: str) -> str:
    """Length and bytes of an expression."""
    return f"({_length(body)}) + b"


def _length(body: str) -> str:
    """The length of an expression, as a varint; its bytes are then in `b`."""
    return f"VARINTS[n] if (n := len(b := {body})) < {len(wire.VARINTS)} else varint(n)"


def _tag(number: int, kind: int) -> str:
    """The literal of a tag."""
    return repr(wire.tag(number, kind))
