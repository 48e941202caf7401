"""Under which names the services of a route configuration are found, when several want the same (networking.md §5.3).

Names do not depend on routes. So they are worked out apart from them: which names each port of a service claims, and
who gets which of all that are claimed. Both are the same until services come or go, however often routes change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trierarch.envoy.outbound_view import served_families, service_addresses
from trierarch.envoy.route_tables import DEFAULT_HTTP_PORT
from trierarch.envoy.virtual_host_domains import (
    bracketed,
    own_suffix,
    service_domains,
    with_port,
    without_namespace,
)
from trierarch.push.model import Resolution

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.route_tables import Members, PortService
    from trierarch.push.model import Service
    from trierarch.push.proxy import IPMode
    from trierarch.push.steps import Steps

CLAIMS_PER_STEP = 250
"""After so many claims the event loop gets its turn: about a millisecond of work."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Claim:
    """What the virtual host of a port would be called if nobody else wanted its names. `host`: the full name.

    `folded` are its domains in lower case.
    """

    host: str
    port: int
    domains: tuple[str, ...]
    name: str = field(init=False)
    folded: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.host}:{self.port}")
        object.__setattr__(self, "folded", frozenset(domain.lower() for domain in self.domains))


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

    `own` are those that the caller knows by shorter names, for it is in their namespace; `strangers` are the names of
    callers of no namespace, None if these are they. Most names are theirs.
    """

    claims: Mapping[str, tuple[Claim, ...]]
    known: frozenset[str]
    own: tuple[str, ...] = ()
    strangers: Names | None = None


def select_names(inputs: tuple[Members, Caller], memo: Memo) -> Steps[Names]:
    """The names of all members. An alias has none of its own: its names are those of what it stands for."""
    members, caller = inputs
    stranger = caller._replace(dns_domain=without_namespace(caller.dns_domain))
    if stranger == caller:
        return (yield from _select_all_names(members, caller, memo))
    strangers = yield from memo.steps(select_names, (members, stranger))
    suffix = own_suffix(caller.dns_domain)
    own = [host for host, each in members.by_host.items() if _ends(each.service, suffix)]
    claims = {host: _claims(members.by_host[host], caller, memo) for host in own}
    return Names({**strangers.claims, **claims}, strangers.known, tuple(own), strangers)


def _ends(service: Service, suffix: str) -> bool:
    if suffix in service.hostname:
        return True
    return bool(service.aliases) and any(suffix in alias.host for alias in service.aliases)


def _select_all_names(members: Members, caller: Caller, memo: Memo) -> Steps[Names]:
    claims: dict[str, tuple[Claim, ...]] = {}
    for count, (host, member) in enumerate(members.by_host.items(), start=1):
        claims[host] = _claims(member, caller, memo)
        if count % CLAIMS_PER_STEP == 0:
            yield
    return Names(claims, frozenset(host for host, each in members.by_host.items() if _is_named(each.service)))


def _claims(member: PortService, caller: Caller, memo: Memo) -> tuple[Claim, ...]:
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


class Arrangement(NamedTuple):
    """Whose claims come to something: their places in the contest, sorted by name. A claim with a name that is taken
    gets nothing. `left`: the domains of those that do not get all that they claim, by place.
    """

    order: tuple[int, ...]
    left: Mapping[int, tuple[str, ...]]


def arrange(contest: Contest, _memo: Memo) -> Steps[Arrangement]:
    """Give each domain to whoever claims it first, but the full name of a service to nobody else."""
    yield
    if _is_peaceful(contest):
        claims = contest.claims
        return Arrangement(tuple(sorted(range(len(claims)), key=[claim.name for claim in claims].__getitem__)), {})
    return (yield from _settle(contest))


def _is_peaceful(contest: Contest) -> bool:
    """Whether nobody wants what another has: as a rule, and sets tell it fast."""
    claims = contest.claims
    if contest.only_ported or len({claim.name for claim in claims}) < len(claims):
        return False
    domains = frozenset().union(*[claim.folded for claim in claims])
    if len(domains) < sum([len(claim.domains) for claim in claims]):
        return False
    without_claim = contest.known.difference([claim.host for claim in claims])
    return domains.isdisjoint([host.lower() for host in without_claim])


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
    return Arrangement(tuple(won[name] for name in sorted(won)), left)


def _take(claim: Claim, taken: set[str], known: frozenset[str]) -> tuple[str, ...]:
    """The domains that are still free."""
    free = []
    for domain in claim.domains:
        folded = domain.lower()
        if folded not in taken and (domain == claim.host or domain not in known):
            taken.add(folded)
            free.append(domain)
    return tuple(free)
