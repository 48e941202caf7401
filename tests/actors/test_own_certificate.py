"""A connection that gives its client a certificate over ADS: to whom, when again, and through which deaths."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors.identity_messages import AuthorityChanged, IssuedIdentity, IssueIdentity, SigningRefused
from actors.messages import TrustChanged
from actors.own_certificate import RETRY, ROOTS_FIRST, trust_cause
from protocol.codec import decode
from protocol.proto.envoy.extensions.transport_sockets.tls.v3 import Secret
from protocol.xds.resources import Part, ResourceSet, build_resource
from tests.actors.certificates import LIFETIME, PlayedAuthority
from tests.actors.connection_stage import Stage
from tests.actors.fake_stream import encode_node
from trierarch.envoy.types import CLUSTER, LISTENER, SECRET
from trierarch.identity.authenticate import Caller, Proof

ID = "sidecar~10.1.0.1~web-1.shop~shop.svc.cluster.local"
IDENTITY = "spiffe://cluster.local/ns/shop/sa/web"
NODE = encode_node(ID, TRIERARCH_SDS="ads", SERVICE_ACCOUNT="web")


def caller(*identities):
    """Somebody who has proved to be these."""
    return Caller(identities=identities, proof=Proof.TOKEN)


class Workload(Stage):
    """A connection whose client has proved who it is, and an authority that answers when it is let."""

    name_of = staticmethod(bytes.hex)

    def __init__(self, *identities) -> None:
        self.authority = PlayedAuthority()
        super().__init__(self.authority.mailbox, caller(*identities) if identities else None)

    async def settle(self):
        """What the client was sent of secrets by now, by name, all acknowledged."""
        found = {}
        for response in await self.responses():
            if response.type_url == SECRET:
                found |= {secret.name: secret for secret in (decode(Secret, each) for each in bodies(response))}
                await self.request(SECRET, "default", "ROOTCA", nonce=response.nonce, version=response.version)
        return found

    async def secret_records(self):
        """What the journal was told by now of pushes with secrets."""
        return [each for each in await self.records() if any(item.short == "SDS" for item in each.sent)]

    def trust(self, roots, number):
        """The factory passes on that there are other roots."""
        self.authority.roots, self.authority.number = roots, number
        changed = AuthorityChanged(roots_pem=roots, number=number)
        self.inbox.post(TrustChanged(authority=changed, cause=trust_cause(90)))


def bodies(response):
    """The encoded resources of a decoded response."""
    return response.bodies.values()


def serial(secrets):
    """Which certificate it is."""
    return bytes(secrets["default"].tls_certificate.certificate_chain.inline_bytes).decode()


async def start(nursery, *identities, node=NODE, serving=True):
    """A client that is served and asked for both secrets; `serving`: the authority answers."""
    stage = Workload(*identities)
    await stage.start(nursery)
    if serving:
        nursery.start_soon(stage.authority.run)
    await stage.request(CLUSTER, node=node)
    await stage.welcome()
    await stage.request(SECRET, "default", "ROOTCA")
    return stage


# --- who gets one ----------------------------------------------------------------------------------------------------
async def test_who_has_proved_an_identity_gets_its_certificate(nursery, autojump_clock):
    """Key, chain and roots, issued for the identity that was proved; the record says why they were sent."""
    stage = await start(nursery, IDENTITY)
    secrets = await stage.settle()
    assert stage.authority.issued == [IDENTITY]
    assert secrets["default"].tls_certificate.private_key.inline_bytes == f"key 1 of {IDENTITY}".encode()
    assert serial(secrets) == f"chain 1 of {IDENTITY}"
    assert secrets["ROOTCA"].validation_context.trusted_ca.inline_bytes == b"roots 1"
    (record,) = await stage.secret_records()
    (cause,) = record.causes.kept
    assert (cause.kind, cause.namespace, cause.name, cause.event) == ("Secret", "shop", "default", "issued")


async def test_a_client_that_proved_nothing_gets_nothing(nursery, autojump_clock, lines):
    """On plaintext there is no identity: the authority is not even asked, and the log says so once."""
    stage = await start(nursery)
    assert await stage.settle() == {}
    assert stage.authority.issued == []
    assert [line["event"] for line in lines].count("secrets_withheld") == 1


@pytest.mark.parametrize(
    "metadata", [{"TRIERARCH_SDS": "files"}, {"TRIERARCH_SDS": "none"}, {}, {"ISTIO_VERSION": "1.28.0"}]
)
async def test_who_has_certificates_elsewhere_gets_none(nursery, autojump_clock, metadata):
    """A key is not made for a proxy that did not say that it wants it from here, nor for one with an agent."""
    stage = await start(nursery, IDENTITY, node=encode_node(ID, **metadata))
    assert (await stage.settle(), stage.authority.issued) == ({}, [])


async def test_other_names_are_never_answered(nursery, autojump_clock):
    """Not those of other workloads, nor any that nobody knows; and they make nobody issue anything."""
    stage = Workload(IDENTITY)
    await stage.start(nursery)
    nursery.start_soon(stage.authority.run)
    await stage.request(SECRET, "spiffe://cluster.local/ns/bank/sa/vault", "kubernetes://cert", node=NODE)
    await stage.welcome()
    assert (await stage.settle(), stage.authority.issued) == ({}, [])


@pytest.mark.parametrize(
    ("identity", "claims"),
    [
        ("spiffe://cluster.local/ns/bank/sa/web", {"SERVICE_ACCOUNT": "web"}),
        ("spiffe://cluster.local/ns/shop/sa/vault", {"SERVICE_ACCOUNT": "web"}),
        ("spiffe://cluster.local/ns/shop/sa/web", {"NAMESPACE": "bank"}),
        ("https://shop/web", {}),
    ],
)
async def test_a_client_that_claims_what_it_did_not_prove(nursery, identity, claims, lines):
    """It is refused with PERMISSION_DENIED, before anything of the mesh is sent, and the log has both sides."""
    stage = await start(nursery, identity, node=encode_node(ID, TRIERARCH_SDS="ads", **claims), serving=False)
    assert stage.status.code == 7
    assert await stage.responses() == []
    (line,) = [line for line in lines if line["event"] == "stream_refused"]
    assert identity in line["reason"]


async def test_of_several_identities_the_claimed_one_counts(nursery, autojump_clock):
    """A certificate is issued for that one alone."""
    stage = await start(nursery, "spiffe://cluster.local/ns/bank/sa/vault", IDENTITY)
    await stage.settle()
    assert stage.authority.issued == [IDENTITY]


async def test_without_the_check_nobody_has_an_identity(nursery, autojump_clock):
    """As in istiod: PILOT_ENABLE_XDS_IDENTITY_CHECK=false serves who claims what it likes, but no secrets."""
    stage = Workload("spiffe://cluster.local/ns/bank/sa/vault")
    stage.outlets = replace(stage.outlets, checks_identity=False)
    await stage.start(nursery)
    nursery.start_soon(stage.authority.run)
    await stage.request(SECRET, "default", node=NODE)
    await stage.welcome()
    assert (stage.status, await stage.settle(), stage.authority.issued) == (None, {}, [])


# --- when the next one comes -----------------------------------------------------------------------------------------
async def test_half_of_its_life_later_there_is_a_new_one(nursery, autojump_clock):
    """Pushed unasked, with a cause; the roots have not changed and are not sent again."""
    stage = await start(nursery, IDENTITY)
    await stage.settle()
    await stage.told(stage.journal)
    await trio.sleep(LIFETIME / 2 + 1)
    secrets = await stage.settle()
    assert serial(secrets) == f"chain 2 of {IDENTITY}"
    assert secrets.keys() == {"default"}
    (record,) = await stage.secret_records()
    assert [cause.event for cause in record.causes.kept] == ["renewed"]


async def test_who_no_longer_asks_has_none_renewed(nursery, autojump_clock):
    """An unsubscribed client costs nothing."""
    stage = await start(nursery, IDENTITY)
    await stage.settle()
    await stage.request(SECRET, nonce=stage.slot.session.watches[SECRET].nonce)
    await trio.sleep(LIFETIME * 2)
    assert len(stage.authority.issued) == 1


async def test_new_roots_go_first_and_leaves_follow(nursery, autojump_clock):
    """At once everybody trusts the new roots; the certificate that only they verify comes when everybody does."""
    stage = await start(nursery, IDENTITY)
    await stage.settle()
    stage.trust(b"roots 1 roots 2", 2)
    secrets = await stage.settle()
    assert secrets.keys() == {"ROOTCA"}
    assert secrets["ROOTCA"].validation_context.trusted_ca.inline_bytes == b"roots 1 roots 2"
    await trio.sleep(ROOTS_FIRST * 2)
    assert (await stage.settle()).keys() == {"default"}
    assert (await stage.secret_records())[-2].causes.kept[0].name == "ROOTCA"


async def test_the_same_roots_again_change_nothing(nursery, autojump_clock):
    """A restarted authority says again what everybody knows."""
    stage = await start(nursery, IDENTITY)
    await stage.settle()
    stage.trust(b"roots 1", 1)
    await trio.sleep(ROOTS_FIRST * 3)
    assert await stage.settle() == {}
    assert len(stage.authority.issued) == 1


# --- when somebody does not answer -----------------------------------------------------------------------------------
async def test_nobody_waits_for_the_authority(nursery, autojump_clock):
    """While it is busy or away everything else is served; its answer comes when it comes."""
    stage = await start(nursery, IDENTITY, serving=False)
    await stage.responses()
    await stage.request(LISTENER)
    assert [each.type_url for each in await stage.responses()] == [LISTENER]
    await trio.sleep(300)
    nursery.start_soon(stage.authority.run)
    assert serial(await stage.settle()) == f"chain 1 of {IDENTITY}"


@pytest.mark.parametrize("refuses", [True, False])
async def test_it_is_asked_again(nursery, autojump_clock, refuses, lines):
    """After a while, whether it refused or died over the question."""
    stage = await start(nursery, IDENTITY, serving=False)
    question = await stage.authority.mailbox.receive()
    assert isinstance(question, IssueIdentity)
    with question.reply as reply:
        if refuses:
            reply.answer(SigningRefused(code=13, reason="no key"))
    nursery.start_soon(stage.authority.run)
    await wait_all_tasks_blocked()
    assert stage.authority.issued == []
    await trio.sleep(RETRY)
    assert serial(await stage.settle()) == f"chain 1 of {IDENTITY}"
    assert [line["event"] for line in lines].count("certificate_refused") == refuses


# --- when the connection dies ----------------------------------------------------------------------------------------
async def test_a_restarted_connection_goes_on_with_the_certificate_of_its_client(nursery, autojump_clock):
    """It sends it again, for nobody knows what arrived, has no other one issued, and renews it in time."""
    stage = await start(nursery, IDENTITY)
    before = serial(await stage.settle())
    stage.life.cancel()
    await wait_all_tasks_blocked()
    await stage.start(nursery)
    await stage.welcome()
    assert serial(await stage.settle()) == before
    await trio.sleep(LIFETIME / 2 + 1)
    assert serial(await stage.settle()) == f"chain 2 of {IDENTITY}"


async def test_an_answer_to_a_dead_connection_reaches_its_successor(nursery, autojump_clock):
    """It was killed while the authority was thinking."""
    stage = await start(nursery, IDENTITY, serving=False)
    stage.life.cancel()
    await wait_all_tasks_blocked()
    await stage.start(nursery)
    await stage.welcome()
    nursery.start_soon(stage.authority.run)
    assert serial(await stage.settle()) == f"chain 1 of {IDENTITY}"
    assert len(stage.authority.issued) == 1


async def test_its_own_secrets_stand_beside_those_of_its_view(nursery, autojump_clock):
    """What the generator has of secrets for everybody with that view is sent too; its own are in no view."""
    stage = Workload(IDENTITY)
    stage.world[SECRET] = ResourceSet(Part((build_resource("shared", bytes(Secret(name="shared"))),)))
    await stage.start(nursery)
    nursery.start_soon(stage.authority.run)
    await stage.request(SECRET, "default", "shared", node=NODE)
    await stage.welcome()
    names = {decode(Secret, each).name for response in await stage.responses() for each in bodies(response)}
    assert names == {"default", "shared"}
    assert {each.name for each in stage.world[SECRET]} == {"shared"}


async def test_debug_types_are_not_refused_to_who_has_an_identity(nursery):
    """They are not served either: the stream goes on."""
    stage = Workload(IDENTITY)
    await stage.start(nursery)
    await stage.request("istio.io/debug/syncz", node=NODE)
    assert stage.status is None


def test_a_key_is_in_no_representation():
    """Whatever is logged of a slot or a message, the key is not in it."""
    issued = IssuedIdentity(key_pem=b"SECRET", chain_pem=b"", roots_pem=b"", not_after=0)
    assert "SECRET" not in repr(issued)
