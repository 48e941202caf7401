"""Certificates and keys between PEM and objects. What cannot be read is a ValueError that says why."""

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


def read_certificates(pem: bytes) -> tuple[x509.Certificate, ...]:
    """All certificates of a PEM text, one at least. Raises ValueError."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except x509.InvalidVersion as error:
        raise ValueError(str(error)) from None


def read_key(pem: bytes) -> SigningKey:
    """An RSA or EC private key that is not encrypted. Raises ValueError, which repeats nothing of it."""
    try:
        key = load_pem_private_key(pem, None)
    except TypeError:
        raise ValueError("it is encrypted") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("it is not a private key in PEM") from None
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise ValueError("it is neither an RSA nor an EC key")
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
