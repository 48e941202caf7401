"""Certificates of workloads: how long they may live, what stands in them, what comes with them (platform.md §1.1).

Names come from whoever was authenticated, never from a signing request: `LeafRequest` has no other place for them.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.extensions import ExtensionNotFound
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from protocol.spiffe import SCHEME
from protocol.statuses import INTERNAL, INVALID_ARGUMENT
from trierarch.identity.authority import BACKDATED, Authority, key_usage, moment
from trierarch.identity.pem import hash_for, write_certificates

LONGEST_COMMON_NAME = 64
"""Characters (RFC 5280, appendix A, ub-common-name)."""

LeafKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
"""The keys that a workload may have."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing is signed: a gRPC status and why, for whoever asked."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """Seconds that a workload's certificate lives: if nothing is asked for, and at most."""

    default: float
    longest: float

    def grant(self, asked: float) -> float | Refused:
        """How long a certificate may live for which so many seconds were asked; nothing or less is the default."""
        if asked <= 0:
            return self.default
        if asked > self.longest:
            return Refused(INVALID_ARGUMENT, f"the lifetime of {asked:.0f} s is longer than {self.longest:.0f} s")
        return asked


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafRequest:
    """What to sign. `lifetime`: seconds. `named`: the first identity becomes the common name too, if it is short."""

    public_key: LeafKey
    identities: tuple[str, ...]
    lifetime: float
    named: bool = False


def sign(authority: Authority, request: LeafRequest, *, now: float, serial: int) -> x509.Certificate | Refused:
    """A certificate for the key in the name of the identities, which does not outlive its signer."""
    if authority.expires <= now:
        return Refused(INTERNAL, "the certificate authority has expired")
    try:
        subject, names = _subject(request), x509.SubjectAlternativeName([*map(_name, _distinct(request.identities))])
    except ValueError as error:
        return Refused(INVALID_ARGUMENT, f"an identity cannot stand in a certificate: {error}")
    ends = min(now + request.lifetime, authority.expires)
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.certificate.subject)
        .public_key(request.public_key)
        .serial_number(serial)
        .not_valid_before(moment(now - BACKDATED))
        .not_valid_after(moment(ends))
        .add_extension(key_usage("digital_signature", "key_encipherment"), critical=True)
        .add_extension(usages, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_issuer_key(authority), critical=False)
        .add_extension(names, critical=True)
    )
    return builder.sign(authority.key, hash_for(authority.key))


def chain_pem(authority: Authority, leaf: x509.Certificate) -> bytes:
    """What a server or a client shows: the leaf and what stands between it and a root."""
    return write_certificates((leaf, *authority.chain))


def answer_chain(authority: Authority, leaf: x509.Certificate) -> tuple[str, ...]:
    """What the CSR service answers: each certificate by itself, then all roots as one text."""
    shown = [write_certificates((each,)).decode() for each in (leaf, *authority.chain)]
    return (*shown, authority.roots_pem.decode())


def _distinct(identities: tuple[str, ...]) -> tuple[str, ...]:
    if not identities:
        raise ValueError("there is none")
    return tuple(dict.fromkeys(identities))


def _subject(request: LeafRequest) -> x509.Name:
    first = request.identities[0] if request.named and request.identities else ""
    short = 0 < len(first) <= LONGEST_COMMON_NAME
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, first)] if short else [])


def _name(identity: str) -> x509.GeneralName:
    """A SPIFFE identity as URI, an address as such, anything else as a DNS name."""
    if identity.startswith(SCHEME):
        return x509.UniformResourceIdentifier(identity)
    try:
        return x509.IPAddress(ipaddress.ip_address(identity))
    except ValueError:
        return x509.DNSName(identity)


def _issuer_key(authority: Authority) -> x509.AuthorityKeyIdentifier:
    """The signer's key as its own certificate names it (RFC 5280 §4.2.1.1)."""
    try:
        named = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(named.value)
