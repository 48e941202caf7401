"""What a connection does about its client's certificate: it has one issued, keeps it, and renews it before it expires.

The state lies in the slot, as a value: a restarted connection goes on with the certificate that its client has. Nobody
waits for the certificate authority: its answer comes as a message, and until then everything else goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, assert_never

import trio

from actors.identity_messages import IssuedIdentity, IssueIdentity, SigningRefused
from actors.logs import get_logger
from actors.mailbox import PostedReply
from actors.messages import IdentityIssued
from actors.slot import CertificateState
from protocol.xds.resources import ResourceSet
from trierarch.envoy.secret_references import WORKLOAD_CERTIFICATE, WORKLOAD_ROOTS
from trierarch.envoy.types import SECRET
from trierarch.envoy.workload_secrets import WORKLOAD_SECRETS, build_workload_secrets
from trierarch.identity.renewal import seconds_to_renewal
from trierarch.push.causes import Cause, Causes, ChangeEvent
from trierarch.push.proxy import SecretSource
from trierarch.push.request import PushRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.identity_messages import ToAuthority
    from actors.mailbox import ControlMailbox, Mailbox
    from actors.messages import ToConnection, TrustChanged
    from actors.slot import Slot

SOURCE = "authority"
"""Who issues certificates, in causes."""

RETRY = 5.0
"""Seconds until the authority is asked again when it refused or died over the question."""

ROOTS_FIRST = 5.0
"""Seconds by which new roots go ahead of the leaves that only they verify; the leaves follow spread over as many."""

log = get_logger("connection")


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateTerms:
    """Who issues certificates, and what it takes to say when and why.

    `wall`: seconds since the epoch; `chance`: a number from 0 to 1.
    """

    authority: Mailbox[ToAuthority]
    wall: Callable[[], float]
    chance: Callable[[], float]
    cause_ids: Iterator[int]


class OwnCertificate:
    """The certificate of one connection's client, in one life of its actor."""

    def __init__(self, slot: Slot, inbox: ControlMailbox[ToConnection], terms: CertificateTerms) -> None:
        self._slot = slot
        self._inbox = inbox
        self._terms = terms

    def due_at(self) -> float:
        """When to `ask` for a certificate, in seconds of trio's clock. To be looked at before each wait."""
        state = self._slot.certificate
        return inf if state.asked or not self._wanted() else state.due_at

    async def ask(self) -> None:
        """Ask for a certificate. Not always a checkpoint."""
        reply: PostedReply[IssuedIdentity | SigningRefused] = PostedReply(self._post)
        await self._terms.authority.send(IssueIdentity(identities=(str(self._slot.identity),), reply=reply))
        self._slot.certificate = replace(self._slot.certificate, asked=True)

    def take(self, answer: IssuedIdentity | SigningRefused | None) -> PushRequest | None:
        """Keep what the authority answered; returns why the client is to be told of it, if it is."""
        state = self._slot.certificate
        match answer:
            case IssuedIdentity():
                event = ChangeEvent.RENEWED if state.issued else ChangeEvent.ISSUED
                self._keep(answer, self._renewal(answer))
                return _request(self._cause(event))
            case SigningRefused(code=code, reason=reason):
                log.warning("certificate_refused", connection=self._slot.name, code=code, reason=reason)
            case None:
                pass
            case never:
                assert_never(never)
        self._slot.certificate = replace(state, asked=False, due_at=trio.current_time() + RETRY)
        return None

    def trust(self, change: TrustChanged) -> PushRequest | None:
        """Trust other roots at once, and have the certificate renewed soon after, when everybody trusts them."""
        state, authority = self._slot.certificate, change.authority
        if state.issued is None or state.issued.number == authority.number:
            return None
        known = (state.issued.roots_pem, state.issued.crl_pem)
        told = replace(state.issued, roots_pem=authority.roots_pem, crl_pem=authority.crl_pem, number=authority.number)
        soon = trio.current_time() + ROOTS_FIRST * (1 + self._terms.chance())
        self._keep(told, min(state.due_at, soon), asked=state.asked)
        return None if known == (told.roots_pem, told.crl_pem) else _request(change.cause)

    def with_own(self, resources: ResourceSet) -> ResourceSet:
        """What the client's view has of secrets, and its own."""
        state = self._slot.certificate
        return resources if state.issued is None else ResourceSet(*resources.parts, state.secrets)

    def _wanted(self) -> bool:
        """Whether the client has proved who it is, says that it gets its own secrets from us, and asks for them."""
        slot = self._slot
        if slot.identity is None or slot.proxy is None or slot.proxy.capabilities.secrets is not SecretSource.ADS:
            return False
        return not WORKLOAD_SECRETS.isdisjoint(slot.session.names(SECRET))

    def _keep(self, issued: IssuedIdentity, due_at: float, *, asked: bool = False) -> None:
        secrets = build_workload_secrets(
            key=issued.key_pem, chain=issued.chain_pem, roots=issued.roots_pem, revoked=issued.crl_pem
        )
        self._slot.certificate = CertificateState(issued=issued, secrets=secrets, due_at=due_at, asked=asked)

    def _renewal(self, issued: IssuedIdentity) -> float:
        left = issued.not_after - self._terms.wall()
        return trio.current_time() + seconds_to_renewal(left=left, chance=self._terms.chance())

    def _post(self, answer: IssuedIdentity | SigningRefused | None) -> None:
        self._inbox.post(IdentityIssued(answer=answer))

    def _cause(self, event: ChangeEvent) -> Cause:
        identity = self._slot.identity
        return _cause(next(self._terms.cause_ids), identity.namespace if identity else "", WORKLOAD_CERTIFICATE, event)


def trust_cause(number: int) -> Cause:
    """The cause, with this id, of what is sent when the authority's roots have changed."""
    return _cause(number, "", WORKLOAD_ROOTS, ChangeEvent.UPDATED)


def _cause(number: int, namespace: str, name: str, event: ChangeEvent) -> Cause:
    return Cause(
        id=number,
        source=SOURCE,
        kind="Secret",
        namespace=namespace,
        name=name,
        resource_version="",
        event=event,
        seen_at=trio.current_time(),
    )


def _request(cause: Cause) -> PushRequest:
    return PushRequest(reasons={"secret": 1}, causes=Causes(kept=(cause,)))
