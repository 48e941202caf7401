"""Fetching keys from real servers on this machine: what is read, what is refused, and whom nobody asks."""

from __future__ import annotations

import json
import re
from ipaddress import ip_address, ip_network

import pytest
import trio

from actors.key_fetching import MOST_REDIRECTS, CarefulNetwork, FetchTerms, KeyFetcher
from tests.actors.key_server import KEYS, Page, open_key_server
from tests.config.reading import CASES
from tests.envoy.certificates import Authority
from trierarch.config.json_web_keys import usable_keys
from trierarch.config.key_sets import DISCOVERY_PATH, KeyLocation, KeySet, NoKeys, location_of

FOUND = KeySet(usable_keys(KEYS))
PATIENCE = 20.0
RESOLVER = CASES / "conformance" / "go-tables" / "model" / "pilot__pkg__model__jwks_resolver.json"
TRUSTING = KeyFetcher(FetchTerms())


async def fetch(url, *, patience=PATIENCE, fetcher=TRUSTING):
    """What is found at a URL."""
    return await fetcher.fetch(KeyLocation(url), patience)


async def refusal(url, **options):
    """Why nothing is found there."""
    found = await fetch(url, **options)
    assert isinstance(found, NoKeys), found
    return found.reason


async def test_keys_at_a_url():
    """They are read, and the server is asked by its name."""
    async with open_key_server({"/keys?x=1": Page(body=KEYS)}) as server:
        assert await fetch(server.url("/keys?x=1")) == FOUND
        assert server.asked == [(f"localhost:{server.port}", "/keys?x=1")]


async def test_keys_of_an_issuer():
    """Its document says where they are."""
    async with open_key_server({"/keys": Page(body=KEYS)}) as server:
        document = f'{{"issuer": "x", "jwks_uri": "{server.url("/keys")}"}}'
        server.pages["/realm" + DISCOVERY_PATH] = Page(body=document.encode())
        assert await TRUSTING.fetch(location_of(server.url("/realm"), ""), PATIENCE) == FOUND


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (Page(status=404), "status 404"),
        (Page(status=500, body=KEYS), "status 500"),
        (Page(body=b"<html>"), "it is not JSON"),
        (Page(body=b"{}"), 'it has no list of "keys"'),
        (Page(body=b'{"keys":[{"kty":"RSA"}]}'), "none of its keys can be used"),
        (Page(body=b"x" * 100_000, endless=True), "longer than"),
        (Page(body=KEYS, headers={"content-length": "1000"}), r"\w"),
        (Page(body=b"\x1f\x8b", headers={"content-encoding": "gzip"}), "it is not JSON"),
    ],
    ids=["absent", "error", "html", "no keys", "unusable", "endless", "cut", "compressed"],
)
async def test_answers_that_are_no_keys(page, reason):
    """Each has its words, and never more is read than a key set may be long."""
    async with open_key_server({"/": page}) as server:
        assert re.search(reason, await refusal(server.url("/")))


async def test_a_server_that_says_nothing():
    """It is waited for as long as the rule allows."""
    async with open_key_server({"/": None}) as server:
        assert await refusal(server.url("/"), patience=0.1) == "no answer within 0.1 s"


async def test_whoever_is_not_there():
    """A closed port, a name that nobody has."""
    async with open_key_server({}) as server:
        url = server.url("/")
    assert "connect" in (await refusal(url)).lower()
    assert await refusal("http://nobody.invalid/keys")


async def test_redirects_are_followed():
    """To other paths and other hosts, which are then asked by their own names; but not round in circles."""
    async with open_key_server({"/keys": Page(body=KEYS)}) as server:
        server.pages["/old"] = Page(status=302, headers={"location": server.url("/keys", "127.0.0.1")})
        server.pages["/older"] = Page(status=301, headers={"location": "/old"})
        server.pages["/circle"] = Page(status=302, headers={"location": "/circle"})
        assert await fetch(server.url("/older")) == FOUND
        assert server.asked[-1] == (f"127.0.0.1:{server.port}", "/keys")
        assert await refusal(server.url("/circle")) == f"more than {MOST_REDIRECTS} redirects"


async def test_tls_is_verified(tmp_path):
    """The certificate has to be of a root that is trusted, and for the name; a name given by a file is trusted too."""
    authority = Authority()
    authority.issue("spiffe://test/server", tmp_path, "localhost")
    authority.issue("spiffe://test/other", tmp_path / "other", "other.example")
    fetcher = KeyFetcher(FetchTerms(ca_file=str(tmp_path / "roots.pem")))
    async with open_key_server({"/": Page(body=KEYS)}, tmp_path) as server:
        assert await fetch(server.url("/"), fetcher=fetcher) == FOUND
        assert "CERTIFICATE_VERIFY_FAILED" in await refusal(server.url("/"))
        assert "CERTIFICATE_VERIFY_FAILED" in await refusal(server.url("/", "127.0.0.1"), fetcher=fetcher)
    async with open_key_server({"/": Page(body=KEYS)}, tmp_path / "other") as server:
        assert "CERTIFICATE_VERIFY_FAILED" in await refusal(server.url("/"), fetcher=fetcher)


async def test_nothing_leads_away_from_tls(tmp_path):
    """A redirect to plaintext is refused."""
    Authority().issue("spiffe://test/server", tmp_path, "localhost")
    fetcher = KeyFetcher(FetchTerms(ca_file=str(tmp_path / "roots.pem")))
    async with open_key_server({"/": Page(status=302, headers={"location": "http://localhost/"})}, tmp_path) as server:
        assert (await refusal(server.url("/"), fetcher=fetcher)).startswith("it leads away from TLS")


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "0.0.0.0", "224.0.0.1"],
)
async def test_some_addresses_are_never_asked(host):
    """Where clouds tell their machines secrets, and where nobody in particular is."""
    assert "must not be asked" in await refusal(f"http://{host}/latest/meta-data")


@pytest.mark.skipif(not RESOLVER.is_file(), reason=f"no tables at {RESOLVER}: set TRIERARCH_CASES to where they are")
def test_table_of_addresses():
    """The same addresses as istiod's, where nothing else is said."""
    (table,) = (each for each in json.loads(RESOLVER.read_text())["tables"] if each["func"] == "TestJwksBlockedIP")
    for row in (each["row"] for each in table["rows"] if each["complete"]):
        assert CarefulNetwork(()).may_ask(ip_address(row["ip"])) != row["blocked"], row["name"]


async def test_further_addresses_can_be_blocked(monkeypatch):
    """By their ranges, also when a redirect leads there; of several addresses the allowed ones are asked."""
    careful = KeyFetcher(FetchTerms(blocked=(ip_network("127.0.0.0/9"),)))
    async with open_key_server({"/": Page(body=KEYS)}) as server:
        assert "127.0.0.1, which must not be asked" in await refusal(server.url("/", "127.0.0.1"), fetcher=careful)
        answers = [(None, None, 0, "", (address, 80)) for address in ("127.0.0.9", "127.128.0.1", "127.128.0.1")]

        async def look_up(*_arguments, **_options):
            return answers

        monkeypatch.setattr(trio.socket, "getaddrinfo", look_up)
        assert "connect" in (await refusal(server.url("/"), fetcher=careful)).lower()


async def test_another_address_is_tried(monkeypatch):
    """If one of them refuses."""
    async with open_key_server({"/": Page(body=KEYS)}) as server:
        answers = [(None, None, 0, "", (address, 80)) for address in ("127.0.0.3", "127.0.0.1")]

        async def look_up(*_arguments, **_options):
            return answers

        monkeypatch.setattr(trio.socket, "getaddrinfo", look_up)
        assert await fetch(server.url("/")) == FOUND
