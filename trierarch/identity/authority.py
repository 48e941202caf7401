"""The certificate authority as a value: who signs, and whom everybody trusts for it (platform.md §1.1).

A root that we make ourselves, its renewal with the same key, and what follows from the certificates of any authority.
Keys, serial numbers and the time enter as arguments. What must not be here: files (`bundle`), leaves (`leaf`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from cryptography import x509
from cryptography.x509.oid import NameOID

from trierarch.identity.pem import SigningKey, hash_for, write_certificates

BACKDATED = 120.0
"""Seconds by which a certificate is valid before it was made: clocks differ."""

_END_OF_TIME = 253_402_300_799.0
"""The last second that X.509 can name, 9999-12-31T23:59:59Z (RFC 5280 §4.1.2.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Who signs and whom to trust.

    `chain`: what stands between a leaf and a root, the signer's own certificate first; empty if the signer is a root.
    `roots`: all that are to be trusted. `crl_pem`: what they have revoked, or b"".
    """

    certificate: x509.Certificate
    key: SigningKey = field(repr=False, compare=False)
    chain: tuple[x509.Certificate, ...] = ()
    roots: tuple[x509.Certificate, ...]
    crl_pem: bytes = b""

    @property
    def roots_pem(self) -> bytes:
        """All roots as one PEM text."""
        return write_certificates(self.roots)

    @property
    def expires(self) -> float:
        """When nothing that it signed is valid any more, in seconds since the epoch."""
        return min(each.not_valid_after_utc.timestamp() for each in (self.certificate, *self.chain))


def create_root(key: SigningKey, organization: str, *, now: float, lifetime: float, serial: int) -> Authority:
    """An authority that nobody stands above. `organization`: the trust domain. `lifetime` in seconds."""
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)])
    root = _sign_root(key, subject, now, lifetime, serial)
    return Authority(certificate=root, key=key, roots=(root,))


def renew_root(authority: Authority, *, now: float, lifetime: float, serial: int) -> Authority:
    """The same key and name with a new certificate: what was signed under the old one verifies under the new one."""
    old = authority.certificate
    root = _sign_root(authority.key, old.subject, now, lifetime, serial)
    others = tuple(each for each in authority.roots if each != old)
    return replace(authority, certificate=root, roots=(root, *others))


def root_due(authority: Authority, *, now: float, grace: float) -> bool:
    """Whether no more than this part of the root's life, 0 to 1, is left."""
    root = authority.certificate
    begins, ends = root.not_valid_before_utc.timestamp(), root.not_valid_after_utc.timestamp()
    return ends - now <= (ends - begins) * grace


def _sign_root(key: SigningKey, subject: x509.Name, now: float, lifetime: float, serial: int) -> x509.Certificate:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(serial)
        .not_valid_before(moment(now - BACKDATED))
        .not_valid_after(moment(now + lifetime))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(key_usage("key_cert_sign"), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hash_for(key))
    )


def moment(seconds: float) -> datetime:
    """A time of an X.509 certificate, which has whole seconds."""
    return datetime.fromtimestamp(int(min(seconds, _END_OF_TIME)), UTC)


def key_usage(*usages: str) -> x509.KeyUsage:
    """The extension with these usages, by the names of its fields, and no others."""
    fields = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{each: each in usages for each in fields})
