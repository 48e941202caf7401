"""Key sets: where they are, what was found there, and the one that verifies nothing."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode

import pytest

from tests.config.reading import CASES
from trierarch.config.json_web_keys import usable_keys
from trierarch.config.key_sets import (
    DISCOVERY_PATH,
    NOBODYS_KEYS,
    KeyLocation,
    KeyServer,
    KeySet,
    NoKeys,
    build_key_set,
    key_of,
    location_of,
    read_discovery,
    read_server,
)

TABLES = CASES / "conformance" / "go-tables"
SECURITY = TABLES / "agent" / "pkg__config__security__security.json"


def rows(path, func):
    """The whole rows of a table of istiod's tests."""
    (table,) = (each for each in json.loads(path.read_text())["tables"] if each["func"] == func)
    return [each["row"] for each in table["rows"] if each["complete"]]


def test_an_issuer_is_asked_below_its_own_name():
    """Without a URI the issuer's document of itself says where the keys are, wherever the slash is."""
    document = KeyLocation("https://a.b/c/.well-known/openid-configuration", discovered=True)
    assert location_of("https://a.b/c", "") == location_of("https://a.b/c/", "") == document
    assert location_of("https://a.b/c", "https://keys") == KeyLocation("https://keys")
    assert key_of(document) != key_of(KeyLocation(document.url))


def test_passwords_are_left_out():
    """A location is logged and told of."""
    assert location_of("", "https://me:secret@a.b/keys@x").url == "https://a.b/keys@x"
    assert location_of("https://me@a.b", "").url == "https://a.b" + DISCOVERY_PATH
    assert location_of("me@a.b", "").url == "me@a.b" + DISCOVERY_PATH


def test_discovery():
    """The document must name a URL that can be asked."""
    assert read_discovery(b'{"issuer": "a", "jwks_uri": "https://a.b/keys"}') == "https://a.b/keys"
    for body in (b"{}", b'{"jwks_uri": 1}', b'{"jwks_uri": "file:///etc/passwd"}', b"<html>"):
        with pytest.raises(ValueError, match=r"\w"):
            read_discovery(body)


def test_servers():
    """Ports follow from the scheme; addresses of IPv6 are hosts too."""
    assert read_server("https://a.b/x?y") == KeyServer("a.b", 443, True)
    assert read_server("http://[::1]:8080/") == KeyServer("::1", 8080, False)


def test_objects_say_the_same_if_the_same_was_found():
    """An object about a location is another only when something else was found there."""
    here = KeyLocation("https://a.b")
    found, failed = (build_key_set(here, each, "jwks") for each in (KeySet("x"), NoKeys("x")))
    assert found.digest == build_key_set(here, KeySet("x"), "jwks").digest != failed.digest


def test_nobodys_keys():
    """What stands in for keys that could not be fetched is one RSA key of 2048 bits, and a key set."""
    (key,) = json.loads(NOBODYS_KEYS)["keys"]
    modulus = int.from_bytes(urlsafe_b64decode(key["n"] + "=="), "big")
    assert modulus.bit_length() == 2048
    assert len(str(modulus)) == 617
    assert key["e"] == "AQAB"
    assert usable_keys(NOBODYS_KEYS) == NOBODYS_KEYS


def read_or_none(read, text):
    """What is read, or None if it is refused."""
    try:
        return read(text)
    except ValueError:
        return None


@pytest.mark.skipif(not SECURITY.is_file(), reason=f"no tables at {SECURITY}: set TRIERARCH_CASES to where they are")
def test_table_of_uris():
    """URIs are split, and refused, as istiod does."""
    for row in rows(SECURITY, "TestParseJwksURI"):
        found, wanted = read_or_none(read_server, row["in"]), row.get("expected", {})
        expected = KeyServer(wanted["hostname"], wanted["port"], wanted["useSSL"]) if wanted else None
        assert found == expected, row["in"]
