"""What one stream knows of one resource type, and the steps that are the same in both dialects.

Theory. A `Watch` remembers what its client asked for and what it was brought up to: `sent`, the set that it was last
offered, a reference to a value that thousands of watches share. What a push brings is the difference from it.

What a client has not acknowledged or has refused, and what it is told again for that, is in `doubt.py`.

Values that every request and every push steps are named tuples: another one with a few fields changed costs a fifth of
what it does as a dataclass, and a new service steps some twenty of them for each client.

Sets of names are mostly the very objects that `sent` has for its parts (`shared`, `more`), and whoever compares them
asks for identity first: comparing 2,400 names costs more than all else that a request does.

Invariant: once nothing is owed, each watched name that `sent` defines was told, or declared by the client, with the
version that it has there. Invariant: `nonce` is "" exactly until the first response of the watch; a client that names a
nonce before is stale.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from protocol.xds.diff import NOTHING, Difference, difference, has_grown
from protocol.xds.doubt import CERTAIN, NO_NAMES, Doubt
from protocol.xds.events import Acked, Asked, Event, Nacked, StaleNonce
from protocol.xds.resources import ResourceSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.xds.requests import Nack
    from protocol.xds.selection import Selection
    from protocol.xds.types import TypeRules

WILDCARD = "*"
"""The name by which a delta client asks for everything. It is never kept among the names (§6.9)."""

WILDCARDS = frozenset({WILDCARD})

UNOFFERED = ResourceSet()
"""The set of a watch that was not offered any yet."""


class Owed(NamedTuple):
    """The answer that a request still waits for: these names, or everything if the type is a wildcard one.

    `declared` are the versions that a delta client says it holds (initial_resource_versions): what has the same version
    now is left out of the answer.
    """

    names: frozenset[str] = NO_NAMES
    declared: Mapping[str, str] = MappingProxyType({})

    def and_then(self, later: Owed) -> Owed:
        """Both answers as one. What is asked for again is asked for without its declaration."""
        kept = {name: version for name, version in self.declared.items() if name not in later.names}
        return Owed(names=self.names | later.names, declared={**kept, **later.declared})

    def without(self, names: frozenset[str]) -> Owed:
        """What remains owed when these names are no longer wanted."""
        return self._replace(names=self.names - names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """Changes of a subscription in answers that count for nothing: to a response that was not the last, or a NACK.

    istiod forgets them, and the client, which will not say them again, waits for ever. Here they are taken once it
    acknowledges another response than `since`, the one that it named.
    """

    since: str
    subscribe: frozenset[str]
    unsubscribe: frozenset[str]


class Watch(NamedTuple):
    """One type on one stream (§6.2). `names` are those asked for; a wildcard type is sent everything all the same.

    `nonce`: of the last response; `acked`: the last one accepted; `rejection`: the last NACK, until an ACK follows.
    `doubt`: what the client may not have got. `due`: names that must be sent, changed or not, because what they belong
    to was sent (`TypeRules.follows`). `lost`: names that the set has lost while it only followed another. `late`:
    changes of the subscription that were not taken yet. `pressed`: the next request is answered though it looks like an
    ACK (istiod's AlwaysRespond, §6.4 case 5a). `said`: the names as a state-of-the-world client said them last; whoever
    reads its stream gives the same tuple when it repeats itself.
    """

    names: frozenset[str]
    nonce: str = ""
    acked: str = ""
    rejection: Nacked | None = None
    sent: ResourceSet = UNOFFERED
    owed: Owed | None = None
    due: frozenset[str] = NO_NAMES
    lost: frozenset[str] = NO_NAMES
    doubt: Doubt = CERTAIN
    late: Late | None = None
    pressed: bool = False
    said: tuple[str, ...] | None = None


class Outcome(NamedTuple):
    """What a request does to a watch: its next state (None: no watch), and what there is to tell.

    `presses`: the types that follow this one must answer their next request, whatever it says (§6.14).
    """

    watch: Watch | None
    events: tuple[Event, ...] = ()
    presses: bool = False


class Offer(NamedTuple):
    """What a response will hold. `warming`: names whose followers are due now; `anew`: all followers are, those of none
    of its names too, for a delta client has asked for it anew (§6.10).

    `told`: names of which a client in doubt would have to be told again. `whole`: it makes up for a NACK.
    """

    sent: Selection
    whole: bool
    removed: tuple[str, ...] = ()
    warming: tuple[frozenset[str], ...] = ()
    anew: bool = False
    told: tuple[frozenset[str], ...] = ()


# --- steps of a request ----------------------------------------------------------------------------------------------
def interned(names: Iterable[str], known: frozenset[str] = NO_NAMES) -> frozenset[str]:
    """The set of these names, which the whole process shares since `wire_requests`; `known` itself if it is equal."""
    given = frozenset(names)
    return known if given == known else given


def more(names: frozenset[str], added: frozenset[str], sent: ResourceSet) -> frozenset[str]:
    """Both together; a part's own set where they are what it has grown to: a client asks for what is new there."""
    if added <= names:
        return names
    for part in sent.parts:
        if has_grown(part, names, added):
            return part.names
    return names | added


def less(names: frozenset[str], *dropped: frozenset[str]) -> frozenset[str]:
    """The names without those dropped; the set itself, for it may be large, if none of them is in it."""
    for others in dropped:
        names = names if names.isdisjoint(others) else names - others
    return names


def rejected(watch: Watch | None, type_url: str, nonce: str, nack: Nack) -> Outcome:
    """Note a NACK and change nothing else: neither the names in it nor `acked`. Without a watch it is only told of.

    istiod ends its whole process in the latter case (§6.4, hazard).
    """
    event = Nacked(type_url=type_url, nonce=nonce, code=nack.code, message=nack.message)
    if watch is None:
        return Outcome(watch=None, events=(event,))
    doubt = watch.doubt.rejected(nack.message, watch.sent, latest=nonce == watch.nonce)
    return Outcome(watch=watch._replace(rejection=event, doubt=doubt), events=(event,))


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
    names, nonce, _, _, sent, owed, due, lost, doubt, late, pressed, said = watch
    accepted = Watch(names, nonce, nonce, None, sent, owed, due, lost, doubt.settled(), late, pressed, said)
    return accepted, (Acked(type_url=type_url, nonce=watch.nonce),)


def asked(watch: Watch, type_url: str, owed: Owed, *, first: bool = False) -> tuple[Watch, Event]:
    """Owe the client this answer, beside what it may be owed already."""
    total = owed if watch.owed is None else watch.owed.and_then(owed)
    return watch._replace(owed=total), Asked(type_url=type_url, first=first)


def renamed(watch: Watch, names: frozenset[str]) -> Watch:
    """Watch these names from now on. Nothing is owed any more of those that are no longer among them."""
    if names is watch.names:
        return watch
    if watch.owed is None and not watch.due and not watch.lost:
        return watch._replace(names=names)
    gone = watch.names - names
    owed = watch.owed.without(gone) if watch.owed else None
    return watch._replace(names=names, owed=owed, due=watch.due - gone, lost=watch.lost - gone)


def again(watch: Watch, rules: TypeRules) -> Watch:
    """Owe the client all that it watches, and word of all that it may hold and that is no more."""
    if not rules.wildcard:
        return watch._replace(owed=Owed(names=watch.names))
    held = frozenset(resource.name for resource in watch.sent)
    return watch._replace(owed=Owed(names=held.union(watch.names, *watch.doubt.unsettled)))


def reminded(watch: Watch, *names: frozenset[str]) -> Watch:
    """Send what it watches of these names with the next response, changed or not."""
    due = watch.due.union(*(watch.names & each for each in names))
    return watch if due == watch.due else watch._replace(due=due)


def due_with(watch: Watch, rules: TypeRules, owners: Offer) -> Watch:
    """Send what belongs to what is sent of the type that is followed, changed or not.

    A client may have dropped what came before its owner: then only the set that it was offered tells what belongs.
    """
    if rules.owner is None:
        return reminded(watch, watch.names) if owners.anew else reminded(watch, *owners.warming)
    sent = NO_NAMES.union(*owners.warming)
    belonging = frozenset(each.name for each in watch.sent if rules.owner(each.name) in sent)
    return watch._replace(due=watch.due | belonging) if belonging else watch


def losing(watch: Watch, rules: TypeRules, resources: ResourceSet) -> Watch:
    """Note the names that go in a set which only follows another."""
    gone = difference(watch.sent, resources).removed
    lost = watch.lost | (gone if rules.wildcard else gone & watch.names)
    return watch if lost == watch.lost else watch._replace(lost=lost)


# --- steps of a response ---------------------------------------------------------------------------------------------
def recognised(watch: Watch, resources: ResourceSet) -> Watch:
    """The watch of a client that asks for something: if that is all of a part, the names are the part's own."""
    if watch.owed is None or watch.owed.names is not watch.names:
        return watch
    names = shared(watch.names, resources)
    return watch if names is watch.names else watch._replace(names=names, owed=watch.owed._replace(names=names))


def news(watch: Watch, rules: TypeRules, resources: ResourceSet) -> Difference:
    """What is new for this client in a set, of the names that it watches; after a NACK, all that it may not have.

    Nothing new since the last response means nothing at all: what was refused is not sent again by itself. And nothing
    is news to a client that waits for its first answer, which will hold all that it watches.
    """
    if watch.sent is UNOFFERED and watch.owed:
        return NOTHING
    latest = difference(watch.sent, resources)
    if not rules.wildcard:
        latest = latest.within(watch.names)
    if watch.lost and latest.removed:
        latest = Difference(latest.changed, latest.removed - watch.lost)
    if not (latest and watch.doubt.nacked):
        return latest
    defined, gone = watch.doubt.again(resources)
    if not rules.wildcard:
        defined, gone = defined & watch.names, gone & watch.names
    return Difference(latest.changed | defined, latest.removed | gone)


def wanted(watch: Watch, new: Difference) -> frozenset[str]:
    """The names that a response of single resources is about: owed, due, new."""
    owed = watch.owed.names if watch.owed else NO_NAMES
    return together(owed, watch.due, new.changed, new.removed)


def together(*names: frozenset[str]) -> frozenset[str]:
    """All of them; a set itself, for it may be large and shared, if the others are empty."""
    some = [each for each in names if each]
    return some[0] if len(some) == 1 else NO_NAMES.union(*some)


def offered(watch: Watch, resources: ResourceSet, offer: Offer | None, nonce: str) -> Watch:
    """The watch after `offer` of a set was made, or after there was nothing to offer (None: `nonce` is not used)."""
    names = shared(watch.names, resources)
    if offer is None and watch.sent is resources and watch.owed is None and not watch.due:
        return watch
    lost = _still_lost(watch.lost, resources, offer)
    _, last, acked, rejection, _, _, _, _, doubt, late, pressed, said = watch
    if offer is not None:
        last, doubt = nonce, doubt.told(offer.told, whole=offer.whole)
    return Watch(names, last, acked, rejection, resources, None, NO_NAMES, lost, doubt, late, pressed, said)


def _still_lost(lost: frozenset[str], resources: ResourceSet, offer: Offer | None) -> frozenset[str]:
    """Of the lost names those that have not come back, and of which nothing was said now."""
    if not lost:
        return lost
    told = NO_NAMES.union(*offer.sent.names, offer.removed) if offer else NO_NAMES
    return frozenset(name for name in lost - told if resources.get(name) is None)


def shared(names: frozenset[str], resources: ResourceSet) -> frozenset[str]:
    """The part's own set of names where it is equal: thousands of subscriptions to all endpoints are then one set."""
    for part in resources.parts if names else ():
        if names is part.names or names == part.names:
            return part.names
    return names
