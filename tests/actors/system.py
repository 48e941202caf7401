"""The whole tree of actors in one process, without sockets, files or threads, for tests under the autojump clock.

    mesh = await start_mesh(nursery, TEXT)      # up, with every Envoy connected and served
    mesh.edit("VirtualService shop/web: {...}")
    mesh.kill("debouncer")
    await mesh.settle()
    mesh.check()                                # every Envoy has what a fresh build of the newest configuration gives

The source is played: its `World` is what a folder would be, and outlives the actor that reads it. The Envoys speak both
dialects over fake streams. Everything between is real.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING
from unittest.mock import patch

import trio
from cryptography.hazmat.primitives.asymmetric import rsa
from trio.testing import MockClock

import supervisor
from actors import authority
from actors.mailbox import ControlMailbox, Mailbox, ask
from actors.messages import Describe, PushRecorded, SourceChanged
from actors.source_messages import ResendAll
from tests.actors.fake_stream import FakeEnvoy, endpoints_of, routes_of
from tests.push.fixtures import CLUSTER, built, objects, scope_of, view_in, view_of
from trierarch.envoy import types
from trierarch.envoy.generate import PARTS, generate
from trierarch.envoy.memo import Memo
from trierarch.envoy.node import decode_proxy
from trierarch.envoy.part_cache import PartCache
from trierarch.push.mesh import ContextSettings
from trierarch.push.steps import run_steps
from trierarch.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.descriptions import ConnectionDescription
    from actors.source_messages import ToSource
    from protocol.xds.resources import ResourceSet
    from tests.actors.outside import Outside
    from trierarch.config.findings import Finding
    from trierarch.push.status import PushRecord

SETTINGS = Settings(grpc_addr="", secure_grpc_addr="", http_addr="", monitoring_addr="", collects_briefly=False)
WITH_IDENTITIES = replace(SETTINGS, secure_grpc_addr="127.0.0.1:0")
"""With a certificate authority."""

SOURCE = "world"

CALM = 45.0
"""Virtual seconds after which nothing is in flight any more: every patience and delay in the program is shorter."""


# --- the source ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Look:
    """To the played source: the world has changed."""


class World:
    """What there is to read, as objects in the short form of `tests.push.fixtures`. `findings` go with an edit. To read
    everything takes so many seconds of `slowness`.
    """

    def __init__(self, text: str) -> None:
        self.objects = {each.key: each for each in objects(text)}
        self.findings: tuple[Finding, ...] = ()
        self.slowness = 0.0
        self._inbox: Mailbox[ToSource | Look] | None = None

    def edit(self, text: str) -> None:
        """Objects appear or are replaced."""
        self.objects |= {each.key: each for each in objects(text)}
        self._ring()

    def delete(self, kind: str, path: str) -> None:
        """An object goes: its kind and NAMESPACE/NAME."""
        namespace, _, name = path.rpartition("/")
        self.objects = {
            key: each
            for key, each in self.objects.items()
            if (key.kind, key.namespace, key.name) != (kind, namespace, name)
        }
        self._ring()

    def _ring(self) -> None:
        if self._inbox is not None:
            self._inbox.post(Look())

    async def run(self, inbox, *, intake, task_status) -> None:
        """One life of the source: tell everything, then what changes, and everything again when asked to."""
        self._inbox = inbox
        task_status.started()
        told = await self._tell_everything(intake)
        while True:
            match await inbox.receive():
                case ResendAll():
                    told = await self._tell_everything(intake)
                case Look():
                    told = await self._tell_changes(intake, told)

    async def _tell_everything(self, intake):
        now = trio.current_time()
        await trio.sleep(self.slowness)
        told = dict(self.objects)
        everything = SourceChanged(
            source=SOURCE, upserts=tuple(told.values()), full=True, findings=self.findings, seen_at=now
        )
        await intake.send(everything)
        return told

    async def _tell_changes(self, intake, told):
        now = dict(self.objects)
        upserts = tuple(each for key, each in now.items() if told.get(key) is not each)
        deletes = frozenset(told.keys() - now.keys())
        change = SourceChanged(
            source=SOURCE, upserts=upserts, deletes=deletes, findings=self.findings, seen_at=trio.current_time()
        )
        await intake.send(change)
        return now


# --- the mesh --------------------------------------------------------------------------------------------------------
@dataclass(kw_only=True)
class Mesh:
    """The running system, what it reads, and who is connected to it."""

    world: World
    system: supervisor.System
    envoys: list[FakeEnvoy]
    nursery: trio.Nursery
    outside: Outside | None = None
    """Who answers what sources look up, if anybody does."""
    records: list[PushRecord] = field(default_factory=list)
    """Every record that reached the journal's mailbox, also while no journal was there to take it."""

    # --- what a test does --------------------------------------------------------------------------------------------
    def edit(self, text: str) -> None:
        """Change what there is to read."""
        self.world.edit(text)

    def delete(self, kind: str, path: str) -> None:
        """Delete an object: its kind and NAMESPACE/NAME."""
        self.world.delete(kind, path)

    def kill(self, name: str) -> None:
        """Kill an actor, which must be up."""
        assert self.system.shared.handle.kill(name), f"there is no {name} to kill"

    async def settle(self) -> None:
        """Wait until nothing is in flight."""
        await trio.sleep(CALM)

    async def connect(self, pod: str, ip: str, *, delta: bool = True, **metadata: object) -> FakeEnvoy:
        """One more Envoy; it is not waited for."""
        envoy = FakeEnvoy(pod, ip, delta=delta, **metadata)
        self.envoys.append(envoy)
        self.nursery.start_soon(envoy.run, self.system.shared.mail.connections, self.system.shared.metrics)
        return envoy

    # --- what a test asks --------------------------------------------------------------------------------------------
    def check(self) -> None:
        """Every Envoy holds what a fresh build of the newest configuration gives, byte for byte."""
        for envoy in self.envoys:
            held = {types.TYPE_RULES[url].short: bodies for url, bodies in envoy.client.held.items()}
            for short, bodies in self.expected(envoy).items():
                assert held[short] == bodies, (envoy, short, sorted(held[short].keys() ^ bodies.keys()))

    def expected(self, envoy: FakeEnvoy) -> dict[str, dict[str, bytes]]:
        """What an Envoy should have: by type and name, built without any actor."""
        sets = fresh_sets(self.world.objects.values(), envoy.node, self.outside)
        clusters, listeners = _bodies(sets[types.CLUSTER]), _bodies(sets[types.LISTENER])
        wanted_endpoints = {name for key, body in clusters.items() for name in endpoints_of(key, body)}
        wanted_routes = {name for key, body in listeners.items() for name in routes_of(key, body)}
        return {
            "CDS": clusters,
            "EDS": _chosen(sets[types.ENDPOINT], types.ENDPOINT, wanted_endpoints),
            "LDS": listeners,
            "RDS": _chosen(sets[types.ROUTE], types.ROUTE, wanted_routes),
        }

    def records_of(self, envoy: FakeEnvoy) -> list[PushRecord]:
        """What came of all pushes to an Envoy, in their order."""
        return [record for record in self.records if record.proxy == envoy.id]

    async def describe(self, proxy_id: str = "") -> tuple[ConnectionDescription, ...]:
        """The connections as the debug pages see them."""
        connections = self.system.shared.mail.connections
        return await ask(connections, lambda reply: Describe(proxy_id=proxy_id, reply=reply))

    def restarts(self) -> dict[str, int]:
        """Who was restarted, and how often."""
        return {child.name: child.restarts for child in self.system.shared.handle.statistics() if child.restarts}

    def number_of(self, envoy: FakeEnvoy) -> str:
        """The name of the connection actor that serves an Envoy."""
        newest = self.records_of(envoy)[-1].connection
        return f"connection-{newest.rpartition('-')[2]}"


def fresh_sets(world: Iterable, node: bytes, outside: Outside | None = None) -> dict[str, ResourceSet]:
    """All resources for a node, by type URL, built from nothing; what is wanted from outside is there already."""
    settings = context_settings(SETTINGS)
    context = built(view_of(*world), settings=settings)
    if outside is not None and (finds := outside.finds(context)):
        context = built(view_of(*world, *finds), settings=settings)
    proxy = decode_proxy(node, CLUSTER)
    view, scope, memo, parts = view_in(proxy, context), scope_of(proxy, context), Memo(100_000), PartCache()
    return {url: run_steps(generate(view, scope, context, url, memo, parts)) for url in PARTS}


def context_settings(settings: Settings) -> ContextSettings:
    """The settings of snapshots, as the wiring makes them."""
    return ContextSettings(cluster=settings.cluster_id, domain=settings.domain, features=settings.features)


def _bodies(resources: ResourceSet) -> dict[str, bytes]:
    return {each.name: each.body for each in resources}


def _chosen(resources: ResourceSet, url: str, names: Iterable[str]) -> dict[str, bytes]:
    """The bodies of these names, placeholders among them."""
    placeholder = types.TYPE_RULES[url].placeholder
    assert placeholder is not None
    return {name: (resources.get(name) or placeholder(name)).body for name in names}


async def start_mesh(
    nursery: trio.Nursery,
    text: str,
    *,
    envoys: Iterable[FakeEnvoy] = (),
    settings: Settings = SETTINGS,
    outside: Outside | None = None,
    patient: bool = False,
) -> Mesh:
    """Start everything and wait until every Envoy is served. `patient`: no restart is one too many."""
    world = World(text)
    source = supervisor.SourceSpec(name=SOURCE, start=world.run)
    system = supervisor.build_system(settings, (source,))
    if patient:
        system = replace(system, tree=_patient(system.tree))
    system = replace(system, tree=without_ports(system.tree))
    return await start_system(nursery, world, system, envoys=envoys, outside=outside)


async def start_system(
    nursery: trio.Nursery,
    world: World,
    system: supervisor.System,
    *,
    envoys: Iterable[FakeEnvoy],
    outside: Outside | None = None,
) -> Mesh:
    """Start a system that reads this world, with whatever ports it has, and wait until every Envoy is served."""
    mesh = Mesh(world=world, system=system, envoys=list(envoys), nursery=nursery, outside=outside)
    _overhear(system.shared.mail.journal, mesh.records)
    await nursery.start(supervisor.run, system)
    for envoy in mesh.envoys:
        nursery.start_soon(envoy.run, system.shared.mail.connections, system.shared.metrics)
    await mesh.settle()
    return mesh


def without_ports(tree):
    """Streams come by other ways, whatever the settings say of addresses."""
    return replace(tree, children=tuple(each for each in tree.children if not each.name.endswith("grpc")))


def _patient(tree):
    children = tuple(_patient(each) if hasattr(each, "children") else each for each in tree.children)
    return replace(tree, children=children, intensity=10_000)


def _overhear(journal: Mailbox, records: list[PushRecord]) -> None:
    """Note every record that is posted."""
    post = journal.post

    def overheard(message) -> None:
        if isinstance(message, PushRecorded):
            records.append(message.record)
        post(message)

    journal.post = overheard


# --- what is said inside ---------------------------------------------------------------------------------------------
class Wiretap:
    """Hears every message that is put into any mailbox, from `open_wiretap` on."""

    def __init__(self) -> None:
        self._awaited: list[tuple[type, trio.Event]] = []

    async def hear(self, kind: type) -> None:
        """Wait until a message of this kind is put into a mailbox."""
        heard = trio.Event()
        self._awaited.append((kind, heard))
        await heard.wait()

    def note(self, message: object) -> None:
        """A message was put into a mailbox."""
        for kind, heard in self._awaited:
            if isinstance(message, kind):
                heard.set()
        self._awaited = [(kind, heard) for kind, heard in self._awaited if not heard.is_set()]


@contextmanager
def open_wiretap() -> Iterator[Wiretap]:
    """Listen for the length of a block."""
    tap, send, post = Wiretap(), Mailbox.send, ControlMailbox.post

    async def heard_send(self, message) -> None:
        tap.note(message)
        await send(self, message)

    def heard_post(self, message) -> None:
        tap.note(message)
        post(self, message)

    with patch.object(Mailbox, "send", heard_send), patch.object(ControlMailbox, "post", heard_post):
        yield tap


# --- determinism -----------------------------------------------------------------------------------------------------
def run_seeded(seed: int, play, *arguments) -> None:
    """Run a test of its own under the autojump clock; the order of ready tasks and all chances follow from the seed."""
    trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True  # as pytest-trio does it for Hypothesis
    trio._core._run._r.seed(seed)
    random.seed(seed)
    with patch.object(trio.to_thread, "run_sync", _run_inline), patch.object(authority, "_generate_key", _root_key):
        trio.run(play, *arguments, clock=MockClock(autojump_threshold=0))


async def _run_inline(work, *arguments, **_):
    """Virtual time does not wait for threads."""
    await trio.lowlevel.checkpoint()
    return work(*arguments)


@cache
def _root_key(size: int):
    """Made once: it takes longer than a test."""
    return rsa.generate_private_key(public_exponent=65537, key_size=size)
