"""The certificate authority: signs what workloads and our own process ask for, and says whom to trust.

Owns: the authority in force, with its key. It lies in a `Memory`, which outlives the actor.
Receives: `SignRequest`, `IssueIdentity`, `RootsAsked`; `LookAgain` from its own watch and clock.
Sends: answers, and `AuthorityChanged` to whoever the wiring names.
Dies when: it has no authority and can make none: its files are wrong or its folder cannot be written.
Recovers by: going on with the authority in its memory, looking at the files, and saying again whom to trust.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, assert_never

import trio
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from actors.authority_files import BadAuthority, InMemory, Kept, Plugged, keep, look, plan_source
from actors.identity_messages import (
    AuthorityChanged,
    IssuedIdentity,
    IssueIdentity,
    LookAgain,
    RootsAsked,
    SignedChain,
    SigningRefused,
    SignRequest,
)
from actors.inotify import UNTOLD, open_watch
from actors.logs import get_logger
from actors.supervision import attempt
from actors.tree import Crashed
from protocol.errors import LocalError
from protocol.statuses import INTERNAL
from trierarch.identity.authority import Authority, create_root, renew_root, root_due
from trierarch.identity.bundle import BadBundle, accept_change
from trierarch.identity.csr_request import plan_leaf
from trierarch.identity.leaf import LeafRequest, Lifetimes, Refused, answer_chain, chain_pem, sign
from trierarch.identity.pem import write_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from actors.authority_files import Source
    from actors.identity_messages import ToAuthority
    from actors.inotify import Watch
    from actors.mailbox import Mailbox
    from actors.metrics import Metrics
    from trierarch.settings import Settings

QUICK_RSA = 2048
"""Bits of the longest RSA key that signs within a millisecond; a longer one signs in a thread."""

AnswerT = TypeVar("AnswerT")

log = get_logger("authority")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the authority behaves. Times in seconds.

    `lifetimes`: those of workloads. `grace`: the part of a root's life that is left when it is renewed. `jitter`: begin
    to look at the root's age at a random moment. `multiroot`: the plugged-in roots may become more or fewer. `crl`:
    what the authority has revoked is passed on.
    """

    source: Source
    lifetimes: Lifetimes
    root_lifetime: float
    key_size: int
    check_interval: float
    grace: float
    jitter: bool
    multiroot: bool
    crl: bool


def options(settings: Settings) -> Options:
    """As the settings have it. Raises `BadAuthority`."""
    return Options(
        source=plan_source(settings),
        lifetimes=Lifetimes(default=settings.workload_lifetime, longest=settings.longest_workload_lifetime),
        root_lifetime=settings.root_lifetime,
        key_size=settings.root_key_size,
        check_interval=settings.root_check_interval,
        grace=settings.root_grace_percentile / 100,
        jitter=settings.root_check_jitter,
        multiroot=settings.multiroot,
        crl=settings.ca_crl,
    )


@dataclass(slots=True)
class Memory:
    """What outlives a crash. `number` counts the authorities, for whoever wants to know whether one is new."""

    authority: Authority | None = None
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where news goes, and what only the wiring may know. `tell`: posts for those who depend on the authority.

    `trust_domain`: that of the mesh, now. `wall`: the wall clock. `chance`: a random number from 0 to 1.
    """

    tell: tuple[Callable[[AuthorityChanged], None], ...] = ()
    metrics: Metrics
    trust_domain: Callable[[], str]
    wall: Callable[[], float] = time.time
    chance: Callable[[], float] = random.random
    serial: Callable[[], int] = field(default=x509.random_serial_number)


async def run(
    inbox: Mailbox[ToAuthority],
    *,
    options: Options,
    memory: Memory,
    outlets: Outlets,
    ready: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Sign for ever, once the mesh is known: a root of our own bears the name of its trust domain."""
    task_status.started()
    await ready.wait()
    with open_watch() as watch:
        state = CertificateAuthority(options, memory, outlets, watch)
        await state.begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_remind, inbox, watch, min(UNTOLD, options.check_interval))
            while True:
                await state.handle(await inbox.receive())


async def _remind(inbox: Mailbox[ToAuthority], watch: Watch, pause: float) -> None:
    while True:
        await watch.wait(pause)
        await inbox.send(LookAgain())


class CertificateAuthority:
    """The state of one life of the actor."""

    def __init__(self, options: Options, memory: Memory, outlets: Outlets, watch: Watch) -> None:
        self._options = options
        self._memory = memory
        self._outlets = outlets
        self._watch = watch
        self._complaint = ""
        delay = options.check_interval * (outlets.chance() if options.jitter else 1.0)
        self._check_at = trio.current_time() + delay

    async def begin(self) -> None:
        """Have an authority, and tell everybody: whoever held the news before may have died with it."""
        before = self._memory.number
        await self._look()
        if self._memory.authority is None:
            await self._create()
        if self._memory.number == before:
            self._tell()

    async def handle(self, message: ToAuthority) -> None:
        """Step by one message."""
        match message:
            case SignRequest(reply=reply):
                with reply:
                    reply.answer(await self._contained(partial(self._sign_request, message)))
            case IssueIdentity(reply=reply):
                with reply:
                    reply.answer(await self._contained(partial(self._issue, message)))
            case RootsAsked(reply=reply):
                with reply:
                    reply.answer(self._news())
            case LookAgain():
                await self._look()
                await self._check_root()
            case never:
                assert_never(never)

    # --- signing -----------------------------------------------------------------------------------------------------
    async def _contained(self, work: Callable[[], Awaitable[AnswerT]]) -> AnswerT | SigningRefused:
        """What the work comes to. Questions are repeated until they are answered: one that is a crash would go on."""
        outcome = await attempt(work)
        if not isinstance(outcome, Crashed):
            return outcome
        self._outlets.metrics.contained_errors.labels("signing").inc()
        log.error("signing_failed", exc_info=outcome.error)
        return SigningRefused(code=INTERNAL, reason="signing failed by an error of the control plane's own")

    async def _sign_request(self, asked: SignRequest) -> SignedChain | SigningRefused:
        leaf = await self._sign(plan_leaf(asked.csr, asked.identities, asked.lifetime, self._options.lifetimes))
        if isinstance(leaf, Refused):
            return SigningRefused(code=leaf.code, reason=leaf.reason)
        chain = answer_chain(self._authority, leaf)
        return SignedChain(chain=chain, serial=leaf.serial_number, not_after=leaf.not_valid_after_utc.timestamp())

    async def _issue(self, asked: IssueIdentity) -> IssuedIdentity | SigningRefused:
        key = ec.generate_private_key(ec.SECP256R1())
        lifetime = asked.lifetime or self._options.lifetimes.default
        leaf = await self._sign(
            LeafRequest(public_key=key.public_key(), identities=asked.identities, lifetime=lifetime)
        )
        if isinstance(leaf, Refused):
            return SigningRefused(code=leaf.code, reason=leaf.reason)
        return IssuedIdentity(
            key_pem=write_key(key),
            chain_pem=chain_pem(self._authority, leaf),
            roots_pem=self._authority.roots_pem,
            crl_pem=self._authority.crl_pem,
            number=self._memory.number,
            not_after=leaf.not_valid_after_utc.timestamp(),
        )

    async def _sign(self, request: LeafRequest | Refused) -> x509.Certificate | Refused:
        if isinstance(request, Refused):
            return request
        key = self._authority.key
        work = partial(sign, self._authority, request, now=self._outlets.wall(), serial=self._outlets.serial())
        slow = isinstance(key, rsa.RSAPrivateKey) and key.key_size > QUICK_RSA
        return await trio.to_thread.run_sync(work) if slow else work()

    # --- the authority itself ----------------------------------------------------------------------------------------
    @property
    def _authority(self) -> Authority:
        if self._memory.authority is None:
            raise LocalError("the certificate authority is asked before it has begun")
        return self._memory.authority

    async def _look(self) -> None:
        """See what the files say, and go by it if that may be."""
        if self._options.source == InMemory():
            return
        known = self._memory.authority
        found = await trio.to_thread.run_sync(look, self._options.source, known, self._watch)
        match judge(found, known, self._options):
            case BadBundle(reason=reason):
                self._complain(reason)
            case verdict:
                self._complaint = ""
                if verdict is not None and verdict != known:
                    self._adopt(verdict)

    def _complain(self, reason: str) -> None:
        """What was good stays in force; only where there is nothing is a bad bundle the end."""
        if self._memory.authority is None:
            raise BadAuthority(reason)
        if reason != self._complaint:
            log.error("authority_rejected", reason=reason)
        self._complaint = reason

    async def _create(self) -> None:
        """Make a root of our own."""
        match self._options.source:
            case Plugged(folder=folder):
                raise BadAuthority(f"{folder}: the certificate authority that was there has gone")
            case InMemory():
                log.warning("root_in_memory", hint="it ends with this process; keep it with --ca-folder")
            case Kept():
                pass
        key = await trio.to_thread.run_sync(_generate_key, self._options.key_size)
        root = create_root(
            key,
            self._outlets.trust_domain(),
            now=self._outlets.wall(),
            lifetime=self._options.root_lifetime,
            serial=self._outlets.serial(),
        )
        await self._put_in_force(root, replaces=False)

    async def _check_root(self) -> None:
        """Renew a root of our own when it is due; another process that shares it may have been faster."""
        now, source = trio.current_time(), self._options.source
        if isinstance(source, Plugged) or now < self._check_at:
            return
        self._check_at = now + self._options.check_interval
        if root_due(self._authority, now=self._outlets.wall(), grace=self._options.grace):
            root = renew_root(
                self._authority,
                now=self._outlets.wall(),
                lifetime=self._options.root_lifetime,
                serial=self._outlets.serial(),
            )
            await self._put_in_force(root, replaces=True)

    async def _put_in_force(self, root: Authority, *, replaces: bool) -> None:
        """Keep a new root, if it is to be kept, and only then go by it."""
        source = self._options.source
        if not isinstance(source, Kept):
            self._adopt(root)
            return
        try:
            await trio.to_thread.run_sync(partial(keep, source.folder, root, replaces=replaces))
        except OSError as error:
            self._complain(f"{source.folder}: the root cannot be kept: {error.strerror}")
        await self._look()

    def _adopt(self, authority: Authority) -> None:
        self._memory.authority = authority
        self._memory.number += 1
        roots_end = min(each.not_valid_after_utc.timestamp() for each in authority.roots)
        self._outlets.metrics.root_expiry.set(roots_end)
        self._outlets.metrics.chain_expiry.set(authority.expires)
        log.info(
            "authority_adopted",
            number=self._memory.number,
            signer=authority.certificate.subject.rfc4514_string(),
            serial=f"{authority.certificate.serial_number:x}",
            expires=authority.certificate.not_valid_after_utc.isoformat(),
            roots=len(authority.roots),
        )
        self._tell()

    def _tell(self) -> None:
        for tell in self._outlets.tell:
            tell(self._news())

    def _news(self) -> AuthorityChanged:
        authority = self._authority
        return AuthorityChanged(roots_pem=authority.roots_pem, crl_pem=authority.crl_pem, number=self._memory.number)


def judge(
    found: Authority | BadBundle | None, known: Authority | None, options: Options
) -> Authority | BadBundle | None:
    """What to go by, of what the files say and what is in force; None if there is nothing yet."""
    if not isinstance(found, Authority):
        gone = found is None and known is not None
        return BadBundle("its files are gone") if gone else found
    new = found if options.crl else replace(found, crl_pem=b"")
    if known is None or not isinstance(options.source, Plugged):
        return new
    return accept_change(known, new, multiroot=options.multiroot)


def _generate_key(size: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=size)
