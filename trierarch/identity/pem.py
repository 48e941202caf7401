"""Certificates and keys between PEM and objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

SigningKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
"""What an authority signs with."""

Hash: TypeAlias = hashes.SHA256 | hashes.SHA384 | hashes.SHA512


class Unreadable(ValueError):  # noqa: N818 - says what is the case
    """Why something cannot be read, in words of our own: the library's may quote it, and a key is secret."""


def read_certificates(pem: bytes) -> tuple[x509.Certificate, ...]:
    """All certificates of a PEM text, one at least. Raises `Unreadable`."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except (ValueError, x509.InvalidVersion):
        raise Unreadable("it is not a certificate in PEM") from None


def check_crl(pem: bytes) -> None:
    """Raise `Unreadable` if this is no list of revoked certificates."""
    try:
        x509.load_pem_x509_crl(pem)
    except (ValueError, x509.InvalidVersion):
        raise Unreadable("it is not a list of revoked certificates in PEM") from None


def read_key(pem: bytes) -> SigningKey:
    """An RSA or EC private key that is not encrypted. Raises `Unreadable`."""
    try:
        key = load_pem_private_key(pem, None)
    except TypeError:
        raise Unreadable("it is encrypted") from None
    except (ValueError, UnsupportedAlgorithm):
        raise Unreadable("it is not a private key in PEM") from None
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise Unreadable("it is neither an RSA nor an EC key")
    return key


def write_certificates(certificates: Iterable[x509.Certificate]) -> bytes:
    """One PEM text of all of them, each ending with a newline."""
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def write_key(key: SigningKey) -> bytes:
    """A private key as PKCS #8, not encrypted."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def hash_for(key: SigningKey) -> Hash:
    """As strong as the key: SHA-384 and SHA-512 for the longer curves (FIPS 186-5 §6.1), else SHA-256."""
    bits = key.curve.key_size if isinstance(key, ec.EllipticCurvePrivateKey) else 0
    return hashes.SHA512() if bits > 384 else hashes.SHA384() if bits > 256 else hashes.SHA256()
