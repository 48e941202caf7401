"""Tokens: which are believed, and which are not, for which reason."""

from __future__ import annotations

import json

import jwt
import pytest

from tests.identity.authorities import NOW, ec_key, rsa_key
from tests.identity.token_issuer import AUDIENCE, ISSUER, RULE, SUBJECT, claims, jwks, keys, public_jwk, token
from trierarch.identity.authenticate import Caller, Credentials, Moment, PodReference, Proof, Unproved
from trierarch.identity.rules import IssuerRule, parse_jwt_rule
from trierarch.identity.tokens import LONGEST_TOKEN, TokenAuthenticator, read_keys, verify_token

MOMENT = Moment(now=NOW, trust_domain="example.org")


def reason(text: str, known=None, rule=RULE, now=NOW) -> str:
    """Why this token is not believed; "" if it is."""
    verdict = verify_token(text, rule, keys() if known is None else known, now)
    return verdict.reason if isinstance(verdict, Unproved) else ""


def test_a_good_token():
    """Signed by a known key, for one of the audiences, not expired."""
    assert reason(token()) == ""
    assert verify_token(token(), RULE, keys(), NOW) == claims()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"exp": NOW}, "expired"),
        ({"exp": NOW - 3600}, "expired"),
        ({"exp": None}, "expired"),
        ({"exp": True}, "expired"),
        ({"exp": "soon"}, "expired"),
        ({"exp": float("nan")}, "expired"),
        ({"nbf": NOW + 61}, "not valid yet"),
        ({"nbf": NOW + 59}, ""),
        ({"nbf": None}, ""),
        ({"aud": "istio-ca"}, ""),
        ({"aud": ["a", "other-ca"]}, ""),
        ({"aud": ["a"]}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": {"istio-ca": 1}}, "another audience"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"iss": None}, "another issuer"),
    ],
)
def test_claims(changes, expected):
    """Each claim that is wrong has its own reason; the times are held against the clock that is given."""
    assert expected in reason(token(**changes))
    assert bool(expected) == bool(reason(token(**changes)))


def test_an_issuer_need_not_be_named():
    """Who has the keys is believed whatever they call themselves, if nobody said what they are called."""
    assert reason(token(iss="whoever"), rule=IssuerRule(issuer="", audiences=(AUDIENCE,))) == ""


# --- signatures ------------------------------------------------------------------------------------------------------
def test_keys_are_found_by_their_name():
    """A token names its key; one that names a key that is not known is not tried with the others."""
    assert reason(token(rsa_key("two"), kid="two")) == ""
    assert "key is not known" in reason(token(kid="three"))
    assert "not that of a known key" in reason(token(rsa_key("two"), kid="one"))


def test_a_token_that_names_no_key_is_tried_with_all():
    """Some issuers do not name their keys."""
    assert reason(token(rsa_key("two"), kid=None)) == ""
    assert "not that of a known key" in reason(token(rsa_key("stranger"), kid=None))


def test_keys_of_curves():
    """ES256, as Kubernetes may be told to sign."""
    known = read_keys(json.dumps({"keys": [public_jwk("ec", ec_key("issuer"))]}).encode())
    assert reason(token(ec_key("issuer"), kid="ec", algorithm="ES256"), known) == ""


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_token_cannot_choose_to_be_unsigned(algorithm):
    """Not by `none`, nor by taking the public key for a shared secret."""
    secret = "" if algorithm == "none" else "secret of at least thirty-two bytes"
    forged = jwt.encode(claims(), secret, algorithm=algorithm, headers={"kid": "one"})
    assert "key is not known" in reason(forged)


def test_a_token_that_was_tampered_with():
    """Another subject under the old signature."""
    header, _, signature = token().split(".")
    other = token(sub="system:serviceaccount:kube-system:root").split(".")[1]
    assert "not that of a known key" in reason(f"{header}.{other}.{signature}")


@pytest.mark.parametrize("text", ["", "a", "a.b", "a.b.c", "...", "ü.ü.ü", "a" * (LONGEST_TOKEN + 1), "[" * 9000])
def test_what_is_no_token(text):
    """Malformed, or longer than any."""
    assert reason(text) in ("the token is malformed", "the token is too long")


def test_no_keys_believe_nobody():
    """Before an issuer's keys are known, its tokens are not believed."""
    assert "key is not known" in reason(token(), known=())


# --- sets of keys ----------------------------------------------------------------------------------------------------
def test_what_is_no_key_for_signatures_is_skipped():
    """Keys to encrypt with, shared secrets, kinds that nobody knows; a private key by mistake is none either."""
    private = {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key("one"))), "kid": "private"}
    entries = [
        public_jwk("enc", use="enc"),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
        {"kty": "new"},
        private,
        public_jwk("good"),
    ]
    assert [each.id for each in read_keys(json.dumps({"keys": entries}).encode())] == ["good"]


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": []}', b"[" * 100_000, b"\xff"])
def test_what_is_no_set_of_keys(text):
    """An error, whatever it is."""
    with pytest.raises(ValueError, match=r"\S"):
        read_keys(text)


# --- callers ---------------------------------------------------------------------------------------------------------
def shown(text: str) -> Credentials:
    """A caller with this `authorization`."""
    return Credentials(address="10.0.0.1:1", metadata={"authorization": text})


def authenticator() -> TokenAuthenticator:
    """For the keys of the tests."""
    return TokenAuthenticator(rule=RULE, keys=keys)


@pytest.mark.parametrize("prefix", ["Bearer ", "Istio ", "Basic abc,Bearer ", "Bearer  "])
def test_the_caller_is_the_service_account(prefix):
    """In the trust domain of the mesh, with the pod that the token is bound to."""
    assert authenticator()(shown(prefix + token()), MOMENT) == Caller(
        identities=("spiffe://example.org/ns/shop/sa/alice",),
        proof=Proof.TOKEN,
        pod=PodReference(name="alice-1", uid="u-1"),
    )


@pytest.mark.parametrize("authorization", ["", "Basic abc", token(), "bearer x"])
def test_no_token(authorization):
    """Without the right prefix it is none."""
    assert authenticator()(shown(authorization), MOMENT) == Unproved("no token")


@pytest.mark.parametrize(
    "subject", ["alice", "system:serviceaccount:shop", f"{SUBJECT}:x", f"{SUBJECT}/ns/bank", "system:node::a", None, 7]
)
def test_only_service_accounts(subject):
    """People and nodes have no place in a mesh."""
    verdict = authenticator()(shown("Bearer " + token(sub=subject)), MOMENT)
    assert isinstance(verdict, Unproved)
    assert "no service account" in verdict.reason or subject == 7


def test_a_token_need_not_be_bound_to_a_pod():
    """Other issuers know no pods."""
    for odd in (None, {}, {"pod": {"name": 1}}, []):
        caller = authenticator()(shown("Bearer " + token(**{"kubernetes.io": odd})), MOMENT)
        assert isinstance(caller, Caller)
        assert caller.pod is None


def test_credentials_are_not_shown():
    """A token in a log would be as good as a key."""
    assert "Bearer" not in repr(shown("Bearer abc"))
    assert "RSAPublicKey" not in repr(keys())


# --- the rule --------------------------------------------------------------------------------------------------------
def test_a_rule_is_read():
    """As istiod's JWT_RULE has it; the place of the keys may be left to discovery."""
    text = f'{{"issuer": "{ISSUER}", "jwks_uri": "https://k", "audiences": ["a", "b"]}}'
    assert parse_jwt_rule(text) == (IssuerRule(issuer=ISSUER, audiences=("a", "b"), keys="https://k"),)
    assert parse_jwt_rule('{"issuer": "i", "audiences": ["a"]}')[0].keys == ""
    assert parse_jwt_rule(" ") == ()


@pytest.mark.parametrize("text", ["x", "{}", '{"issuer": "", "audiences": ["a"]}', '{"issuer": "i", "audiences": []}'])
def test_a_bad_rule(text):
    """Without an issuer or an audience it would believe anybody."""
    with pytest.raises(ValueError, match=r"\S"):
        parse_jwt_rule(text)


def test_the_jwks_of_the_tests_is_one():
    """What the other tests stand on."""
    assert [each.id for each in read_keys(jwks("a", "b"))] == ["a", "b"]
