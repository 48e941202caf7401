"""Whether a caller may be the proxy that it says it is (xds-server.md §4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.spiffe import SpiffeId, parse_spiffe

if TYPE_CHECKING:
    from collections.abc import Iterable


def match_identity(identities: Iterable[str], *, namespace: str, service_account: str) -> SpiffeId | None:
    """The first of the caller's identities (URIs) that fits what its node claims; None if none does.

    A claim that is "" fits everything. The trust domain is not looked at: whoever verified the caller has done so.
    """
    for uri in identities:
        identity = parse_spiffe(uri)
        if identity and namespace in ("", identity.namespace) and service_account in ("", identity.service_account):
            return identity
    return None
