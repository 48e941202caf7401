"""The delta dialect: what a DeltaDiscoveryRequest does to a watch, and what a DeltaDiscoveryResponse must hold.

Theory. A request adds names to a subscription and takes names from it; with its first request of a type a client that
comes back also declares what it holds. The cases of xds-server.md §6.9 are tried in their order and the first that
holds decides: `CASES` is that table. A response holds what is new and names what is gone.

Of a wildcard type every client is sent everything, whatever it names (§6.15). For such a type

- "changed" (case 4c) means: it asks for "*" or for a name that it was not sent, or takes back a name that it asked for
  and was sent: of that it must hear whether the wildcard still holds it. Taking back a name that came by the wildcard
  alone is no change here, while istiod answers it with everything;
- names asked for or declared that do not exist are answered as removed: so the deletions of a reconnect are told.

Versions are digests of the bytes. So, other than with istiod, the answer to a reconnect leaves out what its client
declares with the version that the resource has now; the answer itself comes all the same, if need be an empty one: its
ACK is how both sides know that they agree.

Envoy sends changes of its subscription with the next ACK when it could not send them at once, and says them only once.
If that ACK is of a response that is not the last any more, istiod ignores them (case 3), though the public protocol
forbids it; a cluster would then warm for ever. Here they are remembered (`subscription.Late`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import LocalError
from protocol.wire import SharedFields, delta_resource_field, delta_response
from protocol.xds.cases import Case, decide
from protocol.xds.doubt import NO_NAMES, Doubt
from protocol.xds.requests import DeltaRequest
from protocol.xds.selection import Selection, select
from protocol.xds.subscription import (
    WILDCARDS,
    Late,
    Offer,
    Outcome,
    Owed,
    Watch,
    acknowledged,
    asked,
    interned,
    less,
    more,
    news,
    rejected,
    renamed,
    stale,
    wanted,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.xds.diff import Difference
    from protocol.xds.events import Event
    from protocol.xds.requests import Request
    from protocol.xds.resources import ResourceSet
    from protocol.xds.types import TypeRules


class Turn(NamedTuple):
    """A request beside the watch that it meets (None: its type is not watched).

    `wants`: names subscribed to, declared ones among them; `drops`: names unsubscribed. Both may hold "*".
    """

    rules: TypeRules
    watch: Watch | None
    request: DeltaRequest
    wants: frozenset[str]
    drops: frozenset[str]

    @property
    def watching(self) -> Watch:
        """The watch, in cases that come after the one which makes it."""
        if self.watch is None:
            raise LocalError(f"no watch for {self.rules.type_url}")
        return self.watch

    @property
    def named(self) -> frozenset[str]:
        """The names to remember. What a client of a wildcard type declares is not asked for by name."""
        return interned(self.request.subscribe) if self.rules.wildcard else self.wants

    @property
    def owed(self) -> Owed:
        """The answer to this request: all that it names, what its client holds already too (§6.10).

        A "*" alone says no more of a leaf type than that its client wants to hear of all its names again.
        """
        names = less(self.wants, self.drops, WILDCARDS)
        if self.watch is not None and not (names or self.drops or self.rules.wildcard):
            names = self.watch.names
        return Owed(names=names, declared=self.request.initial)


def receive(rules: TypeRules, watch: Watch | None, request: Request) -> Outcome:
    """Step a watch by a request. Pure; raises `LocalError` for a request of the other dialect."""
    if not isinstance(request, DeltaRequest):
        raise LocalError("a delta stream was given a state-of-the-world request")
    if watch is not None and watch.late is not None:
        watch, request = _with_late(watch, watch.late, request)
    if watch is not None and _is_acknowledgement(request, watch):
        return Outcome(*acknowledged(watch, rules.type_url))
    subscribe, declared = interned(request.subscribe), interned(request.initial)
    wants = subscribe | declared if declared else subscribe
    turn = Turn(rules=rules, watch=watch, request=request, wants=wants, drops=interned(request.unsubscribe))
    return decide(CASES, turn).step(turn)


def _is_acknowledgement(request: DeltaRequest, watch: Watch) -> bool:
    """Whether a request accepts the last response and says nothing else: case 4b as it nearly always is."""
    says_more = request.subscribe or request.unsubscribe or request.initial or request.nack
    return request.nonce == watch.nonce != "" and not says_more


def _with_late(watch: Watch, late: Late, request: DeltaRequest) -> tuple[Watch, DeltaRequest]:
    """The request with the changes that are late, if it acknowledges what came after them.

    What it says itself is newer; a spontaneous request only overrules them.
    """
    told = {*request.subscribe, *request.unsubscribe}
    subscribe, unsubscribe = late.subscribe - told, late.unsubscribe - told
    if not request.nonce:
        left = replace(late, subscribe=subscribe, unsubscribe=unsubscribe)
        return watch._replace(late=left if subscribe or unsubscribe else None), request
    if request.nack or request.nonce == late.since or request.nonce != watch.nonce:
        return watch, request
    whole = replace(
        request,
        subscribe=(*request.subscribe, *sorted(subscribe)),
        unsubscribe=(*request.unsubscribe, *sorted(unsubscribe)),
    )
    return watch._replace(late=None), whole


# --- the steps -------------------------------------------------------------------------------------------------------
def _reject(turn: Turn) -> Outcome:
    if turn.request.nack is None:
        raise LocalError("a request without error_detail is no NACK")
    outcome = rejected(turn.watch, turn.rules.type_url, turn.request.nonce, turn.request.nack)
    return outcome._replace(watch=_deferring(outcome.watch, turn.request))


def _begin(turn: Turn) -> Outcome:
    declared = (interned(turn.request.initial),) if turn.request.initial else ()
    fresh = Watch(names=less(turn.named, turn.drops, WILDCARDS), doubt=Doubt(unsettled=declared))
    return _answered(fresh, (), turn, first=True)


def _ignore(turn: Turn) -> Outcome:
    return stale(_deferring(turn.watch, turn.request), turn.rules.type_url, turn.request.nonce)


def _deferring(watch: Watch | None, request: DeltaRequest) -> Watch | None:
    """The watch that remembers the changes in a request which counts for nothing."""
    added, dropped = interned(request.subscribe), interned(request.unsubscribe)
    if watch is None or not (added or dropped):
        return watch
    before = watch.late or Late(since=request.nonce, subscribe=NO_NAMES, unsubscribe=NO_NAMES)
    subscribe = (before.subscribe - dropped) | added
    late = replace(before, subscribe=subscribe, unsubscribe=(before.unsubscribe - added) | dropped)
    return watch._replace(late=late)


def _take(turn: Turn) -> Outcome:
    watch, events = _acknowledged(turn)
    return Outcome(watch=renamed(watch, less(watch.names, turn.drops)), events=events)


def _answer(turn: Turn) -> Outcome:
    watch, events = _acknowledged(turn)
    names = less(more(watch.names, turn.named, watch.sent), turn.drops, WILDCARDS)
    return _answered(renamed(watch, names), events, turn)


def _acknowledged(turn: Turn) -> tuple[Watch, tuple[Event, ...]]:
    """A request without a nonce is spontaneous: it acknowledges nothing."""
    if not turn.request.nonce:
        return turn.watching, ()
    return acknowledged(turn.watching, turn.rules.type_url)


def _answered(watch: Watch, events: tuple[Event, ...], turn: Turn, *, first: bool = False) -> Outcome:
    """Owe an answer, but not where nothing could be in it: of a leaf type no name is asked for (§6.11 item 2)."""
    rules, owed = turn.rules, turn.owed
    if not (rules.wildcard or rules.answers_empty or owed.names):
        return Outcome(watch=watch, events=events)
    owing, event = asked(watch, rules.type_url, owed, first=first)
    return Outcome(watch=owing, events=(*events, event))


# --- the conditions --------------------------------------------------------------------------------------------------
def _is_unchanged(turn: Turn) -> bool:
    watch = turn.watching
    if turn.rules.wildcard:
        taken_back = turn.drops & watch.names
        return all(map(watch.sent.get, turn.wants)) and not any(map(watch.sent.get, taken_back))
    return turn.wants <= watch.names and not turn.drops & watch.names


CASES: tuple[Case[Turn], ...] = (
    Case(number="1", holds=lambda t: t.request.nack is not None, step=_reject),
    Case(number="2", holds=lambda t: t.watch is None, step=_begin),
    Case(number="3", holds=lambda t: t.request.nonce not in ("", t.watching.nonce), step=_ignore),
    Case(number="4b", holds=_is_unchanged, step=_take),
    Case(number="4c", holds=lambda t: True, step=_answer),
)
"""§6.9, in this exact order. Case 4a is left out: only the state-of-the-world dialect presses (§6.10)."""


# --- responses -------------------------------------------------------------------------------------------------------
def offer(rules: TypeRules, watch: Watch, resources: ResourceSet) -> Offer | None:
    """What a response must hold so that its client has this set; None: nothing is owed and nothing is new for it."""
    new = news(watch, rules, resources)
    if not (new or watch.owed or watch.due):
        return None
    found = _select(rules, watch, new, resources)
    removed = found.unknown if rules.removals else ()
    answer = watch.owed is not None and (len(found) > 0 or rules.complete or rules.answers_empty)
    sent = _leave_out_declared(watch, found)
    if not (sent or removed or answer):
        return None
    names = sent.names
    told = (*names, frozenset(removed)) if removed else names
    anew = watch.owed is not None and not watch.owed.declared
    return Offer(sent=sent, removed=removed, warming=names, anew=anew, told=told, whole=bool(new))


def _select(rules: TypeRules, watch: Watch, new: Difference, resources: ResourceSet) -> Selection:
    """What to send, and what is unknown, before what the client declares is left out."""
    if watch.owed is None or not rules.wildcard:
        return select(wanted(watch, new), rules, resources)
    missing = (name for name in sorted(watch.owed.names | new.removed) if resources.get(name) is None)
    return Selection(parts=resources.parts, unknown=tuple(missing))


def _leave_out_declared(watch: Watch, found: Selection) -> Selection:
    """Without what the client declares in just this version. What is due is sent even so: the client waits for it."""
    if watch.owed is None or not watch.owed.declared:
        return found
    declared = watch.owed.declared
    kept = (one for one in found if one.name in watch.due or declared.get(one.name) != one.version)
    return Selection(resources=tuple(kept))


def encode(rules: TypeRules, made: Offer, version: str, nonce: str) -> tuple[bytes, ...]:
    """The DeltaDiscoveryResponse as buffers."""
    fields = _fields(rules.type_url).of_all(made.sent)
    return delta_response(type_url=rules.type_url, version=version, nonce=nonce, fields=fields, removed=made.removed)


def prepare(rules: TypeRules, watch: Watch, resources: ResourceSet) -> Iterator[None]:
    """Encode ahead, in steps, what an offer of this set may hold: what is asked for, and parts that are in doubt."""
    if watch.owed is not None and not watch.owed.declared:
        fields = _fields(rules.type_url)
        for part in resources.parts:
            yield from fields.prepare(part) if rules.wildcard else fields.prepare_named(part, watch.owed.names)
    elif watch.doubt.nacked:
        most = sum(map(len, watch.doubt.unsettled))
        for part in resources.parts:
            if len(part) <= most:
                yield from _fields(rules.type_url).prepare(part)


@cache
def _fields(type_url: str) -> SharedFields:
    return SharedFields(type_url, delta_resource_field)
