"""The messages to and from the certificate authority: asked to sign, and saying whom to trust.

By the rules of `actors.messages`, where all others are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.mailbox import Reply
    from trierarch.identity.csr_request import SigningRequest


# --- to the certificate authority ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class SignRequest:
    """From the CSR service (flow): a certificate for this key in the name of these identities.

    `csr` was read by whoever asks, for it comes from a stranger. `identities` are the authenticated caller's.
    `lifetime`: seconds asked for, 0 or less for the default.
    """

    csr: SigningRequest
    identities: tuple[str, ...]
    lifetime: float = 0.0
    reply: Reply[SignedChain | SigningRefused]


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueIdentity:
    """From our own process (flow): a new key and a certificate for it. `identities`: SPIFFE URIs, DNS names, addresses.

    `lifetime`: seconds, 0 for the default; who asks is trusted with more than a workload may have.
    """

    identities: tuple[str, ...]
    lifetime: float = 0.0
    reply: Reply[IssuedIdentity | SigningRefused]


@dataclass(frozen=True, slots=True, kw_only=True)
class RootsAsked:
    """From anybody (flow): whom to trust now."""

    reply: Reply[AuthorityChanged]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAgain:
    """From the authority's own watch and clock (flow): files may have changed, the root may be due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedChain:
    """A signed certificate as the CSR service answers: PEM texts of the leaf, each intermediate, and all roots."""

    chain: tuple[str, ...]
    serial: int
    not_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedIdentity:
    """A key and what proves it, as PEM. `chain_pem`: the leaf and the intermediates. Times: seconds since the epoch.

    Whom to trust is said as in `AuthorityChanged`.
    """

    key_pem: bytes = field(repr=False)
    chain_pem: bytes
    roots_pem: bytes
    crl_pem: bytes = b""
    number: int = 0
    not_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningRefused:
    """Nothing was signed: a gRPC status code and why, for the peer."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityChanged:
    """From the certificate authority (control, to the factory of connections and to the certificate rotor), and its
    answer to `RootsAsked`: whom to trust from now on. Sent when the root, the signer or the list of revoked
    certificates has changed, and again after a restart: the same `number` says that nothing has.
    """

    roots_pem: bytes
    crl_pem: bytes = b""
    number: int


ToAuthority = SignRequest | IssueIdentity | RootsAsked | LookAgain


# --- to the certificate rotor ----------------------------------------------------------------------------------------
ToRotor = AuthorityChanged
