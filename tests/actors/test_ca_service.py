"""The CSR service as gRPC's own client sees it, over TLS: who gets a certificate, and what everybody else is told."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import grpc
import pytest
import trio
from cryptography import x509
from trio.testing import wait_all_tasks_blocked

from actors import authority, ca_service
from actors.authentication import Authentication
from actors.authority import Memory, Options, Outlets
from actors.authority_files import InMemory
from actors.ca_service import Terms
from actors.grpc import Limits, Server
from actors.identity_messages import IssueIdentity, SignedChain
from actors.line_budget import LINES
from actors.mailbox import Mailbox, ask
from actors.metrics import Metrics
from actors.newest import Newest
from actors.serving_tls import ServingCertificate, build_context
from protocol.codec import decode, encode
from protocol.csr import METHOD, IstioCertificateRequest, IstioCertificateResponse
from protocol.proto.google.protobuf import Struct, Value
from tests.identity.authorities import DAY, csr, ec_key, own_root, rsa_key
from tests.identity.token_issuer import RULE, keys, token
from tests.push.fixtures import CLUSTER, objects
from trierarch.config.store import ConfigView
from trierarch.identity.authenticate import Caller, Proof, by_client_certificate
from trierarch.identity.leaf import Lifetimes
from trierarch.identity.pem import read_certificates
from trierarch.identity.tokens import TokenAuthenticator

SECONDS = 5
NAME = "istiod.istio-system.svc"
ALICE = "spiffe://cluster.local/ns/shop/sa/alice"
EVIL = x509.UniformResourceIdentifier("spiffe://cluster.local/ns/kube-system/sa/root")
ZTUNNEL_POD = {"pod": {"name": "ztunnel-1", "uid": "u-z"}}
PODS = """
    Pod istio-system/ztunnel-1: {metadata: {uid: u-z}, nodeName: n1, serviceAccountName: ztunnel}
    Pod shop/alice-1: {metadata: {uid: u-a}, nodeName: n1, serviceAccountName: alice}
"""


def good_token(**changes) -> str:
    """A token of Alice's that is valid now."""
    now = time.time()
    return token(**{"exp": now + 3600, "nbf": now, **changes})


class Authority:
    """The actor, whose lives a test begins and ends."""

    def __init__(self, nursery: trio.Nursery, metrics: Metrics, root=None) -> None:
        self.inbox: Mailbox = Mailbox("authority", flow=10)
        self._nursery = nursery
        self._memory = Memory(authority=root or own_root(now=time.time()), number=1)
        self._outlets = Outlets(metrics=metrics, trust_domain=lambda: "cluster.local")
        self._life = trio.CancelScope()

    async def start(self) -> None:
        """Begin a life."""
        self._life = trio.CancelScope()
        ready = trio.Event()
        ready.set()
        options = Options(
            source=InMemory(), lifetimes=Lifetimes(default=DAY, longest=90 * DAY), root_lifetime=DAY, key_size=2048,
            check_interval=3600.0, grace=0.2, jitter=False, multiroot=False, crl=True,
        )  # fmt: skip

        async def live(*, task_status) -> None:
            with self._life:
                await authority.run(
                    self.inbox, options=options, memory=self._memory, outlets=self._outlets, ready=ready,
                    task_status=task_status,
                )  # fmt: skip

        await self._nursery.start(live)

    def kill(self) -> None:
        """End this life."""
        self._life.cancel()

    async def issue(self, *identities: str):
        """A key, its certificate and the roots."""
        return await ask(self.inbox, lambda reply: IssueIdentity(identities=identities, reply=reply))


@dataclass
class Service:
    """The service on a port, and how to call it."""

    authority: Authority
    metrics: Metrics
    port: str
    roots: bytes

    async def call(self, pem: bytes | None = None, *, bearer="", lifetime=0, metadata=None, identity=None, name=NAME):
        """Call as an agent does: the certificates that come back. Raises `grpc.RpcError`."""
        request = IstioCertificateRequest(
            csr=(csr(ec_key("agent")) if pem is None else pem).decode(), validity_duration=lifetime, metadata=metadata
        )
        pair = (identity.key_pem, identity.chain_pem) if identity else ()
        headers = [("authorization", f"Bearer {bearer}")] if bearer else []
        options = [("grpc.ssl_target_name_override", name)]

        def work() -> list[str]:
            credentials = grpc.ssl_channel_credentials(self.roots, *pair)
            with grpc.secure_channel(f"127.0.0.1:{self.port}", credentials, options) as channel:
                answer = channel.unary_unary(METHOD)(encode(request), metadata=headers, timeout=SECONDS)
            return decode(IstioCertificateResponse, answer).cert_chain

        with trio.fail_after(SECONDS):
            return await trio.to_thread.run_sync(work, abandon_on_cancel=True)

    async def refusal(self, *arguments, **options) -> tuple[str, str]:
        """The status of a call that must fail: its name and its text."""
        with pytest.raises(grpc.RpcError) as error:
            await self.call(*arguments, **options)
        return error.value.code().name, error.value.details()


@pytest.fixture
async def service(nursery) -> Service:
    """The CSR service over TLS, with a certificate that its own authority has issued."""
    metrics = Metrics()
    signer = Authority(nursery, metrics)
    await signer.start()
    own = await signer.issue(NAME)
    tokens = TokenAuthenticator(rule=RULE, keys=keys)
    identify = Authentication(
        authenticators=(by_client_certificate, tokens), wall=time.time, newest=Newest()
    ).authenticate
    view, _ = ConfigView().apply(objects(PODS))
    terms = Terms(
        authority=signer.inbox, metrics=metrics, identify=identify, trusted=("istio-system/ztunnel",),
        view=lambda: view, cluster=CLUSTER,
    )  # fmt: skip
    tls = build_context(ServingCertificate(key=own.key_pem, chain=own.chain_pem, roots=own.roots_pem))
    server = Server(ca_service.build_handlers(terms), Limits(), lambda: tls, on_crash=_fail)
    address = await nursery.start(server.serve, "127.0.0.1:0")
    return Service(signer, metrics, address.rpartition(":")[2], own.roots_pem)


def names(pem: str) -> list[str]:
    """The URIs of a certificate."""
    (leaf,) = read_certificates(pem.encode())
    found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return found.get_values_for_type(x509.UniformResourceIdentifier)


def events(lines, name) -> list[dict]:
    """What was logged of this event."""
    return [line for line in lines if line["event"] == name]


# --- who gets a certificate ------------------------------------------------------------------------------------------
async def test_a_token_is_worth_a_certificate(service, lines):
    """The leaf first, the roots last, in the name of the token's account; the log says for whom, and nothing secret."""
    leaf, roots = await service.call(bearer=good_token())
    assert names(leaf) == [ALICE]
    assert roots.encode() == service.roots
    (line,) = events(lines, "certificate_signed")
    assert (line["identities"], line["proof"]) == ((ALICE,), "token")
    assert line["expires"] == x509.load_pem_x509_certificate(leaf.encode()).not_valid_after_utc.isoformat()
    assert "PRIVATE" not in str(lines)
    assert service.metrics.certificates_issued._value.get() == 1


async def test_a_certificate_is_worth_another(service):
    """An agent that has one renews it without a token, over mutual TLS."""
    identity = await service.authority.issue(ALICE)
    leaf, _ = await service.call(identity=identity)
    assert names(leaf) == [ALICE]


async def test_a_hostile_request_gets_the_callers_own_name(service):
    """It asks to be root of the cluster, in its names and its common name."""
    hostile = csr(ec_key("agent"), EVIL, common_name="root")
    leaf, _ = await service.call(hostile, bearer=good_token())
    assert names(leaf) == [ALICE]


async def test_the_lifetime_that_was_asked_for(service):
    """In seconds; no answer lives longer."""
    leaf, _ = await service.call(bearer=good_token(), lifetime=600)
    assert read_certificates(leaf.encode())[0].not_valid_after_utc.timestamp() == pytest.approx(
        time.time() + 600, abs=SECONDS
    )


async def test_whoever_asks_amid_a_crash_waits_for_the_successor(service, nursery):
    """The authority dies and comes back: the call takes longer, and nothing else."""
    service.authority.kill()
    answers = []

    async def call() -> None:
        answers.append(await service.call(bearer=good_token()))

    async with trio.open_nursery() as calls:
        calls.start_soon(call)
        await trio.sleep(0.1)
        await service.authority.start()
    assert names(answers[0][0]) == [ALICE]


# --- who does not ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("bearer", "reason"),
    [
        ("", "no client certificate; no token"),
        ("nonsense", "malformed"),
        (good_token(exp=time.time() - 1), "expired"),
        (good_token(aud=["somebody-else"]), "another audience"),
        (good_token(iss="https://evil.example"), "another issuer"),
        (good_token(sub="system:node:n1"), "no service account"),
        (token(rsa_key("stranger"), kid="one", exp=time.time() + 60), "not that of a known key"),
    ],
)
async def test_whoever_proves_nothing_is_unauthenticated(service, lines, bearer, reason):
    """The peer is told nothing that would help it; the log says what was wrong."""
    assert await service.refusal(bearer=bearer) == ("UNAUTHENTICATED", "authentication failure")
    (line,) = events(lines, "caller_unauthenticated")
    assert reason in line["reason"]
    assert service.metrics.unauthenticated._value.get() == 1


async def test_a_flood_of_callers_does_not_fill_the_log(service, lines):
    """A host has some lines a minute; the metric counts all."""
    for _ in range(LINES + 2):
        assert (await service.refusal())[0] == "UNAUTHENTICATED"
    assert [line["left_out"] for line in events(lines, "caller_unauthenticated")] == [0] * LINES
    assert service.metrics.unauthenticated._value.get() == LINES + 2


async def test_a_certificate_of_another_authority_proves_nothing(service, nursery):
    """TLS itself refuses it."""
    stranger = Authority(nursery, Metrics(), own_root(rsa_key("other"), now=time.time()))
    await stranger.start()
    code, _ = await service.refusal(identity=await stranger.issue(ALICE))
    assert code == "UNAVAILABLE"


@pytest.mark.parametrize(
    ("pem", "lifetime", "reason"),
    [
        (b"nonsense", 0, "cannot be read"),
        (b"", 0, "cannot be read"),
        (csr(rsa_key("weak", 1024)), 0, "1024 bits"),
        (csr(ec_key("agent")), int(91 * DAY), "longer than"),
    ],
)
async def test_what_cannot_be_signed_is_an_invalid_argument(service, lines, pem, lifetime, reason):
    """The caller is known, so it is told why; the log says who it was."""
    code, details = await service.refusal(pem, bearer=good_token(), lifetime=lifetime)
    assert code == "INVALID_ARGUMENT"
    assert reason in details
    (line,) = events(lines, "csr_refused")
    assert line["identities"] == (ALICE,)


async def test_a_request_that_is_too_large(service, lines):
    """Nobody's key is that long."""
    code, _ = await service.refusal(b"x" * 100_000, bearer=good_token())
    assert code == "RESOURCE_EXHAUSTED"
    assert len(events(lines, "csr_refused")) == 1
    assert service.metrics.bad_csrs._value.get() == 1


# --- floods ----------------------------------------------------------------------------------------------------------
async def test_of_many_calls_only_some_are_worked_on_at_a_time(nursery):
    """The others wait in line: whoever else needs the thread waits for no more than a few."""
    signer = Mailbox("authority", flow=100)
    terms = Terms(
        authority=signer, metrics=Metrics(), identify=lambda _: Caller(identities=(ALICE,), proof=Proof.TOKEN),
        trusted=(), view=ConfigView, cluster=CLUSTER,
    )  # fmt: skip
    for _ in range(3 * ca_service.TURNS):
        nursery.start_soon(partial(ca_service.create_certificate, terms=terms), Port())
    await wait_all_tasks_blocked()
    for expected in (ca_service.TURNS, 1, 1):
        asked = [await signer.receive() for _ in range(expected)]
        assert signer.receive_nowait() is None
        with asked[0].reply as reply:
            reply.answer(SignedChain(serial=1, chain=(), not_after=0.0))
        await wait_all_tasks_blocked()
    nursery.cancel_scope.cancel()


class Port:
    """A call that has come whole, and whose caller takes any answer."""

    peer = SimpleNamespace(address="10.0.0.1:1")

    async def receive(self) -> bytes:
        """The request."""
        return encode(IstioCertificateRequest(csr=csr(ec_key("agent")).decode()))

    async def send(self, buffers) -> None:
        """Take the answer."""


# --- for others ------------------------------------------------------------------------------------------------------
def impersonating(wanted: str) -> Struct:
    """The metadata of a request for somebody else's certificate."""
    return Struct(fields={"ImpersonatedIdentity": Value(string_value=wanted)})


async def test_an_agent_of_the_node_gets_its_pods_certificates(service):
    """It is trusted with that, and Alice's pod runs on its node."""
    bearer = good_token(sub="system:serviceaccount:istio-system:ztunnel", **{"kubernetes.io": ZTUNNEL_POD})
    leaf, _ = await service.call(bearer=bearer, metadata=impersonating(ALICE))
    assert names(leaf) == [ALICE]


async def test_nobody_else_may_act_for_others(service, lines):
    """Alice asks for Bob's: unauthenticated, with an opaque text, and a line that says who wanted to be whom."""
    bob = "spiffe://cluster.local/ns/shop/sa/bob"
    code, details = await service.refusal(bearer=good_token(), metadata=impersonating(bob))
    assert (code, details) == ("UNAUTHENTICATED", "request impersonation authentication failure")
    (line,) = events(lines, "impersonation_refused")
    assert (line["caller"], line["wanted"]) == ((ALICE,), bob)


def _fail(crash: Exception) -> None:
    raise crash
