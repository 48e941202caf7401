"""Every push says which change of which object caused it; a proxy that gets nothing can be told why."""

from __future__ import annotations

import pytest

from tests.actors.fake_stream import FakeEnvoy
from tests.actors.meshes import SHOP, routing
from tests.actors.system import start_mesh
from trierarch.push.causes import ChangeEvent
from trierarch.push.status import Outcome


@pytest.fixture
async def mesh(nursery, autojump_clock):
    """The shop with a proxy in each of two namespaces; a Sidecar keeps `shop` out of the reach of `bank`."""
    envoys = [FakeEnvoy("web-1.shop", "10.1.0.1", delta=True), FakeEnvoy("vault-1.bank", "10.1.0.3", delta=True)]
    mesh = await start_mesh(nursery, SHOP, envoys=envoys)
    mesh.records.clear()
    return mesh


def causes_of(record):
    """The causes of a push, in short."""
    return [(cause.event.value, cause.kind, f"{cause.namespace}/{cause.name}") for cause in record.causes.kept]


async def test_an_edit_is_the_cause_of_the_push_that_it_leads_to(mesh, autojump_clock):
    """What changed, how, where it came from, and what was sent because of it."""
    mesh.edit(routing(2))
    await mesh.settle()
    (record,) = mesh.records_of(mesh.envoys[0])
    assert causes_of(record) == [("updated", "VirtualService", "shop/web")]
    assert record.causes.kept[0].source == "world"
    assert [(sent.short, sent.sent) for sent in record.sent] == [("RDS", 1)]
    assert record.outcome is Outcome.ACKED


async def test_edits_that_are_pushed_together_are_all_named(mesh, autojump_clock):
    """Two changes within the quiet time of the debouncer are one push with two causes. What the proxy then asks for by
    itself, the endpoints of a new cluster, is told apart.
    """
    mesh.edit(routing(2))
    mesh.edit("Service shop/new: {ports: [{name: http, port: 80}], selector: {app: new}}")
    await mesh.settle()
    record, asked = mesh.records_of(mesh.envoys[0])
    assert sorted(causes_of(record)) == [
        ("added", "Service", "shop/new"), ("updated", "VirtualService", "shop/web")
    ]  # fmt: skip
    assert {sent.short for sent in record.sent} >= {"CDS", "RDS"}
    assert (asked.reasons, [sent.short for sent in asked.sent]) == ({"proxyrequest": 1}, ["EDS"])


async def test_a_deletion_is_a_cause(mesh, autojump_clock):
    """The object is named though it is no more."""
    mesh.delete("VirtualService", "shop/web")
    await mesh.settle()
    (record,) = mesh.records_of(mesh.envoys[0])
    assert causes_of(record) == [("deleted", "VirtualService", "shop/web")]
    mesh.check()


async def test_a_proxy_that_is_not_concerned_can_be_told_why(mesh, autojump_clock):
    """Nothing is sent to it, and the record says that the object is out of its reach."""
    mesh.edit(routing(2))
    await mesh.settle()
    (record,) = mesh.records_of(mesh.envoys[1])
    assert record.outcome is Outcome.SKIPPED
    assert causes_of(record) == [("updated", "VirtualService", "shop/web")]
    assert record.skipped == {"all": "out of reach of Sidecar bank/default: VirtualService shop/web"}


async def test_an_edit_that_changes_no_bytes_is_recorded_as_such(mesh, autojump_clock):
    """A proxy was concerned by what changed, but what it has is the same still: nothing is sent."""
    mesh.edit("""
        VirtualService shop/web: {hosts: [web], exportTo: ["*"], http: [{route: [{destination: {host: web}}], timeout: 1s}]}
    """)  # noqa: E501 - as a user would write it
    await mesh.settle()
    (record,) = mesh.records_of(mesh.envoys[0])
    assert (record.outcome, record.sent) == (Outcome.UNCHANGED, ())
    assert causes_of(record) == [("updated", "VirtualService", "shop/web")]
    assert set(record.skipped.values()) == {"nothing differs"}


async def test_an_object_that_says_the_same_is_no_change(mesh, autojump_clock):
    """Written again without a difference: nobody is pushed to, and nothing is recorded."""
    mesh.edit(routing(1))
    await mesh.settle()
    assert mesh.records == []


async def test_a_restart_is_a_cause_beside_the_edit(mesh, autojump_clock):
    """When everything has to be sent through the pipeline again, the record says for whom; the edit is not lost."""
    mesh.edit(routing(2))
    mesh.kill("debouncer")
    await mesh.settle()
    records = mesh.records_of(mesh.envoys[0])
    told = {cause for record in records for cause in causes_of(record)}
    assert ("updated", "VirtualService", "shop/web") in told
    resynced = [
        cause.source
        for record in records
        for cause in record.causes.kept
        if cause.event is ChangeEvent.RESYNCED
    ]  # fmt: skip
    assert "debouncer" in resynced


async def test_the_log_tells_the_story(mesh, lines, autojump_clock):
    """One canonical line for each step of a change, which its cause's number ties together."""
    lines.clear()
    mesh.edit(routing(2))
    await mesh.settle()
    story = [line["event"] for line in lines]
    assert story == ["config_changed", "batch_released", "snapshot_built", "push_finished"]
    changed, _, built, finished = lines
    assert changed["first_cause"] == changed["last_cause"]
    assert built["causes"] == [changed["first_cause"]]
    assert [cause["id"] for cause in finished["causes"]] == [changed["first_cause"]]
    assert list(finished["stages"]) == ["debounced", "built", "generated", "granted", "written", "acknowledged"]
