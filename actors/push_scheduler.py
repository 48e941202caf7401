"""Decides which proxies a snapshot concerns, has their resources built once for each view, and hands out the pushes.

Owns: the fleet (who is connected, with which view), the Sidecar scopes in use, the sets last built for each view, the
    `PushQueue`, the `Admission` of first configurations, and who is stranded.
Receives: `SnapshotBuilt` from the snapshot builder; `ConnectionOpened`, `TypesWatched`, `FirstConfigurationAcked`,
    `PushWritten` from connections; `ConnectionClosed` from their factory.
Sends: `GenerateEach` to the generator; `Welcome`, `PushTo` and `Placed` to connections, `Announce` and `StreamEnded` to
    those that it cannot place; `PushRecorded` for proxies that are skipped.
Dies when: a step breaks a rule of its own, but for those that are about one view: that is contained.
Recovers by: asking the builder for the snapshot again and calling the roll of connections.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, assert_never

import trio

from actors.built_sets import BuiltSets
from actors.messages import (
    ConnectionClosed,
    ConnectionOpened,
    FirstConfigurationAcked,
    Placed,
    PushRecorded,
    PushTo,
    PushWritten,
    ResendSnapshot,
    RollCall,
    SnapshotBuilt,
    TypesWatched,
    Welcome,
)
from actors.scopes import Scopes
from actors.stranded import Stranded
from actors.supervision import attempt
from actors.tree import Crashed, describe
from trierarch.envoy.affected import affected_urls, is_large, urls_by_themselves
from trierarch.push.admission import Admission
from trierarch.push.due import DueViews
from trierarch.push.fleet import Fleet, Member, moving_request, union
from trierarch.push.history import History
from trierarch.push.movable import Movable, select_movable
from trierarch.push.queue import PushQueue
from trierarch.push.scope import Skipped, Verdicts, affects
from trierarch.push.status import Outcome, PushRecord
from trierarch.push.view import select_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.mailbox import ControlMailbox, Mailbox
    from actors.messages import ToConnection, ToConnections, ToGenerator, ToJournal, ToPushScheduler, ToSnapshotBuilder
    from actors.metrics import Metrics
    from protocol.xds.resources import ResourceSet
    from trierarch.push.context import PushContext
    from trierarch.push.due import Due
    from trierarch.push.queue import Grant
    from trierarch.push.request import PushRequest
    from trierarch.push.view import View

MEMBERS_PER_STEP = 20
"""After placing so many members, or judging so many views, the event loop gets its turn: about 1 ms of work."""

VIEWS_PER_QUESTION = 20
"""So many views with one outbound key are asked about together: who waits for the first waits for the others too."""

GRANTS_PER_STEP = 100
"""After so many pushes were handed out those who got them have their turn: about 2 ms of work."""

MESSAGES_PER_STEP = 50
"""After handling so many messages it is time to work: most say only that a push was written."""

LONGEST_UNPLACED = 20
"""Snapshots after which also proxies that none of them concerned are told to answer from the newest: as many are kept
in memory at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where the scheduler's messages go."""

    builder: Mailbox[ToSnapshotBuilder]
    connections: Mailbox[ToConnections]
    generator: Mailbox[ToGenerator]
    journal: Mailbox[ToJournal]
    metrics: Metrics
    wall: Callable[[], float]
    opened: Callable[[], None]
    """Called when the first snapshot is here: proxies can be served from now on."""


async def run(
    inbox: Mailbox[ToPushScheduler],
    *,
    outlets: Outlets,
    throttle: int,
    admitted: int,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Schedule for ever."""
    scheduler = Scheduler(inbox, outlets, PushQueue(throttle), Admission(admitted))
    outlets.metrics.connected.clear()  # whoever is connected will be counted again
    outlets.builder.post(ResendSnapshot())
    outlets.connections.post(RollCall())
    task_status.started()
    while True:
        message = await scheduler.next_message()
        if message is not None:
            await scheduler.handle(message)
            for another in inbox.waiting(MESSAGES_PER_STEP):
                await scheduler.handle(another)
        await scheduler.work()


class Scheduler:
    """The state of one life of the actor."""

    def __init__(
        self, inbox: Mailbox[ToPushScheduler], outlets: Outlets, queue: PushQueue, admission: Admission
    ) -> None:
        self._inbox = inbox
        self._outlets = outlets
        self._queue = queue
        self._admission = admission
        self._context: PushContext | None = None
        self._history = History()
        self._fleet = Fleet()
        self._mailboxes: dict[str, ControlMailbox[ToConnection]] = {}
        self._scopes = Scopes()
        self._sets = BuiltSets(outlets.generator)
        self._due = DueViews()
        self._stranded = Stranded(outlets.metrics)
        self._placed: dict[View, int] = {}

    async def next_message(self) -> ToPushScheduler | None:
        """The next message; None if there is work to do or a deadline has come."""
        if self._due:
            return self._inbox.receive_nowait()
        deadlines = (self._queue.deadline(), self._admission.deadline())
        with trio.move_on_at(min((each for each in deadlines if each is not None), default=math.inf)):
            return await self._inbox.receive()
        return None

    async def handle(self, message: ToPushScheduler) -> None:
        """Step by one message."""
        match message:
            case SnapshotBuilt():
                await self._take(message)
            case ConnectionOpened():
                self._open(message)
            case TypesWatched(connection=name, types=types):
                member = self._fleet.get(name)
                if member is not None:
                    member.types = types
            case FirstConfigurationAcked(connection=name):
                self._admission.done(name)
            case PushWritten(connection=name):
                self._queue.done(name, trio.current_time())
            case ConnectionClosed(connection=name):
                self._close(name)
            case never:
                assert_never(never)

    async def work(self) -> None:
        """Build the sets of a few views that wait, admit whom there is room for, and hand out what may go."""
        if self._due and self._context is not None:
            await self._prepare(self._due.take(VIEWS_PER_QUESTION), self._context)
        if self._context is not None:
            for name in self._admission.admit(trio.current_time()):
                await self._welcome(name, self._context)
            for count, grant in enumerate(self._queue.grant(trio.current_time(), self._is_built), start=1):
                self._hand_out(grant, self._context)
                if count % GRANTS_PER_STEP == 0:
                    await trio.lowlevel.checkpoint()

    # --- connections -------------------------------------------------------------------------------------------------
    def _open(self, opened: ConnectionOpened) -> None:
        name = opened.connection
        if name not in self._fleet:
            self._count(opened.proxy.istio_version, +1)
        self._fleet.join(
            Member(name=name, proxy=opened.proxy, delta=opened.delta, types=opened.types, snapshot=opened.snapshot)
        )
        self._mailboxes[name] = opened.mailbox
        self._queue.forget(name)  # what was in flight died with the connection's last life
        self._admission.ask(name, at_once=bool(opened.types))

    def _close(self, name: str) -> None:
        member = self._fleet.get(name)
        if member is None:
            return
        self._count(member.proxy.istio_version, -1)
        self._fleet.leave(name)
        del self._mailboxes[name]
        self._queue.forget(name)
        self._admission.forget(name)
        self._stranded.discard(name)

    def _count(self, version: str, change: int) -> None:
        self._outlets.metrics.connected.count(version, change)

    async def _welcome(self, name: str, context: PushContext) -> None:
        member = self._fleet.get(name)
        if member is None:
            return
        missed = self._history.missed(member.snapshot)
        view = await attempt(partial(self._find_view, member, context))
        if isinstance(view, Crashed):
            self._strand(member, view.error, missed, context)
            return
        self._stranded.discard(name)
        self._fleet.place(name, view)
        scope = self._scopes[view.outbound.scope]
        self._mailboxes[name].post(Welcome(context=context, view=view, scope=scope, request=missed))

    async def _find_view(self, member: Member, context: PushContext) -> View:
        view = select_view(member.proxy, context)
        await self._scopes.resolve(view.outbound.scope, context)
        return view

    def _strand(self, member: Member, error: Exception, request: PushRequest, context: PushContext) -> None:
        """A bug of ours leaves this member without a view: nobody else has to notice."""
        if self._stranded.add(member, self._mailboxes[member.name], error):
            self._tell_skipped(member, request, context, {"all": f"cannot be placed: {describe(error)}"})
        self._fleet.displace(member.name)

    # --- snapshots ---------------------------------------------------------------------------------------------------
    async def _take(self, built: SnapshotBuilt) -> None:
        """A new snapshot: place members anew if that may have changed, resolve scopes, and see whom it concerns."""
        context, request = built.context, built.request
        before, self._context, self._history = self._context, context, built.history
        if context is before:
            return  # it was on its way already when it was asked for
        self._outlets.opened()
        self._stranded.try_again(self._mailboxes)
        self._scopes.begin()
        movable = select_movable(before, context)
        moved = await self._place_members(movable, context, request) if movable else {}
        verdicts: Verdicts = {}
        for count, view in enumerate(self._fleet.views()):
            judged = len(verdicts)
            verdict = await attempt(partial(self._judge, view, request, context, verdicts))
            if isinstance(verdict, Crashed):
                for member in self._fleet.members(view):
                    self._strand(member, verdict.error, request, context)
            elif isinstance(verdict, Skipped):
                await self._skip(view, request, context, verdict.reason)
            else:
                self._due.of(view).add(verdict)
                self._placed[view] = context.number
            if count % MEMBERS_PER_STEP == 0 or len(verdicts) > judged:  # a scope more, by all keys of the request
                await trio.lowlevel.checkpoint()
        for name, view in moved.items():
            self._push_moved(name, view, request)
        self._scopes.finish()
        self._forget_views()

    async def _judge(
        self, view: View, request: PushRequest, context: PushContext, verdicts: Verdicts
    ) -> PushRequest | Skipped:
        """What of a request concerns a view."""
        key = view.outbound.scope
        scope = await self._scopes.resolve(key, context)
        return affects(view, scope, self._scopes.before(key), request, context, verdicts)

    async def _place_members(self, movable: Movable, context: PushContext, request: PushRequest) -> Mapping[str, View]:
        """Place anew those who may have moved; the members that have, with the views that they came from."""
        moved = {}
        for count, member in enumerate(self._fleet):
            before = member.view
            if before is None or not movable.has(member.proxy):
                continue
            view = await attempt(partial(self._find_view, member, context))
            if isinstance(view, Crashed):
                self._strand(member, view.error, request, context)
            elif self._fleet.place(member.name, view):
                moved[member.name] = before
            if count % MEMBERS_PER_STEP == 0:
                await trio.lowlevel.checkpoint()
        return moved

    def _push_moved(self, name: str, before: View, request: PushRequest) -> None:
        """What a member watches may be another resource in its new view."""
        member = self._fleet.get(name)
        if member is not None and member.view is not None:
            left = self._due.left(before)
            moving = moving_request(before, member.view, request)
            self._due.of(member.view).add_newcomer(name, left.of(name) if left else None, moving)

    def _forget_views(self) -> None:
        """Keep nothing of views that nobody has any more: should one return, it would be out of date."""
        views = frozenset(self._fleet.views())
        self._sets.keep(views)
        self._due.keep(views)
        self._placed = {view: number for view, number in self._placed.items() if view in views}

    async def _skip(self, view: View, request: PushRequest, context: PushContext, reason: str) -> None:
        """Record for each member that this snapshot does not concern it."""
        skipped = {"all": reason}
        placed = self._placed.setdefault(view, context.number)
        if context.number - placed >= LONGEST_UNPLACED:
            self._place_view(view, context)
        for count, member in enumerate(self._fleet.members(view), start=1):
            self._tell_skipped(member, request, context, skipped)
            if count % MEMBERS_PER_STEP == 0:
                await trio.lowlevel.checkpoint()

    def _tell_skipped(
        self, member: Member, request: PushRequest, context: PushContext, skipped: Mapping[str, str]
    ) -> None:
        record = PushRecord(
            proxy=member.proxy.id,
            connection=member.name,
            snapshot=context.number,
            causes=request.causes,
            reasons=request.reasons,
            skipped=skipped,
            stages=request.stages,
            finished_wall=self._outlets.wall(),
            outcome=Outcome.SKIPPED,
        )
        self._outlets.journal.post(PushRecorded(record=record))

    def _place_view(self, view: View, context: PushContext) -> None:
        """Let the members of a view answer from the newest snapshot, though it holds nothing new for them.

        Who has something to read still is stuck, perhaps for long, and must not be sent ever more.
        """
        self._placed[view] = context.number
        placed = Placed(context=context, view=view, scope=self._scopes[view.outbound.scope])
        for member in self._fleet.members(view):
            mailbox = self._mailboxes[member.name]
            if not mailbox.statistics().control:
                mailbox.post(placed)

    # --- pushes ------------------------------------------------------------------------------------------------------
    async def _prepare(self, group: Mapping[View, Due], context: PushContext) -> None:
        """Have the sets built that the members of these views need, then queue the members."""
        before = {view: self._sets.of(view) for view in group}
        affected = {
            view: union(affected_urls(request, view) for request in due.requests()) for view, due in group.items()
        }
        scope = self._scopes[next(iter(group)).outbound.scope]
        failed = await self._sets.renew(affected, self._fleet.types, scope, context)
        for view, due in group.items():
            if view in failed:
                self._report_failure(view, due, context, failed[view].reason)
            else:
                self._queue_members(view, due, before[view], affected[view])

    def _queue_members(self, view: View, due: Due, before: Mapping[str, ResourceSet], types: frozenset[str]) -> None:
        built, members, now = self._sets.of(view), self._fleet.members(view), trio.current_time()
        dialects = {member.delta for member in members}
        large = {delta: is_large(before, built, types, delta=delta) for delta in dialects}
        for member in members:
            request = due.of(member.name)
            if request is not None:
                own = member.name in due.own
                self._queue.offer(member.name, request, now, large=own or large[member.delta])

    def _report_failure(self, view: View, due: Due, context: PushContext, reason: str) -> None:
        """The members of a view keep what they have; each is told of in a record. What it was stays owed to them."""
        self._due.owe(view, due)
        skipped = {"all": f"cannot be generated: {reason}"}
        for member in self._fleet.members(view):
            request = due.of(member.name)
            if request is not None:
                self._tell_skipped(member, request, context, skipped)

    def _is_built(self, name: str) -> bool:
        """Whether a member's sets are those of the newest snapshot. Else its push waits, for it would ask for them."""
        member = self._fleet.get(name)
        return member is None or member.view is None or self._due.left(member.view) is None

    def _hand_out(self, grant: Grant, context: PushContext) -> None:
        member = self._fleet.get(grant.name)
        if member is None or member.view is None:
            self._queue.done(grant.name, trio.current_time())
            return
        built = self._sets.of(member.view)
        affected = affected_urls(grant.request, member.view)
        self._observe(grant)
        self._mailboxes[grant.name].post(
            PushTo(
                context=context,
                view=member.view,
                scope=self._scopes[member.view.outbound.scope],
                request=grant.request,
                types=urls_by_themselves(grant.request, member.view),
                resources={url: built[url] for url in affected if url in built},
                queued_at=grant.queued_at,
                granted_at=trio.current_time(),
            )
        )

    def _observe(self, grant: Grant) -> None:
        metrics = self._outlets.metrics
        metrics.queue_time.observe(trio.current_time() - grant.queued_at)
        for reason, count in grant.request.reasons.items():
            metrics.push_triggers.labels(reason).inc(count)
