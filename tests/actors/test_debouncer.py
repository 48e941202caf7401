"""The debouncer, with both neighbours' mailboxes in the test's hands."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import debouncer
from actors.mailbox import Mailbox
from actors.messages import BuilderIdle, ConfigChanged, ResendConfig
from trierarch.config.objects import ConfigObject, ObjectKey, Origin
from trierarch.config.store import ConfigView
from trierarch.push.causes import Cause, Causes, ChangeEvent
from trierarch.push.debounce import DebounceOptions
from trierarch.settings import Settings


@pytest.fixture
def mail():
    """The mailboxes."""
    return SimpleNamespace(inbox=Mailbox("debouncer"), intake=Mailbox("intake"), builder=Mailbox("builder", flow=1))


class Mesh:
    """Makes changes: each edit is a new whole view."""

    def __init__(self) -> None:
        self.view = ConfigView()
        self.edits = 0

    def edit(self, kind, name, **fields):
        """The message about one edited object."""
        self.edits += 1
        key = ObjectKey("Kubernetes", kind, "shop", name)
        digest = str(self.edits).encode()
        edited = ConfigObject(key=key, spec=self.edits, digest=digest, origin=Origin(source="config"))
        self.view, keys = self.view.apply([edited])
        cause = Cause(
            id=self.edits, source="config", kind=kind, namespace="shop", name=name, resource_version="",
            event=ChangeEvent.UPDATED, seen_at=trio.current_time(),
        )  # fmt: skip
        return ConfigChanged(
            view=self.view, keys=keys, reasons={"config": 1}, causes=Causes(kept=(cause,)),
            seen_at=trio.current_time(), **fields,
        )  # fmt: skip


@pytest.fixture
def mesh():
    """An empty mesh."""
    return Mesh()


def start(nursery, mail, **options):
    """The actor."""
    run = partial(
        debouncer.run, mail.inbox, intake=mail.intake, builder=mail.builder, options=DebounceOptions(**options)
    )
    return nursery.start(run)


async def test_it_asks_for_everything_at_its_start(mail, nursery, autojump_clock):
    """Whatever it held before, intake sends again."""
    await start(nursery, mail)
    assert await mail.intake.receive() == ResendConfig(asked_by="debouncer")
    nursery.cancel_scope.cancel()


async def test_many_changes_become_one_order(mail, mesh, lines, nursery, autojump_clock):
    """Released when quiet: the newest view whole, keys and causes united, reasons added up."""
    await start(nursery, mail)
    await mail.inbox.send(mesh.edit("VirtualService", "a"))
    await trio.sleep(0.06)
    await mail.inbox.send(mesh.edit("VirtualService", "b", forced=True))
    order = await mail.builder.receive()
    assert trio.current_time() == pytest.approx(0.16)
    assert order.view is mesh.view
    assert {key.name for key in order.keys} == {"a", "b"}
    request = order.request
    assert ([cause.id for cause in request.causes.kept], request.reasons, request.forced) == (
        [1, 2],
        {"config": 2},
        True,
    )
    assert request.keys == frozenset()
    assert request.stages.debounced_at == pytest.approx(0.16)
    assert {key: lines[-1][key] for key in ("event", "events", "objects", "waited", "quiet")} == {
        "event": "batch_released", "events": 2, "objects": 2, "waited": 0.16, "quiet": 0.1,
    }  # fmt: skip
    nursery.cancel_scope.cancel()


async def test_the_time_of_the_oldest_change_is_kept(mail, mesh, nursery, autojump_clock):
    """`seen_at` of the batch is that of its first change."""
    await start(nursery, mail)
    await trio.sleep(1)
    await mail.inbox.send(mesh.edit("VirtualService", "a"))
    await trio.sleep(0.05)
    await mail.inbox.send(mesh.edit("VirtualService", "a"))
    order = await mail.builder.receive()
    assert order.request.stages.seen_at == 1.0
    nursery.cancel_scope.cancel()


async def test_nothing_is_sent_while_something_is_built(mail, mesh, nursery, autojump_clock):
    """The next batch waits for the builder, and leaves at once when that is idle."""
    await start(nursery, mail)
    await mail.inbox.send(mesh.edit("VirtualService", "a"))
    await mail.builder.receive()
    await mail.inbox.send(mesh.edit("VirtualService", "b"))
    await trio.sleep(3)
    assert mail.builder.receive_nowait() is None
    mail.inbox.post(BuilderIdle())
    await wait_all_tasks_blocked()
    assert {key.name for key in mail.builder.receive_nowait().keys} == {"b"}
    nursery.cancel_scope.cancel()


async def test_endpoints_overtake_without_taking_others_along(mail, mesh, nursery, autojump_clock):
    """With undelayed endpoints: the order has the last view and the endpoints only; the batch then has everything."""
    await start(nursery, mail, endpoints=False)
    await mail.inbox.send(mesh.edit("VirtualService", "a"))
    await mail.inbox.send(mesh.edit("EndpointSlice", "e"))
    await wait_all_tasks_blocked()
    order = mail.builder.receive_nowait()
    assert {kind for kind, table in order.view.tables.items() if table} == {"EndpointSlice"}
    assert [cause.id for cause in order.request.causes.kept] == [2]
    mail.inbox.post(BuilderIdle())
    order = await mail.builder.receive()
    assert order.view is mesh.view
    assert [cause.id for cause in order.request.causes.kept] == [1]
    nursery.cancel_scope.cancel()


async def test_endpoints_that_go_overtake_too(mail, mesh, nursery, autojump_clock):
    """A deleted slice is absent from the view that overtakes."""
    await start(nursery, mail, endpoints=False)
    slice_ = mesh.edit("EndpointSlice", "e")
    await mail.inbox.send(slice_)
    await mail.builder.receive()
    mail.inbox.post(BuilderIdle())
    await mail.inbox.send(mesh.edit("VirtualService", "a"))
    mesh.view, keys = mesh.view.apply([], slice_.keys)
    await mail.inbox.send(ConfigChanged(view=mesh.view, keys=keys, causes=Causes(), seen_at=trio.current_time()))
    await wait_all_tasks_blocked()
    assert not any(mail.builder.receive_nowait().view.tables.values())
    nursery.cancel_scope.cancel()


def test_options_come_from_the_settings():
    """The settings say how long; so do the variables of istiod."""
    settings = Settings(debounce_after=0.2, debounce_max=3.0, debounce_endpoints=False)
    assert debouncer.options(settings) == DebounceOptions(after=0.2, longest=3.0, endpoints=False)
