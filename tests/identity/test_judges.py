"""Others judge what we sign: openssl's own `verify`, and the SPIFFE library of PyPI."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from spiffe import TrustDomain, X509Bundle, X509Svid

from tests.identity.authorities import ALICE, DAY, NOW, ec_key, own_root, plain_bundle, rsa_key
from trierarch.identity.authority import Authority, renew_root
from trierarch.identity.bundle import load_plugged
from trierarch.identity.leaf import LeafRequest, chain_pem, sign
from trierarch.identity.pem import write_certificates, write_key

if TYPE_CHECKING:
    from pathlib import Path

OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="there is no openssl program")

AUTHORITIES = {
    "RSA root": own_root(rsa_key("root")),
    "EC root": own_root(),
    "intermediate": load_plugged(plain_bundle("one", own_root())),
}


@pytest.fixture(name="authority", params=AUTHORITIES)
def authority_fixture(request) -> Authority:
    """An authority of each kind."""
    found = AUTHORITIES[request.param]
    assert isinstance(found, Authority)
    return found


def leaf_of(authority: Authority, *, now: float = NOW, lifetime: float = DAY):
    """A leaf for Alice."""
    request = LeafRequest(public_key=ec_key("leaf").public_key(), identities=(ALICE,), lifetime=lifetime)
    return sign(authority, request, now=now, serial=4711)


def verify(folder: Path, *, roots: bytes, shown: bytes, at: float, purpose: str) -> str:
    """What openssl says to a chain: "OK" or why not."""
    (folder / "roots.pem").write_bytes(roots)
    (folder / "shown.pem").write_bytes(shown)
    command = [
        OPENSSL or "openssl", "verify", "-x509_strict", "-attime", str(int(at)), "-purpose", purpose,
        "-CAfile", str(folder / "roots.pem"), "-untrusted", str(folder / "shown.pem"), str(folder / "shown.pem"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "OK" if done.returncode == 0 else done.stderr


@needs_openssl
@pytest.mark.parametrize("purpose", ["sslserver", "sslclient"])
def test_openssl_verifies(tmp_path, authority, purpose):
    """Strictly, for both ends of a connection, right after signing and until the end."""
    shown = chain_pem(authority, leaf_of(authority))
    for at in (NOW - 119, NOW, NOW + DAY - 1):
        assert verify(tmp_path, roots=authority.roots_pem, shown=shown, at=at, purpose=purpose) == "OK"
    late = verify(tmp_path, roots=authority.roots_pem, shown=shown, at=NOW + DAY + 1, purpose=purpose)
    assert "expired" in late


@needs_openssl
def test_leaves_of_the_old_root_verify_under_the_new_one(tmp_path):
    """And the other way round: half of the mesh may still have the old root."""
    old = own_root(lifetime=100 * DAY)
    new = renew_root(old, now=NOW + 85 * DAY, lifetime=100 * DAY, serial=2002)
    at = NOW + 86 * DAY
    for signer in (old, new):
        for trusted in (old, new):
            shown = chain_pem(signer, leaf_of(signer, now=at))
            assert verify(tmp_path, roots=trusted.roots_pem, shown=shown, at=at, purpose="sslserver") == "OK"


@needs_openssl
def test_leaves_before_and_after_a_swap_verify(tmp_path):
    """Two intermediates under one root."""
    for name in ("one", "two"):
        authority = load_plugged(plain_bundle(name, own_root()))
        assert isinstance(authority, Authority)
        shown = chain_pem(authority, leaf_of(authority))
        assert verify(tmp_path, roots=own_root().roots_pem, shown=shown, at=NOW, purpose="sslclient") == "OK"


@needs_openssl
def test_another_root_does_not_verify(tmp_path, authority):
    """The judge is not asleep."""
    shown = chain_pem(authority, leaf_of(authority))
    other = own_root(rsa_key("other"))
    assert verify(tmp_path, roots=other.roots_pem, shown=shown, at=NOW, purpose="sslserver") != "OK"


def test_the_spiffe_library_accepts_our_identities(authority):
    """An X509-SVID: one URI, no CA, the right usages, and a key that is its own."""
    svid = X509Svid.parse(chain_pem(authority, leaf_of(authority)), write_key(ec_key("leaf")))
    assert str(svid.spiffe_id) == ALICE
    assert len(svid.cert_chain) == 1 + len(authority.chain)


def test_the_spiffe_library_accepts_our_bundle(authority):
    """The roots of the trust domain."""
    further = (*authority.roots, own_root(rsa_key("other")).certificate)
    bundle = X509Bundle.parse(TrustDomain("cluster.local"), write_certificates(further))
    assert len(bundle.x509_authorities) == len(set(further))
