"""Builds the snapshot: one build at a time, in steps, so that the event loop is never held.

Owns: the last snapshot that it handed on, with the history of requests that led to it, one that it holds back, and what
    could not be built.
Receives: `BuildSnapshot` from the debouncer, `ResendSnapshot` from a restarted scheduler.
Sends: `SnapshotBuilt` to the push scheduler, `BuilderIdle` to the debouncer, `NamesWanted` to the source of names,
    `KeysWanted` to the source of keys.
Dies when: nothing known. A processor that breaks a rule of its own would do it again: proxies keep the last snapshot,
    and the next change is another attempt.
Recovers by: asking intake to resend everything; the next build is a cold one. Its history goes on: see `Newest`.

A snapshot whose policies want keys that nobody has asked for before is held back, but not for long. With it,
proxies would refuse tokens that are good, if only for the time of a fetch; once the keys are there, or are known not to
be, the next snapshot takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from math import inf
from typing import TYPE_CHECKING, assert_never

import trio

from actors.logs import get_logger
from actors.messages import (
    BuilderIdle,
    BuildSnapshot,
    CausesSettled,
    ResendConfig,
    ResendSnapshot,
    SnapshotBuilt,
)
from actors.newest import Newest
from actors.source_messages import KeysWanted, NamesWanted
from actors.stepping import drive
from actors.supervision import attempt
from actors.tree import Crashed
from trierarch.push.processors import ContextSettings, build_push_context
from trierarch.push.request import PushRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.mailbox import Mailbox
    from actors.messages import ToDebouncer, ToIntake, ToPushScheduler, ToSnapshotBuilder
    from actors.metrics import Metrics
    from actors.source_messages import ToDnsSource, ToJwksSource
    from trierarch.config.key_sets import KeyLocation
    from trierarch.config.store import ConfigView
    from trierarch.push.context import PushContext

log = get_logger("snapshot_builder")

SNAPSHOT_NUMBERS = count(1)
"""Unique in the process: a restarted builder goes on counting, for the generator knows snapshots by their numbers."""

HELD_FIRST, HELD = 5.0, 2.0
"""Seconds that the first snapshot is held at most, which nobody could be served without, and any later one, for which
others wait too.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where the builder's messages go, and where its last snapshot can be looked at. `names`: None where none is looked
    up; `keys`: None where none are fetched.
    """

    intake: Mailbox[ToIntake]
    debouncer: Mailbox[ToDebouncer]
    scheduler: Mailbox[ToPushScheduler]
    names: Mailbox[ToDnsSource] | None = None
    keys: Mailbox[ToJwksSource] | None = None
    newest: Newest = field(default_factory=Newest)


async def run(
    inbox: Mailbox[ToSnapshotBuilder],
    *,
    outlets: Outlets,
    settings: ContextSettings,
    metrics: Metrics,
    numbers: Iterator[int] = SNAPSHOT_NUMBERS,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Build whatever is asked for, for ever."""
    builder = Builder(outlets, settings, metrics, numbers)
    outlets.debouncer.post(BuilderIdle())
    outlets.intake.post(ResendConfig(asked_by="snapshot_builder"))
    task_status.started()
    while True:
        message = None
        with trio.move_on_at(builder.held_until):
            message = await inbox.receive()
        if message is None:
            await builder.release()
        else:
            await builder.handle(message)


class Builder:
    """The state of one life of the actor. What is `owed` was asked for and could not be built; what is `held` waits for
    keys, until `held_until` (infinity: nothing is held); keys that were `missed` are not waited for again.
    """

    def __init__(self, outlets: Outlets, settings: ContextSettings, metrics: Metrics, numbers: Iterator[int]) -> None:
        self._outlets = outlets
        self._settings = settings
        self._metrics = metrics
        self._numbers = numbers
        self._built: SnapshotBuilt | None = None
        self._owed = PushRequest()
        self._wanted: frozenset[str] | None = None
        self._wanted_keys: Mapping[KeyLocation, float] | None = None
        self._held: SnapshotBuilt | None = None
        self._missed: frozenset[KeyLocation] = frozenset()
        self.held_until = inf

    async def handle(self, message: ToSnapshotBuilder) -> None:
        """Step by one message."""
        match message:
            case BuildSnapshot(view=view, request=request):
                await self._try(view, self._owed.merged(request))
                self._outlets.debouncer.post(BuilderIdle())
            case ResendSnapshot():
                if self._built is not None:
                    await self._outlets.scheduler.send(self._built)
            case never:
                assert_never(never)

    async def release(self) -> None:
        """Hand on what is held: it has waited for long enough."""
        self.held_until = inf
        if self._held is not None:
            held, self._held = self._held, None
            self._missed = held.context.request_authentications.pending
            await self._hand_on(held)

    async def _try(self, view: ConfigView, request: PushRequest) -> None:
        """Build and hand on, or hold; what cannot be built is owed with the next."""
        if self._held is not None:
            request = self._held.request.merged(request)
        outcome = await attempt(partial(self._build, view, request))
        if isinstance(outcome, Crashed):
            self._owed = request
            self._metrics.contained_errors.labels("snapshot").inc()
            log.error("snapshot_failed", causes=_ids(request), exc_info=outcome.error)
            return
        self._held, self._owed = None, PushRequest()
        self._want(outcome.context)
        if self._waits_for_keys(outcome.context):
            self._held = outcome
        else:
            await self._hand_on(outcome)

    async def _hand_on(self, built: SnapshotBuilt) -> None:
        self._built = built
        self._outlets.newest.context, self._outlets.newest.history = built.context, built.history
        await self._outlets.scheduler.send(built)
        self._outlets.intake.post(CausesSettled(causes=built.request.causes))

    def _want(self, context: PushContext) -> None:
        """Have names looked up and keys fetched; what is found will come in like any other change."""
        names, keys = context.network_gateways.names, context.request_authentications.wanted
        if self._outlets.names is not None and names != self._wanted:
            self._outlets.names.post(NamesWanted(names=names))
        if self._outlets.keys is not None and keys != self._wanted_keys:
            self._outlets.keys.post(KeysWanted(locations=keys))
        self._wanted, self._wanted_keys = names, keys

    def _waits_for_keys(self, context: PushContext) -> bool:
        """Whether a snapshot is to be held, and until when at most. One that takes its place waits no longer."""
        pending = context.request_authentications.pending - self._missed
        if self._outlets.keys is None or not pending:
            self.held_until = inf
            return False
        if self.held_until == inf:
            self.held_until = trio.current_time() + (HELD if self._built else HELD_FIRST)
            log.info("snapshot_held", snapshot=context.number, keys=[location.url for location in sorted(pending)])
        return True

    async def _build(self, view: ConfigView, request: PushRequest) -> SnapshotBuilt:
        started = trio.current_time()
        latest = self._held or self._built
        previous = latest.context if latest else None
        context = await drive(build_push_context(view, self._settings, previous, next(self._numbers)))
        _report(context, request, started, self._metrics)
        request = _stamped(request, context)
        history = self._outlets.newest.history.added(context.number, request)
        return SnapshotBuilt(context=context, request=request, history=history)


def _report(context: PushContext, request: PushRequest, started: float, metrics: Metrics) -> None:
    took = trio.current_time() - started
    metrics.snapshot_time.observe(took)
    metrics.debounce_time.observe(started - request.stages.seen_at)
    metrics.services.set(len(context.services.ordered))
    metrics.virtual_services.set(len(context.virtual_services.roots))
    log.info(
        "snapshot_built",
        snapshot=context.number,
        changed=len(context.changed),
        services=len(context.services.ordered),
        findings=len(context.findings),
        causes=_ids(request),
        seconds=round(took, 6),
    )


def _stamped(request: PushRequest, context: PushContext) -> PushRequest:
    forced = request.forced or any(key.kind == "MeshConfig" for key in context.changed)
    stages = replace(request.stages, built_at=trio.current_time())
    return replace(request, keys=request.keys | context.changed, forced=forced, stages=stages)


def _ids(request: PushRequest) -> list[int]:
    return [cause.id for cause in request.causes.kept]
