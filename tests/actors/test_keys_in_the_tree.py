"""Keys of token issuers in the whole tree: whoever dies meanwhile, no proxy is ever told to refuse good tokens."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest
import trio

from actors.key_fetching import KeyFetcher
from tests.actors.fake_stream import FakeEnvoy
from tests.actors.meshes import SHOP, routing
from tests.actors.system import SETTINGS, start_mesh
from trierarch.config.json_web_keys import write_keys
from trierarch.config.key_sets import NOBODYS_KEYS, KeySet, NoKeys
from trierarch.envoy.types import LISTENER

URL = "https://login.example.com/keys"
POLICY = f"""
RequestAuthentication shop/jwt: {{jwtRules: [{{issuer: login, jwksUri: '{URL}'}}]}}
"""
SLOWNESS = 0.3
"""Virtual seconds that an issuer takes to answer."""

PIPELINE = ("jwks", "intake", "debouncer", "snapshot_builder", "generator", "push_scheduler")


def keys(name: str) -> str:
    """A key set of one key."""
    return write_keys([{"kty": "oct", "k": "AQ", "kid": name}])


class Issuer:
    """Has the keys that a test gives it, None when it is away."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    async def fetch(self, _location, _patience):
        """What it answers, after a while."""
        text = self.text
        await trio.sleep(SLOWNESS)
        return KeySet(text) if text is not None else NoKeys("it is away")


@pytest.fixture
def issuer():
    """The issuer of all tokens, in place of the network."""
    issuer = Issuer(keys("first"))
    with patch.object(KeyFetcher, "fetch", lambda _fetcher, location, patience: issuer.fetch(location, patience)):
        yield issuer


def knows(envoy: FakeEnvoy, text: str) -> bool:
    """Whether an Envoy's listeners hold these keys."""
    listeners = envoy.client.held.get(LISTENER, {})
    return any(text.encode() in body for body in listeners.values())


async def never_refuses(envoys, seconds):
    """Look at the Envoys all the time: none of them holds the keys that nobody has."""
    with trio.move_on_after(seconds):
        while True:
            assert not any(knows(envoy, NOBODYS_KEYS) for envoy in envoys)
            await trio.sleep(0.01)


def pair():
    """An Envoy of each dialect."""
    return (FakeEnvoy("web-1.shop", "10.1.0.1", delta=True), FakeEnvoy("web-2.shop", "10.1.0.2", delta=False))


def settings(refresh: float):
    """Keys are fetched again every so many seconds."""
    return replace(SETTINGS, jwks_refresh=refresh)


async def test_the_first_configuration_has_the_keys(nursery, autojump_clock, issuer):
    """Nobody is served before they are there; a policy that comes later waits for its keys too."""
    envoys = pair()
    nursery.start_soon(never_refuses, envoys, 10)
    mesh = await start_mesh(nursery, SHOP + POLICY, envoys=envoys)
    assert all(knows(envoy, keys("first")) for envoy in envoys)
    nursery.start_soon(never_refuses, envoys, 10)
    mesh.edit(POLICY.replace("login.", "other."))
    await mesh.settle()
    assert all(knows(envoy, keys("first")) for envoy in envoys)


async def test_an_issuer_that_is_away_stops_nobody(nursery, autojump_clock, issuer):
    """Its tokens are refused, what else changes arrives, and so do the keys once they are there."""
    issuer.text = None
    envoys = pair()
    mesh = await start_mesh(nursery, SHOP + POLICY, envoys=envoys)
    assert all(knows(envoy, NOBODYS_KEYS) for envoy in envoys)
    mesh.edit(routing(7))
    await trio.sleep(1)
    mesh.check()
    issuer.text = keys("first")
    await trio.sleep(90)
    assert all(knows(envoy, keys("first")) for envoy in envoys)


MOMENTS = (0.31, *(pytest.param(moment, marks=pytest.mark.slow) for moment in (0.0, 0.15, 0.42)))


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("actor", PIPELINE)
async def test_whoever_dies_while_keys_change(actor, moment, nursery, autojump_clock, issuer):
    """During the fetch, over the news, in the debounce, over the snapshot: the new keys arrive, and never none."""
    envoys = pair()
    mesh = await start_mesh(nursery, SHOP + POLICY, envoys=envoys, settings=settings(refresh=10.0))
    nursery.start_soon(never_refuses, envoys, 40)
    issuer.text = keys("second")
    await trio.sleep_until(10 * (trio.current_time() // 10 + 2) + moment)
    mesh.kill(actor)
    await mesh.settle()
    assert all(knows(envoy, keys("second")) and not knows(envoy, keys("first")) for envoy in envoys)
