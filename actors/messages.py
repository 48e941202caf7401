"""Every message between actors, grouped by receiver; those to sources are in `actors.source_messages`, those to and
from the authority in `actors.identity_messages`.

Past tense for facts, imperative for orders. A message carries whole immutable values, never a delta that the receiver
would have to accumulate: so a lost message cannot leave anybody with a wrong picture, and that makes restarts cheap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.identity_messages import AuthorityChanged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.client_requests import ConnectionMailbox
    from actors.descriptions import ConnectionDescription
    from actors.identity_messages import IssuedIdentity, SigningRefused
    from actors.mailbox import ControlMailbox, Reply
    from actors.ports import StreamPort
    from protocol.xds.resources import ResourceSet
    from trierarch.config.findings import Finding
    from trierarch.config.objects import AnyObject, ObjectKey
    from trierarch.config.store import ConfigView
    from trierarch.identity.authenticate import Caller
    from trierarch.push.causes import Cause, Causes
    from trierarch.push.context import PushContext
    from trierarch.push.history import History
    from trierarch.push.proxy import Proxy
    from trierarch.push.request import PushRequest
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.status import PushRecord
    from trierarch.push.view import View


# --- to intake -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChanged:
    """From a source (flow). `full`: this is everything the source has, and what is not in it is gone.

    `findings` are all the source's current findings, not only new ones. `seen_at`: monotonic seconds.
    """

    source: str
    upserts: tuple[AnyObject, ...] = ()
    deletes: frozenset[ObjectKey] = frozenset()
    full: bool = False
    findings: tuple[Finding, ...] = ()
    seen_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendConfig:
    """From the debouncer or the snapshot builder after a restart (control): send the whole view again."""

    asked_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CausesSettled:
    """From the snapshot builder (control): a snapshot with these causes is built and handed on.

    Until then intake keeps the causes of its changes, so that whoever dies in between does not take them along.
    """

    causes: Causes


ToIntake = SourceChanged | ResendConfig | CausesSettled


# --- to the debouncer ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged:
    """From intake (flow): the entire view, and the keys that changed since the one before. `forced`: treat everything
    as changed.
    """

    view: ConfigView
    keys: frozenset[ObjectKey]
    forced: bool = False
    reasons: Mapping[str, int] = field(default_factory=dict)
    causes: Causes
    seen_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BuilderIdle:
    """From the snapshot builder (control): the last build is done and handed on, or there is none (just started)."""


ToDebouncer = ConfigChanged | BuilderIdle


# --- to the snapshot builder -----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSnapshot:
    """From the debouncer (flow). `request.keys` is still empty: the build finds out which push keys changed."""

    view: ConfigView
    keys: frozenset[ObjectKey]
    request: PushRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendSnapshot:
    """From the push scheduler after a restart (control)."""


ToSnapshotBuilder = BuildSnapshot | ResendSnapshot


# --- to the generator ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """From the scheduler or a connection (flow): the resources of these types for a view of a snapshot.

    The answer maps each type URL to its set. Safe to repeat; equal questions cost a lookup.
    """

    view: View
    scope: SidecarScope
    context: PushContext
    types: tuple[str, ...]
    reply: Reply[Mapping[str, ResourceSet] | GenerationFailed]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationFailed:
    """The answer when a generator breaks a rule of its own: a bug of ours, and trouble for this view only."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateEach:
    """From the scheduler (flow): the same for several views with one outbound key, each with the types wanted for it.

    The answer has for each of them what `Generate` is answered: a bug that one view brings to light is no trouble for
    the others.
    """

    wanted: Mapping[View, tuple[str, ...]]
    scope: SidecarScope
    context: PushContext
    reply: Reply[Mapping[View, Mapping[str, ResourceSet] | GenerationFailed]]


ToGenerator = Generate | GenerateEach


# --- to the push scheduler -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBuilt:
    """From the snapshot builder (flow). `request.keys` are the push keys that changed between the two snapshots;
    `history` holds the requests of this snapshot and of those before.
    """

    context: PushContext
    request: PushRequest
    history: History


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOpened:
    """From a connection (control): its proxy is known and it wants a `Welcome`. Sent again after a restart of the
    connection or a roll call; then `types` are those that its client watches, and `snapshot` is the number of the one
    that it was brought up to.
    """

    connection: str
    proxy: Proxy
    mailbox: ControlMailbox[ToConnection]
    delta: bool
    types: frozenset[str] = frozenset()
    snapshot: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TypesWatched:
    """From a connection (control): the types that its client watches have changed."""

    connection: str
    types: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstConfigurationAcked:
    """From a connection (control): its client has what it needs to start; the next one may be admitted."""

    connection: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PushWritten:
    """From a connection (control): the last byte of the push in flight is handed to the transport."""

    connection: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionClosed:
    """From the factory of connections (control)."""

    connection: str


ToPushScheduler = (
    SnapshotBuilt | ConnectionOpened | TypesWatched | FirstConfigurationAcked | PushWritten | ConnectionClosed
)


# --- to the factory of connections -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAccepted:
    """From the ADS service (flow): a stream wants a connection actor, reachable at `inbox`. `ended` is answered when
    the actor is done with it; the stream then ends with that status. `caller` is None where nobody need prove anything.
    """

    port: StreamPort
    delta: bool
    inbox: ConnectionMailbox
    ended: Reply[StreamStatus]
    caller: Caller | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollCall:
    """From the push scheduler after a restart (control): let every connection announce itself again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """From the debug pages (flow): the state of the connections whose id contains `proxy_id` ("" = all)."""

    proxy_id: str
    reply: Reply[tuple[ConnectionDescription, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """How a stream ends: a gRPC status code (0 = OK) and its message."""

    code: int = 0
    message: str = ""


ToConnections = StreamAccepted | RollCall | Describe | AuthorityChanged


# --- to a connection -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceived:
    """From the client, over its stream (flow): a discovery request as it came."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnded:
    """From the stream (flow), or from its task when it was cut off (control): there will be no further request.
    From the scheduler (control), who has nothing for the client. `code` is the gRPC status that the stream should end
    with, 0 unless the client broke a rule or cannot be served.
    """

    reason: str
    code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """From the push scheduler (control): the snapshot and the view to answer from; replaces what was known before.

    To a client that was being served already this is also a push. `request` is what has changed since the snapshot
    that it had.
    """

    context: PushContext
    view: View
    scope: SidecarScope
    request: PushRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTo:
    """From the push scheduler (control): offer these types to the client. The connection sends what differs.

    `resources` holds the sets that are built already: of `types`, and of types that follow them though they did not
    change by themselves. What else of these the client watches by now is asked for. `queued_at`, `granted_at`:
    monotonic seconds.
    """

    context: PushContext
    view: View
    scope: SidecarScope
    request: PushRequest
    types: frozenset[str]
    resources: Mapping[str, ResourceSet]
    queued_at: float
    granted_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """From the push scheduler (control): answer from this snapshot now. Nothing that the client has differs in it; but
    the snapshots that nobody answers from any more can be forgotten.
    """

    context: PushContext
    view: View
    scope: SidecarScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce:
    """From the factory (control), passing on a roll call; from the scheduler, who could not place this one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityIssued:
    """The certificate authority's answer to a connection (control) that does not wait for it; None: it died over it."""

    answer: IssuedIdentity | SigningRefused | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustChanged:
    """From the factory (control), passing on what the certificate authority says; `cause` is the same for all."""

    authority: AuthorityChanged
    cause: Cause


ToConnection = RequestReceived | StreamEnded | Welcome | PushTo | Placed | Announce | IdentityIssued | TrustChanged


# --- to the journal --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class PushRecorded:
    """From a connection or the scheduler (control): a push to a proxy is finished, or was found unnecessary."""

    record: PushRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJournal:
    """From the debug pages (flow): the last records of proxies whose id contains `proxy_id`, newest last."""

    proxy_id: str
    limit: int
    reply: Reply[tuple[PushRecord, ...]]


ToJournal = PushRecorded | ReadJournal
