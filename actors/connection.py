"""One client's stream: steps its session by requests and pushes, and writes what the session has to say.

Owns: the `AdsSession`, the `Proxy` and the pushes that are not answered yet, all kept in a `Slot`.
Receives: `RequestReceived` and `StreamEnded` from the stream; `Welcome`, `PushTo` and `Placed` from the push
    scheduler; `Announce` and `TrustChanged` from the factory; `IdentityIssued` from the certificate authority.
Sends: responses to the client; `ConnectionOpened`, `TypesWatched`, `PushWritten`, `FirstConfigurationAcked` to the
    scheduler; `Generate` to the generator; `IssueIdentity` to the authority; `PushRecorded` to the journal.
Dies when: a step breaks a rule of its own. (What the client does wrong ends its stream, not the actor.)
Recovers by: going on from the last session in its slot, which then owes the client everything, and announcing itself;
    the welcome that follows brings it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, assert_never

import trio

from actors.aside import read_aside, work_aside
from actors.logs import get_logger
from actors.mailbox import ask
from actors.messages import (
    Announce,
    ConnectionOpened,
    FirstConfigurationAcked,
    Generate,
    GenerationFailed,
    IdentityIssued,
    Placed,
    PushTo,
    PushWritten,
    RequestReceived,
    StreamEnded,
    StreamStatus,
    TrustChanged,
    TypesWatched,
    Welcome,
)
from actors.own_certificate import CertificateTerms, OwnCertificate
from actors.ports import StreamClosed
from actors.push_records import PushRecords, sent_record
from protocol.errors import LocalError, RemoteError
from protocol.statuses import FAILED_PRECONDITION, INVALID_ARGUMENT, UNAUTHENTICATED, UNAVAILABLE
from protocol.xds.bounds import MOST_CHARACTERS, NameBounds, characters_of_names
from protocol.xds.events import Acked, Asked, Event, Nacked, NotServed, StaleNonce, Unsubscribed
from protocol.xds.session import HEALTH
from trierarch.envoy.names import touched_assignments
from trierarch.envoy.node import decode_proxy
from trierarch.envoy.types import ENDPOINT, LISTENER, ROUTE, SECRET, TYPE_RULES, needs_identity, type_rules
from trierarch.identity.authorize import authorize
from trierarch.push.proxy import ProxyType, SecretSource
from trierarch.push.request import PushRequest
from trierarch.push.status import Outcome, TypeSent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.client_requests import ConnectionMailbox
    from actors.mailbox import Mailbox
    from actors.messages import ToConnection, ToGenerator, ToJournal, ToPushScheduler
    from actors.metrics import Metrics
    from actors.push_records import Recording
    from actors.slot import Slot
    from protocol.spiffe import SpiffeId
    from protocol.xds.events import Response
    from protocol.xds.requests import Request
    from protocol.xds.resources import ResourceSet
    from trierarch.push.proxy import Proxy

log = get_logger("connection")


MOST_WAITING = 8
"""Requests that wait for a new client's welcome: one for each type."""

NAME, SINGLE_NAME = 0.0002, 0.005
"""Milliseconds for each name of a request that the session is stepped by, and for each that is answered by itself."""

_ASKED = PushRequest(reasons={"proxyrequest": 1})
_RETURNED = PushRequest(reasons={"restart": 1})
"""Why something is sent that no change made due: the client asked for it; this actor or the scheduler was restarted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where a connection's messages go, and what it may look at. `checks_identity`: whoever has proved an identity must
    claim no other (PILOT_ENABLE_XDS_IDENTITY_CHECK).
    """

    scheduler: Mailbox[ToPushScheduler]
    generator: Mailbox[ToGenerator]
    journal: Mailbox[ToJournal]
    metrics: Metrics
    certificates: CertificateTerms
    wall: Callable[[], float]
    cluster: str
    checks_identity: bool = True


async def run(
    inbox: ConnectionMailbox,
    *,
    slot: Slot,
    outlets: Outlets,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> StreamStatus:
    """Serve the stream until it ends; returns the status that it ends with."""
    slot.session = slot.session.resumed()  # a predecessor may have died between a step and its response
    connection = Connection(inbox, slot, outlets)
    task_status.started()
    if slot.writing:
        return StreamStatus(code=UNAVAILABLE, message="a message was cut off; connect again")
    connection.announce()
    try:
        while not connection.ended:
            await connection.turn()
    except StreamClosed as closed:
        log.info("stream_ended", connection=slot.name, reason=closed.message)
    except RemoteError as error:
        log.info("stream_refused", connection=slot.name, code=error.code, reason=error.message)
        return StreamStatus(code=error.code, message=error.message)
    return StreamStatus()


class Connection:
    """The state of one life of the actor."""

    def __init__(self, inbox: ConnectionMailbox, slot: Slot, outlets: Outlets) -> None:
        self.ended = False
        self._inbox = inbox
        self._slot = slot
        self._outlets = outlets
        self._place: Placed | None = None
        self._known: dict[str, ResourceSet] = {}
        self._bounds = NameBounds()
        self._started = False
        self._records = PushRecords(slot, outlets.journal, outlets.wall)
        self._own = OwnCertificate(slot, inbox, outlets.certificates)

    # --- the life of the stream --------------------------------------------------------------------------------------
    def announce(self) -> None:
        """Tell the scheduler who is here, once the client has said so."""
        if self._slot.proxy is not None:
            self._outlets.scheduler.post(
                ConnectionOpened(
                    connection=self._slot.name,
                    proxy=self._slot.proxy,
                    mailbox=self._inbox,
                    delta=self._slot.delta,
                    types=frozenset(self._slot.session.watched),
                    snapshot=self._slot.snapshot,
                )
            )

    async def turn(self) -> None:
        """Step by the next message. Nobody holds it afterwards: a request may be of a hundred kilobytes."""
        message = await self.next_message()
        if message is not None:
            await self.handle(message)

    async def next_message(self) -> ToConnection | None:
        """The next message, or None when it was time to ask for a new certificate."""
        due_at = self._own.due_at()
        if due_at != inf and due_at <= trio.current_time():
            await self._own.ask()
            return None
        return await self._inbox.receive_until(due_at)

    async def handle(self, message: ToConnection) -> None:
        """Step by one message."""
        match message:
            case RequestReceived():
                await self._receive(await self._inbox.requests.decode(message))
            case PushTo():
                await self._push(message)
            case Welcome():
                await self._settle(message)
            case Placed():
                self._move(message)
                self._slot.snapshot = message.context.number
            case Announce():
                self.announce()
            case IdentityIssued(answer=answer):
                await self._offer_secrets(self._own.take(answer))
            case TrustChanged():
                await self._offer_secrets(self._own.trust(message))
            case StreamEnded(reason=reason, code=0):
                self.ended = True
                log.info("stream_ended", connection=self._slot.name, reason=reason)
            case StreamEnded(reason=reason, code=code):
                raise RemoteError(code, reason)
            case never:
                assert_never(never)
        if self._slot.waiting:
            await self._take_waiting()

    # --- requests ----------------------------------------------------------------------------------------------------
    async def _receive(self, request: Request) -> None:
        if self._slot.proxy is None:
            if request.type_url == HEALTH:
                return  # a report may come before the client has said who it is (xds-server.md §4.3)
            await self._introduce(request)
        if needs_identity(request.type_url) and self._slot.identity is None:
            raise RemoteError(UNAUTHENTICATED, f"only who has proved an identity is told of {request.type_url}")
        if request.node:
            request = replace(request, node=b"")  # known by now, and it may be large
        self._slot.waiting = (*self._slot.waiting, request)

    async def _take_waiting(self) -> None:
        """Step the session by one request after the other: each is answered by itself, in its client's order.

        A new client's first requests wait for the welcome for that; if they are many, they are answered together then.
        """
        if self._place is None and not self._slot.session.watches and _can_wait(self._slot.waiting):
            return
        while waiting := self._slot.waiting:
            self._slot.waiting = waiting[1:]
            await self._step(waiting[0])

    async def _introduce(self, request: Request) -> None:
        """The first request says who the client is; later nodes are ignored (xds-server.md §4.3)."""
        if not request.node:
            raise RemoteError(INVALID_ARGUMENT, "missing node information")
        proxy = await read_aside(
            partial(decode_proxy, cluster=self._outlets.cluster, delta=self._slot.delta), request.node
        )
        if proxy.type is ProxyType.ZTUNNEL:
            raise RemoteError(FAILED_PRECONDITION, "a ztunnel needs ambient mode, which is off")
        self._slot.identity = self._identify(proxy)
        self._slot.session = self._slot.session.under(type_rules(proxy))
        self._slot.proxy = proxy
        log.info(
            "stream_opened",
            connection=self._slot.name,
            node=proxy.node_id,
            peer=self._slot.port.peer.address,
            delta=self._slot.delta,
            identity=str(self._slot.identity or ""),
        )
        if proxy.capabilities.secrets is SecretSource.ADS and self._slot.identity is None:
            log.warning("secrets_withheld", connection=self._slot.name)
        self.announce()

    def _identify(self, proxy: Proxy) -> SpiffeId | None:
        """Which of the caller's identities the proxy has; None if nobody had to prove any (xds-server.md §4.2)."""
        caller = self._slot.caller
        if caller is None or not self._outlets.checks_identity:
            return None
        return authorize(caller.identities, namespace=proxy.namespace, service_account=proxy.service_account)

    async def _step(self, request: Request) -> None:
        """Step the session at once, for a request that is in it outlives this actor. Without a place nothing can be
        answered; the session knows what it owes.
        """
        watched = self._slot.session.watches.keys()
        receive = partial(self._slot.session.receive, request)
        self._slot.session, events = await work_aside(receive, self._slot.session.count_touched(request) * NAME)
        self._bounds.check(self._slot.session, request)
        for event in events:
            self._note(event)
        if self._slot.session.watches.keys() != watched:
            types = frozenset(self._slot.session.watches)
            self._outlets.scheduler.post(TypesWatched(connection=self._slot.name, types=types))
        asked = tuple(event.type_url for event in events if isinstance(event, Asked))
        if asked and self._place is not None:
            await self._offer(asked, self._records.begin(self._place, _ASKED))

    def _note(self, event: Event) -> None:
        metrics = self._outlets.metrics
        match event:
            case Acked(type_url=url, nonce=nonce):
                self._records.answered(nonce, "")
                self._acked_first(url)
            case Nacked(type_url=url, nonce=nonce, code=code, message=reason):
                short = TYPE_RULES[url].short
                metrics.rejects.labels(short.lower()).inc()
                log.warning("resources_rejected", connection=self._slot.name, type=short, code=code, reason=reason)
                self._records.answered(nonce, reason or "rejected")
            case StaleNonce(type_url=url, nonce=nonce):
                metrics.expired_nonces.labels(TYPE_RULES[url].short.lower()).inc()
                self._records.answered(nonce, "")
            case Unsubscribed(nonce=nonce):
                self._records.answered(nonce, "")
            case NotServed(type_url=url):
                log.warning("type_not_served", connection=self._slot.name, type=url)
            case Asked():
                pass
            case never:
                assert_never(never)

    def _acked_first(self, type_url: str) -> None:
        """A client that has its listeners or routes can work: the next one may be admitted."""
        if not self._started and type_url in (LISTENER, ROUTE):
            self._started = True
            self._outlets.scheduler.post(FirstConfigurationAcked(connection=self._slot.name))

    # --- pushes ------------------------------------------------------------------------------------------------------
    async def _settle(self, welcome: Welcome) -> None:
        """Take a place in a snapshot, and bring what is watched already up to it."""
        place = Placed(context=welcome.context, view=welcome.view, scope=welcome.scope)
        self._move(place)
        if self._slot.session.watches:
            served = any(watch.nonce for watch in self._slot.session.watches.values())
            request = welcome.request.merged(_RETURNED) if served else _ASKED
            await self._offer(tuple(self._slot.session.watches), self._records.begin(place, request))

    async def _push(self, push: PushTo) -> None:
        place = Placed(context=push.context, view=push.view, scope=push.scope)
        self._move(place, push.resources)
        record = self._records.begin(place, push.request, queued_at=push.queued_at, granted_at=push.granted_at)
        if lost := self._slot.session.lost(ENDPOINT):
            self._slot.session = self._slot.session.reminded(ENDPOINT, touched_assignments(lost, push.request))
        await self._offer(tuple(push.types), record)
        self._outlets.scheduler.post(PushWritten(connection=self._slot.name))
        self._outlets.metrics.convergence_time.observe(trio.current_time() - push.queued_at)

    def _move(self, place: Placed, resources: Mapping[str, ResourceSet] = MappingProxyType({})) -> None:
        """Answer from this place from now on, of which these sets are known."""
        self._place, self._known = place, dict(resources)

    async def _offer_secrets(self, request: PushRequest | None) -> None:
        """The client's own secrets are others than before, if there is a request that says why."""
        if request is not None and self._place is not None:
            await self._offer((SECRET,), self._records.begin(self._place, request))

    async def _offer(self, types: tuple[str, ...], record: Recording) -> None:
        """Offer types and record what came of it, also if the stream or this actor ends meanwhile."""
        sent: list[TypeSent] = []
        skipped: dict[str, str] = {}
        outcome = Outcome.CLOSED
        try:
            await self._write(types, sent, skipped)
            outcome = Outcome.UNCHANGED
        finally:
            now, wall = trio.current_time(), self._outlets.wall()
            written = record(sent=tuple(sent), skipped=skipped, written_at=now, finished_wall=wall, outcome=outcome)
            self._records.written(written, now)

    async def _write(self, types: tuple[str, ...], sent: list[TypeSent], skipped: dict[str, str]) -> None:
        """Write, in push order, what differs; say of each type whether something did."""
        due = self._slot.session.due(types)
        if missing := tuple(url for url in due if url not in self._known):
            self._known.update(await self._generated(missing))
        for url in due:
            self._slot.session = self._slot.session.recognised(url, self._known[url])
            for _ in self._slot.session.prepare(url, self._known[url]):
                await trio.lowlevel.checkpoint()
        responses: list[Response] = []
        for url in due:
            offered = self._own.with_own(self._known[url]) if url == SECRET else self._known[url]
            respond = partial(self._slot.session.respond, url, offered, following=url not in types)
            single = self._slot.session.count_single(url, offered)
            self._slot.session, response = await work_aside(respond, single * SINGLE_NAME)
            if response is None:
                skipped[TYPE_RULES[url].short] = "nothing differs"
            else:
                sent.append(sent_record(response))
                responses.append(response)
        if responses:
            await self._send(responses)

    async def _generated(self, types: tuple[str, ...]) -> Mapping[str, ResourceSet]:
        """What the generator has of these types at the place that this client has."""
        place = self._place
        if place is None:
            raise LocalError("nothing can be offered before there is a snapshot to answer from")
        answer: Mapping[str, ResourceSet] | GenerationFailed = await ask(
            self._outlets.generator,
            lambda reply: Generate(view=place.view, scope=place.scope, context=place.context, types=types, reply=reply),
        )
        if isinstance(answer, GenerationFailed):
            self._outlets.metrics.internal_errors.inc()
            raise RemoteError(UNAVAILABLE, f"no configuration can be generated: {answer.reason}")
        return answer

    async def _send(self, responses: Sequence[Response]) -> None:
        """All responses of a push at once: each write costs both ends as much as a small response."""
        self._slot.writing = True
        await self._slot.port.send(*(response.buffers for response in responses))
        self._slot.writing = False
        metrics = self._outlets.metrics
        for response in responses:
            metrics.pushes.labels(TYPE_RULES[response.type_url].short.lower()).inc()
            metrics.config_size.labels(response.type_url).observe(response.size)


def _can_wait(requests: Sequence[Request]) -> bool:
    """Whether a client that nobody has welcomed yet may have all these remembered as they came."""
    return len(requests) <= MOST_WAITING and sum(map(characters_of_names, requests)) <= MOST_CHARACTERS
