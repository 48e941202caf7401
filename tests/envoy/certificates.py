"""Certificates of a small mesh, made for a test: roots, and a workload's certificate for its SPIFFE identity."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

CERTIFICATE, KEY, ROOTS, REVOKED = "certificate.pem", "key.pem", "roots.pem", "revoked.pem"


class Authority:
    """Issues certificates; nobody else knows its key."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        ending = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = self._signed("root", self._key.public_key(), (ending, True))

    def issue(self, identity: str, folder: Path, *hosts: str) -> None:
        """Write a certificate for `identity` (a URI) and host names, its key and the roots into a folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity), *map(x509.DNSName, hosts)])
        certificate = self._signed("", key.public_key(), (names, True))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CERTIFICATE).write_bytes(_pem(certificate))
        (folder / ROOTS).write_bytes(_pem(self._certificate))
        (folder / KEY).write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )

    def revoke_nothing(self, folder: Path) -> None:
        """Write a list of revoked certificates on which there is none."""
        now = datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(_named("root")).last_update(now)
        revoked = builder.next_update(now + timedelta(hours=1)).sign(self._key, hashes.SHA256())
        (folder / REVOKED).write_bytes(revoked.public_bytes(serialization.Encoding.PEM))

    def _signed(
        self, name: str, key: ec.EllipticCurvePublicKey, *extensions: tuple[x509.ExtensionType, bool]
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named("root"))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(hours=1))
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self._key, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
