"""A real Envoy accepts the filter that verifies tokens, and routes that ask for claims."""

from __future__ import annotations

import json

import pytest

from tests.config.keys import LOOSE, UNUSABLE, USABLE
from tests.envoy.meshes import inbound_listeners, mesh_of
from tests.envoy.samples import inbound_key
from tests.envoy.test_jwt import KEYS, match, tokens
from tests.envoy.test_listeners_in_envoy import accept, pytestmark
from tests.envoy.test_listeners_inbound import TARGETS
from trierarch.config.request_authentication import JwtRule
from trierarch.push.mesh import KeyFetching
from trierarch.push.request_authentication import InlineKeys, TokenRule

__all__ = ["pytestmark"]

EVERYTHING = {
    "issuer": "https://one.example.com",
    "jwks": '{"keys":[{"kty":"oct","kid":"k","k":"dGhyb3ctYXdheQ"}]}',
    "audiences": ["shop", "bank"],
    "fromHeaders": [{"name": "x-token", "prefix": "Bearer "}, {"name": "x-other"}],
    "fromParams": ["token"],
    "fromCookies": ["session"],
    "outputPayloadToHeader": "x-payload",
    "outputClaimToHeaders": [{"header": "x-sub", "claim": "sub"}, {"header": "x-unit", "claim": "org.unit"}],
    "forwardOriginalToken": True,
    "timeout": "3s",
    "spaceDelimitedClaims": ["roles"],
}
RULES = {
    "everything": [EVERYTHING],
    "no keys": [{"issuer": "a", "jwks": '{"keys":[]}'}],
    "keys of every type": [{"issuer": "a", "jwks": json.dumps({"keys": [key]})} for key in USABLE.values()],
    "keys that are no use": [{"issuer": "a", "jwks": json.dumps({"keys": [key]})} for key in UNUSABLE.values()],
    "loose JSON": [{"issuer": "a", "jwks": text} for text in LOOSE.values()],
    "nobody's keys": [{"issuer": "a", "jwksUri": "https://closed.example.com"}],
    "no issuer": [{"jwksUri": "https://closed.example.com"}],
    "several": [EVERYTHING, {"issuer": "a", "jwks": KEYS}, {"issuer": "a", "jwks": EVERYTHING["jwks"]}],
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("mode", KeyFetching)
def test_rules_are_accepted(tmp_path, rules, mode):
    """All fields; keys that are no use, that nobody has, that Envoy is to fetch; one issuer, several, one twice."""
    key = inbound_key(targets=TARGETS, tokens=tokens(*rules, mode=mode))
    accept(tmp_path, [*inbound_listeners(mesh_of(), key).values()])


REFUSED = [json.dumps({"keys": [key]}) for key in UNUSABLE.values()] + [*LOOSE.values()]


@pytest.mark.slow
@pytest.mark.parametrize("jwks", REFUSED, ids=[*UNUSABLE, *LOOSE])
def test_envoy_refuses_what_we_do_not_send(tmp_path, jwks):
    """Each key that counts as no use here is one for which Envoy refuses the listener, and so is loose JSON."""
    rule = JwtRule(issuer="a")
    key = inbound_key(targets=TARGETS, tokens=(TokenRule(rule, InlineKeys(jwks)),))
    with pytest.raises(AssertionError, match="has invalid local jwks"):
        accept(tmp_path, [*inbound_listeners(mesh_of(), key).values()])


def test_routes_that_ask_for_claims_are_accepted(tmp_path):
    """By dots and brackets, with every kind of match, and inverted."""
    asked = json.dumps(
        {
            "headers": {
                "@request.auth.claims.a": {"exact": "b"},
                "@request.auth.claims.c.d": {"prefix": "e"},
                "@request.auth.claims[f][g.h]": {"regex": "i+"},
                "@request.auth.claims.j": {},
            },
            "withoutHeaders": {"@request.auth.claims.k": {"exact": "l"}},
        }
    )
    route = {"match": match(asked), "direct_response": {"status": 200}}
    accept(tmp_path, [], [{"name": "r", "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [route]}]}])
