"""Keeps the secure port's certificate fresh: from the certificate authority or from files, changed while streams go on.

Owns: what was read of the files last. What is served with lies in a `ServingTls`, which outlives it.
Receives: `AuthorityChanged` from the certificate authority.
Sends: `IssueIdentity` and `RootsAsked` to it.
Dies when: nothing known. A certificate that cannot be used is logged, and the one before stays.
Recovers by: obtaining a certificate anew; meanwhile the port serves with what it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import trio

from actors.identity_messages import AuthorityChanged, IssuedIdentity, IssueIdentity, RootsAsked, SigningRefused
from actors.logs import get_logger
from actors.mailbox import ask
from actors.serving_tls import ServingCertificate, build_context
from trierarch.identity.authority import moment
from trierarch.identity.renewal import seconds_to_renewal

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.identity_messages import ToAuthority, ToRotor
    from actors.mailbox import Mailbox
    from actors.serving_tls import ServingTls
    from trierarch.settings import Settings

RETRY = 5.0
"""Seconds until the authority is asked again when it refused."""

LOOK = 5.0
"""Seconds between two looks at the files."""

SERVICES = ("istiod", "istiod-remote", "istio-pilot")
"""Names of the control plane's Service, past and present; proxies expect one of them in its certificate."""

log = get_logger("certificate_rotor")


@dataclass(frozen=True, slots=True)
class Issued:
    """The certificate comes from the mesh's own authority, for these names."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FromFiles:
    """The certificate and its key are files of somebody else's; `roots`, if any, verify clients too."""

    certificate: Path
    key: Path
    roots: Path | None


Origin: TypeAlias = Issued | FromFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Whom the rotor asks, and what it may look at. `wall`: seconds since the epoch; `chance`: 0 to 1."""

    authority: Mailbox[ToAuthority]
    tls: ServingTls
    wall: Callable[[], float]
    chance: Callable[[], float]


def plan_origin(settings: Settings) -> Origin:
    """Where the settings say that the serving certificate comes from."""
    if settings.tls_cert_file and settings.tls_key_file:
        roots = Path(settings.ca_cert_file) if settings.ca_cert_file else None
        return FromFiles(certificate=Path(settings.tls_cert_file), key=Path(settings.tls_key_file), roots=roots)
    return Issued(serving_names(settings))


def serving_names(settings: Settings) -> tuple[str, ...]:
    """The DNS names by which proxies know the control plane (platform.md §1.1), and those that the settings add."""
    revision = () if settings.revision in ("", "default") else (f"istiod-{settings.revision}",)
    services = (*SERVICES, *revision)
    names = (*settings.custom_hosts, *(f"{service}.{settings.system_namespace}.svc" for service in services))
    return tuple(dict.fromkeys(names))


async def run(
    inbox: Mailbox[ToRotor],
    *,
    origin: Origin,
    outlets: Outlets,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Obtain certificates for ever."""
    task_status.started()
    rotor = Rotor(inbox, outlets)
    while True:
        match origin:
            case Issued(names=names):
                await rotor.obtain(names)
            case FromFiles():
                await rotor.look(origin)


class Rotor:
    """The state of one life: what new connections are served with now."""

    def __init__(self, inbox: Mailbox[ToRotor], outlets: Outlets) -> None:
        self._inbox = inbox
        self._outlets = outlets
        self._number = -1
        self._found: ServingCertificate | None = None
        self._complaint = ""

    async def obtain(self, names: tuple[str, ...]) -> None:
        """Have a certificate issued, and return when the next one is due."""
        answer: IssuedIdentity | SigningRefused = await ask(
            self._outlets.authority, lambda reply: IssueIdentity(identities=names, reply=reply)
        )
        match answer:
            case SigningRefused(reason=reason):
                self._complain(reason)
                await trio.sleep(RETRY)
            case IssuedIdentity():
                self._serve(_issued(answer), names=names, expires=moment(answer.not_after).isoformat())
                self._number = answer.number
                await self._news(self._life(answer))

    async def look(self, files: FromFiles) -> None:
        """Serve with what the files hold, if that is new, and return when it is time to look again."""
        trusted: AuthorityChanged = await ask(self._outlets.authority, lambda reply: RootsAsked(reply=reply))
        try:
            found = _read(files, trusted)
            if found != self._found:
                self._found = found
                self._serve(found, file=str(files.certificate))
        except (OSError, ValueError) as error:
            self._complain(str(error))
        self._number = trusted.number
        await self._news(LOOK)

    def _complain(self, reason: str) -> None:
        if reason != self._complaint:
            log.warning("serving_certificate_refused", reason=reason)
        self._complaint = reason

    def _serve(self, certificate: ServingCertificate, **about: object) -> None:
        self._outlets.tls.change(build_context(certificate))
        self._complaint = ""
        log.info("serving_certificate_changed", **about)

    def _life(self, issued: IssuedIdentity) -> float:
        left = issued.not_after - self._outlets.wall()
        return seconds_to_renewal(left=left, chance=self._outlets.chance())

    async def _news(self, patience: float) -> None:
        """Wait until others are to be trusted, but no longer."""
        with trio.move_on_after(patience):
            while (await self._inbox.receive()).number == self._number:
                pass


def _issued(answer: IssuedIdentity) -> ServingCertificate:
    return ServingCertificate(
        key=answer.key_pem, chain=answer.chain_pem, roots=answer.roots_pem, revoked=answer.crl_pem
    )


def _read(files: FromFiles, trusted: AuthorityChanged) -> ServingCertificate:
    """What the files hold, beside what the mesh's own authority says. They are small: a thread would cost more."""
    further = files.roots.read_bytes() if files.roots else b""
    return ServingCertificate(
        key=files.key.read_bytes(),
        chain=files.certificate.read_bytes(),
        roots=trusted.roots_pem + b"\n" + further,
        revoked=trusted.crl_pem,
    )
