"""Messages inside a google.protobuf.Any, which names their type by URL."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from protocol.codec.decode import decode
from protocol.codec.encode import encode
from protocol.proto.google.protobuf import Any as PackedMessage
from protocol.proto.message_pool import default_message_pool
from protocol.wire_reading import DecodeError

if TYPE_CHECKING:
    from betterproto2 import Message

MessageT = TypeVar("MessageT", bound="Message")

PREFIX = "type.googleapis.com/"
"""What comes before the full name of a message in its type URL."""


def type_url(message: type[Message]) -> str:
    """The type URL of a generated class."""
    return default_message_pool.type_to_url[message]


def message_class(url: str) -> type[Message]:
    """The class of a type URL, imported if need be. Raises LookupError for a type that was not generated."""
    if url not in default_message_pool.url_to_type:
        _import_package(url.removeprefix(PREFIX))
    return default_message_pool.url_to_type[url]


def _import_package(name: str) -> None:
    """Import the module of a message by its full name, if there is one: its messages then register themselves."""
    parts = [part for part in name.split(".") if not part[:1].isupper()]
    if all(map(str.isidentifier, parts)):
        with suppress(ModuleNotFoundError):
            import_module(".".join(("protocol.proto", *parts)))


def pack(message: Message) -> PackedMessage:
    """A message inside an Any."""
    return pack_encoded(type(message), encode(message))


def pack_encoded(message: type[Message], body: bytes) -> PackedMessage:
    """The same for one that is encoded already."""
    return PackedMessage(type_url=type_url(message), value=body)


def unpack(packed: PackedMessage, expected: type[MessageT]) -> MessageT:
    """The message inside an Any. Raises `DecodeError` if it is of another type than the expected one, or malformed."""
    if packed.type_url != type_url(expected):
        raise DecodeError(f"{packed.type_url} where {type_url(expected)} was expected")
    return decode(expected, packed.value)
