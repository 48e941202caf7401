"""Readers compiled from the type hints of spec dataclasses (the vocabulary is in `wire.py`). Nothing here knows a kind.

`reader_for(hint)` is compiled once per hint. Reading a message walks over what the document has, not over what the
class could have, so the cost follows the size of the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, TypeVar, Union, get_args, get_origin, get_type_hints

from protocol.errors import LocalError
from trierarch.config.scalars import (
    Malformed,
    Notes,
    Place,
    Reader,
    describe,
    enum_reader,
    int_reader,
    read_bool,
    read_bytes,
    read_duration,
    read_float,
    read_int_or_string,
    read_string,
    read_struct,
    read_timestamp,
)
from trierarch.config.wire import At, Bare, Beside, DurationString, IntRange, Named, OneOf, TimestampString

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

MarkT = TypeVar("MarkT")
_SCALARS: Mapping[object, Reader] = {str: read_string, bool: read_bool, float: read_float, bytes: read_bytes}


@dataclass(frozen=True, slots=True)
class Slot:
    """Where the value of one field goes. Members of a oneof share the attribute."""

    attribute: str
    name: str
    read: Reader
    oneof: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """A field that stands elsewhere in the document."""

    path: tuple[str, ...]
    attribute: str
    read: Reader


@dataclass(frozen=True, slots=True)
class Message:
    """A compiled class: its slots by each name under which a field may be written, and what stands elsewhere."""

    build: Callable[..., object]
    slots: Mapping[str, Slot]
    names: tuple[str, ...]
    placed: tuple[Placed, ...]

    def read(self, value: object, place: Place, notes: Notes) -> object:
        """The object of the class, from the object in the document."""
        return self.build(**self.attributes(value, place, notes))

    def attributes(self, value: object, place: Place, notes: Notes) -> dict[str, object]:
        """The attributes that the object in the document has. A field that is null is absent."""
        if not isinstance(value, dict):
            raise Malformed(place, f"expected an object, found {describe(value)}")
        found: dict[str, object] = {}
        for name, item in value.items():
            slot = self.slots.get(name)
            if slot is None:
                notes.unknown_field(place, name, self.names)
            elif item is not None:
                here = (place, slot.name)
                if slot.attribute in found:
                    raise Malformed(here, self._conflict(slot))
                found[slot.attribute] = slot.read(item, here, notes)
        return found

    def _conflict(self, slot: Slot) -> str:
        if not slot.oneof:
            return "the field is there twice, in two spellings"
        rivals = sorted({other.name[1:] for other in self.slots.values() if other.attribute == slot.attribute})
        return f"only one of {', '.join(rivals)} may be set"


def read_document(schema: type, document: Mapping[str, object], root: str, notes: Notes) -> object:
    """An object of the schema's class: its fields from `document[root]` (the document itself if `root` is "")."""
    message = compile_message(schema)
    attributes: dict[str, object] = {}
    body = document.get(root) if root else document
    if message.slots and body is not None:
        attributes = message.attributes(body, (None, f".{root}") if root else None, notes)
    for placed in message.placed:
        value, place = _dig(document, placed.path)
        if value is not None:
            attributes[placed.attribute] = placed.read(value, place, notes)
    return message.build(**attributes)


def _dig(document: Mapping[str, object], path: tuple[str, ...]) -> tuple[object, Place]:
    value: object = document
    place: Place = None
    for name in path:
        if value is None:
            return None, place
        if not isinstance(value, dict):
            raise Malformed(place, f"expected an object, found {describe(value)}")
        value = value.get(name)
        place = (place, f".{name}")
    return value, place


@cache
def compile_message(schema: type) -> Message:
    """The compiled form of a spec dataclass."""
    if not is_dataclass(schema):
        raise LocalError(f"{schema.__name__} is not a spec dataclass")
    hints = get_type_hints(schema, include_extras=True)
    slots: dict[str, Slot] = {}
    placed: list[Placed] = []
    for attribute in (each.name for each in fields(schema)):
        hint, marks = _unwrap(hints[attribute])
        at = _mark(marks, At)
        if at is None:
            slots |= _slots_of(attribute, hint, marks)
        else:
            placed.append(Placed(at.path, attribute, reader_for(hint)))
    return _message(schema, slots, tuple(placed))


def _message(build: Callable[..., object], slots: Mapping[str, Slot], placed: tuple[Placed, ...] = ()) -> Message:
    """A message from its slots by protobuf's names; the names in JSON are in the slots."""
    names = {slot.name[1:]: slot for slot in slots.values()}
    return Message(build, {**slots, **names}, tuple(names), placed)


def _slots_of(attribute: str, hint: Hashable, marks: tuple[object, ...]) -> dict[str, Slot]:
    if _mark(marks, Beside) is not None:
        oneof = _mark(_unwrap(_without_none(hint))[1], OneOf)
        if oneof is None:
            raise LocalError(f"{attribute} is flattened but not a oneof")
        return _member_slots(attribute, oneof)
    original = attribute.rstrip("_")
    named = _mark(marks, Named)
    name = _camel_case(original) if named is None else named.name
    read = _marked_reader(marks) or reader_for(hint)
    return {original: Slot(attribute, f".{name}", read)}


def _member_slots(attribute: str, oneof: OneOf) -> dict[str, Slot]:
    return {
        name: Slot(attribute, f".{_camel_case(name)}", _member_reader(kind), oneof=True)
        for name, kind in oneof.members.items()
    }


@cache
def reader_for(hint: Hashable) -> Reader:
    """The reader of values of a type. Absence is the business of the message that has the field."""
    inner, marks = _unwrap(_without_none(hint))
    marked = _marked_reader(marks)
    if marked is not None:
        return marked
    if inner in _SCALARS:
        return _SCALARS[inner]
    if isinstance(inner, type) and issubclass(inner, StrEnum):
        return enum_reader(inner)
    if isinstance(inner, type) and is_dataclass(inner):
        return compile_message(inner).read
    return _container_reader(inner)


def _marked_reader(marks: tuple[object, ...]) -> Reader | None:
    for mark in marks:
        match mark:
            case IntRange():
                return int_reader(mark)
            case DurationString():
                return read_duration
            case TimestampString():
                return read_timestamp
            case OneOf():
                return _oneof_reader(mark)
            case _:
                continue
    return None


def _container_reader(hint: Hashable) -> Reader:
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        return _list_reader(reader_for(arguments[0]))
    if get_origin(hint) is Mapping:
        return read_struct if arguments[1] is object else _map_reader(reader_for(arguments[1]))
    if set(arguments) == {int, str}:
        return read_int_or_string
    raise LocalError(f"no reader for {hint}")


def _list_reader(read: Reader) -> Reader:
    def read_list(value: object, place: Place, notes: Notes) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise Malformed(place, f"expected a list, found {describe(value)}")
        return tuple([read(item, (place, f"[{index}]"), notes) for index, item in enumerate(value)])

    return read_list


def _map_reader(read: Reader) -> Reader:
    """Maps are kept in the order of their keys: the order in the document means nothing."""

    def read_map(value: object, place: Place, notes: Notes) -> dict[str, object]:
        if not isinstance(value, dict):
            raise Malformed(place, f"expected an object, found {describe(value)}")
        if not all(type(key) is str for key in value):
            raise Malformed(place, "expected strings as keys")
        return {read_string(key, place, notes): read(value[key], (place, f"[{key}]"), notes) for key in sorted(value)}

    return read_map


def _oneof_reader(oneof: OneOf) -> Reader:
    """An object that holds only a oneof."""

    def build(value: object = oneof.unset) -> object:
        return value

    return _message(build, _member_slots("value", oneof)).read


def _member_reader(kind: type) -> Reader:
    if Bare not in kind.__mro__:
        return reader_for(kind)
    read = reader_for(get_type_hints(kind, include_extras=True)["value"])
    build: Callable[..., object] = kind

    def read_bare(value: object, place: Place, notes: Notes) -> object:
        return build(read(value, place, notes))

    return read_bare


def _mark(marks: tuple[object, ...], kind: type[MarkT]) -> MarkT | None:
    return next((mark for mark in marks if isinstance(mark, kind)), None)


def _unwrap(hint: Hashable) -> tuple[Hashable, tuple[object, ...]]:
    if get_origin(hint) is not Annotated:
        return hint, ()
    inner, *marks = get_args(hint)
    return inner, tuple(marks)


def _without_none(hint: Hashable) -> Hashable:
    arguments = get_args(hint)
    if get_origin(hint) not in (Union, UnionType) or NoneType not in arguments:
        return hint
    others = tuple(each for each in arguments if each is not NoneType)
    return others[0] if len(others) == 1 else Union[others]  # noqa: UP007 - the members are not known before


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
