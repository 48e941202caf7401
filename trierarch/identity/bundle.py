"""An authority in files: the plugged-in one in either layout, and our own root as we keep it (platform.md §1.1).

What is here reads and writes contents, not files: `files` maps names to bytes. What is wrong with a bundle is a value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.extensions import ExtensionNotFound

from trierarch.identity.authority import Authority
from trierarch.identity.pem import (
    Unreadable,
    check_crl,
    read_certificates,
    read_key,
    write_certificates,
    write_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ContentT = TypeVar("ContentT")

CRL = "ca-crl.pem"

_NOT_UNDERSTOOD = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""What certificates raise when one looks at a part of them."""

LONGEST_CHAIN = 10
"""Certificates from the signer to its root; OpenSSL's own default is a hundred, nobody has more than three."""


@dataclass(frozen=True, slots=True)
class BadBundle:
    """Files that make no authority, and why. Nothing secret is in the reason."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Which file is which."""

    certificate: str
    key: str
    roots: str
    chain: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """All that must be there."""
        return tuple(dict.fromkeys((self.certificate, self.key, self.roots, *self.chain)))


PLAIN = Layout(certificate="ca-cert.pem", key="ca-key.pem", roots="root-cert.pem", chain=("cert-chain.pem",))
KUBERNETES = Layout(certificate="tls.crt", key="tls.key", roots="ca.crt", chain=("tls.crt", "ca.crt"))
"""That of Secrets of type kubernetes.io/tls."""

FILES = (*PLAIN.files, *KUBERNETES.files, CRL)
"""Every name that means something."""


# --- reading ---------------------------------------------------------------------------------------------------------
def load_plugged(files: Mapping[str, bytes]) -> Authority | BadBundle | None:
    """The authority that was plugged in; None if there is none: no file, or roots alone."""
    layout = _layout_of(files)
    if layout is None:
        return None
    missing = [name for name in layout.files if name not in files]
    if missing:
        return BadBundle(f"the bundle is incomplete: there is no {' and no '.join(missing)}")
    try:
        return _assemble(layout, files)
    except Unreadable as error:
        return BadBundle(str(error))
    except _NOT_UNDERSTOOD:
        return BadBundle("a certificate in the bundle is not understood")


def _layout_of(files: Mapping[str, bytes]) -> Layout | None:
    for layout in (KUBERNETES, PLAIN):
        if any(name in files for name in layout.files if name != layout.roots):
            return layout
    return None


def _assemble(layout: Layout, files: Mapping[str, bytes]) -> Authority:
    certificate = _certificates(files, layout.certificate)[0]
    roots = _certificates(files, layout.roots)
    chain = tuple(each for name in layout.chain for each in _certificates(files, name))
    key = _read(read_key, files, layout.key)
    if key.public_key() != certificate.public_key():
        raise Unreadable(f"{layout.key} is not the key of {layout.certificate}")
    if not may_sign(certificate):
        raise Unreadable(f"{layout.certificate} may not sign certificates (CA:TRUE, keyCertSign)")
    if files.get(CRL, b"").strip():
        _read(check_crl, files, CRL)
    path = _path_to_root(certificate, chain, roots)
    return Authority(certificate=certificate, key=key, chain=path, roots=roots, crl_pem=files.get(CRL, b""))


def _certificates(files: Mapping[str, bytes], name: str) -> tuple[x509.Certificate, ...]:
    return _read(read_certificates, files, name)


def _read(read: Callable[[bytes], ContentT], files: Mapping[str, bytes], name: str) -> ContentT:
    """What is in a file. Raises `Unreadable` with its name."""
    try:
        return read(files[name])
    except Unreadable as error:
        raise Unreadable(f"{name}: {error}") from None


def may_sign(certificate: x509.Certificate) -> bool:
    """Whether it may sign certificates (RFC 5280 §4.2.1.9, §4.2.1.3). Raises ValueError for broken extensions."""
    try:
        if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        return certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except ExtensionNotFound as missing:
        return missing.oid == x509.KeyUsage.oid


def _path_to_root(
    certificate: x509.Certificate, chain: tuple[x509.Certificate, ...], roots: tuple[x509.Certificate, ...]
) -> tuple[x509.Certificate, ...]:
    """The certificates from the signer's own up to one that a root has issued. Raises `Unreadable` if there is none."""
    if certificate in roots:
        return ()
    path = [certificate]
    while not any(_issued(root, path[-1]) for root in roots):
        above = next((each for each in chain if each not in path and _issued(each, path[-1])), None)
        if above is None or len(path) == LONGEST_CHAIN:
            raise Unreadable("no chain leads from the signing certificate to a root")
        path.append(above)
    return tuple(path)


def _issued(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


# --- changes ---------------------------------------------------------------------------------------------------------
def accept_change(old: Authority, new: Authority, *, multiroot: bool) -> Authority | BadBundle:
    """A plugged-in authority may be replaced at any time by another one under the same roots. Its roots may only become
    more or fewer, and only if several are allowed: else half of the mesh would not trust the other half.
    """
    before, after = set(old.roots), set(new.roots)
    if before == after or (multiroot and (before <= after or after <= before)):
        return new
    hint = "change them in two steps" if multiroot else "set ISTIO_MULTIROOT_MESH, or restart"
    return BadBundle(f"its roots are not those in force: {hint}")


# --- our own root, as it is kept -------------------------------------------------------------------------------------
def dump_root(authority: Authority) -> bytes:
    """A root that we made ourselves as one text, so that key and certificate cannot be torn apart: the key first."""
    return write_key(authority.key) + write_certificates((authority.certificate,))


def load_root(pem: bytes) -> Authority | BadBundle:
    """What `dump_root` has written."""
    try:
        key, certificate = read_key(pem), read_certificates(pem)[0]
        if key.public_key() != certificate.public_key() or not may_sign(certificate):
            return BadBundle("the kept key is not that of the kept root")
    except Unreadable as error:
        return BadBundle(str(error))
    except _NOT_UNDERSTOOD:
        return BadBundle("the kept root is not understood")
    return Authority(certificate=certificate, key=key, roots=(certificate,))


def with_further_roots(authority: Authority, files: Mapping[str, bytes]) -> Authority | BadBundle:
    """An authority of our own that trusts the roots in a plugged-in bundle's roots file too."""
    if PLAIN.roots not in files:
        return authority
    try:
        further = _certificates(files, PLAIN.roots)
    except Unreadable as error:
        return BadBundle(str(error))
    return replace(authority, roots=tuple(dict.fromkeys((*authority.roots, *further))))
