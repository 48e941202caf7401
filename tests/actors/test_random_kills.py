"""Random edits, kills, lost and stalled streams, by seed: in the end everybody has the newest configuration."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from random import Random
from unittest.mock import patch

import pytest
import trio
from structlog.testing import capture_logs

from actors import push_scheduler
from tests.actors.edits import edit_endpoints, edit_labels, edit_routing, edit_services, edit_sidecars
from tests.actors.fake_stream import FakeEnvoy
from tests.actors.meshes import SHOP
from tests.actors.system import WITH_IDENTITIES, run_seeded, start_mesh
from tests.actors.traces import check_aftermath, no_actor_failed

QUICK = 4
"""Seeds that are played in the fast tests too."""

PAUSES = (0.0, 0.0, 0.001, 0.02, 0.1, 0.12, 0.3)
"""Virtual seconds between two steps: within a step of the pipeline, within a debounce, after it."""


def kill_somebody(mesh, dice):
    """Anybody in the tree, a connection or a supervisor of others among them."""
    handle = mesh.system.shared.handle
    handle.kill(dice.choice([child.name for child in handle.statistics()]))


def lose_a_stream(mesh, dice):
    """A client is gone without a word, and comes back."""
    dice.choice(mesh.envoys).drop()


def stall_a_stream(mesh, dice):
    """A client takes nothing for now, or takes everything again."""
    stream = dice.choice(mesh.envoys).stream
    stream.resume() if stream.blocked() else stream.stall()


STEPS = {
    edit_routing: 3, edit_endpoints: 3, edit_services: 2, edit_labels: 2, edit_sidecars: 2,
    kill_somebody: 6, lose_a_stream: 1, stall_a_stream: 2,
}  # fmt: skip


ONE_CREDIT = replace(WITH_IDENTITIES, push_throttle=1)


def only_large(large):
    """Whether every push takes the only credit that there is."""
    return patch.object(push_scheduler, "is_large", lambda *_, **__: True) if large else nullcontext()


async def play(seed, lines):
    """Take random steps, then let everything come to rest and look around."""
    dice = Random(seed)
    envoys = [
        FakeEnvoy("web-1.shop", "10.1.0.1", delta=True),
        FakeEnvoy("web-2.shop", "10.1.0.2", delta=False, account="web"),
        FakeEnvoy("vault-1.bank", "10.1.0.3", delta=True, account="vault"),
        FakeEnvoy("guest-1.bank", "10.1.0.4", delta=False),
    ]
    async with trio.open_nursery() as nursery:
        mesh = await start_mesh(nursery, SHOP, envoys=envoys, settings=ONE_CREDIT, patient=True)
        for step in dice.choices(list(STEPS), weights=list(STEPS.values()), k=60):
            step(mesh, dice)
            await trio.sleep(dice.choice(PAUSES))
        for envoy in mesh.envoys:
            envoy.stream.resume()
        await mesh.settle()
        await check_aftermath(mesh, lines, envoys)
        nursery.cancel_scope.cancel()


def seeds():
    """Two hundred; most are only for those who have time."""
    return [pytest.param(seed, marks=() if seed < QUICK else pytest.mark.slow) for seed in range(200)]


@pytest.mark.parametrize("seed", seeds())
def test_random_kills_and_edits(seed):
    """Whatever happens in which order: the newest configuration arrives everywhere, and no actor crashes by itself.

    With every second seed all pushes count as large, so that whoever dies or stalls takes the only credit along.
    """
    with capture_logs() as lines, only_large(large=seed % 2 == 1):
        run_seeded(seed, play, seed, lines)
    assert no_actor_failed(lines)
