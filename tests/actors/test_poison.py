"""A bug of ours that some object or client brings to light costs as little as possible, and not the control plane."""

from __future__ import annotations

import pytest

from actors import generator, push_scheduler, scopes, snapshot_builder
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
    assert (cursed.status.code, cursed.status.message) == (
        14,
        "no configuration can be generated: ZeroDivisionError: a bug",
    )
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


@pytest.fixture
def curse_placing(monkeypatch):
    """Curses a step of the scheduler from when it is called on, and returns what lifts the curse."""
    select_view, build_scope, affects = push_scheduler.select_view, scopes.build_scope, push_scheduler.affects
    broken = set()

    def fail(step, namespace):
        if step in broken and namespace == CURSED:
            raise ZeroDivisionError("a bug")

    def select_view_or_fail(proxy, context):
        fail("select_view", proxy.namespace)
        return select_view(proxy, context)

    def build_scope_or_fail(key, *arguments):
        fail("build_scope", key.namespace)
        return (yield from build_scope(key, *arguments))

    def affects_or_fail(view, *arguments):
        fail("affects", view.outbound.scope.namespace)
        return affects(view, *arguments)

    def curse(step):
        broken.add(step)
        return broken.clear

    monkeypatch.setattr(push_scheduler, "select_view", select_view_or_fail)
    monkeypatch.setattr(scopes, "build_scope", build_scope_or_fail)
    monkeypatch.setattr(push_scheduler, "affects", affects_or_fail)
    return curse


RELABELLED = """
Pod bank/vault-1:
  metadata: {labels: {app: vault, version: two}}
  containers: [{name: app}]
  status: {phase: Running, podIP: 10.1.0.3}
"""
SAFE = "Service bank/safe: {ports: [{name: http, port: 80}], selector: {app: safe}}"


@pytest.mark.parametrize("step", ["select_view", "build_scope", "affects"])
async def test_a_client_that_cannot_be_placed_any_more_keeps_what_it_has(
    nursery, curse_placing, lines, autojump_clock, step
):
    """Others get their edits; it is told of each in a record, and once it can be placed it gets all that it missed."""
    well, cursed = FakeEnvoy("web-1.shop", "10.1.0.1", delta=True), FakeEnvoy("vault-1.bank", "10.1.0.3", delta=False)
    mesh = await start_mesh(nursery, SHOP, envoys=[well, cursed])
    lift = curse_placing(step)
    mesh.records.clear()
    for edit in (routing(2), RELABELLED, SAFE):
        mesh.edit(edit)
        await mesh.settle()
    assert (well.streams, cursed.streams, mesh.restarts()) == (1, 1, {})
    told = mesh.records_of(cursed)[-1]
    assert told.outcome is Outcome.SKIPPED
    assert told.skipped == {"all": "cannot be placed: ZeroDivisionError: a bug"}
    assert {line["connection"] for line in lines if line["event"] == "placement_failed"} == {told.connection}
    registry = mesh.system.shared.metrics.registry
    assert registry.get_sample_value("trierarch_contained_errors_total", {"work": "placement"}) > 0
    lift()
    mesh.edit(routing(3))
    await mesh.settle()
    mesh.check()
    assert cursed.streams == 1
    taken = [record for record in mesh.records_of(cursed) if record.outcome is not Outcome.SKIPPED]
    assert {"vault-1", "safe"} <= {cause.name for record in taken for cause in record.causes.kept}


@pytest.mark.parametrize("step", ["select_view", "build_scope"])
async def test_a_client_that_cannot_be_placed_at_all_is_sent_away(nursery, curse_placing, autojump_clock, step):
    """It has nothing that it could keep: UNAVAILABLE, with the reason, and it is served as soon as that is possible."""
    lift = curse_placing(step)
    well, cursed = FakeEnvoy("web-1.shop", "10.1.0.1", delta=True), FakeEnvoy("vault-1.bank", "10.1.0.3", delta=True)
    mesh = await start_mesh(nursery, SHOP, envoys=[well, cursed])
    assert cursed.streams > 2
    assert (cursed.status.code, cursed.status.message) == (
        14,
        "no configuration can be found: ZeroDivisionError: a bug",
    )
    assert (well.streams, mesh.restarts()) == (1, {})
    lift()
    await mesh.settle()
    mesh.check()


async def test_a_restarted_scheduler_lets_who_cannot_be_placed_keep_what_it_has(nursery, curse_placing, autojump_clock):
    """At the roll call it is known from the connection that its client has a configuration."""
    well, cursed = FakeEnvoy("web-1.shop", "10.1.0.1", delta=True), FakeEnvoy("vault-1.bank", "10.1.0.3", delta=True)
    mesh = await start_mesh(nursery, SHOP, envoys=[well, cursed])
    lift = curse_placing("select_view")
    mesh.kill("push_scheduler")
    await mesh.settle()
    assert (well.streams, cursed.streams, mesh.restarts()) == (1, 1, {"push_scheduler": 1})
    lift()
    mesh.edit(SAFE)
    await mesh.settle()
    mesh.check()


async def test_what_could_not_be_generated_is_owed(nursery, curse, monkeypatch, autojump_clock):
    """A later change brings along what an earlier one could not, though it would not be sent for itself."""
    envoy = FakeEnvoy("vault-1.bank", "10.1.0.3", delta=True)
    mesh = await start_mesh(nursery, SHOP, envoys=[envoy])
    generate = generator.generate_set
    curse()
    mesh.edit(
        "VirtualService bank/vault: {hosts: [vault], http: [{route: [{destination: {host: vault}}], timeout: 2s}]}"
    )
    await mesh.settle()
    monkeypatch.setattr(generator, "generate_set", lambda *arguments: generate(*arguments))
    mesh.edit("""
        EndpointSlice bank/vault-1:
          metadata: {labels: {kubernetes.io/service-name: vault}}
          addressType: IPv4
          ports: [{name: http, port: 8080}]
          endpoints: [{addresses: [10.1.0.3], conditions: {ready: true}}]
    """)
    await mesh.settle()
    mesh.check()
    assert ["vault", "vault-1"] in [[cause.name for cause in record.causes.kept] for record in mesh.records_of(envoy)]
