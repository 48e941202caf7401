"""From Envoy's Node to a `Proxy`: the only place where the shape of that message is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.codec import decode
from protocol.errors import RemoteError
from protocol.proto.envoy.config.core.v3 import Node
from protocol.statuses import INVALID_ARGUMENT
from trierarch.push.model import Locality
from trierarch.push.node_metadata import READ
from trierarch.push.proxy import NodeInfo, build_proxy

MOST_NODE = 512 * 1024
"""Bytes of a Node: annotations alone may have 256 KiB in Kubernetes, Envoy's list of extensions has 40 KB."""

MOST_VALUES = 500
"""Values of the metadata that is read, labels among them. Each is some 200 bytes more in memory than in the Node."""

MOST_KEPT = 32 * 1024
"""Characters of them and of the locality, for they are kept as long as the stream: a Pod's have one or two thousand."""

DEEPEST = 100
"""Levels of structs and lists in the metadata; protobuf's own libraries read as many."""

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.proto.google.protobuf import Struct, Value
    from trierarch.push.proxy import Proxy


def decode_proxy(node: bytes, cluster: str, *, delta: bool = True) -> Proxy:
    """The proxy that an encoded Node describes. `cluster` is assumed where the node names none; `delta`: what its
    stream speaks.

    Raises `RemoteError` (INVALID_ARGUMENT) with the reason.
    """
    if len(node) > MOST_NODE:
        raise RemoteError(INVALID_ARGUMENT, f"a node of more than {MOST_NODE} bytes")
    message = decode(Node, node)
    locality = message.locality
    info = NodeInfo(
        id=message.id,
        cluster=message.cluster,
        metadata=_what_is_read(message.metadata) if message.metadata else {},
        locality=Locality(locality.region, locality.zone, locality.sub_zone) if locality else Locality(),
        extensions=tuple(extension.name for extension in message.extensions) or None,
    )
    if len(ascii((info.metadata, info.locality))) > MOST_KEPT:
        raise RemoteError(INVALID_ARGUMENT, f"node metadata and locality of more than {MOST_KEPT} characters")
    return build_proxy(info, default_cluster=cluster, delta=delta)


def _what_is_read(metadata: Struct) -> dict[str, object]:
    """Metadata without what nobody reads: a Pod's annotations alone may be 256 KiB."""
    room = iter(range(MOST_VALUES))
    return {name: _plain_value(value, room, 1) for name, value in metadata.fields.items() if name in READ}


def _plain_struct(struct: Struct, room: Iterator[int], depth: int) -> dict[str, object]:
    """A protobuf Struct as plain data."""
    return {name: _plain_value(value, room, depth + 1) for name, value in struct.fields.items()}


def _plain_value(value: Value, room: Iterator[int], depth: int) -> object:
    """A protobuf Value as plain data; null and a value without a kind are None. `room` has an item for each value that
    there may be. Raises `RemoteError` if there are more, or too deep.
    """
    if depth > DEEPEST:
        raise RemoteError(INVALID_ARGUMENT, f"node metadata of more than {DEEPEST} levels")
    if next(room, None) is None:
        raise RemoteError(INVALID_ARGUMENT, f"node metadata of more than {MOST_VALUES} values")
    if value.struct_value is not None:
        return _plain_struct(value.struct_value, room, depth)
    if value.list_value is not None:
        return [_plain_value(item, room, depth + 1) for item in value.list_value.values]
    for plain in (value.string_value, value.bool_value, value.number_value):
        if plain is not None:
            return plain
    return None
