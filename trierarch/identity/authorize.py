"""Whether a caller may be the proxy that it says it is (xds-server.md §4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import RemoteError
from protocol.spiffe import SpiffeId, parse_spiffe
from protocol.statuses import PERMISSION_DENIED

if TYPE_CHECKING:
    from collections.abc import Collection


def authorize(identities: Collection[str], *, namespace: str, service_account: str) -> SpiffeId:
    """The first of the caller's identities (URIs) that fits what its node claims. A claim that is "" fits everything.

    The trust domain is not looked at: whoever verified the caller has done so. Raises `RemoteError` (PERMISSION_DENIED)
    that names both sides if none fits.
    """
    for uri in identities:
        identity = parse_spiffe(uri)
        if identity and namespace in ("", identity.namespace) and service_account in ("", identity.service_account):
            return identity
    known = ", ".join(identities)
    raise RemoteError(PERMISSION_DENIED, f"{known} is not service account {service_account!r} of {namespace!r}")
