"""The keys of token issuers: from a file or by a fetch, changed while tokens are verified, kept when they are gone."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import trio

from actors import token_keys
from actors.authentication import KeyRing, plan_authenticators, plan_rings
from actors.token_keys import LOOK, REFRESH, RETRY
from tests.identity.authorities import NOW, rsa_key
from tests.identity.token_issuer import ISSUER, SUBJECT, jwks, token
from trierarch.config.key_sets import KeyLocation, KeySet, NoKeys
from trierarch.identity.authenticate import Caller, Credentials, Moment, Unproved, authenticate
from trierarch.identity.rules import IssuerRule
from trierarch.settings import Settings, parse_settings


@dataclass
class Issuer:
    """What a fetch finds, and what was fetched."""

    found: object = field(default_factory=lambda: KeySet(jwks("one").decode()))
    asked: list[KeyLocation] = field(default_factory=list)

    async def fetch(self, location: KeyLocation, _patience: float):
        """One fetch."""
        self.asked.append(location)
        await trio.lowlevel.checkpoint()
        return self.found


@pytest.fixture
def issuer() -> Issuer:
    """An issuer with one key."""
    return Issuer()


def ring(keys: str) -> KeyRing:
    """The keys at this place."""
    return KeyRing(IssuerRule(issuer=ISSUER, audiences=("istio-ca",), keys=keys))


def ids(known: KeyRing) -> list[str]:
    """The names of the keys."""
    return [each.id for each in known.held()]


async def test_keys_are_fetched_and_fetched_again(nursery, autojump_clock, issuer):
    """An issuer changes its keys: a minute later tokens of the new one are verified."""
    known = ring("https://keys.example/jwks")
    await nursery.start(lambda task_status: token_keys.run((known,), fetch=issuer.fetch, task_status=task_status))
    await trio.sleep(1)
    assert ids(known) == ["one"]
    issuer.found = KeySet(jwks("two").decode())
    await trio.sleep(REFRESH)
    assert ids(known) == ["two"]
    assert issuer.asked == [KeyLocation("https://keys.example/jwks")] * 2


async def test_an_issuer_says_itself_where_its_keys_are(nursery, autojump_clock, issuer):
    """Without a URL its discovery document is asked."""
    await nursery.start(lambda task_status: token_keys.run((ring(""),), fetch=issuer.fetch, task_status=task_status))
    await trio.sleep(1)
    assert issuer.asked == [KeyLocation(f"{ISSUER}/.well-known/openid-configuration", discovered=True)]


async def test_known_keys_stay(nursery, autojump_clock, issuer, lines):
    """The issuer is away for a while: said once, tried again soon, and the last keys verify meanwhile."""
    known = ring("https://keys.example/jwks")
    await nursery.start(lambda task_status: token_keys.run((known,), fetch=issuer.fetch, task_status=task_status))
    await trio.sleep(1)
    issuer.found = NoKeys("no answer")
    await trio.sleep(REFRESH + 3 * RETRY)
    assert ids(known) == ["one"]
    assert [line["reason"] for line in lines if line["event"] == "token_keys_unread"] == ["no answer"]
    issuer.found = KeySet(jwks("two").decode())
    await trio.sleep(RETRY)
    assert ids(known) == ["two"]


@pytest.mark.parametrize("text", ["", "nonsense", '{"keys": []}'])
async def test_what_is_no_set_of_keys(nursery, autojump_clock, issuer, text):
    """An answer with nothing in it takes nobody's keys away."""
    known = ring("https://keys.example/jwks")
    issuer.found = KeySet(text)
    await nursery.start(lambda task_status: token_keys.run((known,), fetch=issuer.fetch, task_status=task_status))
    await trio.sleep(1)
    assert ids(known) == []
    assert known.problem


async def test_a_file_of_keys(nursery, issuer, tmp_path, monkeypatch):
    """It is read again when it has changed, without anybody being told."""
    monkeypatch.setattr(token_keys, "LOOK", 0.01)
    path = tmp_path / "jwks.json"
    known = ring(str(path))
    await nursery.start(lambda task_status: token_keys.run((known,), fetch=issuer.fetch, task_status=task_status))
    assert LOOK > 1
    for name in ("one", "two"):
        path.write_bytes(jwks(name))
        with trio.fail_after(5):
            while ids(known) != [name]:
                await trio.sleep(0.01)
    assert issuer.asked == []


# --- from settings to authenticators ---------------------------------------------------------------------------------
def test_whose_tokens_are_believed():
    """The issuer of JWT_RULE first, then Kubernetes if anything is known of it; else nobody's."""
    assert plan_rings(Settings()) == ()
    rule = f'{{"issuer": "{ISSUER}", "jwks_uri": "https://k", "audiences": ["a"]}}'
    environment = {"JWT_RULE": rule, "TRIERARCH_TOKEN_KEYS": "keys.json", "TOKEN_AUDIENCES": "istio-ca,b"}
    oidc, kubernetes = plan_rings(parse_settings({}, environment))
    assert oidc.rule == IssuerRule(issuer=ISSUER, audiences=("a",), keys="https://k")
    assert kubernetes.rule == IssuerRule(issuer="", audiences=("istio-ca", "b"), keys="keys.json")
    assert [each.rule.issuer for each in plan_rings(parse_settings({}, {"TOKEN_ISSUER": "https://i"}))] == ["https://i"]


def test_the_authenticators_of_the_settings():
    """Certificates always, tokens of each ring, and gateways where the settings name some."""
    settings = parse_settings({}, {"TRIERARCH_TOKEN_KEYS": "x", "TRUSTED_GATEWAY_CIDR": "10.0.0.0/8"})
    rings = plan_rings(settings)
    authenticators = plan_authenticators(settings, rings)
    assert len(authenticators) == 3
    assert len(plan_authenticators(Settings(), ())) == 1
    shown = Credentials(address="10.0.0.1:1", metadata={"authorization": f"Bearer {token(rsa_key('one'))}"})
    moment = Moment(now=NOW, trust_domain="td")
    assert isinstance(authenticate(authenticators, shown, moment), Unproved)
    rings[0].keys = token_keys.read_keys(jwks("one"))
    caller = authenticate(authenticators, shown, moment)
    assert isinstance(caller, Caller)
    assert caller.identities == (f"spiffe://td/ns/{SUBJECT.split(':')[2]}/sa/{SUBJECT.split(':')[3]}",)
