"""Each actor is killed once, at each stage of an edit: the edit arrives everywhere, and it is known what it was."""

from __future__ import annotations

import pytest
import trio

from actors.messages import BuildSnapshot, ConfigChanged, GenerateEach, PushTo, SnapshotBuilt
from tests.actors.fake_stream import FakeEnvoy
from tests.actors.meshes import SHOP, routing
from tests.actors.system import SOURCE, open_wiretap, run_seeded, start_mesh
from trierarch.envoy.types import CLUSTER, LISTENER
from trierarch.push.status import Outcome

PIPELINE = ("journal", SOURCE, "intake", "debouncer", "snapshot_builder", "generator", "push_scheduler")
PAIRS = (
    (SOURCE, "intake"),
    ("intake", "debouncer"),
    ("debouncer", "snapshot_builder"),
    ("snapshot_builder", "push_scheduler"),
    ("generator", "push_scheduler"),
)
STAGES = {
    "edited": None,
    "settling": ConfigChanged,
    "debounced": BuildSnapshot,
    "built": SnapshotBuilt,
    "generating": GenerateEach,
    "pushing": PushTo,
}
"""When to kill: at once, or when a message of that kind is under way; to settle takes longer than that."""

WRITING = "writing"
"""The last stage: both clients take nothing, and their connections are in the middle of a message."""

SEEDS = range(2)


async def play(actors, stage, check):
    """Edit, kill the actors at that stage, let everything come to rest, and see what was noticed."""
    envoys = [FakeEnvoy("web-1.shop", "10.1.0.1", delta=True), FakeEnvoy("web-2.shop", "10.1.0.2", delta=False)]
    with open_wiretap() as tap:
        async with trio.open_nursery() as nursery:
            mesh = await start_mesh(nursery, SHOP, envoys=envoys)
            mesh.check()
            actors = [mesh.number_of(envoys[0]) if actor == "connection" else actor for actor in actors]
            mesh.records.clear()
            await reach(stage, mesh, tap)
            for actor in actors:
                mesh.kill(actor)
            for envoy in envoys:
                envoy.stream.resume()
            await mesh.settle()
            mesh.check()
            check(mesh, *actors)
            nursery.cancel_scope.cancel()


async def reach(stage, mesh, tap):
    """Edit, and wait for that stage."""
    if stage == WRITING:
        for envoy in mesh.envoys:
            envoy.stream.stall()
    mesh.edit(routing(2))
    if stage == WRITING:
        await tap.hear(PushTo)
        await trio.sleep(0.01)
    elif STAGES[stage] is not None:
        await tap.hear(STAGES[stage])
        if stage == "settling":
            await trio.sleep(0.05)


def check_alone(mesh, *actors):
    """Nobody else was restarted, and no client was told anything but the edit."""
    assert mesh.restarts() == dict.fromkeys(actors, 1)
    assert [envoy.streams for envoy in mesh.envoys] == [1, 1]
    for envoy in mesh.envoys:
        check_records(mesh.records_of(envoy))


def check_connection(mesh, actor):
    """Nobody else was restarted, and if its client's stream was lost, then only that one."""
    assert mesh.restarts() in ({actor: 1}, {})
    victim, other = mesh.envoys
    assert victim.streams <= 2
    assert other.streams == 1
    check_records(mesh.records_of(other))
    if victim.streams == 1:
        check_records(mesh.records_of(victim))


def check_connections(mesh, actor):
    """Nobody else was restarted, and both clients have come back."""
    assert mesh.restarts() == {actor: 1}
    assert [envoy.streams for envoy in mesh.envoys] == [2, 2]


def check_records(records):
    """Each push has a cause, and the edit is among the causes of one that was acknowledged."""
    assert all(record.causes.kept or record.reasons == {"restart": 1} for record in records), records
    edits = [record for record in records if any(cause.name == "web" for cause in record.causes.kept)]
    assert any(record.outcome is Outcome.ACKED for record in edits), records


@pytest.mark.parametrize("stage", [*STAGES, WRITING])
@pytest.mark.parametrize("actor", PIPELINE)
def test_an_actor_of_the_pipeline_may_be_killed(actor, stage):
    """Whoever is killed when: the edit reaches both clients, the records name it, and nobody else notices."""
    for seed in SEEDS:
        run_seeded(seed, play, [actor], stage, check_alone)


@pytest.mark.parametrize("stage", ["settling", "debounced", "built", "pushing"])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_neighbours_may_be_killed_at_once(pair, stage):
    """What one of them remembers for the other is known all the same, and is a cause of what reaches the clients."""
    run_seeded(0, play, pair, stage, check_alone)


@pytest.mark.parametrize("stage", [*STAGES, WRITING])
def test_a_connection_may_be_killed(stage):
    """Its client notices nothing, unless it was in the middle of a message: then it has to connect again."""
    for seed in SEEDS:
        run_seeded(seed, play, ["connection"], stage, check_connection)


def test_a_connection_that_is_killed_between_messages_keeps_its_stream():
    """A stream is lost with its actor only in the middle of a message."""

    def check(mesh, actor):
        check_connection(mesh, actor)
        assert mesh.envoys[0].streams == 1

    run_seeded(0, play, ["connection"], "edited", check)


@pytest.mark.parametrize("stage", [*STAGES, WRITING])
def test_the_factory_of_connections_may_be_killed(stage):
    """All streams end; their clients come back with what they have and get what is new."""
    for seed in SEEDS:
        run_seeded(seed, play, ["connections"], stage, check_connections)


SLOWNESS = 3.0
"""Seconds that a source takes to read everything: longer than any change is held back by others."""


async def watch(envoys, seconds):
    """Look at the Envoys all the time: none of them loses a cluster or a listener."""
    kept = [{url: set(envoy.client.held[url]) for url in (CLUSTER, LISTENER)} for envoy in envoys]
    with trio.move_on_after(seconds):
        while True:
            for envoy, names in zip(envoys, kept, strict=True):
                assert all(envoy.client.held[url].keys() >= known for url, known in names.items()), envoy
            await trio.sleep(0.05)


@pytest.mark.parametrize("actor", [*PIPELINE, "dns", "jwks", "pipeline"])
async def test_nobody_is_told_of_half_a_mesh(actor, nursery, autojump_clock):
    """However long a source takes to tell everything again, proxies keep what they have; then they get what is new."""
    envoys = [FakeEnvoy("web-1.shop", "10.1.0.1", delta=True), FakeEnvoy("web-2.shop", "10.1.0.2", delta=False)]
    mesh = await start_mesh(nursery, SHOP, envoys=envoys)
    mesh.world.slowness = SLOWNESS
    mesh.kill(actor)
    mesh.edit(routing(2))
    await watch(envoys, 2 * SLOWNESS)
    await mesh.settle()
    mesh.check()
