"""Tokens: a JWT held against the keys of its issuer, which were read before and are given (platform.md §1.3).

Verification of signatures is PyJWT's; claims are checked here, because their times are held against a given clock. What
does not verify yields a reason, never an exception: tokens come from anybody. A reason quotes nothing of a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from trierarch.config import json_web_keys
from trierarch.identity.authenticate import (
    Caller,
    Credentials,
    Moment,
    PodReference,
    Proof,
    Unproved,
    service_account,
)

if TYPE_CHECKING:
    from jwt.types import Options

    from trierarch.identity.rules import IssuerRule

LONGEST_TOKEN = 16 * 1024
"""Characters. Kubernetes' tokens have about a thousand."""

MOST_KEYS = 100
"""Keys of one issuer that are looked at."""

SKEW = 60.0
"""Seconds that a token may seem to come from the future: clocks differ."""

_PREFIXES = ("Bearer ", "Istio ")
"""What a token in `authorization` follows; the second is what agents of old say."""

_SIGNATURE_ONLY: Options = {
    "verify_signature": True,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}

PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
Claims: TypeAlias = Mapping[str, object]

_ALGORITHMS: Mapping[type[PublicKey], frozenset[str]] = {
    rsa.RSAPublicKey: frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    ec.EllipticCurvePublicKey: frozenset({"ES256", "ES384", "ES512"}),
    ed25519.Ed25519PublicKey: frozenset({"EdDSA"}),
}
"""Which signatures a key may have made. That `alg` is the sender's word: no shared secrets, and never none at all."""


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A key that an issuer signs with. `id` is "" if it has no name."""

    id: str
    key: PublicKey = field(repr=False)

    def makes(self, algorithm: str) -> bool:
        """Whether such a signature can be its."""
        return any(isinstance(self.key, kind) and algorithm in known for kind, known in _ALGORITHMS.items())


TokenKeys: TypeAlias = tuple[TokenKey, ...]


def read_keys(jwks: bytes) -> TokenKeys:
    """The keys of a JWKS (RFC 7517) that verify signatures. Raises ValueError if it is none or has no such key."""
    keys = tuple(key for entry in json_web_keys.read_keys(jwks)[:MOST_KEYS] for key in _read_key(entry))
    if not keys:
        raise ValueError("there is no key in it that verifies signatures")
    return keys


def _read_key(entry: json_web_keys.Key) -> Iterator[TokenKey]:
    """The key of an entry, unless it is for something else or of a kind that we do not know."""
    if entry.get("use", "sig") != "sig":
        return
    try:
        key = jwt.PyJWK(dict(entry)).key
    except jwt.PyJWTError:
        return
    if isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        yield TokenKey(str(entry.get("kid", "")), key)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAuthenticator:
    """An `Authenticator` that believes the tokens of one issuer. `keys` are those that it has now."""

    rule: IssuerRule
    keys: Callable[[], TokenKeys]

    def __call__(self, shown: Credentials, moment: Moment) -> Caller | Unproved:
        """The service account that the caller's token is about."""
        token = find_token(shown)
        if token is None:
            return Unproved("no token")
        claims = verify_token(token, self.rule, self.keys(), moment.now)
        return claims if isinstance(claims, Unproved) else _caller(claims, moment.trust_domain)


def find_token(shown: Credentials) -> str | None:
    """The token that a caller shows. Several values of one name travel joined by commas."""
    for value in shown.metadata.get("authorization", "").split(","):
        for prefix in _PREFIXES:
            if value.strip().startswith(prefix):
                return value.strip().removeprefix(prefix).strip()
    return None


def verify_token(token: str, rule: IssuerRule, keys: TokenKeys, now: float) -> Claims | Unproved:
    """The claims of a token that was signed by one of the keys, for one of the audiences, and is valid now."""
    if len(token) > LONGEST_TOKEN:
        return Unproved("the token is too long")
    claims = _signed_claims(token, keys)
    return claims if isinstance(claims, Unproved) else _check(claims, rule, now)


def _signed_claims(token: str, keys: TokenKeys) -> Claims | Unproved:
    try:
        header = jwt.get_unverified_header(token)
        algorithm, wanted = str(header.get("alg")), header.get("kid")
        able = [key for key in keys if key.makes(algorithm) and (wanted is None or key.id in ("", wanted))]
        for key in able:
            try:
                return _claims(token, key, algorithm)
            except jwt.InvalidSignatureError:
                continue
    except (jwt.PyJWTError, RecursionError):
        return Unproved("the token is malformed")
    return Unproved("the token's signature is not that of a known key" if able else "the token's key is not known")


def _claims(token: str, key: TokenKey, algorithm: str) -> Claims:
    """What the key has signed. Raises `jwt.PyJWTError`. What the claims say is checked by our own clock."""
    claims: Claims = jwt.decode(token, key.key, algorithms=[algorithm], options=_SIGNATURE_ONLY)
    return claims


def _check(claims: Claims, rule: IssuerRule, now: float) -> Claims | Unproved:
    """The registered claims (RFC 7519 §4.1)."""
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    expires, begins = _seconds(claims.get("exp")), _seconds(claims.get("nbf"))
    if rule.issuer and claims.get("iss") != rule.issuer:
        return Unproved("the token has another issuer")
    if not any(each in rule.audiences for each in audiences):
        return Unproved("the token is for another audience")
    if expires is None or not expires > now:
        return Unproved("the token has expired")
    if begins is not None and not begins <= now + SKEW:
        return Unproved("the token is not valid yet")
    return claims


def _seconds(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _caller(claims: Claims, trust_domain: str) -> Caller | Unproved:
    identity = service_account(trust_domain, str(claims.get("sub")))
    if identity is None:
        return Unproved("the token's subject is no service account")
    return Caller(identities=(str(identity),), proof=Proof.TOKEN, pod=_pod(claims))


def _pod(claims: Claims) -> PodReference | None:
    """The pod that Kubernetes has bound a token to."""
    match claims.get("kubernetes.io"):
        case {"pod": {"name": str(name), "uid": str(uid)}}:
            return PodReference(name=name, uid=uid)
        case _:
            return None
