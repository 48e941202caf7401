"""A bug in the generation for one view is the trouble of that view's proxies, not of the whole mesh."""

from __future__ import annotations

import pytest

from actors import generator
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
