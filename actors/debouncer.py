"""Lets changes settle: many in a row become one snapshot (the rules are in `trierarch.push.debounce`).

Owns: a `Debounce`, the newest view, and the view that was released last.
Receives: `ConfigChanged` from intake, `BuilderIdle` from the snapshot builder.
Sends: `BuildSnapshot` to the snapshot builder.
Dies when: nothing known.
Recovers by: asking intake for everything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, assert_never

import trio

from actors.logs import get_logger
from actors.messages import BuilderIdle, BuildSnapshot, ConfigChanged, ResendConfig
from trierarch.config.store import ConfigView
from trierarch.push.causes import Stages
from trierarch.push.debounce import Batch, Debounce, DebounceOptions
from trierarch.push.reasons import is_endpoints_only
from trierarch.push.request import PushRequest

if TYPE_CHECKING:
    from actors.mailbox import Mailbox
    from actors.messages import ToDebouncer, ToIntake, ToSnapshotBuilder
    from trierarch.config.objects import ObjectKey
    from trierarch.settings import Settings

log = get_logger("debouncer")


def options(settings: Settings) -> DebounceOptions:
    """The options that the settings ask for."""
    return DebounceOptions(
        after=settings.debounce_after, longest=settings.debounce_max, endpoints=settings.debounce_endpoints
    )


async def run(
    inbox: Mailbox[ToDebouncer],
    *,
    intake: Mailbox[ToIntake],
    builder: Mailbox[ToSnapshotBuilder],
    options: DebounceOptions,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Debounce for ever."""
    debouncer = Debouncer(options)
    intake.post(ResendConfig(asked_by="debouncer"))
    task_status.started()
    while True:
        with trio.move_on_at(debouncer.deadline()):
            debouncer.handle(await inbox.receive())
        order = debouncer.release()
        if order is not None:
            await builder.send(order)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What waits: which objects changed and why. The view is not in it, for the newest is always the right one."""

    keys: frozenset[ObjectKey]
    request: PushRequest

    @property
    def endpoints_only(self) -> bool:
        """Whether nothing but endpoints changed."""
        return not self.request.forced and is_endpoints_only(self.keys)

    def merged(self, newer: Update) -> Update:
        """Both in one."""
        return Update(keys=self.keys | newer.keys, request=self.request.merged(newer.request))


class Debouncer:
    """The state of one life of the actor."""

    def __init__(self, options: DebounceOptions) -> None:
        self._debounce: Debounce[Update] = Debounce(options=options)
        self._newest = ConfigView()
        self._released = ConfigView()

    def deadline(self) -> float:
        """When to release something although nothing was received."""
        deadline = self._debounce.deadline()
        return inf if deadline is None else deadline

    def handle(self, message: ToDebouncer) -> None:
        """Step by one message."""
        match message:
            case ConfigChanged():
                self._newest = message.view
                self._debounce = self._debounce.add(_update(message), trio.current_time())
            case BuilderIdle():
                self._debounce = self._debounce.finished()
            case never:
                assert_never(never)

    def release(self) -> BuildSnapshot | None:
        """What is to be built now."""
        now = trio.current_time()
        self._debounce, batch = self._debounce.take(now)
        if batch is None:
            return None
        self._released = self._overtaking(batch.change) if self._debounce.batch else self._newest
        _report(batch, now)
        request = batch.change.request
        stages = replace(request.stages, debounced_at=now)
        return BuildSnapshot(view=self._released, keys=batch.change.keys, request=replace(request, stages=stages))

    def _overtaking(self, change: Update) -> ConfigView:
        """The last view with this change only: what it overtakes must not be built, or it would lack its causes."""
        objects = {key: self._newest.get(key) for key in change.keys}
        view, _ = self._released.apply(
            [each for each in objects.values() if each is not None],
            [key for key, each in objects.items() if each is None],
        )
        return view


def _update(message: ConfigChanged) -> Update:
    request = PushRequest(
        forced=message.forced,
        reasons=message.reasons,
        causes=message.causes,
        stages=Stages(seen_at=message.seen_at),
    )
    return Update(keys=message.keys, request=request)


def _report(batch: Batch[Update], now: float) -> None:
    log.info(
        "batch_released",
        events=batch.events,
        objects=len(batch.change.keys),
        forced=batch.change.request.forced,
        waited=round(now - batch.first_at, 6),
        quiet=round(now - batch.last_at, 6),
    )
