"""A certificate signing request: the key that it is about, whether its sender holds that key, what comes of it.

Names in it are not read. All but the key is what a peer would like to be.
"""

from __future__ import annotations

from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from protocol.statuses import INVALID_ARGUMENT
from trierarch.identity.leaf import LeafKey, LeafRequest, Lifetimes, Refused

SHORTEST_RSA, LONGEST_RSA = 2048, 8192
"""Bits. Below it is not safe; checking the signature of a longer one takes milliseconds."""

CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
"""Those that TLS is spoken with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningRequest:
    """A key whose holder asks for a certificate. `named`: it has a common name, so the certificate should too."""

    public_key: LeafKey
    named: bool


def read_csr(pem: bytes) -> SigningRequest | Refused:
    """The request, once its signature proves that its sender holds the key."""
    try:
        csr = x509.load_pem_x509_csr(pem)
        key = csr.public_key()
        if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
            return _refused("its key is neither RSA nor ECDSA nor Ed25519")
        objection = _objection(key)
        if objection:
            return _refused(objection)
        if not csr.is_signature_valid:
            return _refused("its signature is not that of its key")
        return SigningRequest(public_key=key, named=bool(csr.subject.get_attributes_for_oid(NameOID.COMMON_NAME)))
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion):
        return _refused("it cannot be read")


def _objection(key: LeafKey) -> str:
    """What is wrong with a key, or ""."""
    if isinstance(key, rsa.RSAPublicKey) and not SHORTEST_RSA <= key.key_size <= LONGEST_RSA:
        return f"its RSA key has {key.key_size} bits, not {SHORTEST_RSA} to {LONGEST_RSA}"
    if isinstance(key, ec.EllipticCurvePublicKey) and not isinstance(key.curve, CURVES):
        return f"its key is on the curve {key.curve.name}, not P-256, P-384 or P-521"
    return ""


def plan_leaf(
    csr: SigningRequest, identities: tuple[str, ...], asked: float, lifetimes: Lifetimes
) -> LeafRequest | Refused:
    """What to sign for somebody who was authenticated as these identities and asked for so many seconds."""
    lifetime = lifetimes.grant(asked)
    if isinstance(lifetime, Refused):
        return lifetime
    return LeafRequest(public_key=csr.public_key, identities=identities, lifetime=lifetime, named=csr.named)


def _refused(reason: str) -> Refused:
    return Refused(INVALID_ARGUMENT, f"the certificate signing request is refused: {reason}")
