"""The vocabulary with which spec dataclasses say how they are written in JSON and YAML. Only declarations; no decoding.

A spec dataclass is its own schema: `decode.py` compiles a decoder from its type hints. The rules:

- An attribute `max_connections` is the field `maxConnections`; `max_connections` is accepted too, as protobuf's JSON
  mapping does. A trailing underscore is dropped (`from_`). `Annotated[..., Named("meshMTLS")]` gives another name.
- `Seconds` is a duration ("1.5s"). `X | None` is a field whose absence means something; any other field has a default.
- A union of classes is a oneof: `OneOf` lists its members by field name. As the type of a field it is an object that
  holds only the oneof; a field of type `Flattened[...]` has the members beside the other fields.
- `Bare` classes wrap one plain value, so that two members of a oneof that are both strings are told apart.
- `Annotated[..., At("status", "addresses")]` takes a field from another place of the document than `spec`.

Spec classes compare by identity (`eq=False`): the store keeps the old object when a new one says the same, so identity
means unchanged, and a value that holds specs (the inputs of a generated resource) hashes in no time. Only the small
values (StringMatch, Percent, ports, destinations) compare by value.

The modules of spec classes do without `from __future__ import annotations`: their hints are read at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias, TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class IntRange:
    """Bounds of an integer, both included."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class DurationString:
    """Written as protobuf writes durations: "5s", "1.5s"; Go's "100ms" and "1m30s" are accepted too."""


@dataclass(frozen=True, slots=True)
class TimestampString:
    """Written as RFC 3339; seconds since the epoch."""


class OneOf:
    """Members of a oneof: field name (snake_case) to the class of the member. `unset` stands for none of them."""

    __slots__ = ("members", "unset")

    def __init__(self, unset: object = None, **members: type) -> None:
        self.members = members
        self.unset = unset


@dataclass(frozen=True, slots=True)
class Named:
    """A field whose name in JSON does not follow from the attribute's."""

    name: str


class At:
    """A field at this path from the root of the document."""

    __slots__ = ("path",)

    def __init__(self, *path: str) -> None:
        self.path = path


@dataclass(frozen=True, slots=True)
class Beside:
    """Marks a oneof whose members stand beside the other fields."""


class Bare:
    """A oneof member that is a bare value in JSON: its class has the one field `value`."""

    __slots__ = ()


Int32: TypeAlias = Annotated[int, IntRange(minimum=-(2**31), maximum=2**31 - 1)]
UInt32: TypeAlias = Annotated[int, IntRange(minimum=0, maximum=2**32 - 1)]
Int64: TypeAlias = Annotated[int, IntRange(minimum=-(2**63), maximum=2**63 - 1)]
UInt64: TypeAlias = Annotated[int, IntRange(minimum=0, maximum=2**64 - 1)]
Seconds: TypeAlias = Annotated[float, DurationString()]
"""A duration in seconds. Absent is None, which is not the same as zero."""
Timestamp: TypeAlias = Annotated[float, TimestampString()]
Struct: TypeAlias = Mapping[str, object]
"""An object that is passed on as it is."""
MembersT = TypeVar("MembersT")
Flattened: TypeAlias = Annotated[MembersT, Beside()]
"""A oneof whose members stand beside the other fields; its default is None."""
