"""Authorities in files: both layouts, what is wrong with others, and which changes are accepted."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization

from tests.identity.authorities import (
    DAY,
    NOW,
    ec_key,
    intermediate,
    kubernetes_bundle,
    own_root,
    plain_bundle,
    rsa_key,
)
from trierarch.identity.authority import Authority, renew_root, root_due
from trierarch.identity.bundle import (
    BadBundle,
    accept_change,
    dump_root,
    load_plugged,
    load_root,
    with_further_roots,
)
from trierarch.identity.pem import write_certificates, write_key

ROOT, OTHER, THIRD = own_root(), own_root(rsa_key("other")), own_root(ec_key("third"))


def loaded(files) -> Authority:
    """The authority in these files."""
    authority = load_plugged(files)
    assert isinstance(authority, Authority), authority
    return authority


def wrong(files) -> str:
    """What is wrong with these files."""
    bad = load_plugged(files)
    assert isinstance(bad, BadBundle), bad
    return bad.reason


# --- layouts ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("build", [plain_bundle, kubernetes_bundle])
def test_both_layouts(build):
    """The signer, its root, and a chain that ends below the root."""
    authority = loaded(build("one", ROOT))
    assert authority.chain == (authority.certificate,)
    assert authority.roots == ROOT.roots


def test_kubernetes_layout_comes_first():
    """Where both are, istiod takes that of Secrets of type kubernetes.io/tls."""
    authority = loaded({**plain_bundle("one", ROOT), **kubernetes_bundle("two", ROOT)})
    assert authority.certificate.subject.rfc4514_string() == "CN=two"


def test_the_chain_is_put_into_order():
    """Whatever else is in the chain file, and in whatever order: a leaf is followed by what leads to a root."""
    lower, key = intermediate("lower", _authority(*intermediate("upper", ROOT)))
    upper = intermediate("upper", ROOT)[0]
    files = {
        "ca-cert.pem": write_certificates((lower,)),
        "ca-key.pem": write_key(key),
        "root-cert.pem": ROOT.roots_pem + OTHER.roots_pem,
        "cert-chain.pem": write_certificates((*ROOT.roots, *OTHER.roots, upper, lower)),
    }
    assert loaded(files).chain == (lower, upper)


def test_a_root_may_be_plugged_in_itself():
    """Then there is no chain at all."""
    files = {
        "ca-cert.pem": ROOT.roots_pem,
        "ca-key.pem": write_key(ROOT.key),
        "root-cert.pem": ROOT.roots_pem,
        "cert-chain.pem": ROOT.roots_pem,
    }
    assert loaded(files).chain == ()


@pytest.mark.parametrize("missing", ["ca-cert.pem", "ca-key.pem", "root-cert.pem", "cert-chain.pem"])
def test_a_part_of_a_bundle_is_wrong(missing):
    """It names what is not there."""
    files = plain_bundle("one", ROOT)
    del files[missing]
    assert missing in wrong(files)


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key", "ca.crt"])
def test_a_part_of_a_secret_is_wrong(missing):
    """In the other layout too."""
    files = kubernetes_bundle("one", ROOT)
    del files[missing]
    assert missing in wrong(files)


@pytest.mark.parametrize("files", [{}, {"root-cert.pem": b"..."}, {"other.pem": b"..."}])
def test_no_bundle_is_none(files):
    """Nothing, or roots alone, which are further roots for an authority of our own."""
    assert load_plugged(files) is None


# --- what is wrong ---------------------------------------------------------------------------------------------------
def test_a_signer_that_may_not_sign():
    """CA:TRUE is what makes it one."""
    assert "may not sign" in wrong(plain_bundle("leaf", ROOT, ca=False))


def test_the_key_of_another():
    """A key that is not the certificate's, for instance in the middle of a swap."""
    files = plain_bundle("one", ROOT) | {"ca-key.pem": write_key(ec_key("two"))}
    assert "not the key of" in wrong(files)


def test_a_chain_that_leads_nowhere():
    """Nobody could verify what it signs."""
    files = plain_bundle("one", ROOT) | {"root-cert.pem": OTHER.roots_pem}
    assert "no chain leads" in wrong(files)


def test_an_encrypted_key():
    """Nobody is there to type a password."""
    encrypted = ec_key("one").private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    assert "encrypted" in wrong(plain_bundle("one", ROOT) | {"ca-key.pem": encrypted})


@pytest.mark.parametrize("name", ["ca-cert.pem", "ca-key.pem", "root-cert.pem", "cert-chain.pem", "ca-crl.pem"])
def test_garbage_names_its_file(name):
    """Whoever has to repair it should not have to search; and nothing of a key is repeated."""
    reason = wrong(plain_bundle("one", ROOT) | {name: b"-----BEGIN secret"})
    assert name in reason
    assert "secret" not in reason


# --- changes ---------------------------------------------------------------------------------------------------------
def _with_roots(*roots) -> Authority:
    return Authority(certificate=ROOT.certificate, key=ROOT.key, roots=tuple(each.certificate for each in roots))


@pytest.mark.parametrize(
    ("before", "after", "one_root", "several"),
    [
        ((ROOT,), (ROOT,), True, True),
        ((ROOT, OTHER), (OTHER, ROOT), True, True),
        ((ROOT,), (ROOT, OTHER), False, True),
        ((ROOT, OTHER), (ROOT,), False, True),
        ((ROOT, OTHER), (ROOT, OTHER, THIRD), False, True),
        ((ROOT, OTHER, THIRD), (THIRD, ROOT), False, True),
        ((ROOT,), (OTHER,), False, False),
        ((ROOT, OTHER), (OTHER, THIRD), False, False),
    ],
)
def test_which_roots_may_follow_which(before, after, one_root, several):
    """The same ones in any order; with ISTIO_MULTIROOT_MESH also more of them or fewer, never others."""
    for multiroot, allowed in ((False, one_root), (True, several)):
        outcome = accept_change(_with_roots(*before), _with_roots(*after), multiroot=multiroot)
        assert isinstance(outcome, Authority) == allowed


# --- our own root ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("root", [ROOT, OTHER])
def test_what_is_kept_is_read(root):
    """A root of our own survives its file."""
    kept = load_root(dump_root(root))
    assert isinstance(kept, Authority)
    assert kept == root
    assert kept.key.private_numbers() == root.key.private_numbers()


@pytest.mark.parametrize("pem", [b"", dump_root(ROOT)[:-40], write_key(ROOT.key) + OTHER.roots_pem])
def test_a_kept_root_that_is_torn(pem):
    """Half a file, or a key with another's certificate, is no authority."""
    assert isinstance(load_root(pem), BadBundle)


def test_further_roots():
    """They come after our own, each once."""
    more = with_further_roots(ROOT, {"root-cert.pem": OTHER.roots_pem + ROOT.roots_pem})
    assert isinstance(more, Authority)
    assert more.roots == (*ROOT.roots, *OTHER.roots)
    assert isinstance(with_further_roots(ROOT, {"root-cert.pem": b"x"}), BadBundle)


def test_when_a_root_is_due():
    """When a fifth of its life is left: after eighty of a hundred days, counted from two minutes before it was made."""
    root = own_root(lifetime=100 * DAY)
    assert not root_due(root, now=NOW + 79.9 * DAY, grace=0.2)
    assert root_due(root, now=NOW + 80 * DAY, grace=0.2)


def test_a_renewed_root_keeps_the_others():
    """The old certificate goes, the key and the further roots stay."""
    more = with_further_roots(ROOT, {"root-cert.pem": OTHER.roots_pem})
    assert isinstance(more, Authority)
    new = renew_root(more, now=NOW + DAY, lifetime=DAY, serial=7)
    assert new.roots == (new.certificate, *OTHER.roots)
    assert new.certificate.public_key() == ROOT.certificate.public_key()
    assert new.certificate.subject == ROOT.certificate.subject


def _authority(certificate, key) -> Authority:
    return Authority(certificate=certificate, key=key, roots=(certificate,))
