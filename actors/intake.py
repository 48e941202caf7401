"""Where configuration enters: sources speak, intake says what changed and why.

Owns: the `ConfigView`, what each source has said, the findings told, and what is kept in a `Memory`: the view that was
    passed on last, the causes that are not in a snapshot yet, and what is said of the objects for the debug pages.
Receives: `SourceChanged` from sources, `ResendConfig` from the debouncer and the snapshot builder, `CausesSettled` from
    the snapshot builder.
Sends: `ConfigChanged` to the debouncer, `ResendAll` to sources.
Dies when: a source is not in the wiring.
Recovers by: asking every source for everything, and holding back until all have answered: proxies keep what they have.
    What differs then from the view that was passed on last is a change like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, assert_never

import trio

from actors.logs import get_logger
from actors.messages import CausesSettled, ConfigChanged, ResendConfig, SourceChanged
from actors.source_messages import ResendAll
from actors.stepping import drive
from trierarch.config.findings import Rejected, Remark
from trierarch.config.gathering import Changed, Gathering, find_changes
from trierarch.push.causes import KEPT, Cause, Causes, ChangeEvent
from trierarch.push.reasons import RESYNC, count_reasons, is_forced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from actors.mailbox import Mailbox, Postbox
    from actors.messages import ToDebouncer, ToIntake
    from actors.metrics import Metrics
    from actors.source_messages import ToSource
    from trierarch.config.findings import Finding
    from trierarch.config.store import ConfigView
    from trierarch.push.steps import Steps

CAUSE_IDS = count(1)
"""Ids of causes, unique in the process: they go on where the last life of the actor stopped."""

KEYS_LOGGED = 5

FINDINGS_PER_TURN = 50
"""So many are looked at before others have a turn: to log one takes up to 50 µs."""

log = get_logger("intake")


@dataclass(slots=True)
class Memory:
    """What outlives a crash of the actor: written by it, read by its successor. `view` is None before the first one.

    `findings`: what each source says of its objects now, for the debug pages.
    """

    view: ConfigView | None = None
    unsettled: Causes = field(default_factory=Causes)
    findings: dict[str, tuple[Finding, ...]] = field(default_factory=dict)


async def run(
    inbox: Mailbox[ToIntake],
    *,
    debouncer: Mailbox[ToDebouncer],
    sources: Mapping[str, Postbox[ToSource]],
    metrics: Metrics,
    memory: Memory,
    ids: Iterator[int] = CAUSE_IDS,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Take in changes for ever. Of an object in two sources, the later of `sources` is in force."""
    intake = Intake(sources, metrics, memory, ids)
    for source in sources.values():
        source.post(ResendAll())
    log.info("sources_awaited", sources=list(sources))
    task_status.started()
    while True:
        changed = await intake.handle(await inbox.receive())
        if changed is not None:
            metrics.inbound_updates.labels("config").inc()
            await debouncer.send(changed)


class Intake:
    """The state of one life of the actor."""

    def __init__(self, sources: Iterable[str], metrics: Metrics, memory: Memory, ids: Iterator[int]) -> None:
        self._gathering = Gathering(sources)
        self._awaited = set(sources)
        self._metrics = metrics
        self._memory = memory
        self._ids = ids
        self._heard: dict[str, tuple[Finding, ...]] = {}
        self._told: dict[str, Mapping[Finding, Finding]] = {}

    async def handle(self, message: ToIntake) -> ConfigChanged | None:
        """Step by one message; the change to pass on, if it made one."""
        match message:
            case SourceChanged():
                return await self._take(message)
            case ResendConfig(asked_by=asked_by):
                return None if self._awaited else self._resend(asked_by)
            case CausesSettled(causes=causes):
                self._memory.unsettled = self._memory.unsettled.without(causes)
                return None
            case never:
                assert_never(never)

    async def _take(self, message: SourceChanged) -> ConfigChanged | None:
        changes = await drive(self._gathering.take(message.source, message.upserts, message.deletes, full=message.full))
        if message.findings != self._heard.get(message.source):
            self._heard[message.source] = message.findings
            await drive(_in_turns(self._tell(message.source, message.findings)))
        if self._awaited:
            return await self._take_early(message)
        if not changes:
            return None
        causes = self._causes(message.source, changes, message.seen_at)
        keys = frozenset(each.key for each in changes)
        return ConfigChanged(
            view=self._pass_on(),
            keys=keys,
            forced=is_forced(keys),
            reasons=count_reasons(keys),
            causes=causes,
            seen_at=message.seen_at,
        )

    async def _take_early(self, message: SourceChanged) -> ConfigChanged | None:
        """Nothing goes out before every source has said everything once."""
        if message.full and message.source in self._awaited:
            self._awaited.discard(message.source)
            self._remember_resync(message.source, message.seen_at)
        if self._awaited:
            return None
        log.info("sources_synced", objects=sum(len(table) for table in self._gathering.view.tables.values()))
        before = self._memory.view
        if before is not None and (missed := await drive(find_changes(before, self._gathering.view))):
            self._causes(message.source, missed, message.seen_at)
        return self._everything(message.seen_at)

    def _resend(self, asked_by: str) -> ConfigChanged:
        now = trio.current_time()
        self._remember_resync(asked_by, now)
        log.info("config_resent", asked_by=asked_by)
        return self._everything(now)

    def _everything(self, seen_at: float) -> ConfigChanged:
        """The whole view, with whatever may have been lost on its way to a snapshot as its causes."""
        return ConfigChanged(
            view=self._pass_on(),
            keys=frozenset(),
            forced=True,
            reasons={RESYNC: 1},
            causes=self._memory.unsettled,
            seen_at=seen_at,
        )

    def _pass_on(self) -> ConfigView:
        self._memory.view = self._gathering.view
        return self._gathering.view

    # --- causes ------------------------------------------------------------------------------------------------------
    def _causes(self, source: str, changes: Sequence[Changed], seen_at: float) -> Causes:
        kept = tuple(self._cause(source, each, seen_at) for each in changes[:KEPT])
        causes = Causes(kept=kept, dropped=len(changes) - len(kept))
        self._remember(causes)
        _report(source, changes, causes)
        return causes

    def _cause(self, source: str, changed: Changed, seen_at: float) -> Cause:
        known = changed.after or changed.before
        return Cause(
            id=next(self._ids),
            source=source,
            kind=changed.key.kind,
            namespace=changed.key.namespace,
            name=changed.key.name,
            resource_version=known.resource_version if known else "",
            event=_event(changed),
            seen_at=seen_at,
        )

    def _remember_resync(self, source: str, seen_at: float) -> None:
        cause = Cause(
            id=next(self._ids),
            source=source,
            kind="",
            namespace="",
            name="",
            resource_version="",
            event=ChangeEvent.RESYNCED,
            seen_at=seen_at,
        )
        self._remember(Causes(kept=(cause,)))

    def _remember(self, causes: Causes) -> None:
        self._memory.unsettled = self._memory.unsettled.merged(causes)

    # --- findings ----------------------------------------------------------------------------------------------------
    def _tell(self, source: str, findings: Iterable[Finding]) -> Iterator[None]:
        """Log what is new and what is resolved. A finding that only moved to another line is the same."""
        before = self._told.get(source, {})
        now: dict[Finding, Finding] = {}
        for finding in findings:
            now[_without_line(finding)] = finding
            yield
        self._told[source] = now
        self._memory.findings[source] = tuple(now.values())
        for identity, finding in now.items():
            if identity not in before:
                _report_finding(source, finding, self._gathering.view)
            yield
        for identity, finding in before.items():
            if identity not in now:
                log.info("finding_resolved", source=source, object=_subject(finding), path=finding.path)
            yield
        yield from self._count_rejected()

    def _count_rejected(self) -> Iterator[None]:
        rejected: set[tuple[str, str]] = set()
        for findings in self._told.values():
            for each in findings.values():
                if isinstance(each, Rejected):
                    rejected.add(_metric_labels(each))
                yield
        self._metrics.rejected_configs.listed = rejected


def _in_turns(steps: Iterator[None]) -> Steps[None]:
    """Many small steps, some at a time: a folder may be full of nonsense."""
    for number, _ in enumerate(steps, 1):
        if number % FINDINGS_PER_TURN == 0:
            yield


def _event(changed: Changed) -> ChangeEvent:
    if changed.before is None:
        return ChangeEvent.ADDED
    return ChangeEvent.DELETED if changed.after is None else ChangeEvent.UPDATED


def _without_line(finding: Finding) -> Finding:
    return replace(finding, origin=replace(finding.origin, line=0))


def _subject(finding: Finding) -> str:
    """The object, or where a document stands that cannot be told apart as one."""
    return str(finding.key) if finding.key else f"{finding.origin.path}:{finding.origin.line}"


def _metric_labels(finding: Finding) -> tuple[str, str]:
    key = finding.key
    return ("document", _subject(finding)) if key is None else (key.kind, f"{key.namespace}/{key.name}")


def _report(source: str, changes: Sequence[Changed], causes: Causes) -> None:
    log.info(
        "config_changed",
        source=source,
        count=len(changes),
        keys=[str(each.key) for each in changes[:KEYS_LOGGED]],
        first_cause=causes.kept[0].id,
        last_cause=causes.last_id,
    )


def _report_finding(source: str, finding: Finding, view: ConfigView) -> None:
    """One line. What was never good is worse than what is not as new as it should be: it may be a policy."""
    line = log.bind(
        source=source,
        object=str(finding.key) if finding.key else "",
        file=finding.origin.path,
        line=finding.origin.line,
        path=finding.path,
        reason=finding.reason,
        hint=finding.hint,
    )
    if isinstance(finding, Remark):
        line.warning("object_remarked")
    elif finding.key is not None and view.get(finding.key) is not None:
        line.warning("object_rejected", kept=True)
    else:
        line.error("object_rejected", kept=False)
