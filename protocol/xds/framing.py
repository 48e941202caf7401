"""The two discovery responses as lists of buffers: small headers of our own between bodies that are shared.

Fields are written in the order of their numbers, as protobuf libraries do, so the buffers, joined, are what such a
library would have written (envoy/service/discovery/v3/discovery.proto). Nothing is ever joined here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.xds.resources import Resource


def discovery_response(type_url: str, version: str, nonce: str, resources: Iterable[Resource]) -> tuple[bytes, ...]:
    """A DiscoveryResponse: version_info 1, resources 2 (Any), type_url 4, nonce 5."""
    buffers = [_text(1, version)]
    for resource in resources:
        any_header = _any_header(type_url, resource.body)
        buffers.append(_header(2, len(any_header) + len(resource.body)) + any_header)
        buffers.append(resource.body)
    buffers.append(_text(4, type_url) + _text(5, nonce))
    return tuple(filter(None, buffers))


def delta_response(
    type_url: str, version: str, nonce: str, resources: Iterable[Resource], removed: Iterable[str]
) -> tuple[bytes, ...]:
    """A DeltaDiscoveryResponse: system_version_info 1, resources 2, type_url 4, nonce 5, removed_resources 6.

    Each resource is a Resource: version 1, resource 2 (Any), name 3.
    """
    buffers = [_text(1, version)]
    for resource in resources:
        any_header = _any_header(type_url, resource.body)
        before = _text(1, resource.version) + _header(2, len(any_header) + len(resource.body)) + any_header
        after = _text(3, resource.name)
        buffers.append(_header(2, len(before) + len(resource.body) + len(after)) + before)
        buffers.append(resource.body)
        buffers.append(after)
    gone = b"".join(_header(6, len(name := text.encode())) + name for text in removed)
    buffers.append(_text(4, type_url) + _text(5, nonce) + gone)
    return tuple(filter(None, buffers))


def _any_header(type_url: str, body: bytes) -> bytes:
    """An Any up to its body: type_url 1, value 2."""
    return _text(1, type_url) + (_header(2, len(body)) if body else b"")


def _text(field: int, text: str) -> bytes:
    """A string field; nothing for an empty string, which is the default."""
    data = text.encode()
    return _header(field, len(data)) + data if data else b""


def _header(field: int, length: int) -> bytes:
    """Tag and length of a length-delimited field (wire type 2)."""
    return bytes((field << 3 | 2,)) + _varint(length)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
