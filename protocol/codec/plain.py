"""Messages as plain data, in protobuf's JSON form with original field names: for debug pages, not for the wire.

https://protobuf.dev/programming-guides/json/. Fields that are absent are left out. An Any is shown as the message in it
if its type is known to the given table, else with its bytes in base64.
"""

# ruff: noqa: ANN401 - the type of a field's value is what its plan says, which no annotation can

from __future__ import annotations

from base64 import b64encode
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from protocol.codec.decode import decode
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
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from betterproto2 import Message

Plain: TypeAlias = dict[str, Any] | list[Any] | str | float | int | bool | None

_AS_TEXT = frozenset({"int64", "uint64", "sint64", "fixed64", "sfixed64"})
"""Integers that JSON numbers cannot hold exactly."""


def plain_message(message: Message, find_type: Callable[[str], type[Message] | None]) -> Plain:
    """A message as plain data. `find_type` maps the type URL of an Any to its class, or to None if it is unknown."""
    match type(message).__name__:
        case "Any":
            return _plain_any(message, find_type)
        case "Struct":
            return {name: plain_message(value, find_type) for name, value in vars(message)["fields"].items()}
        case "ListValue":
            return [plain_message(value, find_type) for value in vars(message)["values"]]
        case "Value":
            return _plain_json(message, find_type)
        case _:
            return _plain_fields(message, find_type)


def _plain_fields(message: Message, find_type: Callable[[str], type[Message] | None]) -> dict[str, Any]:
    shown = {}
    for field in _fields(type(message)):
        value = getattr(message, field.name)
        if not _is_absent(field, value):
            shown[field.name] = _plain_field(field, value, find_type)
    return shown


@cache
def _fields(message: type[Message]) -> tuple[Field, ...]:
    return plan_fields(message)


def _is_absent(field: Field, value: object) -> bool:
    match field.presence:
        case Explicit():
            return value is None
        case Repeated() | Mapped():
            return not value
        case Implicit():
            return value is None or (not isinstance(field.value, Submessage) and not value)


def _plain_field(field: Field, value: Any, find_type: Callable[[str], type[Message] | None]) -> Plain:
    match field.presence:
        case Repeated():
            return [_plain_value(field.value, item, find_type) for item in value]
        case Mapped():
            return {_plain_key(key): _plain_value(field.value, item, find_type) for key, item in value.items()}
        case _:
            return _plain_value(field.value, value, find_type)


def _plain_value(kind: Value, value: Any, find_type: Callable[[str], type[Message] | None]) -> Plain:
    match kind:
        case Submessage():
            return plain_message(value, find_type)
        case Enumeration():
            return value.name or int(value)
        case Elapsed():
            return _plain_duration(value)
        case Instant():
            text: str = value.isoformat().replace("+00:00", "Z")
            return text
        case Wrapped(_, scalar) | (Scalar() as scalar):
            return _plain_scalar(scalar, value)


def _plain_scalar(kind: Scalar, value: Any) -> Plain:
    if kind.type == "bytes":
        return b64encode(value).decode()
    return str(value) if kind.type in _AS_TEXT else value


def _plain_key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _plain_duration(value: timedelta) -> str:
    seconds, micros = divmod(abs(value.days * 86400 * 10**6 + value.seconds * 10**6 + value.microseconds), 10**6)
    sign = "-" if value.days < 0 else ""
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    return f"{sign}{seconds}{fraction}s"


def _plain_any(message: Message, find_type: Callable[[str], type[Message] | None]) -> Plain:
    url, body = message.type_url, message.value  # type: ignore[attr-defined]
    known = find_type(url)
    if known is None:
        return {"@type": url, "value": b64encode(body).decode()}
    inner = plain_message(decode(known, body), find_type)
    return {"@type": url, **inner} if isinstance(inner, dict) else {"@type": url, "value": inner}


def _plain_json(message: Message, find_type: Callable[[str], type[Message] | None]) -> Plain:
    """A google.protobuf.Value is the JSON value that it holds."""
    for name, value in vars(message).items():
        if name.startswith("_") or value is None:
            continue
        if name == "null_value":
            return None
        return plain_message(value, find_type) if name in {"struct_value", "list_value"} else value
    return None
