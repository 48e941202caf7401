"""What a client asks, decoded once into small frozen values that both protocols' machines understand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Nack:
    """The client's error_detail: gRPC code and message."""

    code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SotwRequest:
    """A DiscoveryRequest. `names` in the client's order; `node` is the encoded Node of the message, b"" if absent."""

    type_url: str
    names: tuple[str, ...] = ()
    nonce: str = ""
    version: str = ""
    nack: Nack | None = None
    node: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRequest:
    """A DeltaDiscoveryRequest. `initial` maps names that the client holds to the versions it holds."""

    type_url: str
    subscribe: tuple[str, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    initial: Mapping[str, str]
    nonce: str = ""
    nack: Nack | None = None
    node: bytes = b""


Request = SotwRequest | DeltaRequest


def count_names(request: Request) -> int:
    """How many names a request says, whatever it says of them."""
    match request:
        case SotwRequest(names=names):
            return len(names)
        case DeltaRequest():
            return len(request.subscribe) + len(request.unsubscribe) + len(request.initial)
        case never:
            assert_never(never)
