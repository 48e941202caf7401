"""The secure port of `trierarch serve` as a process: its TLS, who gets in, and who gets which certificate.

No Envoy is needed: openssl and grpcio are the clients.
"""

from __future__ import annotations

import json
import time
from contextlib import closing

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from examples.shop.identities import Identities
from examples.shop.processes import TRIERARCH, ControlPlane, Process, wait_until
from tests.e2e.ads_client import CDS, LDS, SDS, AdsStream, resources
from tests.e2e.agent import NAME, certify, openssl, secure_channel
from tests.e2e.shops import next_network

pytestmark = pytest.mark.slow

WEB = "sidecar~127.0.0.1~web-1.shop~shop.svc.cluster.local"
IDENTITY = "spiffe://cluster.local/ns/shop/sa/web"


class Plane(ControlPlane):
    """A control plane with an authority of its own, and an issuer of tokens that it believes."""

    def __init__(self, folder, *flags) -> None:
        self.identities = Identities(folder / "identities")
        self._begun = 0
        (folder / "config").mkdir()
        super().__init__(folder / "config", folder / "trierarch.log", next_network(), (*self.identities.flags, *flags))

    def begin(self) -> None:
        """Forget what was logged."""
        self._begun = len(self.log.read_text().splitlines())

    def logged(self, event):
        """The lines that tell of this event, since the beginning."""
        lines = map(json.loads, self.log.read_text().splitlines()[self._begun :])
        return [line for line in lines if line["event"] == event]

    def channel(self, certified=None) -> grpc.Channel:
        """A channel to the secure port."""
        return secure_channel(self.secure, self.identities, certified)

    def stream(self, *, delta=True, certified=None, token="", **metadata) -> AdsStream:
        """A stream of `web` over the secure port."""
        channel = self.channel(certified)
        return AdsStream("", WEB, delta=delta, channel=channel, token=token, **metadata)

    def s_client(self, *words) -> str:
        """What `openssl s_client` says of the secure port."""
        return openssl("s_client", "-connect", self.secure, "-CAfile", self.identities.roots, *words)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A control plane whose ports are open, for all tests that leave it as it is."""
    with Plane(tmp_path_factory.mktemp("plane")) as plane:
        opened(plane)
        yield plane


@pytest.fixture
def plane(shared):
    """The same, with a log that begins with the test."""
    shared.begin()
    return shared


def opened(plane):
    """Wait until both ports are open."""
    plane.wait_until_ready()
    wait_until("both ports", lambda: len(plane.logged("xds_opened")) == 2)


def status(stream, *type_urls):
    """The status with which a stream ends that asks for these types."""
    with stream:
        for url in type_urls or (CDS,):
            stream.send(url)
        return end_of(stream)


def end_of(stream):
    """The status with which a stream ends, whatever it is sent before."""
    try:
        while True:
            stream.receive()
    except grpc.RpcError as error:
        return error.code()


# --- TLS -------------------------------------------------------------------------------------------------------------
def test_what_openssl_says_of_the_serving_certificate(plane):
    """It verifies under the mesh's root, for the control plane's name; HTTP/2 is agreed on, over TLS 1.3."""
    said = plane.s_client("-verify_return_error", "-verify_hostname", NAME, "-alpn", "h2")
    assert "Verification: OK" in said
    assert f"Verified peername: {NAME}" in said
    assert "ALPN protocol: h2" in said
    assert "TLSv1.3" in said
    assert "Verification: OK" not in plane.s_client("-verify_hostname", "other.example")


def test_which_versions_of_tls_are_spoken(plane):
    """1.2 with forward secrecy, and nothing older."""
    assert "Cipher is ECDHE-" in plane.s_client("-tls1_2")
    assert "Cipher is (NONE)" in plane.s_client("-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    assert "Cipher is (NONE)" in plane.s_client("-tls1_2", "-cipher", "AES256-SHA:AES128-SHA256")


def test_plaintext_to_the_secure_port(plane):
    """It is hung up on."""
    with closing(grpc.insecure_channel(plane.secure)) as channel, pytest.raises(grpc.RpcError) as raised:
        certify(channel, plane.identities.token("web"))
    assert raised.value.code() == grpc.StatusCode.UNAVAILABLE


# --- who gets in -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("delta", [True, False])
def test_a_token_opens_xds(plane, delta):
    """A sidecar of the account that the token is about is served, and the log has its identity."""
    with plane.stream(delta=delta, token=plane.identities.token("web"), SERVICE_ACCOUNT="web") as stream:
        assert resources(stream.ask(CDS))
    (line,) = plane.logged("stream_opened")
    assert line["identity"] == IDENTITY


def test_a_client_certificate_opens_xds(plane):
    """What was certified for a token is as good as the token, and longer."""
    with closing(plane.channel()) as channel:
        certified = certify(channel, plane.identities.token("web"))
    with plane.stream(certified=certified) as stream:
        assert resources(stream.ask(CDS))


def test_who_proves_nothing_is_refused(plane):
    """UNAUTHENTICATED, before anything is asked, and a line in the log for each."""
    identities = plane.identities
    stranger = jwt.encode({"sub": "system:serviceaccount:shop:web", "aud": ["istio-ca"], "exp": time.time() + 60},
                          ec.generate_private_key(ec.SECP256R1()), "ES256")  # fmt: skip
    tokens = {
        "none": "",
        "garbage": "a.b.c",
        "expired": identities.token("web", exp=time.time() - 120),
        "for others": identities.token("web", aud=["other-audience"]),
        "of a stranger": stranger,
        "of a person": identities.token("web", sub="alice"),
    }
    found = {kind: status(plane.stream(token=token)) for kind, token in tokens.items()}
    assert found == dict.fromkeys(tokens, grpc.StatusCode.UNAUTHENTICATED)
    assert len(plane.logged("caller_unauthenticated")) == len(tokens)


@pytest.mark.parametrize(
    ("namespace", "account", "claims"),
    [
        ("bank", "web", {}),
        ("shop", "web", {"NAMESPACE": "bank"}),
        ("shop", "web", {"SERVICE_ACCOUNT": "vault"}),
    ],
)
def test_who_claims_to_be_another_is_refused(plane, namespace, account, claims):
    """PERMISSION_DENIED, and a line in the log that has both sides."""
    token = plane.identities.token(account, namespace)
    assert status(plane.stream(token=token, **claims)) == grpc.StatusCode.PERMISSION_DENIED
    (line,) = plane.logged("stream_refused")
    assert f"spiffe://cluster.local/ns/{namespace}/sa/{account}" in line["reason"]


def test_on_the_plaintext_port_nobody_need_prove_anything(plane):
    """It is served, whoever it says it is, but gets no secret; and debug pages are for who has an identity."""
    with AdsStream(plane.xds, WEB, delta=True, TRIERARCH_SDS="ads") as stream:
        assert resources(stream.ask(CDS))
        stream.send(SDS, ("default", "ROOTCA"))
        assert stream.is_quiet()
    assert plane.logged("secrets_withheld")
    assert status(AdsStream(plane.xds, WEB, delta=True), "istio.io/debug") == grpc.StatusCode.UNAUTHENTICATED


# --- certificates ----------------------------------------------------------------------------------------------------
def test_the_agent_of_a_sidecar_has_its_key_certified(plane, tmp_path):
    """With the identity that it proved, whatever it asked for; openssl verifies the chain."""
    with closing(plane.channel()) as channel:
        token = plane.identities.token("web")
        certified = certify(channel, token, wanted="spiffe://cluster.local/ns/bank/sa/vault", lifetime=600)
    assert certified.identities == [IDENTITY]
    life = certified.leaf.not_valid_after_utc - certified.leaf.not_valid_before_utc
    assert life.total_seconds() == 600 + 120
    certified.write(tmp_path / "web")
    said = openssl("verify", "-CAfile", tmp_path / "web" / "roots.pem", tmp_path / "web" / "leaf.pem")
    assert said.endswith("leaf.pem: OK\n")


@pytest.mark.parametrize("delta", [True, False])
def test_a_sidecar_without_an_agent_gets_its_secrets_over_ads(plane, delta, tmp_path):
    """Its own and no other; the debug pages and the log have none of the key."""
    names = ("default", "ROOTCA", "kubernetes://cert", "spiffe://cluster.local/ns/bank/sa/vault")
    with plane.stream(delta=delta, token=plane.identities.token("web"), TRIERARCH_SDS="ads") as stream:
        stream.ask(CDS)
        found = resources(stream.ask(SDS, *names))
        assert found.keys() == {"default", "ROOTCA"}
        dump = plane.get("/debug/config_dump", proxyID="web-1").text
        client = max(plane.get("/debug/adsz").json()["clients"], key=lambda each: each["connectedAt"])
    assert client["identity"] == IDENTITY
    assert client["certificateExpires"] > client["connectedAt"]
    key = found["default"].tls_certificate.private_key.inline_bytes.decode()
    lines = [line for line in key.splitlines() if "-----" not in line]
    assert all(line not in dump for line in lines)
    assert "W3JlZGFjdGVkXQ==" in dump  # [redacted]
    assert all(line not in plane.log.read_text() for line in lines)
    (tmp_path / "leaf.pem").write_bytes(found["default"].tls_certificate.certificate_chain.inline_bytes)
    (tmp_path / "roots.pem").write_bytes(found["ROOTCA"].validation_context.trusted_ca.inline_bytes)
    assert openssl("verify", "-CAfile", tmp_path / "roots.pem", tmp_path / "leaf.pem").endswith("leaf.pem: OK\n")
    (push,) = [each for each in plane.logged("push_finished") if any(sent["type"] == "SDS" for sent in each["sent"])]
    assert [cause["event"] for cause in push["causes"]] == ["issued"]


def test_certificates_are_renewed_under_an_open_stream(tmp_path, monkeypatch):
    """The client's own is pushed, with a cause; the serving one changes for new connections; the stream stays, until a
    signal drains this port like the other.
    """
    monkeypatch.setenv("DEFAULT_WORKLOAD_CERT_TTL", "6s")
    with Plane(tmp_path) as plane:
        opened(plane)
        before = serial(plane)
        with plane.stream(token=plane.identities.token("web"), TRIERARCH_SDS="ads") as stream:
            stream.ask(CDS)
            first = resources(stream.ask(SDS, "default", "ROOTCA"))["default"]
            renewed = resources(stream.receive_and_ack(SDS))
            assert renewed.keys() == {"default"}
            assert renewed["default"] != first
            wait_until("another serving certificate", lambda: serial(plane) != before)
            stream.ask(LDS)
            assert len(plane.logged("stream_opened")) == 1
            assert plane.end() == 0
            assert end_of(stream) == grpc.StatusCode.UNAVAILABLE


def serial(plane):
    """The serial number of the serving certificate, as openssl shows the certificate."""
    return plane.s_client().partition("-----BEGIN CERTIFICATE-----")[2].partition("-----END")[0]


# --- in files --------------------------------------------------------------------------------------------------------
def identity(plane, folder, *words):
    """The command that keeps the identity of `web` in a folder."""
    command = (TRIERARCH, "identity", "--folder", folder, "--authority", plane.secure)
    return Process(*command, *words, log=folder.parent / "identity.log")


def test_an_identity_in_files(plane, tmp_path):
    """For a token there are files that openssl verifies; with them there are new ones, and they open xDS."""
    folder = tmp_path / "web"
    with identity(plane, folder, *plane.identities.credentials("web"), "--once") as command:
        assert command.wait() == 0
    verified = ("verify", "-CAfile", folder / "root-cert.pem", folder / "cert-chain.pem")
    assert openssl(*verified).endswith("cert-chain.pem: OK\n")
    first = (folder / "key.pem").read_text()
    with identity(plane, folder, "--roots", folder / "root-cert.pem", "--provision", folder, "--once") as command:
        assert command.wait() == 0
    assert (folder / "key.pem").read_text() != first
    assert openssl(*verified).endswith("cert-chain.pem: OK\n")


def test_an_identity_that_is_refused(plane, tmp_path):
    """The command ends with code 1 and says why; no file is written."""
    (tmp_path / "token").write_text("a.b.c")
    words = ("--roots", plane.identities.roots, "--token", tmp_path / "token", "--once")
    with identity(plane, tmp_path / "web", *words) as command:
        assert command.wait() == 1
    assert "authentication failure" in (tmp_path / "identity.log").read_text()
    assert not (tmp_path / "web").exists()


def test_an_identity_is_kept_fresh(plane, tmp_path):
    """It is renewed again and again, also after the control plane was away. The root is the same: it was kept."""
    folder = tmp_path / "web"
    seen = set()

    def another():
        found = (folder / "..data").readlink() if (folder / "..data").exists() else None
        return found is not None and found not in seen and (seen.add(found) or True)

    with identity(plane, folder, *plane.identities.credentials("web"), "--lifetime", "4s"):
        wait_until("the first", another)
        wait_until("the second", another)
        assert plane.end() == 0
        time.sleep(3)
        plane.start()
        wait_until("the third", another)
