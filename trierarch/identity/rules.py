"""What the settings say of callers: issuers of tokens and trusted gateways. Values, no checks.

Imported by `trierarch.settings`, so nothing heavy is imported here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TypeAlias

IpNetwork: TypeAlias = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerRule:
    """Whose tokens are believed. `issuer`: "" for any that has signed with the keys. `audiences`: one must match.

    `keys`: the URL or file of the keys (JWKS); "" to ask the issuer where they are (OpenID discovery).
    """

    issuer: str
    audiences: tuple[str, ...]
    keys: str = ""


def parse_jwt_rule(text: str) -> tuple[IssuerRule, ...]:
    """`{"issuer": ..., "jwks_uri": ..., "audiences": [...]}`, or nothing."""
    if not text.strip():
        return ()
    match json.loads(text):
        case {"issuer": str(issuer), "audiences": [str(), *_] as audiences, **others} if issuer:
            return (
                IssuerRule(issuer=issuer, audiences=tuple(map(str, audiences)), keys=str(others.get("jwks_uri", ""))),
            )
        case _:
            raise ValueError('this is not {"issuer": ISSUER, "jwks_uri": URL, "audiences": [AUDIENCE]}')


def parse_networks(text: str) -> tuple[IpNetwork, ...]:
    """Blocks of addresses such as `10.0.0.0/8`, separated by commas."""
    return tuple(ip_network(each.strip(), strict=False) for each in text.split(",") if each.strip())
