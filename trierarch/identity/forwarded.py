"""Callers behind a gateway that ended their TLS and says who they were: `x-forwarded-client-cert` (platform.md §1.3).

The header is worth as much as whoever wrote it, so it is read only from addresses that are trusted with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from trierarch.identity.authenticate import Caller, Credentials, Moment, Proof, Unproved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.identity.rules import IpNetwork

HEADER = "x-forwarded-client-cert"

LONGEST = 64 * 1024
"""Characters. A certificate may be in it, URL-encoded."""

_PAIR = re.compile(r'\s*([^=;,"\s]+)=("(?:[^"\\]|\\.)*"|[^;,"]*)(;|,|$)')
"""A key, a value that may stand in quotes, and what ends it: a comma ends the whole certificate."""

_ESCAPED = re.compile(r"\\(.)")

_NAMES = ("uri", "dns")


@dataclass(frozen=True, slots=True)
class ForwardedAuthenticator:
    """An `Authenticator` that believes gateways in these networks, and on this very host."""

    trusted: tuple[IpNetwork, ...]

    def __call__(self, shown: Credentials, _: Moment) -> Caller | Unproved:
        """The names of the certificate that the gateway saw."""
        header = shown.metadata.get(HEADER)
        if header is None:
            return Unproved("no forwarded client certificate")
        if not self._trusts(shown.address):
            return Unproved("a forwarded client certificate from an address that is not trusted with it")
        names = tuple(names_in(header)) if len(header) <= LONGEST else ()
        if not names:
            return Unproved("a forwarded client certificate without names")
        return Caller(identities=names, proof=Proof.FORWARDED_CERTIFICATE)

    def _trusts(self, address: str) -> bool:
        host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
        try:
            ip = ip_address(host)
        except ValueError:
            return False
        if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        return ip.is_loopback or any(ip.version == network.version and ip in network for network in self.trusted)


def names_in(header: str) -> Iterator[str]:
    """The URI and DNS names of the first certificate, which is that of the first in line; none if it is malformed."""
    pairs, position = [], 0
    while found := _PAIR.match(header, position):
        pairs.append((found[1].lower(), _unquoted(found[2])))
        if found[3] != ";":
            return (value for wanted in _NAMES for key, value in pairs if key == wanted and value)
        position = found.end()
    return iter(())


def _unquoted(value: str) -> str:
    return _ESCAPED.sub(r"\1", value[1:-1]) if value.startswith('"') else value
