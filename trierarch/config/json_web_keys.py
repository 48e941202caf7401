"""JSON Web Keys (RFC 7517, 7518, 8037): what a key set says, and which of its keys can verify signatures at a proxy.

One key that can be used is enough for Envoy to take a set; a set without any makes it refuse the whole listener, and so
does JSON that is not strict. That must not depend on what an issuer publishes or a policy says: so sets are read here
as strictly as Envoy reads them.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Key: TypeAlias = "Mapping[str, object]"

_BASE64URL = re.compile(r"[-_A-Za-z0-9]+", re.ASCII)
_CURVES: Mapping[str, tuple[str, ec.EllipticCurve]] = {
    "P-256": ("ES256", ec.SECP256R1()),
    "P-384": ("ES384", ec.SECP384R1()),
    "P-521": ("ES512", ec.SECP521R1()),
}
"""Curves, each with the one algorithm that goes with it and what it is."""

_MODULUS_BITS = range(512, 16385)
_EXPONENT_BITS = range(2, 34)
_ED25519_OCTETS = 32


def read_keys(body: bytes | str) -> list[Key]:
    """The keys of a set, whatever they are. Raises ValueError, with words for people, if this is no key set."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise ValueError('it has no list of "keys"')
    if not all(isinstance(key, dict) and isinstance(key.get("kty"), str) for key in keys):
        raise ValueError('one of its keys has no type ("kty")')
    return keys


def write_keys(keys: Iterable[Key]) -> str:
    """A key set in its plainest form: the same keys in another order are the same text. Only what is text is kept."""
    written = sorted(json.dumps(_texts(key), sort_keys=True, separators=(",", ":")) for key in keys)
    return f'{{"keys":[{",".join(written)}]}}'


def usable_keys(body: bytes | str) -> str:
    """A key set of those keys that can be used. Raises ValueError if there are none."""
    keys = [key for key in read_keys(body) if is_usable(key)]
    if not keys:
        raise ValueError("none of its keys can be used")
    return write_keys(keys)


def as_written(text: str) -> str:
    """A key set as somebody wrote it, if Envoy can read that, else the keys that can be used. Raises ValueError."""
    usable = usable_keys(text)
    return text if _is_strict(text) else usable


def _texts(key: Key) -> dict[str, str]:
    return {name: value for name, value in key.items() if isinstance(value, str) and _is_text(name + value)}


def _is_text(value: str) -> bool:
    """Whether it can be sent: JSON can write halves of characters."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_strict(text: str) -> bool:
    """Whether this is a key set and nothing else, each name once, and nothing in its keys but text and lists of it."""
    try:
        document = json.loads(text, object_pairs_hook=_distinct)
    except ValueError:
        return False
    return document.keys() == {"keys"} and all(_is_simple(value) for key in document["keys"] for value in key.values())


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs) or not all(map(_is_text, found)):
        raise ValueError("a name is there twice, or cannot be sent")
    return found


def _is_simple(value: object) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(each, str) and _is_text(each) for each in values)


# --- single keys -----------------------------------------------------------------------------------------------------
def is_usable(key: Key) -> bool:
    """Whether Envoy takes a key."""
    check = _TYPES.get(str(key.get("kty")))
    return check is not None and check(key)


def _is_rsa(key: Key) -> bool:
    modulus, exponent = _number(key, "n"), _number(key, "e")
    sizes = modulus.bit_length() in _MODULUS_BITS and exponent.bit_length() in _EXPONENT_BITS
    return sizes and bool(modulus & exponent & 1) and _has_algorithm(key, "RS", "PS")


def _is_elliptic(key: Key) -> bool:
    algorithm, curve = _CURVES.get(str(key.get("crv", "P-256")), ("", None))
    if curve is None or not _has_algorithm(key, algorithm):
        return False
    try:
        ec.EllipticCurvePublicNumbers(_number(key, "x"), _number(key, "y"), curve).public_key()
    except ValueError:  # no such point
        return False
    return True


def _is_edwards(key: Key) -> bool:
    return key.get("crv") == "Ed25519" and len(_octets(key, "x")) == _ED25519_OCTETS and _has_algorithm(key, "EdDSA")


def _is_secret(key: Key) -> bool:
    return bool(_octets(key, "k")) and _has_algorithm(key, "HS")


def _has_algorithm(key: Key, *beginnings: str) -> bool:
    """Whether the algorithm is one of those that begin so; it need not be said."""
    algorithm = key.get("alg", "")
    return isinstance(algorithm, str) and (not algorithm or algorithm.startswith(beginnings))


def _number(key: Key, name: str) -> int:
    return int.from_bytes(_octets(key, name), "big")


def _octets(key: Key, name: str) -> bytes:
    """The bytes that a member means (RFC 7515 §2: base64url without padding); none if it means nothing."""
    text = key.get(name)
    if not isinstance(text, str) or not _BASE64URL.fullmatch(text) or len(text) % 4 == 1:
        return b""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


_TYPES: Mapping[str, Callable[[Key], bool]] = {
    "RSA": _is_rsa,
    "EC": _is_elliptic,
    "OKP": _is_edwards,
    "oct": _is_secret,
}
"""Types of keys, and what each must have."""
