"""Under which names the services of a route configuration are found, when several want the same (networking.md §5.3).

Names do not depend on routes. So they are worked out apart from them: which names each port of a service claims, and
who gets which of all that are claimed. Both are the same until services come or go, however often routes change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trierarch.envoy.outbound_view import service_addresses
from trierarch.envoy.route_tables import DEFAULT_HTTP_PORT
from trierarch.envoy.virtual_host_domains import bracketed, search_domain, service_domains, with_port
from trierarch.push.model import Resolution

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.route_tables import Members
    from trierarch.push.model import Service
    from trierarch.push.proxy import IPMode
    from trierarch.push.steps import Steps

CLAIMS_PER_STEP = 250
"""After so many claims the event loop gets its turn: about a millisecond of work."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Claim:
    """What the virtual host of a port would be called if nobody else wanted its names. `host`: the full name.

    `folded` are its domains in lower case, `others` those that are not its full name.
    """

    host: str
    port: int
    domains: tuple[str, ...]
    name: str = field(init=False)
    folded: frozenset[str] = field(init=False)
    others: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.host}:{self.port}")
        object.__setattr__(self, "folded", frozenset(domain.lower() for domain in self.domains))
        object.__setattr__(self, "others", frozenset(self.domains) - {self.host})

    @property
    def repeats(self) -> bool:
        """Whether it claims a domain twice."""
        return len(self.folded) < len(self.domains)


def claim_host(host_and_port: tuple[str, int]) -> Claim:
    """The claim of a host that is no service."""
    host, port = host_and_port
    return Claim(host=host, port=port, domains=(bracketed(host),))


# --- what is claimed -------------------------------------------------------------------------------------------------
class Caller(NamedTuple):
    """What of a client decides under which names it finds services. `ported`: the port is a part of them."""

    cluster: str
    ip_mode: IPMode
    dns_capture: bool
    dns_domain: str
    ported: bool


def select_caller(view: OutboundView, port: int) -> Caller:
    """The caller of a route configuration. Where the listener has no port nothing else tells ports apart; and a gRPC
    client looks for the target that it was given.
    """
    key = view.key
    return Caller(key.cluster, key.ip_mode, key.dns_capture, key.dns_domain, ported=port == 0 or key.is_proxyless)


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """The claims of services, by host; and the hosts of all services that have names, some of them for other ports."""

    claims: Mapping[str, tuple[Claim, ...]]
    known: frozenset[str]


def select_names(inputs: tuple[Members, Caller], memo: Memo) -> Steps[Names]:
    """The names of all members. An alias has none of its own: its names are those of what it stands for."""
    members, caller = inputs
    claims: dict[str, tuple[Claim, ...]] = {}
    for count, (host, member) in enumerate(members.by_host.items(), start=1):
        search = caller._replace(dns_domain=search_domain(member.service, caller.dns_domain))
        claims[host] = tuple(memo.recall(_claim, (member.service, port, search)) for port in member.http_ports)
        if count % CLAIMS_PER_STEP == 0:
            yield
    return Names(claims, frozenset(host for host, each in members.by_host.items() if _is_named(each.service)))


def _is_named(service: Service) -> bool:
    return service.resolution is not Resolution.ALIAS


def _claim(inputs: tuple[Service, int, Caller]) -> Claim:
    service, port, caller = inputs
    addresses = service_addresses(service, caller.cluster, caller.ip_mode, dns_capture=caller.dns_capture)
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


Arrangement = tuple[tuple[int, tuple[str, ...]], ...]
"""By name: which claim, and the domains that are left to it. A claim with a name that is taken gets nothing."""


def arrange(contest: Contest, _memo: Memo) -> Steps[Arrangement]:
    """Give each domain to whoever claims it first, but the full name of a service to nobody else."""
    names: set[str] = set()
    taken: set[str] = set()
    won: dict[str, tuple[int, tuple[str, ...]]] = {}
    for count, (index, claim) in enumerate(enumerate(contest.claims), start=1):
        if claim.name not in names:
            names.add(claim.name)
            free = _take(claim, taken, contest.known)
            if contest.only_ported and claim.port != DEFAULT_HTTP_PORT:
                free = tuple(domain for domain in free if ":" in domain)
            if free:
                won[claim.name] = (index, free)
        if count % CLAIMS_PER_STEP == 0:
            yield
    return tuple(won[name] for name in sorted(won))


def _take(claim: Claim, taken: set[str], known: frozenset[str]) -> tuple[str, ...]:
    """The domains that are still free; as a rule that is all of them."""
    if taken.isdisjoint(claim.folded) and known.isdisjoint(claim.others) and not claim.repeats:
        taken |= claim.folded
        return claim.domains
    free = []
    for domain in claim.domains:
        folded = domain.lower()
        if folded not in taken and (domain == claim.host or domain not in known):
            taken.add(folded)
            free.append(domain)
    return tuple(free)
