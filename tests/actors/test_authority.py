"""The certificate authority as an actor: its modes, what it survives, what it tells whom."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from actors import authority
from actors.authority import Memory, Options, Outlets
from actors.authority_files import KEPT, BadAuthority, InMemory, Kept, Plugged, plan_source
from actors.identity_messages import AuthorityChanged, IssueIdentity, LookAgain, RootsAsked, SigningRefused, SignRequest
from actors.mailbox import Mailbox, ask
from actors.metrics import Metrics
from tests.identity.authorities import ALICE, DAY, NOW, csr, ec_key, own_root, plain_bundle, rsa_key
from trierarch.identity.authority import moment
from trierarch.identity.bundle import dump_root
from trierarch.identity.csr_request import read_csr
from trierarch.identity.leaf import Lifetimes
from trierarch.identity.pem import read_certificates
from trierarch.settings import Settings

OPTIONS = Options(
    source=InMemory(),
    lifetimes=Lifetimes(default=DAY, longest=90 * DAY),
    root_lifetime=3650 * DAY,
    key_size=2048,
    check_interval=3600.0,
    grace=0.2,
    jitter=False,
    multiroot=False,
    crl=True,
)


@dataclass
class Running:
    """The actor, its mailbox, and what it tells."""

    nursery: trio.Nursery
    options: Options
    memory: Memory
    inbox: Mailbox = field(default_factory=lambda: Mailbox("authority"))
    told: list[AuthorityChanged] = field(default_factory=list)
    now: float = NOW
    life: trio.CancelScope = field(default_factory=trio.CancelScope)

    async def start(self) -> None:
        """Begin a life; it has an authority when this returns."""
        self.life = trio.CancelScope()
        ready = trio.Event()
        ready.set()
        outlets = Outlets(
            tell=(self.told.append,),
            metrics=Metrics(),
            trust_domain=lambda: "cluster.local",
            wall=lambda: self.now + trio.current_time() - self.began,
        )
        self.began = trio.current_time()

        async def live(*, task_status) -> None:
            with self.life:
                await authority.run(
                    self.inbox, options=self.options, memory=self.memory, outlets=outlets, ready=ready,
                    task_status=task_status,
                )  # fmt: skip

        await self.nursery.start(live)
        await self.roots()

    async def kill(self) -> None:
        """End this life as a crash would, and begin the next."""
        self.life.cancel()
        await self.start()

    async def roots(self) -> AuthorityChanged:
        """Whom to trust."""
        return await ask(self.inbox, lambda reply: RootsAsked(reply=reply))

    async def issue(self, *identities: str, lifetime: float = 0.0):
        """A key and its certificate."""
        return await ask(self.inbox, lambda reply: IssueIdentity(identities=identities, lifetime=lifetime, reply=reply))

    async def sign(self, pem: bytes | str, lifetime: float = 0.0):
        """An answer to a signing request of Alice's; text is passed on as it is."""
        read = read_csr(pem) if isinstance(pem, bytes) else pem
        return await ask(
            self.inbox, lambda reply: SignRequest(csr=read, identities=(ALICE,), lifetime=lifetime, reply=reply)
        )

    async def look_again(self) -> AuthorityChanged:
        """Have the actor look at its files now."""
        await self.inbox.send(LookAgain())
        return await self.roots()


@pytest.fixture
async def start(nursery):
    """Start an authority with other options, its memory as if it had been running."""

    async def start_authority(source=InMemory(), *, known=None, **changes) -> Running:  # noqa: B008 - a constant
        memory = Memory(authority=known, number=1 if known else 0)
        running = Running(nursery, replace(OPTIONS, source=source, **changes), memory)
        await running.start()
        return running

    return start_authority


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """Files in a folder, as a mounted Secret has them."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


# --- in memory -------------------------------------------------------------------------------------------------------
async def test_a_root_in_memory_survives_a_crash(start, autojump_clock):
    """What the actor owns lies in its memory: the successor signs with the same key, under the same root."""
    running = await start(known=own_root())
    before, first = await running.roots(), await running.issue(ALICE)
    await running.kill()
    assert await running.roots() == before
    assert (await running.issue(ALICE)).roots_pem == first.roots_pem


async def test_questions_wait_for_the_successor(start, autojump_clock):
    """A question that is asked while nobody is there is answered by whoever comes next."""
    running = await start(known=own_root())
    running.life.cancel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(running.issue, ALICE)
        await trio.sleep(1)
        await running.start()


async def test_whom_to_trust_is_told_again_after_a_crash(start, autojump_clock):
    """Whoever held the news may have died with it; the same number says that nothing is new."""
    running = await start(known=own_root())
    await running.kill()
    assert [each.number for each in running.told] == [1, 1]


async def test_a_root_is_made_if_there_is_none(start):
    """RSA of the size that was asked for, ten years, the trust domain as its organization."""
    running = await start()
    (root,) = read_certificates((await running.roots()).roots_pem)
    assert (root.public_key().key_size, root.subject.rfc4514_string()) == (2048, "O=cluster.local")
    assert root.not_valid_after_utc.timestamp() == pytest.approx(NOW + 3650 * DAY, abs=60)
    assert [each.number for each in running.told] == [1]


async def test_the_root_is_renewed_when_a_fifth_of_its_life_is_left(start, autojump_clock):
    """With the same key; the look comes once in an hour, and everybody is told."""
    running = await start(known=own_root(now=NOW - 81 * DAY, lifetime=100 * DAY))
    before = read_certificates((await running.roots()).roots_pem)
    await trio.sleep(3600 + 1)
    after = read_certificates((await running.roots()).roots_pem)
    assert after != before
    assert after[0].public_key() == before[0].public_key()
    assert [each.number for each in running.told] == [1, 2]


async def test_a_young_root_is_left_alone(start, autojump_clock):
    """Nothing is renewed before it is due."""
    running = await start(known=own_root(now=NOW - 79 * DAY, lifetime=100 * DAY))
    await trio.sleep(20 * 3600)
    assert running.memory.number == 1


# --- kept in a folder ------------------------------------------------------------------------------------------------
async def test_a_kept_root_is_there_after_the_process_ends(start, tmp_path):
    """Another process that finds the folder goes on with the same root."""
    first = await start(Kept(tmp_path / "ca"))
    second = await start(Kept(tmp_path / "ca"))
    assert (await first.roots()).roots_pem == (await second.roots()).roots_pem
    assert (tmp_path / "ca" / "root-cert.pem").read_bytes() == (await first.roots()).roots_pem


async def test_nobody_else_can_read_a_kept_key(start, tmp_path):
    """The file has mode 0600, its folder 0700, and nothing else is left in it."""
    await start(Kept(tmp_path / "ca"))
    assert (tmp_path / "ca").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "ca" / KEPT).stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in (tmp_path / "ca").iterdir()) == ["root-cert.pem", "root.pem"]


async def test_of_two_that_make_a_root_at_once_one_wins(start, tmp_path):
    """Whoever comes second goes by the first's."""
    winner = own_root(rsa_key("winner"))
    running = await start(Kept(tmp_path / "ca"))
    first = (await running.roots()).roots_pem
    assert not authority.keep(tmp_path / "ca", winner, replaces=False)
    assert (await running.look_again()).roots_pem == first


async def test_another_process_may_have_renewed_the_root(start, tmp_path):
    """What lies in the folder is used: it was kept before it was used."""
    old = own_root()
    authority.keep(tmp_path / "ca", old, replaces=True)
    running = await start(Kept(tmp_path / "ca"))
    new = authority.renew_root(old, now=NOW, lifetime=5000 * DAY, serial=77)
    authority.keep(tmp_path / "ca", new, replaces=True)
    assert (await running.look_again()).roots_pem == new.roots_pem


async def test_a_renewed_root_is_kept(start, tmp_path):
    """It is written before anybody is told."""
    authority.keep(tmp_path / "ca", own_root(now=NOW - 90 * DAY, lifetime=100 * DAY), replaces=True)
    running = await start(Kept(tmp_path / "ca"), check_interval=0.01)
    with trio.fail_after(5):
        while running.memory.number < 2:
            await running.look_again()
    assert (tmp_path / "ca" / "root-cert.pem").read_bytes() == (await running.roots()).roots_pem


async def test_a_kept_root_that_is_deleted(start, tmp_path, lines):
    """It stays in force, and somebody should know that it will end with the process."""
    running = await start(Kept(tmp_path / "ca"))
    before = await running.roots()
    (tmp_path / "ca" / KEPT).unlink()
    assert await running.look_again() == await running.look_again() == before
    assert [line["reason"] for line in lines if line["event"] == "authority_rejected"] == ["its files are gone"]


async def test_a_kept_key_that_everybody_can_read_is_not_used(start, tmp_path):
    """Nothing that it signs would prove anything."""
    folder = write(tmp_path / "ca", {KEPT: dump_root(own_root())})
    (folder / KEPT).chmod(0o644)
    with pytest.raises(ExceptionGroup) as caught:
        async with trio.open_nursery() as nursery:
            await Running(nursery, replace(OPTIONS, source=Kept(folder)), Memory()).start()
    assert caught.group_contains(BadAuthority, match="chmod 600")


async def test_further_roots_are_trusted_too(start, tmp_path):
    """A root file by itself in the folder for plugged-in authorities adds its roots to our own."""
    other = own_root(rsa_key("other"))
    folder = write(tmp_path / "cacerts", {"root-cert.pem": other.roots_pem})
    running = await start(InMemory((folder,)), known=own_root())
    assert (await running.look_again()).roots_pem == own_root().roots_pem + other.roots_pem


# --- plugged in ------------------------------------------------------------------------------------------------------
async def test_an_intermediate_is_swapped_while_it_signs(start, tmp_path):
    """Old and new leaves verify under the same root; everybody is told that the signer is another."""
    root = own_root()
    folder = write(tmp_path / "cacerts", plain_bundle("one", root))
    running = await start(Plugged(folder))
    before = await running.issue(ALICE)
    write(folder, plain_bundle("two", root))
    with trio.fail_after(5):
        while running.memory.number < 2:
            await trio.sleep(0.02)
    after = await running.issue(ALICE)
    assert before.roots_pem == after.roots_pem
    assert [_issuer(each) for each in (before, after)] == ["CN=one", "CN=two"]


async def test_a_torn_swap_leaves_the_old_signer(start, tmp_path):
    """A key without its certificate is said to be wrong once, and not used."""
    root = own_root()
    folder = write(tmp_path / "cacerts", plain_bundle("one", root))
    running = await start(Plugged(folder))
    write(folder, {"ca-key.pem": plain_bundle("two", root)["ca-key.pem"]})
    await running.look_again()
    assert _issuer(await running.issue(ALICE)) == "CN=one"


async def test_other_roots_are_not_gone_by(start, tmp_path):
    """Half of the mesh would not trust the other half."""
    folder = write(tmp_path / "cacerts", plain_bundle("one", own_root()))
    running = await start(Plugged(folder))
    write(folder, plain_bundle("two", own_root(rsa_key("other"))))
    await running.look_again()
    assert running.memory.number == 1


async def test_roots_may_become_more_if_several_are_allowed(start, tmp_path):
    """First trust both, then sign with the new one: ISTIO_MULTIROOT_MESH."""
    root, other = own_root(), own_root(rsa_key("other"))
    folder = write(tmp_path / "cacerts", plain_bundle("one", root))
    running = await start(Plugged(folder), multiroot=True)
    write(folder, {"root-cert.pem": root.roots_pem + other.roots_pem})
    assert len(read_certificates((await running.look_again()).roots_pem)) == 2


@pytest.mark.parametrize("passed_on", [True, False])
async def test_what_the_authority_has_revoked(start, tmp_path, passed_on):
    """A list that appears is passed on with the roots; with PILOT_ENABLE_CA_CRL off it is not looked at."""
    root = own_root()
    folder = write(tmp_path / "cacerts", plain_bundle("one", root))
    running = await start(Plugged(folder), crl=passed_on)
    revoked = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(root.certificate.subject)
        .last_update(moment(NOW))
        .next_update(moment(NOW + DAY))
        .sign(root.key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    write(folder, {"ca-crl.pem": revoked})
    told = await running.look_again()
    assert (told.crl_pem, told.number) == ((revoked, 2) if passed_on else (b"", 1))


async def test_a_plugged_authority_survives_a_crash_without_its_files(start, tmp_path):
    """The files may be half-written at the very moment."""
    folder = write(tmp_path / "cacerts", plain_bundle("one", own_root()))
    running = await start(Plugged(folder))
    before = await running.roots()
    (folder / "ca-key.pem").unlink()
    await running.kill()
    assert await running.roots() == before


# --- answers ---------------------------------------------------------------------------------------------------------
async def test_an_answer_to_a_signing_request(start, autojump_clock):
    """The leaf, then the roots; the name is the caller's, whatever the request says."""
    evil = x509.UniformResourceIdentifier("spiffe://cluster.local/ns/shop/sa/evil")
    running = await start(known=own_root())
    answer = await running.sign(csr(ec_key("workload"), evil), lifetime=60)
    leaf, roots = (read_certificates(each.encode()) for each in answer.chain)
    names = leaf[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [ALICE]
    assert roots == own_root().roots


async def test_a_refusal_is_an_answer(start, autojump_clock):
    """What asks for more than it may is refused with INVALID_ARGUMENT, and the next one is signed."""
    running = await start(known=own_root())
    refused = await running.sign(csr(ec_key("workload")), 91 * DAY)
    assert isinstance(refused, SigningRefused)
    assert refused.code == 3
    assert not isinstance(await running.sign(csr(ec_key("workload"))), SigningRefused)


async def test_a_bug_costs_one_question(start, autojump_clock, lines):
    """Questions are repeated until they are answered: one that crashes the actor would end the process at last."""
    running = await start(known=own_root())
    refused = await running.sign("nothing that can be signed")
    assert refused.code == 13
    assert [line["log_level"] for line in lines if line["event"] == "signing_failed"] == ["error"]
    assert not isinstance(await running.sign(csr(ec_key("workload"))), SigningRefused)


async def test_our_own_process_may_have_more_than_a_workload(start, autojump_clock):
    """The certificate of the control plane itself lives as long as the root, and no longer."""
    running = await start(known=own_root())
    issued = await running.issue("istiod.istio-system.svc", "10.0.0.1", lifetime=9999 * DAY)
    assert issued.not_after == own_root().expires


async def test_no_key_is_shown(start, autojump_clock):
    """Neither what is issued nor what signs shows a key when it is printed."""
    running = await start(known=own_root())
    issued = await running.issue(ALICE)
    assert b"PRIVATE KEY" in issued.key_pem
    for shown in (repr(issued), repr(running.memory), str(running.memory.authority)):
        assert "PRIVATE" not in shown
        assert "Key object" not in shown


# --- what there is to begin with ------------------------------------------------------------------------------------
def test_which_authority_there_will_be(tmp_path):
    """Plugged in if a bundle is there, else kept if a folder is named, else in memory."""
    folder = write(tmp_path / "cacerts", {})
    settings = Settings(root_ca_dir=str(folder))
    assert plan_source(settings) == InMemory((folder,))
    assert plan_source(replace(settings, ca_folder="/var/ca")) == Kept(Path("/var/ca"), (folder,))
    assert plan_source(Settings(root_ca_dir=str(tmp_path / "nowhere"))) == InMemory()
    write(folder, plain_bundle("one", own_root()))
    assert plan_source(replace(settings, ca_folder="/var/ca")) == Plugged(folder)


def test_half_a_bundle_is_an_error(tmp_path):
    """It says which file is missing, instead of making another root."""
    bundle = plain_bundle("one", own_root())
    del bundle["ca-key.pem"]
    with pytest.raises(BadAuthority, match=r"no ca-key\.pem"):
        plan_source(Settings(root_ca_dir=str(write(tmp_path / "cacerts", bundle))))


def _issuer(issued) -> str:
    return read_certificates(issued.chain_pem)[0].issuer.rfc4514_string()
