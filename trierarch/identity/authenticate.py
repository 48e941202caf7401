"""Who calls: the authenticators in their order, and what comes of them (platform.md §1.3).

An authenticator looks at what a caller shows and says who that is, or why it does not know. The first that knows wins.
Why nobody knew is for our own log; the peer is told nothing that would help it to try again.

What must not be here: how a particular proof is checked (`tokens`, `forwarded`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from protocol.spiffe import SpiffeId, parse_spiffe


class Proof(Enum):
    """What a caller was believed for."""

    CLIENT_CERTIFICATE = "client certificate"
    TOKEN = "token"
    FORWARDED_CERTIFICATE = "forwarded client certificate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a caller shows. `address`: HOST:PORT. `certificate`: URI names of the certificate that it holds, verified by
    TLS. `metadata`: its gRPC metadata, names in lower case; never in a `repr`, for tokens travel there.
    """

    address: str
    certificate: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReference:
    """The pod that a token is bound to."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody who has proved who they are. `identities`: SPIFFE URIs, at least one. `pod`: None unless a token is
    bound to one.
    """

    identities: tuple[str, ...]
    proof: Proof
    pod: PodReference | None = None


@dataclass(frozen=True, slots=True)
class Unproved:
    """Nobody that we know. `reason` is for our log and says nothing secret."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What a proof is held against: the wall clock, in seconds since the epoch, and the trust domain of the mesh with
    its aliases.
    """

    now: float
    trust_domain: str
    aliases: tuple[str, ...] = ()


Authenticator: TypeAlias = Callable[[Credentials, Moment], Caller | Unproved]


def authenticate(authenticators: tuple[Authenticator, ...], shown: Credentials, moment: Moment) -> Caller | Unproved:
    """The first caller that one of them knows, else all their reasons joined."""
    reasons: list[str] = []
    for each in authenticators:
        match each(shown, moment):
            case Caller() as caller:
                return caller
            case Unproved(reason=reason):
                reasons.append(reason)
    return Unproved("; ".join(reasons) or "no way to prove an identity is configured")


def by_client_certificate(shown: Credentials, moment: Moment) -> Caller | Unproved:
    """Whoever holds a verified certificate is the one identity of the mesh that it names.

    Of the mesh: others may have certificates under the same root, and a namespace of theirs is not ours.
    """
    match shown.certificate:
        case ():
            return Unproved("no client certificate")
        case (uri,) if (identity := parse_spiffe(uri)) is not None:
            if identity.trust_domain in (moment.trust_domain, *moment.aliases):
                return Caller(identities=(uri,), proof=Proof.CLIENT_CERTIFICATE)
            return Unproved("a client certificate of another trust domain")
        case _:
            return Unproved("a client certificate with other names than one SPIFFE identity")


def service_account(trust_domain: str, subject: str) -> SpiffeId | None:
    """The identity of `system:serviceaccount:<namespace>:<name>`, as Kubernetes calls it; None for anything else.

    A slash would make it a longer path, in which policies might find another namespace.
    """
    match subject.split(":"):
        case ["system", "serviceaccount", namespace, name] if namespace and name and "/" not in subject:
            return SpiffeId(trust_domain, namespace, name)
        case _:
            return None
