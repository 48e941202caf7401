"""RequestAuthentication: whose tokens a workload understands, and where the keys are (networking.md §6.2)."""

from dataclasses import dataclass
from enum import StrEnum

from trierarch.config.common import PolicySelector, PolicyTargetReference
from trierarch.config.wire import Seconds


class Presence(StrEnum):
    """Whether a token has to be there. Read, but of no effect: a policy of authorization says what is demanded."""

    OPTIONAL = "OPTIONAL"
    REQUIRED = "REQUIRED"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenHeader:
    """A header in which a token may be, behind `prefix`."""

    name: str = ""
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClaimToHeader:
    """A claim that the application gets as a header. Names of nested claims are joined by dots."""

    header: str = ""
    claim: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JwtRule:
    """An issuer, where its keys are and where its tokens.

    `jwks` are the keys themselves, `jwks_uri` is where they can be fetched; without either the issuer is asked where
    (OpenID Connect Discovery). Without a place for tokens they are where Envoy looks by itself. `timeout`: seconds that
    fetching the keys may take, None for the default.
    """

    issuer: str = ""
    audiences: tuple[str, ...] = ()
    jwks_uri: str = ""
    jwks: str = ""
    from_headers: tuple[TokenHeader, ...] = ()
    from_params: tuple[str, ...] = ()
    from_cookies: tuple[str, ...] = ()
    output_payload_to_header: str = ""
    output_claim_to_headers: tuple[ClaimToHeader, ...] = ()
    forward_original_token: bool = False
    timeout: Seconds | None = None
    space_delimited_claims: tuple[str, ...] = ()
    presence: Presence = Presence.OPTIONAL


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestAuthentication:
    """A token of one of the issuers must be valid if there is one. What is attached to what: networking.md §6.0."""

    selector: PolicySelector | None = None
    target_ref: PolicyTargetReference | None = None
    target_refs: tuple[PolicyTargetReference, ...] = ()
    jwt_rules: tuple[JwtRule, ...] = ()
