"""Principals and trust domains of policies, read with the mesh's aliases in mind (networking.md §6.3, §7.3).

A mesh that changes its trust domain keeps the old one as an alias: policies written for one of them hold for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OWN = "cluster.local"
"""Means the mesh's own trust domain in principals, whatever that is called."""

_PARTS = 5
"""`TRUST_DOMAIN/ns/NAMESPACE/sa/ACCOUNT`."""

TrustDomains = tuple[str, ...]
"""The mesh's own, then its aliases."""


def expand_principals(principals: Iterable[str], domains: TrustDomains) -> Iterator[str]:
    """Each principal of a trust domain of the mesh in all of them; others as they are."""
    for principal in principals:
        domain, _, identity = principal.partition("/")
        whole = principal.count("/") == _PARTS - 1
        if whole and domain != "*" and (domain == OWN or any(_overlap(domain, own) for own in domains)):
            yield from (principal if _ends_as(own, domain) else f"{own}/{identity}" for own in domains)
        else:
            yield principal


def expand_domains(wanted: Iterable[str], domains: TrustDomains) -> Iterator[str]:
    """Each trust domain of the mesh replaced by all of them; others as they are."""
    for domain in wanted:
        yield from domains if domain in domains else (domain,)


def _overlap(one: str, other: str) -> bool:
    """Whether two domains, each perhaps with a wildcard at one end, can be the same."""
    return one == other or any(_ends_as(*pair) or _begins_as(*pair) for pair in ((one, other), (other, one)))


def _ends_as(domain: str, pattern: str) -> bool:
    return pattern.startswith("*") and domain.endswith(pattern[1:])


def _begins_as(domain: str, pattern: str) -> bool:
    return pattern.endswith("*") and domain.startswith(pattern[:-1])
