"""Certificates over ADS in the whole tree, with a real authority: whoever dies, each workload ends with one of its own
that verifies, and goes on getting new ones.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from envoy.extensions.transport_sockets.tls.v3.secret_pb2 import Secret
from envoy.service.discovery.v3 import discovery_pb2

from actors import ads_service
from protocol.errors import RemoteError
from protocol.xds.requests import DeltaRequest, SotwRequest
from protocol.xds.wire_requests import encode_delta_request, encode_sotw_request
from tests.actors.fake_stream import FakeStream, encode_node
from tests.actors.meshes import SHOP, routing
from tests.actors.system import SETTINGS, run_seeded, start_mesh
from trierarch.envoy.types import CLUSTER, SECRET
from trierarch.identity.authenticate import Caller, Proof

LIFETIME = 600.0
"""Seconds of a certificate."""

NAMES = ("ROOTCA", "default")
OFTEN = ("authority", "certificate_rotor", "identity", "connections", "push_scheduler", "generator", "snapshot_builder")
"""Those whose death matters here."""


class Workload:
    """A sidecar without an agent. `secrets` are those that it has, by name; `streams`: how many it had."""

    def __init__(self, name: str, ip: str, *, delta: bool) -> None:
        self.identity = f"spiffe://cluster.local/ns/shop/sa/{name}"
        self.delta = delta
        self.secrets: dict[str, Secret] = {}
        self.streams = 0
        self._node = encode_node(f"sidecar~{ip}~{name}-1.shop~shop.svc.cluster.local", TRIERARCH_SDS="ads")

    async def run(self, mesh) -> None:
        """Connect again and again."""
        while True:
            self.streams += 1
            stream = FakeStream(ads_service.DELTA_METHOD if self.delta else ads_service.SOTW_METHOD)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._serve, stream, mesh)
                    await self._ask(stream, CLUSTER, (), node=self._node)
                    await self._ask(stream, SECRET, NAMES)
                    await self._listen(stream)
            except* (trio.EndOfChannel, trio.BrokenResourceError):
                await trio.sleep(0.5)

    async def _serve(self, stream, mesh) -> None:
        caller = Caller(identities=(self.identity,), proof=Proof.TOKEN)
        serve = partial(ads_service.serve_stream, connections=mesh.system.shared.mail.connections)
        try:
            await serve(stream, metrics=mesh.system.shared.metrics, delta=self.delta, identify=lambda _: caller)
        except* RemoteError:
            pass
        finally:
            stream.reset()

    async def _listen(self, stream) -> None:
        kind = discovery_pb2.DeltaDiscoveryResponse if self.delta else discovery_pb2.DiscoveryResponse
        while True:
            response = kind.FromString(await stream.responses.receive())
            if response.type_url == SECRET:
                bodies = [each.resource if self.delta else each for each in response.resources]
                found = [Secret.FromString(body.value) for body in bodies]
                self.secrets |= {secret.name: secret for secret in found}
            names = NAMES if response.type_url == SECRET and not self.delta else ()
            await self._ask(stream, response.type_url, names, nonce=response.nonce)

    async def _ask(self, stream, type_url, names, **fields) -> None:
        if self.delta:
            request = encode_delta_request(DeltaRequest(type_url=type_url, subscribe=names, initial={}, **fields))
        else:
            request = encode_sotw_request(SotwRequest(type_url=type_url, names=names, **fields))
        await stream.requests.send(request)

    # --- what it has -------------------------------------------------------------------------------------------------
    @property
    def leaf(self) -> x509.Certificate:
        """Its certificate."""
        return x509.load_pem_x509_certificate(self.secrets["default"].tls_certificate.certificate_chain.inline_bytes)

    def check(self) -> None:
        """It has a certificate of its own, with its key, that its roots verify."""
        names = self.leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.UniformResourceIdentifier) == [self.identity]
        key = load_pem_private_key(self.secrets["default"].tls_certificate.private_key.inline_bytes, None)
        assert key.public_key() == self.leaf.public_key()
        (root,) = x509.load_pem_x509_certificates(self.secrets["ROOTCA"].validation_context.trusted_ca.inline_bytes)
        self.leaf.verify_directly_issued_by(root)


async def play(seed) -> None:
    """Kill at random, let everything come to rest, and wait for the next certificates."""
    dice = Random(seed)
    settings = replace(SETTINGS, secure_grpc_addr="127.0.0.1:0", workload_lifetime=LIFETIME)
    workloads = [Workload("web", "10.1.0.1", delta=True), Workload("cart", "10.1.0.2", delta=False)]
    async with trio.open_nursery() as nursery:
        mesh = await start_mesh(nursery, SHOP, settings=settings, patient=True)
        for workload in workloads:
            nursery.start_soon(workload.run, mesh)
        while not all(workload.secrets for workload in workloads):
            await trio.sleep(1.0)  # the authority makes its key in a thread, and virtual time does not wait for that
        for step in range(20):
            children = [child.name for child in mesh.system.shared.handle.statistics()]
            mesh.system.shared.handle.kill(dice.choice([*children, *OFTEN]))
            mesh.edit(routing(step + 1))
            await trio.sleep(dice.choice((0.0, 0.01, 0.3, 3.0)))
        await mesh.settle()
        before = [(workload.streams, workload.leaf.serial_number) for workload in workloads]
        await trio.sleep(LIFETIME * 0.6)
        for workload, (streams, serial) in zip(workloads, before, strict=True):
            workload.check()
            assert workload.streams == streams, "nobody had to come again"
            assert workload.leaf.serial_number != serial, "half of its life has passed"
        nursery.cancel_scope.cancel()


def seeds():
    """Sixty; most are only for those who have time."""
    return [pytest.param(seed, marks=() if seed < 4 else pytest.mark.slow) for seed in range(60)]


@pytest.mark.parametrize("seed", seeds())
def test_whoever_dies(seed):
    """In the end each workload has a certificate of its own, and the next one comes in time, over the same stream."""
    run_seeded(seed, play, seed)
