"""Who calls, for every service: one place that runs the authenticators, and logs and counts those who are refused.

No actor: the CSR service and the xDS service call it in the tasks of their streams. The keys of token issuers are held
in `KeyRing`s that the token key actor writes; nothing is fetched here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from actors.line_budget import LineBudget
from actors.logs import get_logger
from protocol.errors import RemoteError
from protocol.statuses import UNAUTHENTICATED
from trierarch.identity.authenticate import Caller, Credentials, Moment, Unproved, authenticate, by_client_certificate
from trierarch.identity.forwarded import ForwardedAuthenticator
from trierarch.identity.rules import IssuerRule
from trierarch.identity.tokens import TokenAuthenticator

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.newest import Newest
    from actors.ports import StreamPort
    from trierarch.identity.authenticate import Authenticator
    from trierarch.identity.tokens import TokenKeys
    from trierarch.settings import Settings


log = get_logger("authentication")


@dataclass(slots=True)
class KeyRing:
    """The keys of one issuer, as they were known last. `problem`: why they could not be obtained now, or ""."""

    rule: IssuerRule
    keys: TokenKeys = ()
    problem: str = ""

    def held(self) -> TokenKeys:
        """The keys of now."""
        return self.keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """The authenticators in their order. `wall`: the wall clock; `newest`: where the mesh's trust domain is; `lines`:
    those that may tell of the refused.
    """

    authenticators: tuple[Authenticator, ...]
    wall: Callable[[], float]
    newest: Newest
    lines: LineBudget = field(default_factory=LineBudget)

    def authenticate(self, port: StreamPort) -> Caller:
        """Who calls. Raises `RemoteError` (UNAUTHENTICATED) with a text that tells the caller nothing."""
        shown = Credentials(address=port.peer.address, certificate=port.peer.identities, metadata=port.metadata)
        moment = Moment(
            now=self.wall(), trust_domain=self.newest.trust_domain, aliases=self.newest.trust_domain_aliases
        )
        match authenticate(self.authenticators, shown, moment):
            case Caller() as caller:
                return caller
            case Unproved(reason=reason):
                self._report(port, reason)
                raise RemoteError(UNAUTHENTICATED, "authentication failure")

    def _report(self, port: StreamPort, reason: str) -> None:
        left_out = self.lines.left_out(port.peer.address, trio.current_time())
        if left_out is not None:
            log.warning(
                "caller_unauthenticated", peer=port.peer.address, method=port.method, reason=reason, left_out=left_out
            )


def plan_authenticators(settings: Settings, rings: tuple[KeyRing, ...]) -> tuple[Authenticator, ...]:
    """In istiod's order: certificate, OpenID Connect, Kubernetes' tokens, a gateway's word (platform.md §1.3)."""
    tokens = (TokenAuthenticator(rule=ring.rule, keys=ring.held) for ring in rings)
    gateways = (ForwardedAuthenticator(settings.trusted_gateways),) if settings.trusted_gateways else ()
    return (by_client_certificate, *tokens, *gateways)


def plan_rings(settings: Settings) -> tuple[KeyRing, ...]:
    """Whose tokens are believed: the issuer of `JWT_RULE`, and Kubernetes if its keys or its issuer are given."""
    known = bool(settings.token_keys or settings.token_issuer)
    kubernetes = IssuerRule(issuer=settings.token_issuer, audiences=settings.token_audiences, keys=settings.token_keys)
    return tuple(map(KeyRing, (*settings.jwt_rule, *((kubernetes,) if known else ()))))
