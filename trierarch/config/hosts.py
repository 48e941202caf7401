"""Names of hosts: short names, wildcards, which of several is the most specific (networking.md §0.4).

A wildcard is a leading `*`: `*.example.com`, also `*example.com` and `*`. It stands for any beginning, dots included.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

WILDCARD = "*"
MESH_GATEWAY = "mesh"
"""The gateway name that stands for all sidecars."""


def is_ip_address(text: str) -> bool:
    """Whether this is an IPv4 or IPv6 address (without port or zone)."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def is_wildcard(host: str) -> bool:
    """Whether the host stands for many."""
    return host.startswith(WILDCARD)


def resolve_short_name(host: str, namespace: str, domain: str = "cluster.local") -> str:
    """The full name of a host in an object of `namespace`: `reviews` is `reviews.NAMESPACE.svc.DOMAIN`.

    Names with a dot, IP addresses, wildcards and the empty name stay as they are.
    """
    if not host or "." in host or ":" in host or host.startswith(WILDCARD):
        return host
    return f"{host}.{namespace}.svc.{domain}"


def resolve_gateway_name(gateway: str, namespace: str) -> str:
    """`NAMESPACE/NAME` of a gateway reference in an object of `namespace`; the word `mesh` stays."""
    if gateway == MESH_GATEWAY or "/" in gateway or not gateway:
        return gateway
    name, dot, rest = gateway.partition(".")
    return f"{rest.partition('.')[0]}/{name}" if dot else f"{namespace}/{name}"


def hosts_overlap(one: str, other: str) -> bool:
    """Whether some host is covered by both. Either may be a wildcard."""
    if not is_wildcard(one):
        return host_covers(other, one)
    if not is_wildcard(other):
        return host_covers(one, other)
    return one.endswith(other[1:]) or other.endswith(one[1:])


def host_covers(pattern: str, host: str) -> bool:
    """Whether every host that `host` stands for is one that `pattern` stands for ("subset of", read backwards)."""
    if not is_wildcard(pattern):
        return pattern == host
    return host[1:].endswith(pattern[1:]) if is_wildcard(host) else host.endswith(pattern[1:])


def specificity(host: str) -> tuple[bool, int, str]:
    """Sorts hosts from the most specific: exact names first, then the longer, ties by name."""
    return (is_wildcard(host), -len(host), host)


def most_specific_first(hosts: Iterable[str]) -> list[str]:
    """The hosts, the most specific first."""
    return sorted(hosts, key=specificity)


def most_specific_cover(host: str, candidates: Container[str]) -> str | None:
    """The most specific of the candidates that covers `host`, or None.

    Looks up one candidate for each letter of the host, so the number of candidates does not matter.
    """
    if host in candidates:
        return host
    suffix = host[1:] if is_wildcard(host) else host
    for start in range(len(suffix) + 1):
        wildcard = WILDCARD + suffix[start:]
        if wildcard in candidates:
            return wildcard
    return None
