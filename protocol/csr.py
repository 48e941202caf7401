"""The messages of `istio.v1.auth.IstioCertificateService`, written by hand for they are two (platform.md §1.2).

Of the request's metadata two entries mean something. What is too large is refused before it is looked into.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import betterproto2

from protocol.codec import decode, encode
from protocol.errors import RemoteError
from protocol.proto.google.protobuf import Struct
from protocol.statuses import INTERNAL, RESOURCE_EXHAUSTED

if TYPE_CHECKING:
    from collections.abc import Iterable

METHOD = "/istio.v1.auth.IstioCertificateService/CreateCertificate"

MOST = 64 * 1024
"""Bytes of a request. A CSR with the longest RSA key that is signed has four thousand."""

_SHORTEST_CHAIN = 2


@dataclass(eq=False, repr=False)
class IstioCertificateRequest(betterproto2.Message):
    """The request on the wire. `validity_duration` in seconds."""

    csr: str = betterproto2.field(1, betterproto2.TYPE_STRING)
    validity_duration: int = betterproto2.field(3, betterproto2.TYPE_INT64)
    metadata: Struct | None = betterproto2.field(4, betterproto2.TYPE_MESSAGE, optional=True)


@dataclass(eq=False, repr=False)
class IstioCertificateResponse(betterproto2.Message):
    """The answer on the wire."""

    cert_chain: list[str] = betterproto2.field(1, betterproto2.TYPE_STRING, repeated=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRequest:
    """What a workload's agent asks. `csr`: PEM. `lifetime`: seconds. `impersonated`: whom it asks for, "" for itself.

    `signer`: which signer of an external authority should sign; ours has one.
    """

    csr: bytes
    lifetime: int = 0
    impersonated: str = ""
    signer: str = ""


def decode_request(data: bytes) -> CertificateRequest:
    """Read a request. Raises `RemoteError`."""
    if len(data) > MOST:
        raise RemoteError(RESOURCE_EXHAUSTED, f"a certificate request of more than {MOST} bytes")
    message = decode(IstioCertificateRequest, data)
    fields = message.metadata.fields if message.metadata else {}
    named = {name: value.string_value or "" for name, value in fields.items()}
    return CertificateRequest(
        csr=message.csr.encode(),
        lifetime=message.validity_duration,
        impersonated=named.get("ImpersonatedIdentity", ""),
        signer=named.get("CertSigner", ""),
    )


def encode_request(request: CertificateRequest) -> bytes:
    """What a workload's agent sends that asks for itself."""
    return encode(IstioCertificateRequest(csr=request.csr.decode(), validity_duration=request.lifetime))


def encode_response(chain: Iterable[str]) -> bytes:
    """An answer: the leaf, each intermediate by itself, all roots as one text."""
    return encode(IstioCertificateResponse(cert_chain=list(chain)))


def decode_response(data: bytes) -> tuple[str, ...]:
    """What such an agent is answered, as `encode_response` has it. Raises `RemoteError` if something is missing."""
    chain = tuple(decode(IstioCertificateResponse, data).cert_chain)
    if len(chain) < _SHORTEST_CHAIN:
        raise RemoteError(INTERNAL, "the answer has no certificate with roots")
    return chain
