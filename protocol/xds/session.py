"""One client's ADS conversation: an immutable value that is stepped by requests and pushes. No I/O, no clock.

How to drive it:

    session = AdsSession.delta(types, stream="7f3a")
    session, events = session.receive(request)
    for event in events: ...                                # Asked(type_url): an answer is owed, see below
    for type_url in session.due([asked.type_url]):          # or due(types of a push), in the order of a push
        session, response = session.respond(type_url, resources[type_url])
        if response is not None: ...                        # write response.buffers

Theory. A session is a map from type URL to `subscription.Watch`. Which requests are answered, acknowledge or are
ignored is decided by one of two dialects, `sotw` and `delta`: tables of cases over a watch and a request. A response
comes about in one way only, whether it answers a request or is pushed: the driver offers the client a whole
`ResourceSet`, and the session sends what this client is owed of it or has not yet. So offering the same set twice is
harmless and a missed offer is made up for by the next. What differs between types is data (`types.TypeRules`).

Across types there is one dependency (§6.14): a client that got a changed cluster keeps it warming until it gets its
endpoints again, whatever their bytes. `respond` notes for a type that `follows` which names are due now, and the offer
of that type, which comes after it in the order of a push, brings them.

Keep the stepped session before its response is written. Whoever crashes in between resumes from it with `resumed`,
which owes the client everything: it may not have got the response.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from protocol.errors import LocalError
from protocol.xds import delta, sotw
from protocol.xds.doubt import NO_NAMES
from protocol.xds.events import Event, NotServed, Response
from protocol.xds.nonce import build_nonce
from protocol.xds.requests import count_names
from protocol.xds.selection import whole_parts
from protocol.xds.subscription import (
    Offer,
    Outcome,
    Watch,
    again,
    due_with,
    losing,
    offered,
    recognised,
    reminded,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from protocol.xds.requests import Request
    from protocol.xds.resources import ResourceSet
    from protocol.xds.types import TypeRules, TypeTable

MOST_REFUSED = 20
"""Types that nobody serves are remembered up to so many, to say each once."""

HEALTH = "type.googleapis.com/istio.v1.HealthInformation"
"""Reports of the agent about its workload. They travel on the same stream and are no part of this protocol (§6.3)."""


class Dialect(Protocol):
    """What the modules `sotw` and `delta` both are."""

    def receive(self, rules: TypeRules, watch: Watch | None, request: Request, /) -> Outcome:
        """Step a watch by a request."""
        ...

    def offer(self, rules: TypeRules, watch: Watch, resources: ResourceSet, /) -> Offer | None:
        """What a response must hold."""
        ...

    def encode(self, rules: TypeRules, made: Offer, version: str, nonce: str, /) -> tuple[bytes, ...]:
        """The response as buffers."""
        ...

    def prepare(self, rules: TypeRules, watch: Watch, resources: ResourceSet, /) -> Iterator[None]:
        """Encode ahead, in steps, what an offer of this set will hold."""
        ...


class AdsSession(NamedTuple):
    """The state of one stream. `responses` counts those made so far; `watches` are by type URL.

    `refused` are types that were asked for in vain.
    """

    dialect: Dialect
    types: TypeTable
    stream: str
    responses: int = 0
    refused: frozenset[str] = NO_NAMES
    watches: Mapping[str, Watch] = MappingProxyType({})

    @classmethod
    def sotw(cls, types: TypeTable, stream: str) -> AdsSession:
        """A new state-of-the-world stream. `stream` is an id that no other stream had: nonces begin with it."""
        return cls(dialect=sotw, types=types, stream=stream)

    @classmethod
    def delta(cls, types: TypeTable, stream: str) -> AdsSession:
        """A new delta stream, `stream` as above."""
        return cls(dialect=delta, types=types, stream=stream)

    def under(self, types: TypeTable) -> AdsSession:
        """The session under other rules, for they may depend on who the client is. Raises `LocalError` once it has
        asked for something.
        """
        if self.watches:
            raise LocalError("the rules of a stream cannot change once something is watched")
        return self._replace(types=types)

    # --- what there is to know ----------------------------------------------------------------------------------------
    @property
    def watched(self) -> Mapping[str, frozenset[str]]:
        """The types watched, each with the names asked for (of a wildcard type mostly none)."""
        return {type_url: watch.names for type_url, watch in self.watches.items()}

    def names(self, type_url: str) -> frozenset[str]:
        """The names asked for of this type; none if it is not watched."""
        watch = self.watches.get(type_url)
        return watch.names if watch else NO_NAMES

    def count_touched(self, request: Request) -> int:
        """How many names a step by this request goes through: those that it says, and, four times over, those that a
        NACK leaves in doubt, though it names none.
        """
        watch = self.watches.get(request.type_url) if request.nack else None
        return count_names(request) + (4 * sum(map(len, watch.doubt.unsettled)) if watch else 0)

    def count_single(self, type_url: str, resources: ResourceSet) -> int:
        """How many names the client waits for that are not answered with a whole part of this set."""
        watch = self.watches.get(type_url)
        if watch is None or watch.owed is None:
            return 0
        names = watch.owed.names
        return len(names) - sum(map(len, whole_parts(names, resources)))

    def lost(self, type_url: str) -> frozenset[str]:
        """The names of this type that went with what they belong to; the client was told nothing of them."""
        watch = self.watches.get(type_url)
        return watch.lost if watch else NO_NAMES

    def due(self, types: Iterable[str]) -> tuple[str, ...]:
        """Those of these types that are watched, and those that follow them, in the order of a push (§6.6)."""
        offered_now = frozenset(types)
        watched = [rules for type_url, rules in self.types.items() if type_url in self.watches]
        return tuple([each.type_url for each in watched if not offered_now.isdisjoint((each.type_url, each.follows))])

    # --- steps --------------------------------------------------------------------------------------------------------
    def receive(self, request: Request) -> tuple[AdsSession, tuple[Event, ...]]:
        """Step by a request. One for a type that nobody serves changes nothing (istiod ends the stream, §6.1)."""
        type_url = request.type_url
        if type_url == HEALTH:
            return self, ()
        rules = self.types.get(type_url)
        if rules is None:
            return self._not_served(type_url)
        outcome = self.dialect.receive(rules, self.watches.get(type_url), request)
        session = self._with(type_url, outcome.watch)
        return (session._pressing(type_url) if outcome.presses else session), outcome.events

    def respond(
        self, type_url: str, resources: ResourceSet, *, following: bool = False
    ) -> tuple[AdsSession, Response | None]:
        """Offer the client this set. What it is owed or has not yet of it is the response; None if that is nothing.

        `following`: the type is offered only because it follows another one, not because it changed itself. A name that
        it has lost is then passed over: what it belonged to has gone too, and the client will forget it by itself.
        """
        watch = self.watches.get(type_url)
        if watch is None:
            return self, None
        rules, watch = self.types[type_url], recognised(watch, resources)
        if following:
            watch = losing(watch, rules, resources)
        made = self.dialect.offer(rules, watch, resources)
        if made is None:
            return self._with(type_url, offered(watch, resources, None, "")), None
        nonce = build_nonce(self.stream, self.responses + 1)
        buffers = self.dialect.encode(rules, made, resources.version, nonce)
        watches = {**self.watches, type_url: offered(watch, resources, made, nonce), **self._warming(type_url, made)}
        response = _build_response(type_url, resources.version, nonce, made, buffers)
        return self._having(watches, self.responses + 1), response

    def recognised(self, type_url: str, resources: ResourceSet) -> AdsSession:
        """The session that knows which of this set its client has asked for as a whole; to be offered the set next."""
        watch = self.watches.get(type_url)
        return self if watch is None else self._with(type_url, recognised(watch, resources))

    def prepare(self, type_url: str, resources: ResourceSet) -> Iterator[None]:
        """Encode ahead, in steps, what a response with this set will hold: `respond` then puts it together."""
        watch = self.watches.get(type_url)
        return iter(()) if watch is None else self.dialect.prepare(self.types[type_url], watch, resources)

    def reminded(self, type_url: str, names: frozenset[str]) -> AdsSession:
        """The session that tells its client of these names in the next response, though nothing be new of them."""
        watch = self.watches.get(type_url)
        return self if watch is None else self._with(type_url, reminded(watch, names))

    def resumed(self) -> AdsSession:
        """The session as one that cannot be sure of what was written last: all that is watched is owed again."""
        watches = {type_url: again(watch, self.types[type_url]) for type_url, watch in self.watches.items()}
        return self._replace(watches=watches)

    # --- inner steps --------------------------------------------------------------------------------------------------
    def _not_served(self, type_url: str) -> tuple[AdsSession, tuple[Event, ...]]:
        if type_url in self.refused or len(self.refused) == MOST_REFUSED:
            return self, ()
        return self._replace(refused=self.refused | {type_url}), (NotServed(type_url=type_url),)

    def _with(self, type_url: str, watch: Watch | None) -> AdsSession:
        if watch is self.watches.get(type_url):
            return self
        if watch is not None:
            return self._having({**self.watches, type_url: watch}, self.responses)
        return self._having({url: other for url, other in self.watches.items() if url != type_url}, self.responses)

    def _having(self, watches: Mapping[str, Watch], responses: int) -> AdsSession:
        """Written out, for each request and each push comes here: `_replace` takes twice as long."""
        return AdsSession(self.dialect, self.types, self.stream, responses, self.refused, watches)

    def _followers(self, type_url: str) -> list[tuple[str, Watch]]:
        return [(url, watch) for url, watch in self.watches.items() if self.types[url].follows == type_url]

    def _pressing(self, type_url: str) -> AdsSession:
        """The types that follow this one answer their next request even if it looks like an ACK (§6.14)."""
        session = self
        for url, watch in self._followers(type_url):
            session = session._with(url, watch._replace(pressed=True))
        return session

    def _warming(self, type_url: str, made: Offer) -> Mapping[str, Watch]:
        """What belongs to something just sent is due in the types that follow, whatever its bytes."""
        return {url: due_with(watch, self.types[url], made) for url, watch in self._followers(type_url)}


def _build_response(type_url: str, version: str, nonce: str, made: Offer, buffers: tuple[bytes, ...]) -> Response:
    return Response(
        type_url=type_url,
        version=version,
        nonce=nonce,
        buffers=buffers,
        sent=len(made.sent),
        removed=len(made.removed),
        size=sum(map(len, buffers)),
    )
