"""A stolen certificate: a plugged-in authority revokes it, and neither a stock Envoy that gets its roots over ADS nor
the control plane lets anybody in with it any more.
"""

from __future__ import annotations

import ssl
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from itertools import count

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from examples.shop.processes import wait_until
from tests.e2e.agent import certify, secure_channel
from tests.e2e.town import CATALOG, POLICY, Town
from trierarch.identity.authority import key_usage
from trierarch.identity.pem import write_key

pytestmark = pytest.mark.envoy


class Signer:
    """A certificate that may sign others and lists of those that are revoked."""

    def __init__(self, name: str, above: Signer | None = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer, now = above or self, datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(issuer.name)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(key_usage("key_cert_sign", "crl_sign"), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .sign(issuer.key, hashes.SHA256())
        )
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)

    def revoke(self, *serials: int) -> bytes:
        """A list of revoked certificates."""
        now = datetime.now(UTC)
        lists = x509.CertificateRevocationListBuilder().issuer_name(self.name).last_update(now - timedelta(hours=1))
        for serial in serials:
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
            lists = lists.add_revoked_certificate(revoked)
        signed = lists.next_update(now + timedelta(days=1)).sign(self.key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)


class Bundle:
    """The folder of a plugged-in authority, swapped as Kubernetes does it. `path` is where it is read."""

    def __init__(self, folder) -> None:
        self.path, self._folder, self._number = folder / "current", folder, count(1)
        self.root = Signer("root")
        self.signer = Signer("signer", self.root)
        folder.mkdir()

    def put(self, *serials: int) -> None:
        """Everything as before, with these certificates revoked. Envoy wants a list of each authority of a chain."""
        fresh = self._folder / str(next(self._number))
        fresh.mkdir()
        files = {
            "ca-cert.pem": self.signer.pem,
            "ca-key.pem": write_key(self.signer.key),
            "root-cert.pem": self.root.pem,
            "cert-chain.pem": self.signer.pem + self.root.pem,
            "ca-crl.pem": self.signer.revoke(*serials) + self.root.revoke(),
        }
        for name, content in files.items():
            (fresh / name).write_bytes(content)
        draft = self._folder / "draft"
        draft.symlink_to(fresh.name)
        draft.rename(self.path)


def call(town, certified) -> int | None:
    """The status of a request to catalog's sidecar by whoever holds this certificate; None if it is not let in."""
    folder = town.folder / f"{certified.leaf.serial_number}"
    certified.write(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(folder / "leaf.pem", folder / "key.pem")
    context.set_alpn_protocols(["istio-http/1.1", "istio", "http/1.1"])
    connection = HTTPSConnection(f"{town.network}.{CATALOG}", 8081, timeout=10, context=context)
    with closing(connection), suppress(OSError):
        connection.request("GET", "/", headers={"host": "catalog"})
        return connection.getresponse().status
    return None


def renews(town, certified) -> bool:
    """Whether the control plane gives whoever holds this certificate another one."""
    with closing(secure_channel(town.plane.secure, town.identities, certified)) as channel:
        try:
            certify(channel)
        except grpc.RpcError:
            return False
    return True


def test_a_stolen_certificate(tmp_path, envoy, monkeypatch):
    """It opens the door until it is revoked; whoever has another one for the same identity goes on getting in."""
    bundle = Bundle(tmp_path / "cacerts")
    bundle.put()
    monkeypatch.setenv("ROOT_CA_DIR", str(bundle.path))
    with ExitStack() as stack:
        town = Town(tmp_path, envoy, stack)
        town.identities.roots = bundle.path / "root-cert.pem"
        town.mesh.write("policy.yaml", POLICY % "STRICT")
        town.add("catalog", CATALOG, "delta")
        with closing(secure_channel(town.plane.secure, town.identities)) as channel:
            stolen, own = (certify(channel, town.identities.token("front")) for _ in range(2))
        wait_until("the door is open", lambda: call(town, stolen) == 200)
        assert renews(town, stolen)
        bundle.put(stolen.leaf.serial_number)
        wait_until("it is shut", lambda: call(town, stolen) is None)
        wait_until("at the control plane too", lambda: not renews(town, stolen))
        assert call(town, own) == 200
        assert renews(town, own)
