"""Writing protobuf by hand: single fields, and discovery responses spliced from resources that are encoded already.

Theory. A message on the wire is a sequence of fields, each a tag (number and wire type) and its content; nothing says
how many there are, so encoded fields may be put side by side (https://protobuf.dev/programming-guides/encoding/). A
response is therefore a few bytes of its own around bodies that it shares with every other response that has them. It is
given as buffers that nobody joins: copied per connection, a thousand first configurations of 6 MB would take 6 GB.
Buffers should not be too many either, for the kernel takes about a thousand at a time. So what is sent whole to
everybody, a `Part`, is packed once into blocks, and each stream holds references to the blocks.

Fields come in the order of their numbers, as Google's deterministic serialization has them: joined, a response equals
byte for byte what the codec, or Google's library, writes for the same message. What is empty is left out, as there.

What must not be here: message classes (that is `protocol.codec`) and reading (`protocol.wire_reading`).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from protocol.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from protocol.xds.resources import Part, Resource
    from protocol.xds.selection import Selection

VARINT, FIXED64, DELIMITED, START_GROUP, END_GROUP, FIXED32 = range(6)
"""The wire types."""

BLOCK_SIZE = 1 << 16
"""Bytes up to which small encoded resources are packed together."""

SINGLE_STEP = 200
"""Single resources that are encoded in a step: a millisecond's work."""

COPIED_SIZE = 1 << 13
"""Bytes up to which a buffer is copied into a block. A larger one stays where it is and is referred to."""


# --- fields ----------------------------------------------------------------------------------------------------------
def long_varint(number: int) -> bytes:
    """The base-128 encoding of any number from 0 to 2**64 - 1. Raises `LocalError` for others."""
    if not 0 <= number < 1 << 64:
        raise LocalError(f"{number} is not an unsigned number of 64 bits")
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


VARINTS = tuple(map(long_varint, range(1 << 14)))
"""The encodings of all numbers that fit into two bytes: nearly all lengths, ports and tags."""


def varint(number: int) -> bytes:
    """The base-128 encoding of a number from 0 to 2**64 - 1. Raises `LocalError` for others."""
    return VARINTS[number] if 0 <= number < len(VARINTS) else long_varint(number)


def tag(field: int, wire_type: int) -> bytes:
    """What a field opens with. Numbers of fields start at 1."""
    return varint(field << 3 | wire_type)


def length_delimited(field: int, body: bytes) -> bytes:
    """A field that holds a string, bytes or a message, whether it is empty or not."""
    return tag(field, DELIMITED) + varint(len(body)) + body


def text_field(field: int, text: str) -> bytes:
    """A string field. The empty string is the default, which is not sent."""
    return length_delimited(field, text.encode()) if text else b""


_type_field = lru_cache(maxsize=256)(text_field)
"""The same for type URLs: there are few, and they are asked for thousands of times."""


def _open_any(type_url: str, size: int) -> bytes:
    """An Any up to the bytes of its value, which are so many."""
    return _VALUES[type_url] + varint(size) if size else text_field(1, type_url)


class _Values(dict[str, bytes]):
    """An Any up to the length of its value, by type URL: there are few, and they are asked for thousands of times."""

    def __missing__(self, type_url: str) -> bytes:
        opening = self[type_url] = text_field(1, type_url) + tag(2, DELIMITED)
        return opening


_VALUES = _Values()


# --- resources in responses ------------------------------------------------------------------------------------------
_RESOURCES, _VERSION, _RESOURCE, _NAME = (tag(field, DELIMITED) for field in (2, 1, 2, 3))


def sotw_resource_field(type_url: str, resource: Resource) -> tuple[bytes, ...]:
    """A member of DiscoveryResponse.resources (2): an Any. After the first buffer comes the resource's body itself."""
    size = resource.size
    opening = _open_any(type_url, size)
    return _RESOURCES + varint(len(opening) + size) + opening, *resource.pieces


def delta_resource_field(type_url: str, resource: Resource) -> tuple[bytes, ...]:
    """A member of DeltaDiscoveryResponse.resources (2): a Resource with version 1, resource 2 (Any), name 3.

    Between the first and the last buffer is the resource's body itself.
    """
    size, version, name = resource.size, resource.version.encode(), resource.name.encode()
    any_opening = _open_any(type_url, size)
    opening = _RESOURCE + varint(len(any_opening) + size) + any_opening
    if version:
        opening = _VERSION + varint(len(version)) + version + opening
    closing = _NAME + varint(len(name)) + name if name else b""
    return _RESOURCES + varint(len(opening) + size + len(closing)) + opening, *resource.pieces, closing


def pack_blocks(buffers: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer buffers: small ones are joined up to `BLOCK_SIZE`, large ones passed on as they are."""
    block: list[bytes] = []
    room = BLOCK_SIZE
    for buffer in buffers:
        length = len(buffer)
        if length > COPIED_SIZE or length > room:
            if block:
                yield b"".join(block)
            block, room = [], BLOCK_SIZE
            if length > COPIED_SIZE:
                yield buffer
                continue
        block.append(buffer)
        room -= length
    if room < BLOCK_SIZE:
        yield b"".join(block)


class SharedFields:
    """Resources as fields of a response, whole parts or single ones: encoded once, and kept as long as they live."""

    def __init__(self, type_url: str, field: Callable[[str, Resource], tuple[bytes, ...]]) -> None:
        self._type_url = type_url
        self._field = field
        self._blocks: WeakKeyDictionary[Part, tuple[bytes, ...]] = WeakKeyDictionary()
        self._single: WeakKeyDictionary[Resource, tuple[bytes, ...]] = WeakKeyDictionary()
        self._selections: WeakKeyDictionary[Selection, tuple[bytes, ...]] = WeakKeyDictionary()

    def __len__(self) -> int:
        """How many parts are encoded and alive."""
        return len(self._blocks)

    def of_one(self, resource: Resource) -> tuple[bytes, ...]:
        """The field of one resource, which is mostly pushed to many."""
        found = self._single.get(resource)
        if found is None:
            found = self._single[resource] = self._field(self._type_url, resource)
        return found

    def of(self, part: Part) -> tuple[bytes, ...]:
        """The fields of all resources of a part, in its order, as few buffers that every caller shares."""
        if part not in self._blocks:
            for _ in self.prepare(part):
                pass
        return self._blocks[part]

    def of_all(self, selection: Selection) -> tuple[bytes, ...]:
        """The fields of all that is selected, which many may share too."""
        found = self._selections.get(selection)
        if found is None:
            fields = chain(map(self.of, selection.parts), map(self.of_one, selection.resources))
            found = self._selections[selection] = tuple(filter(None, chain.from_iterable(fields)))
        return found

    def prepare(self, part: Part) -> Iterator[None]:
        """Encode a part, a block at a time: thousands of resources take 10 ms."""
        if part not in self._blocks:
            blocks = []
            for block in pack_blocks(self._buffers(part)):
                blocks.append(block)
                yield
            self._blocks.setdefault(part, tuple(blocks))

    def prepare_named(self, part: Part, names: frozenset[str]) -> Iterator[None]:
        """Encode what these names are of a part: all of it as a whole, or some of its resources one by one."""
        if part.names is names or part.names <= names:
            yield from self.prepare(part)
            return
        for count, name in enumerate(part.names & names, start=1):
            self.of_one(part.resources[name])
            if count % SINGLE_STEP == 0:
                yield

    def _buffers(self, part: Part) -> Iterator[bytes]:
        for resource in part.resources.values():
            field = self._field(self._type_url, resource)
            if resource.size > COPIED_SIZE:
                yield from field
            else:
                yield b"".join(field)


# --- responses -------------------------------------------------------------------------------------------------------
def sotw_response(*, type_url: str, version: str, nonce: str, fields: Iterable[bytes]) -> tuple[bytes, ...]:
    """A DiscoveryResponse: version_info 1, resources 2 (`fields`), type_url 4, nonce 5.

    `fields` are buffers from `sotw_resource_field` or `SharedFields`.
    """
    return (text_field(1, version), *fields, _type_field(4, type_url) + text_field(5, nonce))


def delta_response(
    *, type_url: str, version: str, nonce: str, fields: Iterable[bytes], removed: Iterable[str] = ()
) -> tuple[bytes, ...]:
    """A DeltaDiscoveryResponse: system_version_info 1, resources 2 (`fields`), type_url 4, nonce 5, removed 6.

    `fields` are buffers from `delta_resource_field` or `SharedFields`.
    """
    gone = b"".join([length_delimited(6, name.encode()) for name in removed])
    return (text_field(1, version), *fields, _type_field(4, type_url) + text_field(5, nonce) + gone)
