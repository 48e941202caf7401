"""Random edits, kills, lost and stalled streams, by seed: in the end everybody has the newest configuration.

The exhaustive version of this (every message, hundreds of seeds) bears the marker `chaos`.
"""

from __future__ import annotations

from random import Random

import pytest
import trio
from structlog.testing import capture_logs

from tests.actors.fake_stream import FakeEnvoy
from tests.actors.meshes import SHOP, routing
from tests.actors.system import SOURCE, run_seeded, start_mesh

ACTORS = (
    "journal", SOURCE, "intake", "debouncer", "snapshot_builder", "generator", "push_scheduler", "connections"
)  # fmt: skip

PAUSES = (0.0, 0.0, 0.001, 0.02, 0.1, 0.12, 0.3)
"""Virtual seconds between two steps: within a step of the pipeline, within a debounce, after it."""


def edit_routing(mesh, dice):
    """Another timeout."""
    mesh.edit(routing(dice.randint(2, 9)))


def edit_endpoints(mesh, dice):
    """Another set of addresses."""
    addresses = [f"10.1.{dice.randint(0, 3)}.{number}" for number in range(dice.randint(1, 3))]
    mesh.edit(f"""
        EndpointSlice shop/web-1:
          metadata: {{labels: {{kubernetes.io/service-name: web}}}}
          addressType: IPv4
          ports: [{{name: http, port: 8080}}]
          endpoints: [{{addresses: [{", ".join(addresses)}], conditions: {{ready: true}}}}]
    """)


def edit_services(mesh, dice):
    """A service comes, changes or goes."""
    name = f"extra-{dice.randint(1, 2)}"
    if dice.random() < 0.3:
        mesh.delete("Service", f"shop/{name}")
    else:
        port = dice.randint(80, 82)
        mesh.edit(f"Service shop/{name}: {{ports: [{{name: http, port: {port}}}], selector: {{app: web}}}}")


def edit_labels(mesh, dice):
    """A Pod becomes part of the service, or no longer is: its proxy moves to another view."""
    app = dice.choice(["web", "other"])
    mesh.edit(f"""
        Pod shop/web-2:
          metadata: {{labels: {{app: {app}}}}}
          containers: [{{name: app}}]
          status: {{phase: Running, podIP: 10.1.0.2}}
    """)


def edit_sidecars(mesh, dice):
    """A Sidecar narrows a namespace, or no longer does."""
    if dice.random() < 0.4:
        mesh.delete("Sidecar", "shop/default")
    else:
        hosts = dice.choice(['"./*"', '"./*", "bank/*"', '"~/*"'])
        mesh.edit(f"Sidecar shop/default: {{egress: [{{hosts: [{hosts}]}}]}}")


def kill_somebody(mesh, dice):
    """An actor, or a connection."""
    handle = mesh.system.handle
    connections = [child.name for child in handle.statistics() if child.supervisor == "connections"]
    handle.kill(dice.choice([*ACTORS, *connections]))


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


async def play(seed):
    """Take random steps, then let everything come to rest."""
    dice = Random(seed)
    envoys = [
        FakeEnvoy("web-1.shop", "10.1.0.1", delta=True),
        FakeEnvoy("web-2.shop", "10.1.0.2", delta=False),
        FakeEnvoy("vault-1.bank", "10.1.0.3", delta=True),
        FakeEnvoy("guest-1.bank", "10.1.0.4", delta=False),
    ]
    async with trio.open_nursery() as nursery:
        mesh = await start_mesh(nursery, SHOP, envoys=envoys, patient=True)
        for step in dice.choices(list(STEPS), weights=list(STEPS.values()), k=60):
            step(mesh, dice)
            await trio.sleep(dice.choice(PAUSES))
        for envoy in mesh.envoys:
            envoy.stream.resume()
        await mesh.settle()
        mesh.check()
        check_traces(mesh)
        nursery.cancel_scope.cancel()


def check_traces(mesh):
    """Nothing is left of streams that are gone, and every push is explained."""
    children = mesh.system.handle.statistics()
    assert sum(child.supervisor == "connections" for child in children) == len(mesh.envoys)
    connected = mesh.system.metrics.registry.get_sample_value("pilot_xds", {"version": ""})
    assert connected == len(mesh.envoys)
    for record in mesh.records:
        assert record.causes.kept or record.reasons.keys() & {"proxyrequest", "restart"}, record


@pytest.mark.parametrize("seed", range(20))
def test_random_kills_and_edits(seed):
    """Whatever happens in which order: the newest configuration arrives everywhere, and no actor crashes by itself."""
    with capture_logs() as lines:
        run_seeded(seed, play, seed)
    assert [line for line in lines if line["event"] in {"child_crashed", "shutdown_overdue"}] == []
