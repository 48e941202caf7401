"""One YAML document to plain values, read as YAML 1.1 the way Kubernetes tools read it. No files, no splitting.

The scanner and parser are PyYAML's C ones; the values are built here from their events, because what Kubernetes tools
make of a plain scalar is not what PyYAML makes of it: `yes` and `on` are booleans, `017` is octal, `1e3` is a number,
times and `12:30:45` are strings. Keys are strings always (`80:` is "80") and must differ. What a document
unfolds to is bounded, in depth and in size, however its aliases multiply it.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from math import inf, nan
from typing import TYPE_CHECKING, cast

from yaml import CSafeLoader
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaml.events import Event

MAX_DEPTH = 100
MAX_VALUES = 2_000_000
"""Most values that one document may have, keys included; a list of ten thousand objects has a tenth of them. To build
them takes four seconds and 300 MB.
"""

MAX_UNFOLDED = 100_000
"""Most values that the aliases of one document may stand for, all together."""

_MERGE = "<<"
_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), nan),
}
_NUMBER_START = frozenset("+-.0123456789")
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)", re.ASCII)
_OCTAL = re.compile(r"([-+]?)0o?([0-7_]+)", re.ASCII)
_HEXADECIMAL = re.compile(r"([-+]?)0x([0-9a-fA-F_]+)", re.ASCII)
_BINARY = re.compile(r"([-+]?)0b([01_]+)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\._*[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_MAX_DIGITS = 40


class Unreadable(Exception):  # noqa: N818 - it is a finding about the user's text, not an error of ours
    """A document that parses but means nothing. `line` counts from 0, from the start of the text."""

    def __init__(self, line: int, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason
        self.hint = hint


def load_yaml(text: str) -> object:
    """The value of the one document in the text; None if there is nothing.

    Raises Unreadable, or PyYAML's YAMLError. Parts that an anchor names are shared, not copied.
    """
    return _Builder(text).document()


class _Builder:
    """Builds the value while it takes events from the parser. `written` counts values, `unfolded` those of aliases."""

    def __init__(self, text: str) -> None:
        # There is no event only after the end of the stream, and nobody asks for one there.
        self.next = cast("Callable[[], Event]", CSafeLoader(text).get_event)
        self.written = 0
        self.unfolded = 0
        self.anchors: dict[str, tuple[object, int]] = {}

    def document(self) -> object:
        self.next()
        event = self.next()
        if isinstance(event, StreamEndEvent):
            return None
        value = self.value(self.next(), 0)
        self.next()
        after = self.next()
        if not isinstance(after, StreamEndEvent):
            raise Unreadable(_line(after), "a second document begins here", "separate documents by a line of ---")
        return value

    def value(self, event: Event, depth: int) -> object:
        if isinstance(event, AliasEvent):
            return self._alias(event)
        before = self.written + self.unfolded
        self.written += 1
        if self.written > MAX_VALUES:
            raise Unreadable(_line(event), f"more than {MAX_VALUES} values in one document")
        if isinstance(event, ScalarEvent):
            value = _scalar(event)
        elif depth == MAX_DEPTH:
            raise Unreadable(_line(event), f"nested more than {MAX_DEPTH} levels deep")
        elif isinstance(event, MappingStartEvent):
            value = self._mapping(depth)
        elif isinstance(event, SequenceStartEvent):
            value = self._sequence(depth)
        else:
            raise Unreadable(_line(event), "a value is missing")
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, self.written + self.unfolded - before)
        return value

    def _alias(self, event: AliasEvent) -> object:
        if event.anchor not in self.anchors:
            raise Unreadable(_line(event), f"the alias *{event.anchor} has no anchor before it")
        value, size = self.anchors[event.anchor]
        self.unfolded += size
        if self.unfolded > MAX_UNFOLDED:
            raise Unreadable(_line(event), f"the aliases stand for more than {MAX_UNFOLDED} values")
        return value

    def _sequence(self, depth: int) -> list[object]:
        items: list[object] = []
        while not isinstance(event := self.next(), SequenceEndEvent):
            items.append(self.value(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, object]:
        entries: dict[str, object] = {}
        merged: list[object] = []
        while not isinstance(event := self.next(), MappingEndEvent):
            if _is_merge(event):
                merged.append(self._merged(event, depth))
                continue
            key = _key(self.value(event, depth + 1), event)
            if key in entries:
                raise Unreadable(_line(event), f'the key "{key}" is there twice')
            entries[key] = self.value(self.next(), depth + 1)
        for source in merged:
            entries = _merge(entries, source)
        return entries

    def _merged(self, key: Event, depth: int) -> object:
        value = self.value(self.next(), depth + 1)
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise Unreadable(_line(key), "<< takes an object or a list of objects")
        return sources


def _is_merge(event: Event) -> bool:
    return isinstance(event, ScalarEvent) and event.value == _MERGE and bool(event.implicit[0])


def _merge(entries: dict[str, object], sources: object) -> dict[str, object]:
    """The entries, and those of the sources that are not there yet; of the sources the first wins."""
    merged = dict(entries)
    for source in sources if isinstance(sources, list) else ():
        merged = {**source, **merged}
    return merged


def _key(key: object, event: Event) -> str:
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case int() | float():
            return str(key)
        case _:
            raise Unreadable(_line(event), "a key must be a string")


def _scalar(event: ScalarEvent) -> object:
    text: str = event.value
    if event.implicit[0]:
        return plain_value(text)
    if event.tag is None or event.implicit[1]:
        return text
    return _tagged(event, text)


def _tagged(event: ScalarEvent, text: str) -> object:
    tag = str(event.tag).removeprefix(_TAG)
    if tag in ("str", "!"):
        return text
    if tag == "binary":
        try:
            return b64decode(text).decode()
        except (Base64Error, ValueError):
            raise Unreadable(_line(event), "!!binary that is not base64 of UTF-8") from None
    value = plain_value(text)
    fits = {"null": value is None, "bool": isinstance(value, bool)}
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if fits.get(tag, number and tag in ("int", "float")):
        return value
    raise Unreadable(_line(event), f"the tag {event.tag} does not fit here")


def plain_value(text: str) -> object:
    """What a scalar without quotes means."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START or len(text) > _MAX_DIGITS:
        return text
    if _DECIMAL.fullmatch(text):
        return int(text.replace("_", ""))
    for pattern, base in ((_OCTAL, 8), (_HEXADECIMAL, 16), (_BINARY, 2)):
        digits = pattern.fullmatch(text)
        if digits and digits[2].strip("_"):
            return int(digits[1] + digits[2].replace("_", ""), base)
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    return text


def _line(event: Event) -> int:
    return event.start_mark.line if event.start_mark else 0
