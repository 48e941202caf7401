"""Leaves: what stands in every one of them, whatever was asked for, and who may say so."""

from __future__ import annotations

from base64 import encodebytes

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from tests.identity.authorities import ALICE, DAY, NOW, csr, ec_key, own_root, rsa_key
from trierarch.identity.csr_request import plan_leaf, read_csr
from trierarch.identity.leaf import LeafRequest, Lifetimes, Refused, sign

LIFETIMES = Lifetimes(default=DAY, longest=90 * DAY)
AUTHORITIES = {
    "rsa": own_root(rsa_key("root")),
    "p256": own_root(),
    "p384": own_root(ec_key("root", ec.SECP384R1)),
}
KEYS = (ec_key("leaf"), ec_key("leaf", ec.SECP384R1), rsa_key("leaf"), ed25519.Ed25519PrivateKey.generate())

labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
spiffe_ids = st.builds("spiffe://{}/ns/{}/sa/{}".format, labels, labels, labels)
identities = st.lists(
    st.one_of(spiffe_ids, st.ip_addresses().map(str), st.lists(labels, min_size=1, max_size=4).map(".".join)),
    min_size=1,
    max_size=5,
).map(tuple)


def signed(request: LeafRequest, authority=AUTHORITIES["p256"], now=NOW) -> x509.Certificate:
    """A leaf; it must not be refused."""
    leaf = sign(authority, request, now=now, serial=5)
    assert isinstance(leaf, x509.Certificate), leaf
    return leaf


def names(leaf: x509.Certificate) -> tuple[str, ...]:
    """All subject alternative names, as text."""
    found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert found.critical
    return tuple(str(name.value) for name in found.value)


@given(
    st.sampled_from(sorted(AUTHORITIES)),
    st.sampled_from(KEYS),
    identities,
    st.floats(1, 90 * DAY),
    st.floats(NOW, NOW + 3649 * DAY),
    st.booleans(),
)
def test_the_template(authority, key, identities, lifetime, now, named):
    """Every leaf: its key, the names in their order, 2 minutes back, not beyond its signer, for both ends of TLS."""
    signer = AUTHORITIES[authority]
    request = LeafRequest(public_key=key.public_key(), identities=identities, lifetime=lifetime, named=named)
    leaf = signed(request, signer, now)
    leaf.verify_directly_issued_by(signer.certificate)
    assert leaf.public_key() == key.public_key()
    assert names(leaf) == tuple(dict.fromkeys(identities))
    assert leaf.not_valid_before_utc.timestamp() == int(now - 120)
    assert leaf.not_valid_after_utc.timestamp() == int(min(now + lifetime, signer.expires))
    usage = leaf.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert (usage.value.digital_signature, usage.value.key_encipherment, usage.value.key_cert_sign) == (1, 1, 0)
    extended = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(extended) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    basic = leaf.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (basic.critical, basic.value.ca) == (True, False)
    common = [each.value for each in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    assert common == ([identities[0]] if named and len(identities[0]) <= 64 else [])
    assert len(list(leaf.subject)) == len(common)


@given(st.lists(spiffe_ids, max_size=3), labels.map(lambda text: f"evil {text}"), st.booleans())
def test_names_come_from_the_caller_alone(wanted, common_name, with_cn):
    """Whatever a signing request asks to be called, the certificate says who was authenticated."""
    asked = [x509.UniformResourceIdentifier(each) for each in wanted]
    pem = csr(ec_key("leaf"), *asked, common_name=common_name if with_cn else "")
    read = read_csr(pem)
    assert not isinstance(read, Refused)
    request = plan_leaf(read, (ALICE,), 0, LIFETIMES)
    assert isinstance(request, LeafRequest)
    leaf = signed(request)
    assert names(leaf) == (ALICE,)
    assert [each.value for each in leaf.subject] == ([ALICE] if with_cn else [])


@given(st.floats(allow_nan=False))
def test_lifetimes(asked):
    """Nothing or less is the default, up to the maximum one gets what one asks, more is refused."""
    granted = LIFETIMES.grant(asked)
    if asked <= 0:
        assert granted == DAY
    elif asked <= 90 * DAY:
        assert granted == asked
    else:
        assert isinstance(granted, Refused)
        assert granted.code == 3


def test_an_expired_signer_signs_nothing():
    """That is nobody's fault who asks: INTERNAL."""
    request = LeafRequest(public_key=ec_key("leaf").public_key(), identities=(ALICE,), lifetime=60)
    refused = sign(own_root(lifetime=DAY), request, now=NOW + DAY, serial=1)
    assert isinstance(refused, Refused)
    assert refused.code == 13


@pytest.mark.parametrize("identities", [(), ("spiffe://ü/ns/a/sa/b",), ("ü.example",)])
def test_names_that_cannot_stand_in_a_certificate(identities):
    """None at all, or one that is not ASCII, is refused and nothing is signed."""
    request = LeafRequest(public_key=ec_key("leaf").public_key(), identities=identities, lifetime=60)
    assert isinstance(sign(own_root(), request, now=NOW, serial=1), Refused)


# --- signing requests ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("key", KEYS[:3])
def test_good_requests(key):
    """RSA and the curves of NIST; the key comes out."""
    request = read_csr(csr(key))
    assert not isinstance(request, Refused)
    assert request.public_key == key.public_key()


def test_a_signature_that_is_not_the_keys():
    """Whoever does not hold the key gets no certificate for it."""
    good = x509.load_pem_x509_csr(csr(ec_key("leaf")))
    der = good.public_bytes(Encoding.DER)
    position = der.index(good.signature) + len(good.signature) - 1
    forged = der[:position] + bytes([der[position] ^ 1]) + der[position + 1 :]
    refused = read_csr(x509.load_der_x509_csr(forged).public_bytes(Encoding.PEM))
    assert isinstance(refused, Refused)
    assert refused.code == 3


@pytest.mark.parametrize(
    "pem",
    [b"", b"nonsense", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"],
)
def test_what_is_no_request(pem):
    """Refused as the caller's fault."""
    refused = read_csr(pem)
    assert isinstance(refused, Refused)
    assert refused.code == 3


@pytest.mark.parametrize("curve", [ec.SECP224R1, ec.SECP256K1])
def test_other_curves_are_refused(curve):
    """Nobody could speak TLS with them."""
    refused = read_csr(csr(ec_key("odd", curve)))
    assert isinstance(refused, Refused)
    assert curve.name in refused.reason


def test_a_version_that_does_not_exist():
    """The library has an exception of its own for that: it once ended the control plane."""
    der = x509.load_pem_x509_csr(csr(ec_key("leaf"))).public_bytes(Encoding.DER)
    position = der.index(b"\x02\x01\x00")
    odd = b"-----BEGIN CERTIFICATE REQUEST-----\n%s-----END CERTIFICATE REQUEST-----\n"
    refused = read_csr(odd % encodebytes(der[: position + 2] + b"\x01" + der[position + 3 :]))
    assert isinstance(refused, Refused)


def test_weak_keys_are_refused():
    """1,024 bits of RSA are not enough for anybody."""
    refused = read_csr(csr(rsa_key("weak", 1024)))
    assert isinstance(refused, Refused)
    assert "1024 bits" in refused.reason
