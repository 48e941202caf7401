"""Keys that can be used and keys that cannot, each wrong in one way: what Envoy says of them was tried."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

if TYPE_CHECKING:
    from collections.abc import Mapping


def _rsa(bits: int) -> dict[str, object]:
    return _plain(RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, bits).public_key()))


def _elliptic(curve: type[ec.EllipticCurve]) -> dict[str, object]:
    return _plain(ECAlgorithm.to_jwk(ec.generate_private_key(curve()).public_key()))


def _plain(text: str) -> dict[str, object]:
    return {name: value for name, value in json.loads(text).items() if name != "key_ops"}


RSA, POINT = _rsa(2048), _elliptic(ec.SECP256R1)
EDWARDS = _plain(OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate().public_key()))
SECRET = {"kty": "oct", "k": "AQ"}


def _without(key: Mapping[str, object], name: str) -> dict[str, object]:
    return {each: value for each, value in key.items() if each != name}


USABLE: dict[str, dict[str, object]] = {
    "RSA": RSA,
    "RSA, short": _rsa(1024),
    "RSA for PSS": {**RSA, "alg": "PS256"},
    "RSA, no algorithm in particular": {**RSA, "alg": ""},
    "P-256": POINT,
    "P-256 with its algorithm": {**POINT, "alg": "ES256"},
    "P-256, unsaid": _without(POINT, "crv"),
    "P-384": _elliptic(ec.SECP384R1),
    "P-521": _elliptic(ec.SECP521R1),
    "Ed25519": {**EDWARDS, "alg": "EdDSA"},
    "secret": {**SECRET, "alg": "HS256"},
}

UNUSABLE: dict[str, dict[str, object]] = {
    "RSA, tiny": {"kty": "RSA", "e": "AQAB", "n": "abc"},
    "RSA, even": {**RSA, "n": f"{RSA['n'][:-1]}A"},  # type: ignore[index]
    "RSA, exponent 1": {**RSA, "e": "AQ"},
    "RSA, even exponent": {**RSA, "e": "AQAA"},
    "RSA, huge exponent": {**RSA, "e": RSA["n"]},
    "RSA without exponent": _without(RSA, "e"),
    "RSA, not base64url": {**RSA, "n": f"!!{RSA['n']}"},
    "RSA, padded": {**RSA, "e": "AQAB===="},
    "RSA for HMAC": {**RSA, "alg": "HS256"},
    "no point": {**POINT, "x": POINT["y"]},
    "secp256k1": _elliptic(ec.SECP256K1),
    "P-256 with another's algorithm": {**POINT, "alg": "ES384"},
    "P-256 for RSA": {**POINT, "alg": "RS256"},
    "X25519": {**EDWARDS, "crv": "X25519"},
    "Ed25519, short": {**EDWARDS, "x": "AQ"},
    "Ed25519, unsaid": _without(EDWARDS, "crv"),
    "secret, empty": {**SECRET, "k": ""},
    "secret, absent": _without(SECRET, "k"),
    "secret, cut": {**SECRET, "k": "A"},
    "secret for RSA": {**SECRET, "alg": "RS256"},
    "unknown type": {"kty": "foo"},
    "type in capitals": {**SECRET, "kty": "OCT"},
}

_GOOD = json.dumps(SECRET)
LOOSE: dict[str, str] = {
    "names twice": f'{{"keys":[],"keys":[{_GOOD}]}}',
    "names twice in a key": '{"keys":[{"kty":"RSA","kty":"oct","k":"AQ"}]}',
    "no number": f'{{"keys":[{_GOOD}],"x":NaN}}',
    "infinite": f'{{"keys":[{_GOOD}],"x":1e999}}',
    "deep": f'{{"keys":[{_GOOD}],"x":{"[" * 500}{"]" * 500}}}',
    "deep in a key": f'{{"keys":[{{"kty":"oct","k":"AQ","x":{"[" * 500}{"]" * 500}}}]}}',
    "half a character": f'{{"keys":[{_GOOD}],"x":"\\ud800"}}',
    "half a character in a key": '{"keys":[{"kty":"oct","k":"AQ","kid":"\\ud800"}]}',
}
"""Key sets with a key that can be used, in JSON that Envoy does not read."""
