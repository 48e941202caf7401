"""What a session says has happened. Pure code does not log: whoever drives the session does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The request needs an answer: call `respond` for this type. `first`: the type was not watched before."""

    type_url: str
    first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """The client accepted the response with this nonce."""

    type_url: str
    nonce: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nacked:
    """The client rejected the response with this nonce; it goes on with what it had."""

    type_url: str
    nonce: str
    code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleNonce:
    """The request answers an older response and is ignored whole, its names too (§6.4 case 4)."""

    type_url: str
    nonce: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribed:
    """The client no longer watches the type. It answers the last response (`nonce`, "" = there was none) by that."""

    type_url: str
    nonce: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotServed:
    """The client asked for a type that nobody serves; said once for each type of a stream. It will get no answer."""

    type_url: str


Event = Asked | Acked | Nacked | StaleNonce | Unsubscribed | NotServed


class Response(NamedTuple):
    """A response ready to be written. `buffers`, joined, are the encoded message: headers of its own, shared bodies.

    `sent` and `removed` are counts of resources, `size` is the sum of the buffers' lengths in bytes.
    """

    type_url: str
    version: str
    nonce: str
    buffers: tuple[bytes, ...]
    sent: int
    removed: int
    size: int
