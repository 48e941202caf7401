"""What happens when actors crash too often: first the pipeline is restarted as a whole, then the process ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

import supervisor
from actors.static_supervisor import IntensityExceeded
from actors.supervision import ChildState
from tests.actors.fake_stream import FakeEnvoy
from tests.actors.meshes import SHOP, routing
from tests.actors.system import SETTINGS, SOURCE, World, start_mesh


async def kill_lives(handle, name, times):
    """Kill so many lives of a child, each as soon as it is up."""
    killed = None
    while times:
        up = [each for each in handle.statistics() if each.name == name and each.state is ChildState.RUNNING]
        life = (up[0].started_at, up[0].restarts) if up else killed
        if life != killed:
            assert handle.kill(name)
            killed, times = life, times - 1
        await trio.sleep(0.01)


async def test_the_pipeline_is_restarted_as_a_whole(nursery, autojump_clock):
    """Six crashes within 30 s are too many for it: then it and all connections start again, and everybody is served."""
    envoys = [FakeEnvoy("web-1.shop", "10.1.0.1", delta=True), FakeEnvoy("web-2.shop", "10.1.0.2", delta=False)]
    mesh = await start_mesh(nursery, SHOP, envoys=envoys)
    mesh.edit(routing(2))
    await kill_lives(mesh.system.shared.handle, "debouncer", 6)
    await mesh.settle()
    assert mesh.restarts() == {"pipeline": 1, "connections": 1}
    assert [envoy.streams for envoy in envoys] == [2, 2]
    mesh.check()


async def run_and_kill(system):
    """Run the system, and kill the debouncer for ever."""
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run, system)
        await kill_lives(system.shared.handle, "debouncer", 100)


async def test_the_process_ends_with_a_report(autojump_clock):
    """When the root has restarted the pipeline three times within a minute, the fourth is too much."""
    world = World(SHOP)
    system = supervisor.build_system(SETTINGS, (supervisor.SourceSpec(name=SOURCE, start=world.run),))
    with pytest.raises(ExceptionGroup) as raised:
        await run_and_kill(system)
    (failure,) = raised.value.exceptions
    assert isinstance(failure, IntensityExceeded)
    assert str(failure).startswith("root gave up")
    assert "pipeline" in str(failure)


async def test_ports_that_are_not_wanted_are_not_opened():
    """Without addresses there are neither the xDS port nor debug pages."""
    names = [child.name for child in supervisor.build_system(SETTINGS, ()).tree.children]
    assert names == ["pipeline", "connections"]
    settings = replace(SETTINGS, grpc_addr="127.0.0.1:0", http_addr="127.0.0.1:0")
    names = [child.name for child in supervisor.build_system(settings, ()).tree.children]
    assert names == ["pipeline", "connections", "grpc", "debug"]
