"""Builds the snapshot: one build at a time, in steps, so that the event loop is never held.

Owns: the last snapshot that it handed on, with the history of requests that led to it.
Receives: `BuildSnapshot` from the debouncer, `ResendSnapshot` from a restarted scheduler.
Sends: `SnapshotBuilt` to the push scheduler, `BuilderIdle` to the debouncer.
Dies when: a processor breaks a rule of its own.
Recovers by: asking intake to resend everything; the next build is a cold one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, assert_never

import trio

from actors.logs import get_logger
from actors.messages import BuilderIdle, BuildSnapshot, CausesSettled, ResendConfig, ResendSnapshot, SnapshotBuilt
from trierarch.push.history import History
from trierarch.push.processors import ContextSettings, build_push_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.mailbox import Mailbox
    from actors.messages import ToDebouncer, ToIntake, ToPushScheduler, ToSnapshotBuilder
    from actors.metrics import Metrics
    from trierarch.push.context import PushContext
    from trierarch.push.request import PushRequest

log = get_logger("snapshot_builder")

SNAPSHOT_NUMBERS = count(1)
"""Unique in the process: a restarted builder goes on counting, for the generator knows snapshots by their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where the builder's messages go."""

    intake: Mailbox[ToIntake]
    debouncer: Mailbox[ToDebouncer]
    scheduler: Mailbox[ToPushScheduler]


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
    built: SnapshotBuilt | None = None
    outlets.debouncer.post(BuilderIdle())
    outlets.intake.post(ResendConfig(asked_by="snapshot_builder"))
    task_status.started()
    while True:
        match await inbox.receive():
            case BuildSnapshot() as order:
                built = await _build(order, built, settings, metrics, next(numbers))
                await outlets.scheduler.send(built)
                outlets.debouncer.post(BuilderIdle())
                outlets.intake.post(CausesSettled(causes=order.request.causes))
            case ResendSnapshot():
                if built is not None:
                    await outlets.scheduler.send(built)
            case never:
                assert_never(never)


async def _build(
    order: BuildSnapshot, built: SnapshotBuilt | None, settings: ContextSettings, metrics: Metrics, number: int
) -> SnapshotBuilt:
    started = trio.current_time()
    previous = built.context if built else None
    steps = build_push_context(order.view, settings, previous, number)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            context: PushContext = stop.value
            break
        await trio.lowlevel.checkpoint()
    _report(context, order.request, started, metrics)
    request = _stamped(order.request, context)
    history = built.history if built else History()
    return SnapshotBuilt(context=context, request=request, history=history.added(number, request))


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
        causes=[cause.id for cause in request.causes.kept],
        seconds=round(took, 6),
    )


def _stamped(request: PushRequest, context: PushContext) -> PushRequest:
    forced = request.forced or any(key.kind == "MeshConfig" for key in context.changed)
    stages = replace(request.stages, built_at=trio.current_time())
    return replace(request, keys=context.changed, forced=forced, stages=stages)
