"""Certificate authorities for tests: keys that are made once, and bundles of files as somebody else would make them."""

from __future__ import annotations

from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from trierarch.identity.authority import Authority, create_root, key_usage, moment
from trierarch.identity.pem import SigningKey, write_certificates, write_key

NOW = 1_800_000_000.0
"""A moment in 2027, in seconds since the epoch."""

DAY = 86400.0
ALICE = "spiffe://cluster.local/ns/shop/sa/alice"


@cache
def rsa_key(name: str = "", size: int = 2048) -> rsa.RSAPrivateKey:
    """A key of this name."""
    return rsa.generate_private_key(public_exponent=65537, key_size=size)


@cache
def ec_key(name: str = "", curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    """A key of this name."""
    return ec.generate_private_key(curve())


@cache
def own_root(key: SigningKey | None = None, *, now: float = NOW, lifetime: float = 3650 * DAY) -> Authority:
    """A root as we make it."""
    return create_root(key or ec_key("root"), "cluster.local", now=now, lifetime=lifetime, serial=1001)


def intermediate(
    name: str, above: Authority, *, now: float = NOW, lifetime: float = 365 * DAY, ca: bool = True
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A certificate that `above` has issued, which may sign itself if it is `ca`, and its key."""
    key = ec_key(name)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(above.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment(now - 3600))
        .not_valid_after(moment(now + lifetime))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(key_usage("key_cert_sign"), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(above.key.public_key()), critical=False)
        .sign(above.key, hashes.SHA256())
    )
    return certificate, key


def plain_bundle(name: str, root: Authority, **changes: object) -> dict[str, bytes]:
    """The files of an intermediate in Istio's layout, as `cacerts` has them."""
    certificate, key = intermediate(name, root, **changes)
    return {
        "ca-cert.pem": write_certificates((certificate,)),
        "ca-key.pem": write_key(key),
        "root-cert.pem": root.roots_pem,
        "cert-chain.pem": write_certificates((certificate, *root.roots)),
    }


def kubernetes_bundle(name: str, root: Authority, **changes: object) -> dict[str, bytes]:
    """The same as a Secret of type kubernetes.io/tls has it."""
    plain = plain_bundle(name, root, **changes)
    return {"tls.crt": plain["ca-cert.pem"], "tls.key": plain["ca-key.pem"], "ca.crt": plain["root-cert.pem"]}


def csr(key: object, *names: x509.GeneralName, common_name: str = "") -> bytes:
    """A signing request for a key, which asks for these names."""
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else []
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
