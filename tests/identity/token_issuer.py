"""An issuer of tokens for tests: its keys, its JWKS, and tokens that are right but for what a test changes."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import jwt
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.identity.authorities import NOW, rsa_key
from trierarch.identity.rules import IssuerRule
from trierarch.identity.tokens import read_keys

if TYPE_CHECKING:
    from trierarch.identity.tokens import TokenKeys

ISSUER, AUDIENCE = "https://kubernetes.example", "istio-ca"
RULE = IssuerRule(issuer=ISSUER, audiences=(AUDIENCE, "other-ca"))
SUBJECT = "system:serviceaccount:shop:alice"
POD = {"namespace": "shop", "pod": {"name": "alice-1", "uid": "u-1"}, "serviceaccount": {"name": "alice", "uid": "s"}}


def public_jwk(name: str, key=None, **changes: object) -> dict[str, object]:
    """The entry of a key in the JWKS."""
    key = key or rsa_key(name)
    made = RSAAlgorithm.to_jwk(key.public_key()) if hasattr(key, "decrypt") else ECAlgorithm.to_jwk(key.public_key())
    return {**json.loads(made), "kid": name, **changes}


def jwks(*names: str) -> bytes:
    """A JWKS of RSA keys of these names."""
    return json.dumps({"keys": [public_jwk(name) for name in names]}).encode()


@cache
def keys(*names: str) -> TokenKeys:
    """The same, read."""
    return read_keys(jwks(*(names or ("one", "two"))))


def claims(**changes: object) -> dict[str, object]:
    """The claims of a good token of Alice's, an hour before it expires; None takes a claim away."""
    good = {"iss": ISSUER, "aud": [AUDIENCE], "sub": SUBJECT, "exp": NOW + 3600, "nbf": NOW, "kubernetes.io": POD}
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def token(key=None, *, kid: str | None = "one", algorithm: str = "RS256", **changes: object) -> str:
    """A token with these claims changed."""
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(claims(**changes), key or rsa_key("one"), algorithm=algorithm, headers=headers)
