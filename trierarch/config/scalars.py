"""Readers of plain values: strings, numbers, booleans, durations, times, bytes, enums. Composition is in `schema.py`.

A reader takes a value as YAML or JSON gave it, the place where it stands and the notes of this decoding, and returns
what a spec dataclass keeps. What cannot be read is `Malformed`: an exception that never leaves `decode.py`.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from math import isfinite
from sys import intern
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import StrEnum

    from trierarch.config.wire import IntRange

Place: TypeAlias = "tuple[Place, str] | None"
"""Where a value stands: the place around it and the last part of the path (".hosts", "[0]"). A chain costs nothing."""

MAX_DEPTH = 64
"""Deepest nesting of an object that is passed on as it is."""

_DECIMAL = re.compile(r"-?\d{1,20}", re.ASCII)
_PROTOBUF_DURATION = re.compile(r"-?\d+(?:\.\d+)?s", re.ASCII)
_GO_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_GO_DURATION = re.compile(rf"[-+]?(?:0|(?:{_GO_PART.pattern})+)", re.ASCII)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_MAX_SECONDS = 2**63 / 1e9
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth a remark, at a place."""

    place: Place
    reason: str
    hint: str = ""


@dataclass(slots=True, kw_only=True)
class Notes:
    """What one decoding has to remark. Kubernetes objects have many fields that nobody reads: no remarks there."""

    unknown_fields: bool
    found: list[Note] = field(default_factory=list)

    def unknown_field(self, place: Place, name: object, known: Iterable[str]) -> None:
        """Remark a field that the schema does not have, with the nearest one that it has."""
        if self.unknown_fields:
            self.found.append(Note((place, f".{name}"), "unknown field", did_you_mean(str(name), known)))


class Malformed(Exception):  # noqa: N818 - it is a finding, not an error of ours
    """A value that cannot be read. Raised by readers, caught in `decode.py`."""

    def __init__(self, place: Place, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.place = place
        self.reason = reason
        self.hint = hint


Reader: TypeAlias = Callable[[object, Place, Notes], object]


def render(place: Place) -> str:
    """The path as users write it: `spec.http[0].route[1].weight`."""
    parts: list[str] = []
    while place is not None:
        place, part = place
        parts.append(part)
    return "".join(reversed(parts)).removeprefix(".")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest of the known names, or "" if none is near."""
    nearest = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {nearest[0]}?" if nearest else ""


def describe(value: object) -> str:
    """What a value is, in the words of YAML."""
    match value:
        case None:
            return "null"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {value}"
        case str():
            return f'the string "{value[:40]}"'
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a value of type {type(value).__name__}"


def read_string(value: object, place: Place, notes: Notes) -> str:
    """A string. Equal strings are one object: the names of hosts and labels stand in thousands of places."""
    if type(value) is str:
        if not value.isascii():
            _check_unicode(value, place)
        return intern(value)
    hint = f'quote it: "{str(value).lower()}"' if isinstance(value, bool | int | float) else ""
    raise Malformed(place, f"expected a string, found {describe(value)}", hint)


def _check_unicode(value: str, place: Place) -> None:
    """JSON can write half a character (a lone surrogate), which nobody can send on."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Malformed(place, "not valid Unicode") from None


def read_bool(value: object, place: Place, notes: Notes) -> bool:
    """A boolean; strings are not."""
    if isinstance(value, bool):
        return value
    hint = "write it without quotes" if value in ("true", "false") else ""
    raise Malformed(place, f"expected true or false, found {describe(value)}", hint)


def read_float(value: object, place: Place, notes: Notes) -> float:
    """A finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**1000 and isfinite(value):
        return float(value)
    raise Malformed(place, f"expected a number, found {describe(value)}")


def int_reader(bounds: IntRange) -> Reader:
    """A reader of integers within bounds. As in protobuf's JSON mapping, "80" and 80.0 are integers too."""

    def read_int(value: object, place: Place, notes: Notes) -> int:
        number = _integer(value)
        if number is None:
            raise Malformed(place, f"expected an integer, found {describe(value)}")
        if not bounds.minimum <= number <= bounds.maximum:
            raise Malformed(place, f"{number} is not between {bounds.minimum} and {bounds.maximum}")
        return number

    return read_int


def _integer(value: object) -> int | None:
    match value:
        case bool():
            return None
        case int():
            return value
        case float():
            return int(value) if value.is_integer() else None
        case str():
            return int(value) if _DECIMAL.fullmatch(value) else None
        case _:
            return None


def read_int_or_string(value: object, place: Place, notes: Notes) -> int | str:
    """A number or a name, as in a Service's targetPort; there "80" is a name."""
    number = None if isinstance(value, str) else _integer(value)
    return read_string(value, place, notes) if number is None else number


def read_duration(value: object, place: Place, notes: Notes) -> float:
    """Seconds from "1.5s" (protobuf's JSON mapping), "100ms" or "1m30s" (Go's time.ParseDuration)."""
    if not isinstance(value, str):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        hint = f'write it with a unit: "{value}s"' if number else ""
        raise Malformed(place, f"expected a duration, found {describe(value)}", hint)
    seconds = parse_duration(value)
    if seconds is None:
        raise Malformed(place, f"{describe(value)} is not a duration", 'durations are written like "1.5s" or "100ms"')
    if abs(seconds) >= _MAX_SECONDS:
        raise Malformed(place, f"the duration {value} is too long")
    return seconds


def parse_duration(text: str) -> float | None:
    """Seconds, or None if the text is not a duration."""
    if _PROTOBUF_DURATION.fullmatch(text):
        return float(text[:-1])
    if not _GO_DURATION.fullmatch(text):
        return None
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _GO_PART.findall(text))
    return -seconds if text.startswith("-") else seconds


def read_timestamp(value: object, place: Place, notes: Notes) -> float:
    """Seconds since the epoch from an RFC 3339 time."""
    written = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    try:
        if written is None:
            raise ValueError
        date, time, fraction, zone = written.groups()
        moment = datetime.fromisoformat(f"{date}T{time}{'+00:00' if zone in 'Zz' else zone}")
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() + float(fraction or 0)
    except (ValueError, OverflowError):
        hint = 'times are written like "2024-05-01T12:00:00Z"'
        raise Malformed(place, f"expected a time, found {describe(value)}", hint) from None


def read_bytes(value: object, place: Place, notes: Notes) -> bytes:
    """Bytes from base64, in the usual or the URL-safe alphabet, with or without padding."""
    try:
        text = read_string(value, place, notes).translate({ord("-"): "+", ord("_"): "/"}).rstrip("=")
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (Base64Error, ValueError):
        raise Malformed(place, "expected base64") from None


def enum_reader(enum: type[StrEnum]) -> Reader:
    """A reader of the names of an enum."""
    members = {member.value: member for member in enum}

    def read_enum(value: object, place: Place, notes: Notes) -> StrEnum:
        member = members.get(value) if isinstance(value, str) else None
        if member is None:
            hint = did_you_mean(str(value), members) or f"one of {', '.join(members)}"
            raise Malformed(place, f"{describe(value)} is not a known value", hint)
        return member

    return read_enum


def read_struct(value: object, place: Place, notes: Notes) -> dict[str, object]:
    """An object that is passed on as it is."""
    if not isinstance(value, dict):
        raise Malformed(place, f"expected an object, found {describe(value)}")
    _check_json(value, place, MAX_DEPTH)
    return dict(value)


def _check_json(value: object, place: Place, depth: int) -> None:
    if depth == 0:
        raise Malformed(place, "nested too deeply")
    match value:
        case dict():
            for name, item in value.items():
                if type(name) is not str:
                    raise Malformed(place, f"expected a string as key, found {describe(name)}")
                _check_json(item, (place, f".{name}"), depth - 1)
        case list():
            for index, item in enumerate(value):
                _check_json(item, (place, f"[{index}]"), depth - 1)
        case str():
            _check_unicode(value, place)
        case None | bool() | int() | float():
            return
        case _:
            raise Malformed(place, f"found {describe(value)}")
