"""Each actor is killed once, at each stage of an edit: the edit arrives everywhere, and it is known what it was."""

from __future__ import annotations

import pytest
import trio

from actors.messages import BuildSnapshot, Generate, PushTo, SnapshotBuilt
from tests.actors.fake_stream import FakeEnvoy
from tests.actors.meshes import SHOP, routing
from tests.actors.system import SOURCE, open_wiretap, run_seeded, start_mesh
from trierarch.push.status import Outcome

PIPELINE = (
    "journal", SOURCE, "intake", "debouncer", "snapshot_builder", "generator", "push_scheduler"
)  # fmt: skip

STAGES = {"edited": None, "debounced": BuildSnapshot, "built": SnapshotBuilt, "generating": Generate, "pushing": PushTo}
"""When to kill: at once, or when a message of that kind is under way."""


async def play(actor, stage):
    """Edit, kill the actor at that stage, and see that nobody notices."""
    with open_wiretap() as tap:
        async with trio.open_nursery() as nursery:
            mesh = await start_mesh(
                nursery,
                SHOP,
                envoys=[
                    FakeEnvoy("web-1.shop", "10.1.0.1", delta=True),
                    FakeEnvoy("web-2.shop", "10.1.0.2", delta=False),
                ],
            )
            mesh.check()
            mesh.records.clear()
            mesh.edit(routing(2))
            if STAGES[stage] is not None:
                await tap.hear(STAGES[stage])
            mesh.kill(actor)
            await mesh.settle()
            mesh.check()
            assert mesh.restarts() == {actor: 1}
            for envoy in mesh.envoys:
                check_records(mesh.records_of(envoy))
            nursery.cancel_scope.cancel()


def check_records(records):
    """Each push has causes, one was acknowledged, and the edit is among its causes."""
    assert all(record.causes.kept for record in records), records
    edits = [record for record in records if any(cause.name == "web" for cause in record.causes.kept)]
    assert any(record.outcome is Outcome.ACKED for record in edits), records


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("actor", PIPELINE)
def test_an_actor_of_the_pipeline_may_be_killed(actor, stage):
    """Whoever is killed when: the edit reaches both clients, the records name it, and nobody else is restarted."""
    run_seeded(1, play, actor, stage)
