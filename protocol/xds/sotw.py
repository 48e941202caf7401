"""The state-of-the-world dialect: what a DiscoveryRequest does to a watch, and what a DiscoveryResponse must hold.

Theory. A request names everything that its client wants of a type. It is told apart by its nonce: without one it starts
the type anew, with the last one it acknowledges (and may change the names), with any other one it is out of date. The
cases of xds-server.md §6.4 are tried in their order and the first that holds decides: `CASES` is that table.

A response cannot say that something is gone. Of the complete types (CDS, LDS) it holds everything that the client asks
for, so that leaving out is removing; of the others only what is new, for Envoy drops what nothing refers to any more.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import LocalError
from protocol.wire import SharedFields, sotw_resource_field, sotw_response
from protocol.xds.cases import Case, decide
from protocol.xds.events import Unsubscribed
from protocol.xds.requests import SotwRequest
from protocol.xds.selection import Selection, select
from protocol.xds.subscription import (
    Offer,
    Outcome,
    Owed,
    Watch,
    acknowledged,
    asked,
    interned,
    news,
    rejected,
    renamed,
    stale,
    wanted,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.xds.diff import Difference
    from protocol.xds.requests import Request
    from protocol.xds.resources import ResourceSet
    from protocol.xds.types import TypeRules


class Turn(NamedTuple):
    """A request beside the watch that it meets (None: its type is not watched). `names` are the watch's own set if the
    request names just these.
    """

    rules: TypeRules
    watch: Watch | None
    request: SotwRequest
    names: frozenset[str]

    @property
    def watching(self) -> Watch:
        """The watch, in cases that come after the one which makes it."""
        if self.watch is None:
            raise LocalError(f"no watch for {self.rules.type_url}")
        return self.watch


def receive(rules: TypeRules, watch: Watch | None, request: Request) -> Outcome:
    """Step a watch by a request. Pure; raises `LocalError` for a request of the other dialect."""
    if not isinstance(request, SotwRequest):
        raise LocalError("a state-of-the-world stream was given a delta request")
    turn = Turn(rules=rules, watch=watch, request=request, names=_names(watch, request))
    return decide(CASES, turn).step(turn)


def _names(watch: Watch | None, request: SotwRequest) -> frozenset[str]:
    """The names that a request says; the watch's own set if they are no others."""
    if watch is None:
        return interned(request.names)
    return watch.names if request.names is watch.said else interned(request.names, watch.names)


# --- the steps -------------------------------------------------------------------------------------------------------
def _reject(turn: Turn) -> Outcome:
    if turn.request.nack is None:
        raise LocalError("a request without error_detail is no NACK")
    return rejected(turn.watch, turn.rules.type_url, turn.request.nonce, turn.request.nack)


def _unsubscribe(turn: Turn) -> Outcome:
    if turn.watch is None:
        return Outcome(watch=None)
    return Outcome(watch=None, events=(Unsubscribed(type_url=turn.rules.type_url, nonce=turn.watch.nonce),))


def _begin(turn: Turn) -> Outcome:
    fresh = Watch(names=turn.names, said=turn.request.names)
    watch, event = asked(fresh, turn.rules.type_url, Owed(names=turn.names), first=turn.watch is None)
    return Outcome(watch=watch, events=(event,), presses=True)


def _ignore(turn: Turn) -> Outcome:
    return stale(turn.watch, turn.rules.type_url, turn.request.nonce)


def _take(turn: Turn) -> Outcome:
    watch, events = acknowledged(turn.watching, turn.rules.type_url)
    return Outcome(watch=_saying(watch, turn), events=events)


def _answer_all(turn: Turn) -> Outcome:
    return _answer(turn, turn.names)


def _answer_added(turn: Turn) -> Outcome:
    return _answer(turn, turn.names - turn.watching.names)


def _answer(turn: Turn, names: frozenset[str]) -> Outcome:
    taken, events = acknowledged(turn.watching, turn.rules.type_url)
    calm = _saying(taken, turn)._replace(pressed=False)
    watch, event = asked(calm, turn.rules.type_url, Owed(names=names))
    return Outcome(watch=watch, events=(*events, event))


def _saying(watch: Watch, turn: Turn) -> Watch:
    """The watch of a client that says these names."""
    said = turn.request.names
    return watch if watch.said is said else renamed(watch, turn.names)._replace(said=said)


CASES: tuple[Case[Turn], ...] = (
    Case(number="1", holds=lambda t: t.request.nack is not None, step=_reject),
    Case(number="2", holds=lambda t: not t.names and not t.rules.wildcard, step=_unsubscribe),
    Case(number="3", holds=lambda t: not t.request.nonce or t.watch is None, step=_begin),
    Case(number="4", holds=lambda t: t.request.nonce != t.watching.nonce, step=_ignore),
    Case(number="5a", holds=lambda t: t.watching.pressed, step=_answer_all),
    Case(number="5b", holds=lambda t: t.names is t.watching.names, step=_take),
    Case(number="5c", holds=lambda t: not t.rules.wildcard and t.names <= t.watching.names, step=_take),
    Case(number="5d", holds=lambda t: True, step=_answer_added),
)
"""§6.4, in this exact order."""


# --- responses -------------------------------------------------------------------------------------------------------
def offer(rules: TypeRules, watch: Watch, resources: ResourceSet) -> Offer | None:
    """What a response must hold so that its client has this set; None: nothing is owed and nothing is new for it.

    What follows a changed resource is due with it, but not after the first response of a watch: that answers a client
    which then asks for what follows, and is answered then (§6.14).
    """
    new = news(watch, rules, resources)
    if not (new or watch.owed or watch.due):
        return None
    warming = (new.changed,) if watch.nonce else ()
    sent = _select(rules, watch, new, resources)
    if not (sent or rules.complete or (watch.owed and rules.answers_empty)):
        return None
    if rules.complete:
        return Offer(sent=sent, warming=warming, whole=True)
    return Offer(sent=sent, warming=warming, told=sent.names, whole=bool(new))


def _select(rules: TypeRules, watch: Watch, new: Difference, resources: ResourceSet) -> Selection:
    """What to send: everything where everything is asked for, or where leaving out is removing."""
    if rules.wildcard and (rules.complete or watch.owed):
        return Selection(parts=resources.parts)
    return select(watch.names if rules.complete else wanted(watch, new), rules, resources)


def encode(rules: TypeRules, made: Offer, version: str, nonce: str) -> tuple[bytes, ...]:
    """The DiscoveryResponse as buffers."""
    fields = _fields(rules.type_url).of_all(made.sent)
    return sotw_response(type_url=rules.type_url, version=version, nonce=nonce, fields=fields)


def prepare(rules: TypeRules, watch: Watch, resources: ResourceSet) -> Iterator[None]:
    """Encode ahead, in steps, what an offer of this set will hold: what is asked for, all of a complete type."""
    if watch.owed is None and (watch.sent is resources or not rules.complete):
        return
    names = watch.owed.names if watch.owed and not rules.complete else watch.names
    fields = _fields(rules.type_url)
    for part in resources.parts:
        yield from fields.prepare(part) if rules.wildcard else fields.prepare_named(part, names)


@cache
def _fields(type_url: str) -> SharedFields:
    return SharedFields(type_url, sotw_resource_field)
