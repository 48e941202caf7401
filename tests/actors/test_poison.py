"""A bug of ours that some object or client brings to light costs as little as possible, and not the control plane."""

from __future__ import annotations

import pytest

from actors import generator, snapshot_builder
from tests.actors.fake_stream import FakeEnvoy
from tests.actors.meshes import SHOP, routing
from tests.actors.system import start_mesh
from trierarch.push.status import Outcome

CURSED = "bank"


@pytest.fixture
def curse(monkeypatch):
    """From when it is called on, nothing can be generated for a namespace."""
    generate = generator.generate_set

    def fail(view, *arguments):
        if view.outbound.scope.namespace == CURSED:
            raise ZeroDivisionError("a bug")
        return (yield from generate(view, *arguments))

    return lambda: monkeypatch.setattr(generator, "generate_set", fail)


async def test_a_client_that_cannot_be_served_is_sent_away(nursery, curse, lines, autojump_clock):
    """Its stream ends with UNAVAILABLE, again and again; all others are served and get every edit."""
    curse()
    well, cursed = FakeEnvoy("web-1.shop", "10.1.0.1", delta=True), FakeEnvoy("vault-1.bank", "10.1.0.3", delta=True)
    mesh = await start_mesh(nursery, SHOP, envoys=[well, cursed])
    mesh.edit(routing(2))
    await mesh.settle()
    assert cursed.streams > 2
    assert (well.streams, mesh.restarts()) == (1, {})
    mesh.envoys.remove(cursed)
    mesh.check()
    (line, *_) = [line for line in lines if line["event"] == "generation_failed"]
    assert line["namespace"] == CURSED
    assert isinstance(line["exc_info"], ZeroDivisionError)


async def test_a_client_that_is_served_keeps_what_it_has(nursery, curse, autojump_clock):
    """A change that cannot be generated is recorded with the reason, and not sent; the stream goes on."""
    well, cursed = FakeEnvoy("web-1.shop", "10.1.0.1", delta=True), FakeEnvoy("vault-1.bank", "10.1.0.3", delta=True)
    mesh = await start_mesh(nursery, SHOP, envoys=[well, cursed])
    curse()
    mesh.records.clear()
    mesh.edit("Service bank/safe: {ports: [{name: http, port: 80}], selector: {app: safe}}")
    await mesh.settle()
    assert (well.streams, cursed.streams, mesh.restarts()) == (1, 1, {})
    (record,) = mesh.records_of(cursed)
    assert (record.outcome, record.causes.kept[0].name) == (Outcome.SKIPPED, "safe")
    assert record.skipped == {"all": "cannot be generated: ZeroDivisionError: a bug"}
    mesh.envoys.remove(cursed)
    mesh.check()


async def test_without_a_new_snapshot_the_last_one_stays(nursery, monkeypatch, lines, autojump_clock):
    """While an object cannot be built proxies keep what they have, and may connect; when it has gone all is as it was,
    and what was not built meanwhile is pushed with its causes.
    """
    build = snapshot_builder.build_push_context

    def fail(view, *arguments):
        if any(key.name == "cursed" for key in view.table("VirtualService")):
            raise ZeroDivisionError("a bug")
        return (yield from build(view, *arguments))

    monkeypatch.setattr(snapshot_builder, "build_push_context", fail)
    mesh = await start_mesh(nursery, SHOP, envoys=[FakeEnvoy("web-1.shop", "10.1.0.1", delta=True)])
    mesh.records.clear()
    mesh.edit("VirtualService shop/cursed: {hosts: [x], http: [{route: [{destination: {host: web}}]}]}")
    await mesh.settle()
    mesh.edit(routing(2))
    await mesh.connect("web-2.shop", "10.1.0.2")
    await mesh.settle()
    assert mesh.restarts() == {}
    assert mesh.envoys[1].client.held == mesh.envoys[0].client.held
    assert len([line for line in lines if line["event"] == "snapshot_failed"]) == 2
    mesh.delete("VirtualService", "shop/cursed")
    await mesh.settle()
    mesh.check()
    record = mesh.records_of(mesh.envoys[0])[-1]
    assert [cause.name for cause in record.causes.kept] == ["cursed", "web", "cursed"]
