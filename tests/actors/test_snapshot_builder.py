"""The snapshot builder alone: the test plays intake, the debouncer and the scheduler."""

from __future__ import annotations

from functools import partial
from itertools import count

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import snapshot_builder
from actors.mailbox import Mailbox
from actors.messages import BuilderIdle, BuildSnapshot, CausesSettled, ResendConfig, ResendSnapshot, SnapshotBuilt
from actors.metrics import Metrics
from actors.snapshot_builder import HELD, HELD_FIRST
from tests.actors.meshes import SHOP, routing
from tests.push.fixtures import edited, view_of
from trierarch.config.key_sets import KeyLocation, KeySet, NoKeys, build_key_set
from trierarch.push.causes import Cause, Causes, ChangeEvent, Stages
from trierarch.push.mesh import ContextSettings
from trierarch.push.request import ConfigKey, PushRequest


class Stage:
    """A builder and its neighbours' mailboxes. Numbers of snapshots go on over its lives."""

    def __init__(self) -> None:
        self.keys = Mailbox("jwks")
        self.inbox = Mailbox("snapshot_builder", flow=1)
        self.intake = Mailbox("intake")
        self.debouncer = Mailbox("debouncer")
        self.scheduler = Mailbox("push_scheduler", flow=1)
        self.metrics = Metrics()
        self.view = view_of(SHOP)
        outlets = snapshot_builder.Outlets(
            intake=self.intake, debouncer=self.debouncer, scheduler=self.scheduler, keys=self.keys
        )
        self.run = partial(
            snapshot_builder.run, self.inbox, outlets=outlets, settings=ContextSettings(), metrics=self.metrics,
            numbers=count(1),
        )  # fmt: skip
        self.life = trio.CancelScope()

    async def start(self, nursery):
        """One life of the actor."""
        self.life = trio.CancelScope()
        await nursery.start(self._live)

    async def _live(self, *, task_status):
        with self.life:
            await self.run(task_status=task_status)

    async def order(self, text="", **fields):
        """The debouncer orders a snapshot of the view after an edit."""
        self.view = edited(self.view, text)
        request = PushRequest(**({"causes": causes(1), "stages": Stages(seen_at=1.0)} | fields))
        await self.inbox.send(BuildSnapshot(view=self.view, keys=frozenset(), request=request))

    async def built(self):
        """The next snapshot that is handed on."""
        message = await self.scheduler.receive()
        assert isinstance(message, SnapshotBuilt)
        await wait_all_tasks_blocked()
        return message


def causes(*ids):
    """Causes with these ids."""
    return Causes(
        kept=tuple(
            Cause(
                id=each, source="test", kind="VirtualService", namespace="shop", name="web", resource_version="",
                event=ChangeEvent.UPDATED, seen_at=1.0,
            )
            for each in ids
        )
    )  # fmt: skip


def told(mailbox):
    """Everything that is in a mailbox."""
    found = []
    while (message := mailbox.receive_nowait()) is not None:
        found.append(message)
    return found


@pytest.fixture
async def stage(nursery):
    """A builder that is up and has been told nothing."""
    stage = Stage()
    await stage.start(nursery)
    return stage


async def test_it_begins_by_asking_for_everything(stage):
    """And tells the debouncer, who may believe that something is being built, that nothing is."""
    assert told(stage.intake) == [ResendConfig(asked_by="snapshot_builder")]
    assert told(stage.debouncer) == [BuilderIdle()]


async def test_the_first_snapshot_holds_everything(stage, autojump_clock):
    """All that there is counts as changed; the request goes on with its causes and the time of the build."""
    await stage.order()
    message = await stage.built()
    assert (message.context.number, message.request.keys) == (1, message.context.changed)
    assert ConfigKey("VirtualService", "shop", "web") in message.request.keys
    assert message.request.causes == causes(1)
    assert message.request.stages.built_at == trio.current_time()
    assert message.request.stages.seen_at == 1.0


async def test_the_next_snapshot_names_what_differs(stage):
    """Sections without a change are those of the snapshot before."""
    await stage.order()
    first = await stage.built()
    await stage.order(routing(2), causes=causes(2))
    second = await stage.built()
    assert second.context.number == 2
    assert second.request.keys == {ConfigKey("VirtualService", "shop", "web")}
    assert second.context.services is first.context.services
    assert [number for number, _ in second.history.entries] == [1, 2]
    assert second.history.after(1) == (second.request,)


async def test_others_are_told_when_a_snapshot_is_handed_on(stage):
    """Not before the scheduler has room for it: then the debouncer may release more, and intake forget the causes."""
    await stage.order()
    await wait_all_tasks_blocked()
    await stage.order(routing(2), causes=causes(2))
    await wait_all_tasks_blocked()
    assert told(stage.debouncer) == [BuilderIdle(), BuilderIdle()]
    assert told(stage.intake)[1:] == [CausesSettled(causes=causes(1))]
    await stage.built()
    assert told(stage.debouncer) == [BuilderIdle()]
    assert told(stage.intake) == [CausesSettled(causes=causes(2))]


async def test_it_sends_the_snapshot_again(stage):
    """To a scheduler that was restarted: the same one, with the same request."""
    await stage.order()
    message = await stage.built()
    stage.inbox.post(ResendSnapshot())
    again = await stage.built()
    assert again == message
    assert told(stage.debouncer) == [BuilderIdle(), BuilderIdle()]


async def test_without_a_snapshot_it_sends_nothing(stage):
    """A scheduler that asks too early gets the first snapshot when it is built."""
    stage.inbox.post(ResendSnapshot())
    await wait_all_tasks_blocked()
    assert stage.scheduler.receive_nowait() is None


async def test_a_successor_builds_cold_under_a_new_number(stage, nursery):
    """Everything counts as changed, and no two snapshots of a process have the same number."""
    await stage.order()
    await stage.built()
    stage.life.cancel()
    await stage.start(nursery)
    await stage.order()
    message = await stage.built()
    assert message.context.number == 2
    assert len(message.request.keys) > 1
    assert [number for number, _ in message.history.entries] == [1, 2]


async def test_changed_mesh_settings_concern_everybody(stage):
    """Whatever was asked for: a snapshot in which MeshConfig differs is forced."""
    await stage.order()
    await stage.built()
    await stage.order("MeshConfig istio-system/istio: {outboundTrafficPolicy: {mode: REGISTRY_ONLY}}")
    assert (await stage.built()).request.forced


async def test_the_metrics_say_how_large_the_mesh_is(stage):
    """Services and virtual services, and how long it took."""
    await stage.order()
    await stage.built()
    value = stage.metrics.registry.get_sample_value
    assert (value("pilot_services"), value("pilot_virt_services")) == (2, 1)
    assert value("pilot_pushcontext_init_seconds_count") == 1


# --- keys that have not been fetched yet -----------------------------------------------------------------------------
ONE, TWO = (KeyLocation(f"https://{name}.example.com/keys") for name in ("one", "two"))
KEYS = {
    location: f"RequestAuthentication shop/{name}: {{jwtRules: [{{issuer: {name}, jwksUri: '{location.url}'}}]}}"
    for name, location in (("one", ONE), ("two", TWO))
}


FETCHED = KeySet("keys")


def found(location, what=FETCHED):
    """What the source says of a location."""
    return build_key_set(location, what, "jwks")


async def test_keys_are_wanted_from_the_source(stage, autojump_clock):
    """All of them, whenever they are others than before; at first in any case, for a builder before may have died."""
    for text in ("", KEYS[ONE], KEYS[TWO], routing(2)):
        await stage.order(text)
        await stage.built()
    assert [message.locations for message in told(stage.keys)] == [{}, {ONE: 5.0}, {ONE: 5.0, TWO: 5.0}]


async def test_a_snapshot_waits_for_keys_that_are_on_their_way(stage, autojump_clock):
    """The one with the keys takes its place: with all that changed, all causes, and no word to intake before."""
    await stage.order()
    first = await stage.built()
    told(stage.intake)
    await stage.order(KEYS[ONE], causes=causes(2))
    await wait_all_tasks_blocked()
    assert stage.scheduler.receive_nowait() is None
    assert told(stage.intake) == []
    await stage.order(found(ONE), causes=causes(3))
    message = await stage.built()
    assert trio.current_time() < HELD
    assert message.request.keys == {ConfigKey("RequestAuthentication", "shop", "one")}
    assert message.request.causes == causes(2, 3)
    assert message.history.after(first.context.number) == (message.request,)
    assert told(stage.intake) == [CausesSettled(causes=causes(2, 3))]


async def test_whoever_orders_more_does_not_wait_in_vain(stage, autojump_clock):
    """What changes meanwhile is built, and joins what is held; the debouncer may go on."""
    await stage.order()
    await stage.built()
    told(stage.debouncer)
    await stage.order(KEYS[ONE])
    await trio.sleep(HELD / 2)
    await stage.order(routing(2))
    await wait_all_tasks_blocked()
    assert told(stage.debouncer) == [BuilderIdle(), BuilderIdle()]
    message = await stage.built()
    assert trio.current_time() == HELD
    assert {key.kind for key in message.request.keys} == {"RequestAuthentication", "VirtualService"}


async def test_nobody_waits_for_ever(stage, autojump_clock):
    """Not the first snapshot, nor any other for the same keys again; new ones are worth waiting again."""
    await stage.order(KEYS[ONE])
    assert (await stage.built()).context.request_authentications.pending == {ONE}
    assert trio.current_time() == HELD_FIRST
    await stage.order(routing(2))
    await stage.built()
    assert trio.current_time() == HELD_FIRST
    await stage.order(KEYS[TWO])
    await stage.built()
    assert trio.current_time() == HELD_FIRST + HELD


async def test_a_failure_ends_the_wait(stage, autojump_clock):
    """As soon as it is known that there are no keys, everybody may know."""
    await stage.order(KEYS[ONE])
    await wait_all_tasks_blocked()
    await stage.order(found(ONE, NoKeys("it is closed")))
    await stage.built()
    assert trio.current_time() == 0


async def test_a_successor_waits_anew(stage, nursery, autojump_clock):
    """The held snapshot is lost with the builder; its causes are not, for intake was not told that they are settled."""
    await stage.order(KEYS[ONE])
    await wait_all_tasks_blocked()
    told(stage.intake)
    stage.life.cancel()
    await stage.start(nursery)
    assert told(stage.intake) == [ResendConfig(asked_by="snapshot_builder")]
    await stage.order()
    message = await stage.built()
    assert trio.current_time() == HELD_FIRST
    assert ConfigKey("RequestAuthentication", "shop", "one") in message.request.keys
