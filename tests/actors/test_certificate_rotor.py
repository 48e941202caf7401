"""The certificate rotor alone: what it serves with, when it changes that, and what it does with a bad certificate."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import certificate_rotor
from actors.certificate_rotor import LOOK, RETRY, FromFiles, Issued, plan_origin, serving_names
from actors.identity_messages import AuthorityChanged, IssuedIdentity, RootsAsked, SigningRefused
from actors.mailbox import Mailbox
from actors.serving_tls import ServingTls
from tests.actors.certificates import LIFETIME, wall
from tests.envoy.certificates import CERTIFICATE, KEY, ROOTS, Authority
from trierarch.settings import Settings

NAMES = ("istiod.istio-system.svc",)


class Stage:
    """The rotor and an authority that answers. `asked`: names that it was asked for; `contexts`: what was served."""

    def __init__(self, folder, origin=Issued(NAMES)) -> None:  # noqa: B008 - immutable
        self.folder, self.origin = folder, origin
        self.inbox, self.authority, self.tls = Mailbox("rotor"), Mailbox("authority"), ServingTls()
        self.number, self.refusals, self.asked, self.contexts = 1, 0, [], []
        self.life = trio.CancelScope()
        self._pki = Authority()
        change = self.tls.change
        self.tls.change = lambda context: (self.contexts.append(context), change(context))

    def issue(self):
        """Key, chain and roots of a new certificate."""
        self._pki.issue("spiffe://cluster.local/ns/istio-system/sa/istiod", self.folder, *NAMES)
        return [(self.folder / name).read_bytes() for name in (KEY, CERTIFICATE, ROOTS)]

    async def start(self, nursery):
        """One life, and the authority."""
        nursery.start_soon(self._answer)
        await nursery.start(self.live)
        await wait_all_tasks_blocked(0.01)

    async def live(self, *, task_status):
        """One life."""
        outlets = certificate_rotor.Outlets(authority=self.authority, tls=self.tls, wall=wall, chance=lambda: 0.5)
        self.life = trio.CancelScope()
        with self.life:
            await certificate_rotor.run(self.inbox, origin=self.origin, outlets=outlets, task_status=task_status)

    async def _answer(self):
        while True:
            question = await self.authority.receive()
            with question.reply as reply:
                reply.answer(self._answer_to(question))

    def _answer_to(self, question):
        if isinstance(question, RootsAsked):
            return AuthorityChanged(roots_pem=self.issue()[2], number=self.number)
        self.asked.append(question.identities)
        if self.refusals:
            self.refusals -= 1
            return SigningRefused(code=13, reason="not now")
        key, chain, roots = self.issue()
        return IssuedIdentity(
            key_pem=key, chain_pem=chain, roots_pem=roots, number=self.number,
            not_after=wall() + LIFETIME,
        )  # fmt: skip

    async def change(self, number):
        """The authority says whom to trust."""
        self.number = number
        self.inbox.post(AuthorityChanged(roots_pem=b"", number=number))
        await wait_all_tasks_blocked(0.01)


# --- issued by the mesh's own authority ------------------------------------------------------------------------------
async def test_a_certificate_is_there_at_once_and_renewed_in_time(nursery, tmp_path, autojump_clock):
    """Half of its life later there is another one."""
    stage = Stage(tmp_path)
    await stage.start(nursery)
    assert stage.tls.available.is_set()
    assert stage.asked == [NAMES]
    await trio.sleep(LIFETIME / 2 + 1)
    assert len(stage.contexts) == 2
    assert stage.tls.current() is stage.contexts[-1]


async def test_others_to_trust_mean_another_certificate(nursery, tmp_path, autojump_clock):
    """At once; but not for an authority that only says again what it said."""
    stage = Stage(tmp_path)
    await stage.start(nursery)
    await stage.change(1)
    assert len(stage.contexts) == 1
    await stage.change(2)
    assert len(stage.contexts) == 2


async def test_a_refusal_is_tried_again(nursery, tmp_path, autojump_clock, lines):
    """Until then there is no port, or the certificate before stays."""
    stage = Stage(tmp_path)
    stage.refusals = 2
    await stage.start(nursery)
    assert not stage.tls.available.is_set()
    await trio.sleep(2 * RETRY + 1)
    assert stage.tls.available.is_set()
    assert [line["event"] for line in lines].count("serving_certificate_refused") == 1


async def test_its_successor_obtains_a_certificate_of_its_own(nursery, tmp_path, autojump_clock):
    """Meanwhile the port is served with the old one."""
    stage = Stage(tmp_path)
    await stage.start(nursery)
    stage.life.cancel()
    await wait_all_tasks_blocked()
    assert stage.tls.current() is stage.contexts[0]
    await nursery.start(stage.live)
    await wait_all_tasks_blocked(0.01)
    assert len(stage.contexts) == 2


# --- from files ------------------------------------------------------------------------------------------------------
@pytest.fixture
async def filed(nursery, tmp_path):
    """A rotor whose certificate is in files."""
    files = FromFiles(certificate=tmp_path / "f" / CERTIFICATE, key=tmp_path / "f" / KEY, roots=tmp_path / "f" / ROOTS)
    stage = Stage(tmp_path, files)
    stage.other = Authority()
    stage.renew = partial(stage.other.issue, "spiffe://other/ns/a/sa/b", tmp_path / "f", *NAMES)
    stage.renew()
    await stage.start(nursery)
    return stage


async def test_files_are_served_until_they_change(filed, autojump_clock):
    """Nobody is asked to sign anything; clients of the mesh's own authority are verified too."""
    await trio.sleep(LOOK * 3)
    assert (len(filed.contexts), filed.asked) == (1, [])
    assert len(filed.tls.current().get_ca_certs()) == 2
    filed.renew()
    await trio.sleep(LOOK + 1)
    assert len(filed.contexts) == 2


@pytest.mark.parametrize("damage", ["not PEM", None])
async def test_bad_files_leave_the_certificate_as_it_is(filed, tmp_path, damage, lines, autojump_clock):
    """Half written, or gone: it is said, and the next look may find them whole."""
    path = tmp_path / "f" / CERTIFICATE
    if damage is None:
        path.unlink()
    else:
        path.write_text(damage)
    await trio.sleep(LOOK + 1)
    assert len(filed.contexts) == 1
    assert "serving_certificate_refused" in [line["event"] for line in lines]
    filed.renew()
    await trio.sleep(LOOK + 1)
    assert len(filed.contexts) == 2


# --- what the settings say -------------------------------------------------------------------------------------------
def test_names_of_the_control_plane():
    """Those of its Service in its namespace, of its revision, and those that somebody adds, each once."""
    settings = Settings(system_namespace="mesh", revision="blue", custom_hosts=("plane.example", "istiod.mesh.svc"))
    assert serving_names(settings) == (
        "plane.example",
        "istiod.mesh.svc",
        "istiod-remote.mesh.svc",
        "istio-pilot.mesh.svc",
        "istiod-blue.mesh.svc",
    )
    assert "istiod-default" not in " ".join(serving_names(replace(settings, revision="default")))


def test_files_are_used_if_both_are_named():
    """A certificate without its key is no certificate."""
    assert isinstance(plan_origin(Settings(tls_cert_file="a")), Issued)
    assert isinstance(plan_origin(Settings(tls_cert_file="a", tls_key_file="b")), FromFiles)
