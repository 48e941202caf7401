"""The CSR service, `IstioCertificateService`: a workload proves who it is and gets a certificate in that name.

This is no actor but what runs in the task of each call. Who the caller is decides what stands in the certificate; what
the signing request says of names is never looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import trio

from actors.identity_messages import SignedChain, SigningRefused, SignRequest
from actors.logs import get_logger
from actors.mailbox import ask
from protocol.csr import METHOD, decode_request, encode_response
from protocol.errors import RemoteError
from protocol.statuses import DEADLINE_EXCEEDED, INVALID_ARGUMENT, UNAUTHENTICATED
from trierarch.identity.authority import moment
from trierarch.identity.csr_request import read_csr
from trierarch.identity.impersonation import find_objection
from trierarch.identity.leaf import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.identity_messages import ToAuthority
    from actors.mailbox import Mailbox
    from actors.metrics import Metrics
    from actors.ports import StreamHandler, StreamPort
    from protocol.csr import CertificateRequest
    from trierarch.config.store import ConfigView
    from trierarch.identity.authenticate import Caller

PATIENCE = 30.0
"""Seconds within which the request must follow its headers."""

TURNS = 4
"""Calls that are worked on at a time. Each takes the thread for a millisecond: of a thousand that come at once the rest
sleep, and everybody else waits for no more than these."""

log = get_logger("ca_service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Who signs, for whom, and what is known of the mesh.

    `identify` says who calls, or raises `RemoteError`. `trusted`: accounts (NAMESPACE/NAME) that may ask for others'
    certificates; `view`: the configuration of now, where the pods of `cluster` are. `turns` are what calls wait for.
    """

    authority: Mailbox[ToAuthority]
    metrics: Metrics
    identify: Callable[[StreamPort], Caller]
    trusted: tuple[str, ...]
    view: Callable[[], ConfigView]
    cluster: str
    turns: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(TURNS))


def build_handlers(terms: Terms) -> Mapping[str, StreamHandler]:
    """The gRPC method of the CSR service."""
    return {METHOD: partial(create_certificate, terms=terms)}


async def create_certificate(port: StreamPort, *, terms: Terms) -> None:
    """Serve one call. Raises `RemoteError` for whoever gets no certificate."""
    terms.metrics.csrs.inc()
    async with terms.turns:
        caller = _identify(port, terms)
    try:
        request = await _receive(port, terms)
        async with terms.turns:
            identities = _identities(caller, request, terms)
            signed = await _sign(request, identities, terms)
    except RemoteError as error:
        log.warning(
            "csr_refused", peer=port.peer.address, identities=caller.identities, code=error.code, reason=error.message
        )
        raise
    terms.metrics.certificates_issued.inc()
    log.info(
        "certificate_signed",
        peer=port.peer.address,
        identities=identities,
        proof=caller.proof.value,
        serial=f"{signed.serial:x}",
        expires=moment(signed.not_after).isoformat(),
    )
    await port.send((encode_response(signed.chain),))


def _identify(port: StreamPort, terms: Terms) -> Caller:
    try:
        return terms.identify(port)
    except RemoteError:
        terms.metrics.unauthenticated.inc()
        raise


async def _receive(port: StreamPort, terms: Terms) -> CertificateRequest:
    with trio.move_on_after(PATIENCE):
        message = await port.receive()
        try:
            if message is None:
                raise RemoteError(INVALID_ARGUMENT, "a call without a request")
            return decode_request(message)
        except RemoteError:
            terms.metrics.bad_csrs.inc()
            raise
    raise RemoteError(DEADLINE_EXCEEDED, f"no request came within {PATIENCE:.0f} s")


def _identities(caller: Caller, request: CertificateRequest, terms: Terms) -> tuple[str, ...]:
    """Whose certificate it will be: the caller's, or that of somebody for whom it may ask."""
    if not request.impersonated:
        return caller.identities
    objection = find_objection(
        caller, request.impersonated, trusted=terms.trusted, view=terms.view(), cluster=terms.cluster
    )
    if objection is not None:
        terms.metrics.unauthenticated.inc()
        log.warning("impersonation_refused", caller=caller.identities, wanted=request.impersonated, reason=objection)
        raise RemoteError(UNAUTHENTICATED, "request impersonation authentication failure")
    return (request.impersonated,)


async def _sign(request: CertificateRequest, identities: tuple[str, ...], terms: Terms) -> SignedChain:
    csr = read_csr(request.csr)
    if isinstance(csr, Refused):
        terms.metrics.unsigned_csrs.labels("CSR_ERROR").inc()
        raise RemoteError(csr.code, csr.reason)
    answer: SignedChain | SigningRefused = await ask(
        terms.authority,
        lambda reply: SignRequest(csr=csr, identities=identities, lifetime=float(request.lifetime), reply=reply),
    )
    if isinstance(answer, SigningRefused):
        terms.metrics.unsigned_csrs.labels("TTL_ERROR" if answer.code == INVALID_ARGUMENT else "CERT_GEN_ERROR").inc()
        raise RemoteError(answer.code, answer.reason)
    return answer
