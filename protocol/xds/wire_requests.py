"""Discovery requests between their bytes and the small values of `protocol.xds.requests`.

The codec does the work, with message classes of our own in which the Node is bytes: only the first request of a stream
has one, and who wants to know it calls `decode_node`. Names are interned, for thousands of streams name the same
resources. Malformed data is a `DecodeError`.
"""

from __future__ import annotations

from sys import intern

from protocol.codec import decode, encode
from protocol.proto.envoy.config.core.v3 import Node
from protocol.proto.google.rpc import Status
from protocol.proto.trierarch.xds import DeltaFields, SotwFields
from protocol.xds.requests import DeltaRequest, Nack, SotwRequest


def decode_sotw_request(data: bytes) -> SotwRequest:
    """A DiscoveryRequest."""
    fields = decode(SotwFields, data)
    return SotwRequest(
        type_url=intern(fields.type_url),
        names=_interned(fields.resource_names),
        nonce=fields.response_nonce,
        version=fields.version_info,
        nack=_nack(fields.error_detail),
        node=b"".join(fields.node),
    )


def decode_delta_request(data: bytes) -> DeltaRequest:
    """A DeltaDiscoveryRequest."""
    fields = decode(DeltaFields, data)
    versions = fields.initial_resource_versions
    return DeltaRequest(
        type_url=intern(fields.type_url),
        subscribe=_interned(fields.resource_names_subscribe),
        unsubscribe=_interned(fields.resource_names_unsubscribe),
        initial=dict(zip(map(intern, versions), versions.values(), strict=True)),
        nonce=fields.response_nonce,
        nack=_nack(fields.error_detail),
        node=b"".join(fields.node),
    )


def decode_node(data: bytes) -> Node:
    """The Node of a request."""
    return decode(Node, data)


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


def _interned(names: list[str]) -> tuple[str, ...]:
    """One object for each name in the whole process."""
    return tuple(map(intern, names))


def _nack(status: Status | None) -> Nack | None:
    """What error_detail says. An empty one counts, for it is there."""
    return None if status is None else Nack(code=status.code, message=status.message)


def _status(nack: Nack | None) -> Status | None:
    """The error_detail of a NACK."""
    return None if nack is None else Status(code=nack.code, message=nack.message)
