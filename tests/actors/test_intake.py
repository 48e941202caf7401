"""Intake, with the sources' and the debouncer's mailboxes in the test's hands."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from types import SimpleNamespace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import intake
from actors.mailbox import Mailbox
from actors.messages import CausesSettled, ResendConfig, SourceChanged
from actors.metrics import Metrics
from actors.source_messages import ResendAll
from trierarch.config.findings import Rejected, Remark
from trierarch.config.objects import ConfigObject, ObjectKey, Origin
from trierarch.push.causes import ChangeEvent


@pytest.fixture
def mail():
    """The mailboxes, with two sources, and the metrics."""
    return SimpleNamespace(
        inbox=Mailbox("intake"),
        debouncer=Mailbox("debouncer"),
        sources={"config": Mailbox("config"), "mesh-config": Mailbox("mesh-config")},
        metrics=Metrics(),
        memory=intake.Memory(),
    )


def start(nursery, mail, ids=None):
    """The actor; cause ids from 1."""
    run = partial(
        intake.run, mail.inbox, debouncer=mail.debouncer, sources=mail.sources, metrics=mail.metrics,
        memory=mail.memory, ids=ids or count(1),
    )  # fmt: skip
    return nursery.start(run)


def subject(name, text="1", kind="VirtualService"):
    """An object that says some text."""
    key = ObjectKey("Kubernetes", kind, "shop", name)
    origin = Origin(source="config", path=f"{name}.yaml", line=1)
    return ConfigObject(key=key, spec=text, digest=text.encode(), resource_version=f"v{text}", origin=origin)


def said(*upserts, source="config", **fields):
    """A message of a source, seen at second 7."""
    return SourceChanged(source=source, upserts=upserts, seen_at=fields.pop("seen_at", 7.0), **fields)


async def synced(nursery, mail, *upserts):
    """The actor after both sources have sent their full sets; what came of it is received."""
    await start(nursery, mail)
    await mail.inbox.send(said(*upserts, full=True))
    await mail.inbox.send(said(source="mesh-config", full=True))
    return await mail.debouncer.receive()


async def heard(mail):
    """What the debouncer has been sent by now, if anything."""
    await wait_all_tasks_blocked()
    return mail.debouncer.receive_nowait()


async def test_it_asks_every_source_at_its_start(mail, nursery, autojump_clock):
    """After a restart everything is sent again by everybody."""
    await start(nursery, mail)
    assert [source.receive_nowait() for source in mail.sources.values()] == [ResendAll(), ResendAll()]
    nursery.cancel_scope.cancel()


async def test_nothing_goes_out_before_all_sources_have_spoken(mail, lines, nursery, autojump_clock):
    """Held back until each source has sent a full set; increments before do not count; then the whole view, forced."""
    await start(nursery, mail)
    await mail.inbox.send(said(subject("a"), full=True))
    await mail.inbox.send(said(subject("b")))
    await mail.inbox.send(said(source="mesh-config"))
    assert await heard(mail) is None
    await mail.inbox.send(said(subject("mesh", kind="MeshConfig"), source="mesh-config", full=True))
    changed = await heard(mail)
    assert {key.name for table in changed.view.tables.values() for key in table} == {"a", "b", "mesh"}
    assert (changed.forced, changed.reasons) == (True, {"global": 1})
    assert [(cause.source, cause.event) for cause in changed.causes.kept] == [
        ("config", ChangeEvent.RESYNCED), ("mesh-config", ChangeEvent.RESYNCED),
    ]  # fmt: skip
    assert [line["event"] for line in lines] == ["sources_awaited", "sources_synced"]
    nursery.cancel_scope.cancel()


async def test_a_change_goes_out_with_its_causes(mail, lines, nursery, autojump_clock):
    """Added, updated, deleted: a cause each with an id of its own, the keys, and the whole view."""
    await synced(nursery, mail, subject("a"), subject("b"))
    await mail.inbox.send(said(subject("a", "2"), subject("c"), deletes=frozenset({subject("b").key})))
    changed = await heard(mail)
    assert {key.name for key in changed.keys} == {"a", "b", "c"}
    assert {key.name for key in changed.view.table("VirtualService")} == {"a", "c"}
    assert [
        (cause.id, cause.name, cause.event, cause.resource_version, cause.seen_at) for cause in changed.causes.kept
    ] == [
        (3, "a", ChangeEvent.UPDATED, "v2", 7.0),
        (4, "c", ChangeEvent.ADDED, "v1", 7.0),
        (5, "b", ChangeEvent.DELETED, "v1", 7.0),
    ]
    assert (changed.forced, changed.reasons, changed.seen_at) == (False, {"config": 3}, 7.0)
    assert {key: lines[-1][key] for key in ("event", "source", "count", "keys", "first_cause", "last_cause")} == {
        "event": "config_changed", "source": "config", "count": 3, "first_cause": 3, "last_cause": 5,
        "keys": ["VirtualService/shop/a", "VirtualService/shop/c", "VirtualService/shop/b"],
    }  # fmt: skip
    nursery.cancel_scope.cancel()


async def test_equal_objects_are_no_change(mail, nursery, autojump_clock):
    """What says the same is dropped, also in a full set, and the old object stays."""
    first = await synced(nursery, mail, subject("a"))
    await mail.inbox.send(said(subject("a")))
    await mail.inbox.send(said(subject("a"), full=True))
    assert await heard(mail) is None
    await mail.inbox.send(said(subject("b")))
    changed = await heard(mail)
    assert changed.view.get(subject("a").key) is first.view.get(subject("a").key)
    nursery.cancel_scope.cancel()


async def test_a_full_set_deletes_what_is_not_in_it(mail, nursery, autojump_clock):
    """What a source does not name in a full set is gone, but only what was its own."""
    await start(nursery, mail)
    await mail.inbox.send(said(subject("a"), subject("b"), full=True))
    await mail.inbox.send(said(subject("mesh", kind="MeshConfig"), source="mesh-config", full=True))
    await mail.debouncer.receive()
    await mail.inbox.send(said(subject("b"), full=True))
    changed = await heard(mail)
    assert {key.name for key in changed.keys} == {"a"}
    assert changed.view.get(subject("mesh", kind="MeshConfig").key) is not None
    nursery.cancel_scope.cancel()


async def test_many_causes_are_counted(mail, nursery, autojump_clock):
    """Fifty causes travel, the rest is a number; all keys travel."""
    await synced(nursery, mail)
    await mail.inbox.send(said(*(subject(f"{number:03}") for number in range(70))))
    changed = await heard(mail)
    assert (len(changed.causes.kept), changed.causes.dropped, len(changed.keys)) == (50, 20, 70)
    nursery.cancel_scope.cancel()


async def test_the_mesh_s_own_settings_concern_everybody(mail, nursery, autojump_clock):
    """A changed MeshConfig is forced and counted as "global"."""
    await synced(nursery, mail)
    await mail.inbox.send(said(subject("mesh", kind="MeshConfig"), source="mesh-config"))
    changed = await heard(mail)
    assert (changed.forced, changed.reasons) == (True, {"global": 1})
    nursery.cancel_scope.cancel()


async def test_everything_is_sent_again_on_request(mail, lines, nursery, autojump_clock):
    """After a restart of the debouncer: the whole view, forced; its causes say so, beside all that are not settled."""
    mail.inbox.post(CausesSettled(causes=(await synced(nursery, mail)).causes))
    await mail.inbox.send(said(subject("a")))
    await mail.inbox.send(said(subject("b")))
    await wait_all_tasks_blocked()
    _, second = mail.debouncer.receive_nowait(), mail.debouncer.receive_nowait()
    mail.inbox.post(CausesSettled(causes=second.causes))
    await trio.sleep(9)
    mail.inbox.post(ResendConfig(asked_by="debouncer"))
    await wait_all_tasks_blocked()
    changed = await mail.debouncer.receive()
    assert {key.name for key in changed.view.table("VirtualService")} == {"a", "b"}
    assert (changed.forced, changed.seen_at) == (True, 9.0)
    assert [(cause.name, cause.source, cause.event) for cause in changed.causes.kept] == [
        ("a", "config", ChangeEvent.ADDED), ("", "debouncer", ChangeEvent.RESYNCED),
    ]  # fmt: skip
    assert lines[-1]["event"] == "config_resent"
    nursery.cancel_scope.cancel()


async def test_a_request_before_all_is_there_changes_nothing(mail, nursery, autojump_clock):
    """Whoever asks early is answered when everything is there."""
    await start(nursery, mail)
    mail.inbox.post(ResendConfig(asked_by="debouncer"))
    assert await heard(mail) is None
    await mail.inbox.send(said(full=True))
    await mail.inbox.send(said(source="mesh-config", full=True))
    assert (await heard(mail)).forced
    assert await heard(mail) is None
    nursery.cancel_scope.cancel()


async def test_ids_of_causes_go_on_after_a_restart(mail, autojump_clock):
    """A new life of the actor does not use ids again, and tells once more of what is not settled."""
    ids, seen = count(1), []
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            await start(nursery, mail, ids)
            await mail.inbox.send(said(full=True))
            await mail.inbox.send(said(source="mesh-config", full=True))
            seen += [cause.id for cause in (await heard(mail)).causes.kept]
            nursery.cancel_scope.cancel()
    assert seen == [1, 2, 1, 2, 3, 4]


async def test_what_changed_while_it_was_down_is_a_change(mail, autojump_clock):
    """What sources say after a restart is compared with what was passed on before: the difference has causes."""
    ids = count(1)
    async with trio.open_nursery() as nursery:
        await start(nursery, mail, ids)
        await mail.inbox.send(said(subject("a"), subject("b"), subject("c"), full=True))
        await mail.inbox.send(said(source="mesh-config", full=True))
        await mail.inbox.send(CausesSettled(causes=(await heard(mail)).causes))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        await start(nursery, mail, ids)
        await mail.inbox.send(said(subject("a"), subject("b", "2"), subject("d"), full=True))
        await mail.inbox.send(said(source="mesh-config", full=True))
        causes = (await heard(mail)).causes.kept
        nursery.cancel_scope.cancel()
    assert [(cause.name, cause.event) for cause in causes if cause.name] == [
        ("b", ChangeEvent.UPDATED), ("d", ChangeEvent.ADDED), ("c", ChangeEvent.DELETED)
    ]  # fmt: skip


def rejected(line=1, reason="expected a number"):
    """A finding about an object."""
    origin = Origin(source="config", path="a.yaml", line=line)
    return Rejected(origin=origin, key=subject("a").key, path="spec.hosts", reason=reason, hint="try 1")


async def test_findings_are_told_once(mail, lines, nursery, autojump_clock):
    """A finding is logged when it is new and when it is resolved; one that moved to another line is the same."""
    await synced(nursery, mail)
    lines.clear()
    document = Rejected(origin=Origin(source="config", path="b.yaml", line=4), key=None, path="", reason="no YAML")
    remark = Remark(
        origin=Origin(source="config", path="c.yaml", line=1), key=subject("c").key, path="spec.x", reason="?"
    )
    await mail.inbox.send(said(findings=(rejected(), document, remark)))
    await mail.inbox.send(said(findings=(rejected(line=9), document, remark)))
    await mail.inbox.send(said(findings=(document,)))
    await mail.inbox.send(said(findings=(document,), source="mesh-config"))
    assert await heard(mail) is None
    assert [(line["event"], line["log_level"], line["object"]) for line in lines] == [
        ("object_rejected", "error", "VirtualService/shop/a"),
        ("object_rejected", "error", ""),
        ("object_remarked", "warning", "VirtualService/shop/c"),
        ("finding_resolved", "info", "VirtualService/shop/a"),
        ("finding_resolved", "info", "VirtualService/shop/c"),
        ("object_rejected", "error", ""),
    ]
    assert {key: lines[0][key] for key in ("source", "file", "line", "path", "reason", "hint")} == {
        "source": "config", "file": "a.yaml", "line": 1, "path": "spec.hosts", "reason": "expected a number",
        "hint": "try 1",
    }  # fmt: skip
    nursery.cancel_scope.cancel()


async def test_many_findings_are_told_in_turns(mail, lines, nursery, autojump_clock):
    """Thousands of lines in one step would hold everybody."""
    await synced(nursery, mail)
    findings = tuple(rejected(reason=str(number)) for number in range(10 * intake.FINDINGS_PER_TURN))
    await mail.inbox.send(said(findings=findings))
    turns = [0]
    while turns[-1] < len(findings):
        turns.append(sum(line["event"] == "object_rejected" for line in lines))
        await trio.lowlevel.checkpoint()
    assert max(later - sooner for sooner, later in pairwise(turns)) <= 2 * intake.FINDINGS_PER_TURN  # the turns of two
    nursery.cancel_scope.cancel()


async def test_whether_an_older_version_is_in_force(mail, lines, nursery, autojump_clock):
    """What was good before stays and is a warning; what never was is not in force, and that is an error."""
    await synced(nursery, mail)
    await mail.inbox.send(said(subject("a")))
    await heard(mail)
    lines.clear()
    never = replace(rejected(), key=subject("b").key)
    await mail.inbox.send(said(findings=(rejected(), never)))
    await wait_all_tasks_blocked()
    assert [(line["object"], line["log_level"], line["kept"]) for line in lines] == [
        ("VirtualService/shop/a", "warning", True), ("VirtualService/shop/b", "error", False)
    ]  # fmt: skip
    nursery.cancel_scope.cancel()


async def test_rejected_objects_are_in_the_metrics(mail, nursery, autojump_clock):
    """`pilot_total_rejected_configs` names what is not in force now; changes are counted."""
    await synced(nursery, mail)
    await mail.inbox.send(said(subject("b"), findings=(rejected(),)))
    await heard(mail)

    value = mail.metrics.registry.get_sample_value
    labels = {"type": "VirtualService", "name": "shop/a"}
    assert value("pilot_total_rejected_configs", labels) == 1
    assert value("pilot_inbound_updates_total", {"type": "config"}) == 2
    await mail.inbox.send(said())
    await heard(mail)
    assert value("pilot_total_rejected_configs", labels) is None
    nursery.cancel_scope.cancel()


async def test_whoever_reads_what_is_rejected_sees_all_of_it(mail, nursery, autojump_clock):
    """However much nonsense a folder has, and whatever comes meanwhile: all of before or all of now."""
    await synced(nursery, mail)
    findings = [replace(rejected(), key=subject(f"n{number}").key) for number in range(4 * intake.FINDINGS_PER_TURN)]
    seen = set()
    for some in (findings, findings[1:], ()):
        await mail.inbox.send(said(findings=tuple(some)))
        for _ in range(100):
            await trio.lowlevel.checkpoint()
            seen.update(len(metric.samples) for metric in mail.metrics.rejected_configs.collect())
    assert seen == {0, len(findings), len(findings) - 1}
    nursery.cancel_scope.cancel()
