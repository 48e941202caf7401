"""SPIFFE identities of a mesh: `spiffe://<trust domain>/ns/<namespace>/sa/<service account>` (platform.md §1.4).

Pure names: who has which identity, and what proves it, is decided in `trierarch.identity`.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEME = "spiffe://"

_PARTS = 5
"""Trust domain, `ns`, namespace, `sa`, service account."""


@dataclass(frozen=True, slots=True)
class SpiffeId:
    """A workload's identity. Its text is the URI that stands in certificates."""

    trust_domain: str
    namespace: str
    service_account: str

    def __str__(self) -> str:
        """The URI. A trust domain may be an address of a cloud account; its `@` may not stand there."""
        domain = self.trust_domain.replace("@", ".")
        return f"{SCHEME}{domain}/ns/{self.namespace}/sa/{self.service_account}"


def parse_spiffe(uri: str) -> SpiffeId | None:
    """The identity that a URI names; None for anything but exactly five parts, none of them empty."""
    parts = uri.removeprefix(SCHEME).split("/")
    if not uri.startswith(SCHEME) or len(parts) != _PARTS or not all(parts) or (parts[1], parts[3]) != ("ns", "sa"):
        return None
    return SpiffeId(parts[0], parts[2], parts[4])
