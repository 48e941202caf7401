"""Builds the snapshot: one build at a time, in steps, so that the event loop is never held.

Owns: the last snapshot that it handed on, with the history of requests that led to it, and what could not be built.
Receives: `BuildSnapshot` from the debouncer, `ResendSnapshot` from a restarted scheduler.
Sends: `SnapshotBuilt` to the push scheduler, `BuilderIdle` to the debouncer, `NamesWanted` to the source of names.
Dies when: nothing known. A processor that breaks a rule of its own would do it again: proxies keep the last snapshot,
    and the next change is another attempt.
Recovers by: asking intake to resend everything; the next build is a cold one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, assert_never

import trio

from actors.logs import get_logger
from actors.messages import (
    BuilderIdle,
    BuildSnapshot,
    CausesSettled,
    NamesWanted,
    ResendConfig,
    ResendSnapshot,
    SnapshotBuilt,
)
from actors.newest import Newest
from actors.supervision import attempt
from actors.tree import Crashed
from trierarch.push.history import History
from trierarch.push.processors import ContextSettings, build_push_context
from trierarch.push.request import PushRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.mailbox import Mailbox
    from actors.messages import ToDebouncer, ToDnsSource, ToIntake, ToPushScheduler, ToSnapshotBuilder
    from actors.metrics import Metrics
    from trierarch.config.store import ConfigView
    from trierarch.push.context import PushContext

log = get_logger("snapshot_builder")

SNAPSHOT_NUMBERS = count(1)
"""Unique in the process: a restarted builder goes on counting, for the generator knows snapshots by their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where the builder's messages go, and where its last snapshot can be looked at. `names`: None where none is looked
    up.
    """

    intake: Mailbox[ToIntake]
    debouncer: Mailbox[ToDebouncer]
    scheduler: Mailbox[ToPushScheduler]
    names: Mailbox[ToDnsSource] | None = None
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
        await builder.handle(await inbox.receive())


class Builder:
    """The state of one life of the actor. What is `owed` was asked for and could not be built."""

    def __init__(self, outlets: Outlets, settings: ContextSettings, metrics: Metrics, numbers: Iterator[int]) -> None:
        self._outlets = outlets
        self._settings = settings
        self._metrics = metrics
        self._numbers = numbers
        self._built: SnapshotBuilt | None = None
        self._owed = PushRequest()
        self._wanted: frozenset[str] | None = None

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

    async def _try(self, view: ConfigView, request: PushRequest) -> None:
        """Build and hand on; what cannot be built is owed with the next."""
        outcome = await attempt(partial(self._build, view, request))
        if isinstance(outcome, Crashed):
            self._owed = request
            self._metrics.contained_errors.labels("snapshot").inc()
            log.error("snapshot_failed", causes=_ids(request), exc_info=outcome.error)
            return
        self._built, self._owed = outcome, PushRequest()
        self._outlets.newest.context = outcome.context
        await self._outlets.scheduler.send(outcome)
        self._outlets.intake.post(CausesSettled(causes=request.causes))
        self._want(outcome.context.network_gateways.names)

    def _want(self, names: frozenset[str]) -> None:
        """Have these names looked up; their addresses will come in like any other change."""
        if self._outlets.names is not None and names != self._wanted:
            self._outlets.names.post(NamesWanted(names=names))
        self._wanted = names

    async def _build(self, view: ConfigView, request: PushRequest) -> SnapshotBuilt:
        started = trio.current_time()
        previous = self._built.context if self._built else None
        steps = build_push_context(view, self._settings, previous, next(self._numbers))
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                context: PushContext = stop.value
                break
            await trio.lowlevel.checkpoint()
        _report(context, request, started, self._metrics)
        request = _stamped(request, context)
        history = self._built.history if self._built else History()
        return SnapshotBuilt(context=context, request=request, history=history.added(context.number, request))


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
        causes=_ids(request),
        seconds=round(took, 6),
    )


def _stamped(request: PushRequest, context: PushContext) -> PushRequest:
    forced = request.forced or any(key.kind == "MeshConfig" for key in context.changed)
    stages = replace(request.stages, built_at=trio.current_time())
    return replace(request, keys=context.changed, forced=forced, stages=stages)


def _ids(request: PushRequest) -> list[int]:
    return [cause.id for cause in request.causes.kept]
