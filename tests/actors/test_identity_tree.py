"""Whoever deals with identities, in the whole tree under its supervisors, with real time: the port is a real one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import grpc
import pytest
import trio

import supervisor
from actors.identity_messages import IssueIdentity, RootsAsked
from actors.mailbox import ask
from protocol.codec import decode, encode
from protocol.csr import METHOD, IstioCertificateRequest, IstioCertificateResponse
from tests.actors.system import SETTINGS, SOURCE, World
from tests.identity.authorities import csr, ec_key
from trierarch.identity.pem import read_certificates

PATIENCE = 20
MESH = "MeshConfig /mesh: {trustDomain: example.org}"
ALICE = "spiffe://example.org/ns/shop/sa/alice"
NAME = "istiod.istio-system.svc"


@dataclass
class Plane:
    """A control plane with a secure port."""

    system: supervisor.System

    async def roots(self) -> bytes:
        """Whom to trust."""
        answer = await ask(self.system.shared.mail.authority, lambda reply: RootsAsked(reply=reply))
        return answer.roots_pem

    async def sign(self) -> list[str]:
        """Alice asks for a certificate with the one that she has."""
        own = await ask(
            self.system.shared.mail.authority, lambda reply: IssueIdentity(identities=(ALICE,), reply=reply)
        )
        while not self.system.secure.bound:
            await trio.sleep(0.01)
        port = self.system.secure.bound.rpartition(":")[2]
        return await trio.to_thread.run_sync(_call, port, own, abandon_on_cancel=True)

    async def kill(self, name: str) -> None:
        """Kill an actor and wait until its successor is up."""
        before = self.restarts(name)
        assert self.system.shared.handle.kill(name)
        while self.restarts(name) == before:
            await trio.sleep(0.01)

    def restarts(self, name: str) -> int:
        """How often an actor was restarted."""
        return sum(child.restarts for child in self.system.shared.handle.statistics() if child.name == name)


def _call(port: str, own, pem: bytes = csr(ec_key("agent"))) -> list[str]:
    credentials = grpc.ssl_channel_credentials(own.roots_pem, own.key_pem, own.chain_pem)
    options = [("grpc.ssl_target_name_override", NAME)]
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
        request = encode(IstioCertificateRequest(csr=pem.decode()))
        answer = channel.unary_unary(METHOD)(request, timeout=PATIENCE, wait_for_ready=True)
    return decode(IstioCertificateResponse, answer).cert_chain


@pytest.fixture
async def plane(nursery) -> Plane:
    """A control plane of a mesh that is called example.org."""
    settings = replace(SETTINGS, secure_grpc_addr="127.0.0.1:0", root_ca_dir="/nowhere")
    source = supervisor.SourceSpec(name=SOURCE, start=World(MESH).run)
    system = supervisor.build_system(settings, (source,))
    await nursery.start(supervisor.run, system)
    return Plane(system)


async def test_the_root_bears_the_name_of_the_mesh(plane):
    """The authority waits for the first snapshot, which says what the mesh is called."""
    with trio.fail_after(PATIENCE):
        (root,) = read_certificates(await plane.roots())
    assert root.subject.rfc4514_string() == "O=example.org"


async def test_deaths_lose_nothing(plane):
    """Each of them is killed once: the root stays the same, and certificates are signed as before."""
    with trio.fail_after(3 * PATIENCE):
        roots = await plane.roots()
        for name in ("authority", "certificate_rotor", "secure_grpc"):
            await plane.kill(name)
            leaf, known = await plane.sign()
            assert known.encode() == roots == await plane.roots()
            assert ALICE in str(read_certificates(leaf.encode())[0].extensions)
