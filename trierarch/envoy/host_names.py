"""Under which names the services of a route configuration are found, when several want the same (networking.md §5.3).

Names do not depend on routes. So they are worked out apart from them: which names each port of a service claims, and
who gets which of all that are claimed. Both are the same until services come or go, however often routes change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from trierarch.envoy.outbound_view import served_families, service_addresses
from trierarch.envoy.route_tables import DEFAULT_HTTP_PORT, NO_MEMBERS, Members, select_labelled
from trierarch.envoy.virtual_host_domains import (
    bracketed,
    last_label,
    service_domains,
    with_port,
    without_namespace,
)
from trierarch.push.model import Resolution

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.route_tables import PortService
    from trierarch.push.model import Service
    from trierarch.push.proxy import IPMode
    from trierarch.push.steps import Steps

CLAIMS_PER_STEP = 250
"""After so many claims the event loop gets its turn: about a millisecond of work."""

SHORTEST_RUN = 16
"""Virtual hosts that a run has, the last one apart; twice as many on average. They have some 20 KB together."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Claim:
    """What the virtual host of a port would be called if nobody else wanted its names. `host`: the full name.

    `folded` are its domains in lower case. `ends_run`: whether a run may end with it (see `_divide`).
    """

    host: str
    port: int
    domains: tuple[str, ...]
    name: str = field(init=False)
    folded: frozenset[str] = field(init=False)
    ends_run: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.host}:{self.port}")
        object.__setattr__(self, "folded", frozenset(domain.lower() for domain in self.domains))
        object.__setattr__(self, "ends_run", crc32(self.name.encode()) % SHORTEST_RUN == 0)


def claim_host(host_and_port: tuple[str, int]) -> Claim:
    """The claim of a host that is no service."""
    host, port = host_and_port
    return Claim(host=host, port=port, domains=(bracketed(host),))


# --- what is claimed -------------------------------------------------------------------------------------------------
class Caller(NamedTuple):
    """What of a client decides under which names it finds services. `ported`: the port is a part of them."""

    cluster: str
    families: IPMode
    dns_capture: bool
    dns_domain: str
    ported: bool

    @property
    def stranger(self) -> Caller:
        """A caller of no namespace."""
        return self._replace(dns_domain=without_namespace(self.dns_domain))


def select_caller(view: OutboundView, port: int) -> Caller:
    """The caller of a route configuration. Where the listener has no port nothing else tells ports apart; and a gRPC
    client looks for the target that it was given.
    """
    key = view.key
    families = served_families(key, view.mesh)
    return Caller(key.cluster, families, key.dns_capture, key.dns_domain, ported=port == 0 or key.is_proxyless)


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """The claims of services, by host; and the hosts of all services that have names, some of them for other ports.

    `strangers` are the names of callers of no namespace, None if these are they. Others know just some services by
    other names, the shorter ones of their own namespace: `claims` has those alone, and `own` are these services.
    """

    claims: Mapping[str, tuple[Claim, ...]]
    known: frozenset[str]
    strangers: Names | None = None
    own: Members = NO_MEMBERS

    def of(self, host: str) -> tuple[Claim, ...]:
        """The claims of one of the services."""
        found = self.claims.get(host)
        return self.strangers.of(host) if found is None and self.strangers is not None else self.claims[host]


def select_names(inputs: tuple[Members, Caller], memo: Memo) -> Steps[Names]:
    """The names of all members. An alias has none of its own: its names are those of what it stands for."""
    members, caller = inputs
    stranger = caller.stranger
    if stranger == caller:
        claims = yield from _claim_each(inputs, memo)
        return Names(claims, frozenset(host for host, each in members.by_host.items() if _is_named(each.service)))
    strangers = yield from memo.steps(select_names, (members, stranger))
    own = memo.think(select_labelled, (members, last_label(caller.dns_domain)))
    claims = yield from memo.steps(_claim_each, (own, caller))
    return Names(claims, strangers.known, strangers, own)


def _claim_each(inputs: tuple[Members, Caller], memo: Memo) -> Steps[Mapping[str, tuple[Claim, ...]]]:
    members, caller = inputs
    claims: dict[str, tuple[Claim, ...]] = {}
    for count, (host, member) in enumerate(members.by_host.items(), start=1):
        claims[host] = claims_of(member, caller, memo)
        if count % CLAIMS_PER_STEP == 0:
            yield
    return claims


def claims_of(member: PortService, caller: Caller, memo: Memo) -> tuple[Claim, ...]:
    """What one service is called by a caller, at each of its HTTP ports."""
    return tuple([memo.recall(_claim, (member.service, port, caller)) for port in member.http_ports])


def _is_named(service: Service) -> bool:
    return service.resolution is not Resolution.ALIAS


def _claim(inputs: tuple[Service, int, Caller]) -> Claim:
    service, port, caller = inputs
    addresses = service_addresses(service, caller.cluster, caller.families, dns_capture=caller.dns_capture)
    domains = service_domains(service, addresses, caller.dns_domain)
    return Claim(host=service.hostname, port=port, domains=with_port(domains, port) if caller.ported else domains)


# --- who gets what ---------------------------------------------------------------------------------------------------
class Contest(NamedTuple):
    """Claims in order of precedence. `known`: hosts that nobody else may claim.

    `only_ported`: domains must name their port unless it is the default one, for nothing else tells the ports apart.
    """

    claims: tuple[Claim, ...]
    known: frozenset[str]
    only_ported: bool


class Peace(NamedTuple):
    """Nobody wants what another has. `places`: in which run a name stands, and where in it. `taken`: all domains, in
    lower case, and the hosts that nobody may claim.
    """

    places: Mapping[str, tuple[int, int]]
    taken: frozenset[str]


class Arrangement(NamedTuple):
    """Whose claims come to something: their places in the contest, sorted by name and divided into runs. A claim with a
    name that is taken gets nothing. `left`: the domains of those that do not get all that they claim, by place.
    """

    runs: tuple[tuple[int, ...], ...]
    left: Mapping[int, tuple[str, ...]]
    peace: Peace | None


def arrange(contest: Contest, _memo: Memo) -> Steps[Arrangement]:
    """Give each domain to whoever claims it first, but the full name of a service to nobody else."""
    claims, taken = contest.claims, _claim_all(contest)
    yield
    if taken is None:
        return (yield from _settle(contest))
    order = sorted(range(len(claims)), key=[claim.name for claim in claims].__getitem__)
    runs = tuple(_divide(order, claims))
    yield
    places = {claims[index].name: (run, at) for run, places in enumerate(runs) for at, index in enumerate(places)}
    return Arrangement(runs, {}, Peace(places, taken))


def _claim_all(contest: Contest) -> frozenset[str] | None:
    """What is taken if nobody wants what another has, else None. Nobody does as a rule, and sets tell it fast."""
    claims = contest.claims
    if contest.only_ported or len({claim.name for claim in claims}) < len(claims):
        return None
    domains = frozenset().union(*[claim.folded for claim in claims])
    if len(domains) < sum([len(claim.domains) for claim in claims]):
        return None
    without_claim = contest.known.difference([claim.host for claim in claims])
    foreign = frozenset(host.lower() for host in without_claim)
    return domains | foreign if domains.isdisjoint(foreign) else None


def _divide(order: Sequence[int], claims: Sequence[Claim]) -> Iterator[tuple[int, ...]]:
    """In runs. Names alone decide where these end, so that they do in the same places in every namespace and every
    process, and that a name that comes or goes leaves the runs before and after it as they are.
    """
    start = 0
    for end, place in enumerate(order, start=1):
        if claims[place].ends_run and end - start >= SHORTEST_RUN:
            yield tuple(order[start:end])
            start = end
    if start < len(order):
        yield tuple(order[start:])


def _settle(contest: Contest) -> Steps[Arrangement]:
    """One claim after the other."""
    names: set[str] = set()
    taken: set[str] = set()
    won: dict[str, int] = {}
    left: dict[int, tuple[str, ...]] = {}
    for count, (index, claim) in enumerate(enumerate(contest.claims), start=1):
        if claim.name not in names:
            names.add(claim.name)
            free = _take(claim, taken, contest.known)
            if contest.only_ported and claim.port != DEFAULT_HTTP_PORT:
                free = tuple(domain for domain in free if ":" in domain)
            if free:
                won[claim.name] = index
            if free != claim.domains:
                left[index] = free
        if count % CLAIMS_PER_STEP == 0:
            yield
    runs = _divide([won[name] for name in sorted(won)], contest.claims)
    return Arrangement(tuple(runs), left, None)


def _take(claim: Claim, taken: set[str], known: frozenset[str]) -> tuple[str, ...]:
    """The domains that are still free."""
    free = []
    for domain in claim.domains:
        folded = domain.lower()
        if folded not in taken and (domain == claim.host or domain not in known):
            taken.add(folded)
            free.append(domain)
    return tuple(free)
