"""What one stream knows of one resource type, and the steps that are the same in both dialects.

Theory. A `Watch` remembers what its client asked for and what it was brought up to, as references to two shared values:

- `sent`: the set that the client has been told of, up to the last response;
- `settled`: the set and the names at its last ACK.

What a push brings is the difference from `sent`. Only after a NACK is `settled` needed: a client may refuse a response
whole, or apply the good half of it, so that until the next ACK it holds of each name what `settled` or what `sent` has.
Therefore a NACK changes nothing at once (§6.13: it triggers no resend), but the next response that has something new
to say carries the difference from both, and then the client is whole again whichever of the two it had.

Invariant: once nothing is owed, each watched name that `sent` defines was sent with the version that it has there.
Invariant: `nonce` is "" exactly until the first response of the watch; a client that names a nonce before is stale.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING

from protocol.xds.diff import Difference, difference
from protocol.xds.events import Acked, Asked, Event, Nacked, StaleNonce
from protocol.xds.resources import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.xds.requests import Nack
    from protocol.xds.resources import Resource, ResourceSet
    from protocol.xds.types import TypeRules

NO_NAMES: frozenset[str] = frozenset()
WILDCARD = "*"
"""The name by which a delta client asks for everything. It is never kept among the names (§6.9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """The answer that a request still waits for: these names, or everything if the type is a wildcard one.

    `declared` are the versions that a delta client says it holds (initial_resource_versions): what has the same version
    now is left out of the answer.
    """

    names: frozenset[str] = NO_NAMES
    declared: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def and_then(self, later: Owed) -> Owed:
        """Both answers as one. What is asked for again is asked for without its declaration."""
        kept = {name: version for name, version in self.declared.items() if name not in later.names}
        return Owed(names=self.names | later.names, declared={**kept, **later.declared})

    def without(self, names: frozenset[str]) -> Owed:
        """What remains owed when these names are no longer wanted."""
        return replace(self, names=self.names - names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What the client held, without a doubt, when it last acknowledged: these names as this set has them."""

    resources: ResourceSet = EMPTY
    names: frozenset[str] = NO_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """One type on one stream (§6.2). `names` are those asked for; a wildcard type is sent everything all the same.

    `nonce`: of the last response; `acked`: the last one accepted; `rejection`: the last NACK, until an ACK follows.
    `doubted`: a NACK came and no response since has made up for it. `due`: names that must be sent, changed or not,
    because what they belong to was sent (`TypeRules.follows`). `pressed`: the next request is answered though it looks
    like an ACK (istiod's AlwaysRespond, §6.4 case 5a).
    """

    names: frozenset[str]
    nonce: str = ""
    acked: str = ""
    rejection: Nacked | None = None
    sent: ResourceSet = EMPTY
    settled: Settled = Settled()
    owed: Owed | None = None
    due: frozenset[str] = NO_NAMES
    doubted: bool = False
    pressed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a request does to a watch: its next state (None: no watch), and what there is to tell.

    `presses`: the types that follow this one must answer their next request, whatever it says (§6.14).
    """

    watch: Watch | None
    events: tuple[Event, ...] = ()
    presses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a response will hold. `warming`: names whose followers are due now. `whole`: it makes up for a NACK."""

    resources: tuple[Resource, ...]
    removed: tuple[str, ...] = ()
    warming: tuple[str, ...] = ()
    whole: bool


# --- steps of a request ----------------------------------------------------------------------------------------------
def interned(names: Iterable[str]) -> frozenset[str]:
    """The set of these names, each of them one object for the whole process."""
    return frozenset(map(intern, names))


def rejected(watch: Watch | None, type_url: str, nonce: str, nack: Nack) -> Outcome:
    """Note a NACK and change nothing else: neither the names in it nor `acked`. Without a watch it is only told of.

    istiod ends its whole process in the latter case (§6.4, hazard).
    """
    event = Nacked(type_url=type_url, nonce=nonce, code=nack.code, message=nack.message)
    if watch is None:
        return Outcome(watch=None, events=(event,))
    return Outcome(watch=replace(watch, rejection=event, doubted=True), events=(event,))


def stale(watch: Watch | None, type_url: str, nonce: str) -> Outcome:
    """Ignore a request that answers an older response, its names too (§11.11)."""
    return Outcome(watch=watch, events=(StaleNonce(type_url=type_url, nonce=nonce),))


def acknowledged(watch: Watch, type_url: str) -> tuple[Watch, tuple[Event, ...]]:
    """The client names the last response without an error. That is an ACK, but for two cases.

    After it has rejected that very response it goes on naming it when it changes its subscription: it has not come to
    like it. And a nonce that is named a second time was acknowledged the first time.
    """
    refused = watch.rejection is not None and watch.rejection.nonce == watch.nonce
    if refused or watch.acked == watch.nonce:
        return watch, ()
    settled = watch.settled
    if not watch.doubted:
        unanswered = watch.owed.names if watch.owed else NO_NAMES
        settled = Settled(resources=watch.sent, names=watch.names - unanswered if unanswered else watch.names)
    accepted = replace(watch, acked=watch.nonce, rejection=None, settled=settled)
    return accepted, (Acked(type_url=type_url, nonce=watch.nonce),)


def asked(watch: Watch, type_url: str, owed: Owed, *, first: bool = False) -> tuple[Watch, Event]:
    """Owe the client this answer, beside what it may be owed already."""
    total = owed if watch.owed is None else watch.owed.and_then(owed)
    return replace(watch, owed=total), Asked(type_url=type_url, first=first)


def renamed(watch: Watch, names: frozenset[str]) -> Watch:
    """Watch these names from now on. Those no longer among them count as never held: the client has forgotten them."""
    if names == watch.names:
        return watch
    gone = watch.names - names
    return replace(
        watch,
        names=names,
        owed=watch.owed.without(gone) if watch.owed else None,
        due=watch.due - gone,
        settled=replace(watch.settled, names=watch.settled.names - gone),
    )


def again(watch: Watch, rules: TypeRules) -> Watch:
    """Owe the client all that it watches, and word of all that it may hold and that is no more."""
    if not rules.wildcard:
        return replace(watch, owed=Owed(names=watch.names))
    held = {resource.name for held in (watch.sent, watch.settled.resources) for resource in held}
    return replace(watch, owed=Owed(names=watch.names | held))


# --- steps of a response ---------------------------------------------------------------------------------------------
def news(watch: Watch, rules: TypeRules, resources: ResourceSet) -> Difference:
    """What is new for this client in a set, of the names that it watches. After a NACK, also what it may have refused.

    Nothing new since the last response means nothing at all: what was refused is not sent again by itself.
    """
    latest = _seen(watch, rules, difference(watch.sent, resources))
    if not (latest and watch.doubted):
        return latest
    refused = _seen(watch, rules, difference(watch.settled.resources, resources))
    unsure = _unsure(watch, rules)
    known = frozenset(name for name in unsure if resources.get(name) is not None)
    changed = latest.changed | refused.changed | known
    return Difference(changed, (latest.removed | refused.removed | (unsure - known)) - changed)


def _unsure(watch: Watch, rules: TypeRules) -> frozenset[str]:
    """Names of which the last ACK says nothing: asked for since, or declared by a client that was sent everything."""
    return watch.names | watch.settled.names if rules.wildcard else watch.names - watch.settled.names


def _seen(watch: Watch, rules: TypeRules, change: Difference) -> Difference:
    return change if rules.wildcard else change.within(watch.names)


def resolve(names: Iterable[str], rules: TypeRules, resources: ResourceSet) -> tuple[list[Resource], list[str]]:
    """Look names up, in alphabetical order: the resources or their placeholders, and the names that nothing defines."""
    found: list[Resource] = []
    unknown: list[str] = []
    for name in sorted(names):
        resource = resources.get(name)
        if resource is None and rules.placeholder is not None:
            resource = rules.placeholder(name)
        if resource is None:
            unknown.append(name)
        else:
            found.append(resource)
    return found, unknown


def offered(watch: Watch, resources: ResourceSet, offer: Offer | None, nonce: str) -> Watch:
    """The watch after `offer` of a set was made, or after there was nothing to offer (None: `nonce` is not used)."""
    names = shared(watch.names, resources)
    if offer is None:
        return replace(watch, names=names, sent=resources, owed=None, due=NO_NAMES)
    return replace(
        watch,
        names=names,
        nonce=nonce,
        sent=resources,
        owed=None,
        due=NO_NAMES,
        doubted=watch.doubted and not offer.whole,
    )


def shared(names: frozenset[str], resources: ResourceSet) -> frozenset[str]:
    """The part's own set of names where it is equal: thousands of subscriptions to all endpoints are then one set."""
    for part in resources.parts:
        if names is part.names or names == part.names:
            return part.names
    return names
