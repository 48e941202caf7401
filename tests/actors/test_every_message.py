"""Each actor of the tree is killed at each of its first fifty messages, while edits come in and clients come and go.

Whoever dies over whatever: every edit arrives everywhere and is told of as a cause, and nobody else notices.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, cycle, islice, repeat
from random import Random

import pytest
import trio
from structlog.testing import capture_logs

import supervisor
from actors import dns_source, jwks_source
from tests.actors.edits import (
    age_root,
    change_answers,
    edit_endpoints,
    edit_gateway,
    edit_issuer,
    edit_labels,
    edit_routing,
    edit_services,
    edit_sidecars,
)
from tests.actors.fake_stream import FakeEnvoy
from tests.actors.meshes import BEYOND, SHOP
from tests.actors.outside import Outside
from tests.actors.striking import CONNECTION, open_ambush
from tests.actors.system import SOURCE, WITH_IDENTITIES, World, run_seeded, start_mesh, without_ports
from tests.actors.traces import check_aftermath, check_serving, no_actor_failed

MESSAGES = 50
QUICK = (7,)
"""The messages at which actors are killed in the fast tests too."""

SETTINGS = replace(WITH_IDENTITIES, root_check_interval=20.0, jwks_refresh=10.0)
"""What changes outside of the mesh is noticed before everything has come to rest."""

EDITS = (
    edit_routing, edit_endpoints, edit_issuer, edit_services, edit_gateway,
    edit_labels, change_answers, edit_routing, age_root, edit_sidecars,
)  # fmt: skip
OWN_EDITS = {dns_source.NAME: edit_gateway, jwks_source.NAME: edit_issuer, "certificate_rotor": age_root}
"""For whoever gets a message only with some of these: every second edit is one."""
OWN_SETTINGS = {"certificate_rotor": replace(SETTINGS, root_check_interval=0.1)}
"""Each of its edits is noticed at once. For the authority itself to look so often would be most of its messages."""

MOST_EDITS = 120
AFTERWARDS = 5
"""Edits after the death."""

DELAYS = 4
"""An actor dies as it takes a message, or up to three turns of the loop later: some messages take many turns."""

PAUSE = 0.12
"""Virtual seconds between two edits: each is debounced and has a snapshot of its own."""


def actors_of(spec):
    """The names of all actors in a tree of specifications, supervisors apart."""
    children = getattr(spec, "children", None)
    return [spec.name] if children is None else [name for child in children for name in actors_of(child)]


def find_actors():
    """Whoever is in the tree and is not a port, and a connection."""
    source = supervisor.SourceSpec(name=SOURCE, start=World("").run)
    tree = without_ports(supervisor.build_system(SETTINGS, (source,)).tree)
    return (*actors_of(tree), CONNECTION)


def moments():
    """Every actor with every message; most are only for those who have time."""
    return [
        pytest.param(actor, number, marks=() if number in QUICK else pytest.mark.slow)
        for actor in find_actors()
        for number in range(1, MESSAGES + 1)
    ]


async def play(actor, number):
    """Edit until the actor has been struck and a little longer, then let everything come to rest and look around."""
    staying = (
        FakeEnvoy("web-1.shop", "10.1.0.1", delta=True),
        FakeEnvoy("web-2.shop", "10.1.0.2", delta=False, account="web"),
    )
    passing = (
        FakeEnvoy("vault-1.bank", "10.1.0.3", delta=True, account="vault"),
        FakeEnvoy("guest-1.bank", "10.1.0.4", delta=False, account="guest"),
    )
    outside, settings = Outside(), OWN_SETTINGS.get(actor, SETTINGS)
    with outside.answering(), open_ambush(actor, number, number % DELAYS) as ambush, capture_logs() as lines:
        async with trio.open_nursery() as nursery:
            envoys = (*staying, *passing)
            mesh = await start_mesh(nursery, SHOP + BEYOND, envoys=envoys, settings=settings, outside=outside)
            await edit_until_struck(mesh, ambush, edits_for(actor), passing, Random(number))
            await mesh.settle()
            assert ambush.struck
            await check_aftermath(mesh, lines, staying)
            await check_serving(mesh)
            check_unnoticed(mesh, actor, staying)
            nursery.cancel_scope.cancel()
    assert no_actor_failed(lines)


def edits_for(actor):
    """The edits during which an actor dies, for ever."""
    own = OWN_EDITS.get(actor)
    return chain.from_iterable(zip(repeat(own), cycle(EDITS), strict=False)) if own else cycle(EDITS)


async def edit_until_struck(mesh, ambush, edits, passing, dice):
    """Edit after edit, and with each a client loses its stream."""
    left = AFTERWARDS
    for edit, guest in islice(zip(edits, cycle(passing), strict=False), MOST_EDITS):
        edit(mesh, dice)
        guest.drop()
        await trio.sleep(PAUSE)
        left -= ambush.struck
        if not left:
            return


def check_unnoticed(mesh, actor, staying):
    """Nobody else was restarted, and no stream was lost but with its own connection."""
    lost = [envoy for envoy in staying if envoy.streams > 1]
    match actor:
        case "connections":
            assert mesh.restarts() == {actor: 1}
        case "connection":
            assert len(lost) <= 1
        case _:
            assert (mesh.restarts(), lost) == ({actor: 1}, [])


@pytest.mark.parametrize(("actor", "number"), moments())
def test_an_actor_may_be_killed_at_any_message(actor, number):
    """The end state of every client is that of a fresh build, and each edit is among the causes that it was told of."""
    run_seeded(number, play, actor, number)
