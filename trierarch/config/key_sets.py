"""Key sets of token issuers: where they are, what was found there, and the set that verifies nothing.

`JsonWebKeySet` is a kind of ours that no user writes: the objects say what was found where policies point to.
Nothing is fetched here.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from trierarch.config.json_web_keys import write_keys
from trierarch.config.objects import ConfigObject, ObjectKey, Origin

KIND = "JsonWebKeySet"

LONGEST_BODY = 256 * 1024
"""Bytes of a key set or of a discovery document. A key has a few hundred, or some thousand with its certificates; an
issuer has a handful. What is read goes into every filter chain of the workloads that understand the issuer's tokens.
"""

DISCOVERY_PATH = "/.well-known/openid-configuration"
"""Where an issuer says what it has (OpenID Connect Discovery 1.0 §4)."""

_USER = re.compile(r"^(\w+://)[^/?#]*@")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class KeyLocation(NamedTuple):
    """Where keys are: at `url`, or (`discovered`) where the document at `url` says."""

    url: str
    discovered: bool = False


class KeyServer(NamedTuple):
    """Who is asked for keys."""

    host: str
    port: int
    tls: bool


def location_of(issuer: str, uri: str) -> KeyLocation:
    """Where the keys of an issuer are, by the URI that a rule has for them, or else by the issuer's own word.

    A user and password in a URL are left out: locations are logged.
    """
    if uri:
        return KeyLocation(_USER.sub(r"\1", uri))
    return KeyLocation(_USER.sub(r"\1", issuer).removesuffix("/") + DISCOVERY_PATH, discovered=True)


def read_server(url: str) -> KeyServer:
    """Whom a URL of http or https asks. Raises ValueError, with words for people."""
    parts = _split(url)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError(f'"{url}" is not a URL of http or https')
    if not parts.hostname or not parts.hostname.isascii() or any(letter <= " " for letter in url):
        raise ValueError(f'"{url}" names no host')
    return KeyServer(parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme], parts.scheme == "https")


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f'"{url}" is not a URL: {error}') from None
    return parts


def read_discovery(body: bytes) -> str:
    """The URL of the keys, in the document by which an issuer tells of itself. Raises ValueError."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("what the issuer tells of itself is not JSON") from None
    url = document.get("jwks_uri") if isinstance(document, dict) else None
    if not isinstance(url, str):
        raise ValueError('the issuer does not say where its keys are ("jwks_uri")')
    read_server(url)
    return url


# --- the objects -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys, as text."""

    text: str


@dataclass(frozen=True, slots=True)
class NoKeys:
    """There is no key to be had, and why; the reason stays the same as long as nothing else happens."""

    reason: str


JsonWebKeySet: TypeAlias = KeySet | NoKeys
"""What was found at a location."""


def key_of(location: KeyLocation) -> ObjectKey:
    """The key of the object about a location."""
    return ObjectKey("", KIND, "discovered" if location.discovered else "", location.url)


def build_key_set(location: KeyLocation, found: JsonWebKeySet, source: str) -> ConfigObject[JsonWebKeySet]:
    """The object that says what was found at a location."""
    digest = blake2b(repr(found).encode(), digest_size=16).digest()
    return ConfigObject(
        key=key_of(location), spec=found, digest=digest, origin=Origin(source=source, path=location.url)
    )


# --- the set that verifies nothing -----------------------------------------------------------------------------------
_RSA_2048 = int(
    "25195908475657893494027183240048398571429282126204032027777137836043662020707595556264018525880784406918290641249515"
    "08218929855914917618450280848912007284499268739280728777673597141834727026189637501497182469116507761337985909570009"
    "73304597488084284017974291006424586918171951187461215151726546322822168699875491824224336372590851418654620435767984"
    "23387184774447920739934236584823824281198163815010674810451660377306056201619676256133844143603833904414952634432190"
    "11465754445417842402092461651572335077870774981712577246796292638635637328991215483143816789988504044536402352738195"
    "1378636564391212010397122822120720357"
)
"""The number RSA-2048 of the RSA Factoring Challenge (1991 to 2007). Its factors were destroyed when it was made, and
nobody claimed the prize for finding them."""


def _base64url(number: int) -> str:
    """A number as RFC 7518 §2 writes it."""
    octets = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return urlsafe_b64encode(octets).rstrip(b"=").decode()


NOBODYS_KEYS = write_keys([{"kty": "RSA", "e": _base64url(65537), "n": _base64url(_RSA_2048)}])
"""A key set whose private key nobody holds. With it in place of keys that could not be fetched a listener is valid, and
refuses the tokens of that issuer and of no other. It is a constant, so that all control planes send the same."""
