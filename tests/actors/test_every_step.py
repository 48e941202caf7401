"""Whoever is told nothing by others, and whoever meets the world outside, is killed at each of its first fifty steps.

The whole tree runs with its ports open, on a real folder; Envoys and somebody who reads the debug pages come over real
sockets. What stands for a message is a step: whatever one of the actor's tasks does between two checkpoints.
"""

from __future__ import annotations

import gc
import ssl
import time
from dataclasses import replace
from random import Random
from unittest.mock import patch

import httpx
import pytest
import trio
import yaml
from structlog.testing import capture_logs

import supervisor
from actors import token_keys
from tests.actors.edits import (
    age_root,
    change_answers,
    edit_endpoints,
    edit_labels,
    edit_routing,
    edit_services,
    edit_sidecars,
)
from tests.actors.meshes import SHOP
from tests.actors.outside import Outside
from tests.actors.striking import open_ambush_at_step
from tests.actors.system import WITH_IDENTITIES, World, run_seeded, start_system
from tests.actors.traces import check_aftermath, check_serving, no_actor_failed
from tests.actors.wire import WireEnvoy
from tests.e2e.shops import next_network
from tests.identity.authorities import rsa_key
from tests.identity.token_issuer import jwks, token
from tests.push.fixtures import document
from trierarch.config.key_sets import KeySet

STEPS = 50
QUICK = {"token_keys": 7, "secure_grpc": 20, "debug": 40}
"""Who is killed in the fast tests too, and at which step."""

ACTORS = ("collector", "config", "token_keys", "grpc", "secure_grpc", "debug")
"""Those who get no messages, or few. All others are killed at each of fifty messages, in `test_every_message`."""


EDITS = (
    edit_routing, edit_services, age_root, edit_endpoints, edit_labels, edit_routing, change_answers, edit_sidecars,
)  # fmt: skip
MOST_EDITS = 60
AFTERWARDS = 5
"""Edits after the death."""

PAUSE = 0.2
"""Virtual seconds between two edits: each is read, debounced and has a snapshot of its own."""

REFRESH = 1.0
"""Virtual seconds after which the keys of the issuer of tokens are fetched again here."""

PAGES = ("/ready", "/metrics", "/debug/syncz", "/debug/pushes", "/debug/actors")
AFTER = {"grpc": ("secure_grpc", "debug"), "secure_grpc": ("debug",)}
"""Who was started after them is restarted with them."""


class Folder(World):
    """The world as a folder of files, one for each object."""

    def __init__(self, folder) -> None:
        self._folder = folder
        super().__init__("")

    def edit(self, text):
        """Objects appear or are replaced."""
        super().edit(text)
        for name, body in yaml.safe_load(text).items():
            self._file(*name.split()).write_text(yaml.safe_dump(document(name, body)))

    def delete(self, kind, path):
        """An object goes."""
        super().delete(kind, path)
        self._file(kind, path).unlink(missing_ok=True)

    def _file(self, kind, path):
        return self._folder / f"{kind} {path.replace('/', ' ')}.yaml"


class TokenIssuer(Outside):
    """Has one of two keys, by turns."""

    @property
    def key(self):
        """The name of the key of now."""
        return ("one", "two")[self.turn % 2]

    def keys(self, location):
        """That key, wherever it is looked for."""
        return KeySet(jwks(self.key).decode())

    def bearer(self):
        """What a workload shows that this issuer knows, and the TLS that it speaks."""
        context = ssl.create_default_context(cadata=self.served[-1].roots.decode())
        context.set_alpn_protocols(["h2"])
        expires = time.time() + 3600
        shown = token(rsa_key(self.key), kid=self.key, sub="system:serviceaccount:shop:web", nbf=0, exp=expires)
        return context, {"authorization": f"Bearer {shown}"}


class Reader:
    """Reads the debug pages, one after the other. `seen`: the last status of each, 0 if nobody answered."""

    def __init__(self, address) -> None:
        self.seen = dict.fromkeys(PAGES, 0)
        self._address = address

    async def read(self):
        """Every page once."""
        async with httpx.AsyncClient(base_url=f"http://{self._address}", verify=False) as client:
            for page in PAGES:
                try:
                    self.seen[page] = (await client.get(page)).status_code
                except httpx.TransportError:
                    self.seen[page] = 0


def plan(folder):
    """Settings with everything in the tree, at addresses of their own."""
    network = next_network()
    return replace(
        WITH_IDENTITIES,
        config=str(folder),
        grpc_addr=f"{network}.1:15010",
        secure_grpc_addr=f"{network}.1:15012",
        http_addr=f"{network}.1:8080",
        token_keys="https://kubernetes.example/keys",
        root_check_interval=5.0,
        root_ca_dir="/nowhere",
        collects_briefly=True,
    )


def build_envoys(system, issuer):
    """Two that stay, and two that come and go; of each pair one speaks plain text and one shows a token."""
    plain, secure = {"find": lambda: system.xds.bound}, {"find": lambda: system.secure.bound, "secure": issuer.bearer}
    staying = (
        WireEnvoy("web-1.shop", "10.1.0.1", delta=True, **plain),
        WireEnvoy("web-2.shop", "10.1.0.2", delta=False, account="web", **secure),
    )
    passing = (
        WireEnvoy("guest-1.bank", "10.1.0.3", delta=False, **plain),
        WireEnvoy("web-3.shop", "10.1.0.4", delta=True, account="web", **secure),
    )
    return staying, passing


async def play(actor, number, folder):
    """Edit until the actor has been struck and a little longer, then let everything come to rest and look around."""
    world, issuer, settings = Folder(folder), TokenIssuer(), plan(folder)
    world.edit(SHOP)
    with issuer.answering(), open_ambush_at_step(actor, number) as ambush, capture_logs() as lines:
        system = supervisor.build_system(settings)
        staying, passing = build_envoys(system, issuer)
        reader = Reader(settings.http_addr)
        async with trio.open_nursery() as nursery:
            mesh = await start_system(nursery, world, system, envoys=(*staying, *passing), outside=issuer)
            await edit_until_struck(mesh, ambush, passing, reader, Random(number))
            await mesh.settle()
            await come_again(mesh, passing)
            await reader.read()
            assert ambush.struck
            await check_aftermath(mesh, lines, staying)
            await check_serving(mesh)
            check_unnoticed(mesh, actor, staying)
            assert reader.seen == dict.fromkeys(PAGES, 200)
            assert not gc.isenabled()
            nursery.cancel_scope.cancel()
    assert no_actor_failed(lines)
    assert gc.isenabled()


async def edit_until_struck(mesh, ambush, passing, reader, dice):
    """Edit after edit; with each a client loses its stream, and the pages are read."""
    left = AFTERWARDS
    for step in range(MOST_EDITS):
        EDITS[step % len(EDITS)](mesh, dice)
        passing[step % len(passing)].drop()
        await trio.sleep(PAUSE)
        await reader.read()
        left -= ambush.struck
        if not left:
            return


async def come_again(mesh, passing):
    """The issuer has another key, and who shows a token that is signed with it is let in."""
    mesh.outside.change()
    await trio.sleep(2 * REFRESH)
    for envoy in passing:
        envoy.drop()
    await mesh.settle()


def check_unnoticed(mesh, actor, staying):
    """Nobody else was restarted but who had been started after a port, and no stream was lost but over its own port."""
    plain, secure = (envoy.streams for envoy in staying)
    restarts = mesh.restarts()
    after = AFTER.get(actor, ())
    assert restarts[actor] == 1
    assert restarts.items() <= dict.fromkeys((actor, *after), 1).items()
    match actor:
        case "grpc":
            pass  # everybody comes again
        case "secure_grpc":
            assert plain == 1
        case _:
            assert (plain, secure) == (1, 1)


def moments():
    """Every actor with every step; most are only for those who have time."""
    return [
        pytest.param(actor, number, marks=() if QUICK.get(actor) == number else pytest.mark.slow)
        for actor in ACTORS
        for number in range(1, STEPS + 1)
    ]


@pytest.mark.parametrize(("actor", "number"), moments())
def test_an_actor_may_be_killed_at_any_step(actor, number, tmp_path):
    """The end state of every client is that of a fresh build, each edit is among the causes that it was told of, and
    the pages can be read.
    """
    with patch.object(token_keys, "REFRESH", REFRESH):
        run_seeded(number, play, actor, number, tmp_path)
