"""Discovery requests between their bytes and the small values of `protocol.xds.requests`.

The codec does the work, with message classes of our own in which the Node is bytes: only the first request of a stream
has one, and it is for others to understand. Names are shared (`protocol.xds.names`), for thousands of streams
name the same resources, and those that are known need no decoding. Malformed data is a `DecodeError`; a request with
more names than anybody needs is refused; of texts that are kept for long only the beginning is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol import wire
from protocol.codec import decode, encode
from protocol.errors import RemoteError
from protocol.proto.google.rpc import Status
from protocol.proto.trierarch.xds import DeltaFields, SotwFields
from protocol.statuses import RESOURCE_EXHAUSTED
from protocol.xds.names import OPENING, POOL, SHORT, share
from protocol.xds.requests import DeltaRequest, Nack, SotwRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_NAMES = 50_000
"""Names in one request. A mesh of 10,000 services has as many clusters, if each has several ports and subsets."""

MOST_REASON = 8 * 1024
"""Characters of a NACK's words that are read. Records and logs keep them, and they may be four million."""

MOST_TEXT = 256
"""The same of a type URL, a nonce, a version. One that is longer is none of ours."""

_TYPE_URL, _NONCE = (wire.tag(number, wire.DELIMITED) for number in (2, 6))
"""How these fields of a DeltaDiscoveryRequest begin."""

_CUT_AT_ONCE, _NAMES_AT_ONCE = 1024 * 1024, 20_000
"""Bytes and names of a request of which those that are known are looked for at once."""

_TAGS = tuple(bytes([number << 3 | wire.DELIMITED]) for number in (3, 4, 5))
"""How names begin: in a DiscoveryRequest field 3, in a DeltaDiscoveryRequest fields 3, 4 and 5."""

_SUSPICIOUS = 4 * MOST_NAMES
"""Bytes that may begin a name. Lengths and names may have the same values, but not so often."""


def cut_known(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """A request of either dialect without its first names, and these: as many as the process knows already. All of it
    and none if to look for them took longer than two milliseconds.
    """
    if len(data) > _CUT_AT_ONCE or data.count(OPENING) > _NAMES_AT_ONCE:
        return data, ()
    return POOL.cut(data)


def decode_sotw_request(data: bytes, known: tuple[str, ...] = ()) -> SotwRequest:
    """A DiscoveryRequest. `known`: the first of its names, if they were cut out."""
    _refuse_monsters(data)
    rest, more = POOL.cut(data)
    known += more
    fields = decode(SotwFields, rest)
    _check_count(len(known) + len(fields.resource_names))
    return SotwRequest(
        type_url=POOL.share_one(fields.type_url[:MOST_TEXT]),
        names=known + share(fields.resource_names),
        nonce=fields.response_nonce[:MOST_TEXT],
        version=fields.version_info[:MOST_TEXT],
        nack=_nack(fields.error_detail),
        node=b"".join(fields.node),
    )


def decode_delta_request(data: bytes, known: tuple[str, ...] = ()) -> DeltaRequest:
    """A DeltaDiscoveryRequest. `known`: the first of the names it subscribes to, if they were cut out."""
    if not known and (acknowledgement := _acknowledgement(data)):
        return acknowledgement
    _refuse_monsters(data)
    rest, more = POOL.cut(data)
    known += more
    fields = decode(DeltaFields, rest)
    versions = fields.initial_resource_versions
    others = len(fields.resource_names_subscribe) + len(fields.resource_names_unsubscribe) + len(versions)
    _check_count(len(known) + others)
    return DeltaRequest(
        type_url=POOL.share_one(fields.type_url[:MOST_TEXT]),
        subscribe=known + share(fields.resource_names_subscribe),
        unsubscribe=share(fields.resource_names_unsubscribe),
        initial=_declared(versions) if versions else {},
        nonce=fields.response_nonce[:MOST_TEXT],
        nack=_nack(fields.error_detail),
        node=b"".join(fields.node),
    )


def _acknowledgement(data: bytes) -> DeltaRequest | None:
    """A request that has a type URL and a nonce and nothing else, as nearly all have: they need no decoder."""
    if not (data.startswith(_TYPE_URL) and 1 < len(data) <= SHORT):
        return None
    end = 2 + data[1]
    type_url, nonce = POOL.known(data[1:end]), data[end + 2 :]
    if not type_url or data[end : end + 2] != _NONCE + wire.varint(len(nonce)) or not nonce.isascii():
        return None
    return DeltaRequest(type_url=type_url, initial={}, nonce=nonce.decode())


def _declared(versions: Mapping[str, str]) -> dict[str, str]:
    """What a client says it holds, with the names that the process shares."""
    return dict(zip(share(versions), [each[:MOST_TEXT] for each in versions.values()], strict=True))


def encode_sotw_request(request: SotwRequest) -> bytes:
    """A DiscoveryRequest. An empty `node` is none."""
    fields = SotwFields(
        version_info=request.version,
        node=[request.node] if request.node else [],
        resource_names=list(request.names),
        type_url=request.type_url,
        response_nonce=request.nonce,
        error_detail=_status(request.nack),
    )
    return encode(fields)


def encode_delta_request(request: DeltaRequest) -> bytes:
    """A DeltaDiscoveryRequest. An empty `node` is none."""
    fields = DeltaFields(
        node=[request.node] if request.node else [],
        type_url=request.type_url,
        resource_names_subscribe=list(request.subscribe),
        resource_names_unsubscribe=list(request.unsubscribe),
        initial_resource_versions=dict(request.initial),
        response_nonce=request.nonce,
        error_detail=_status(request.nack),
    )
    return encode(fields)


def _refuse_monsters(data: bytes) -> None:
    """Two million empty names fit into 4 MiB and take a second to decode: refuse them at sight."""
    if len(data) > _SUSPICIOUS and sum(map(data.count, _TAGS)) > _SUSPICIOUS:
        raise _too_many()


def _check_count(names: int) -> None:
    if names > MOST_NAMES:
        raise _too_many()


def _too_many() -> RemoteError:
    return RemoteError(RESOURCE_EXHAUSTED, f"a request with more than {MOST_NAMES} names")


def _nack(status: Status | None) -> Nack | None:
    """What error_detail says. An empty one counts, for it is there."""
    return None if status is None else Nack(code=status.code, message=status.message[:MOST_REASON])


def _status(nack: Nack | None) -> Status | None:
    """The error_detail of a NACK."""
    return None if nack is None else Status(code=nack.code, message=nack.message)
