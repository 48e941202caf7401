"""Whose tokens workloads understand: policies put together, keys found, and whom a change concerns."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.push.fixtures import built, edited, scope_of, sidecar, snapshot, view_in, view_of
from trierarch.config.key_sets import NOBODYS_KEYS, KeyLocation, KeySet, NoKeys, build_key_set
from trierarch.push.fleet import moving_request
from trierarch.push.mesh import ContextSettings, Features, KeyFetching
from trierarch.push.request import ConfigKey, PushRequest
from trierarch.push.request_authentication import InlineKeys, RemoteKeys
from trierarch.push.scope import Skipped, affected_types, affects

KEYS = '{"keys":[{"kty":"oct","k":"AQ"}]}'
FETCHED = "RequestAuthentication shop/jwt: {jwtRules: [{issuer: one, jwksUri: 'https://one.example.com/keys'}]}"
ONE = KeyLocation("https://one.example.com/keys")
WEB = """
    Service shop/web: {ports: [{name: http, port: 8080}]}
    Service bank/web: {ports: [{name: http, port: 8080}]}
    Pod shop/web-1: {metadata: {labels: {app: web}}, status: {podIP: 10.1.0.1, phase: Running}}
"""


def inline(namespace: str, name: str, *issuers: str, selector: str = "") -> str:
    """A policy with rules for these issuers, whose keys are in it."""
    rules = ", ".join(f"{{issuer: {issuer}, jwks: '{KEYS}'}}" for issuer in issuers)
    labels = f"selector: {{matchLabels: {{{selector}}}}}, " if selector else ""
    return f"RequestAuthentication {namespace}/{name}: {{{labels}jwtRules: [{rules}]}}"


def found(what, location=ONE):
    """What the source says of a location."""
    return build_key_set(location, what, "jwks")


def tokens(*given, mode: KeyFetching = KeyFetching.OURS, labels: str = "app: web"):
    """The rules of a workload in `shop`."""
    settings = ContextSettings(features=Features(jwks_fetching=mode))
    pairs = frozenset([tuple(labels.split(": "))])
    return snapshot(*given, settings=settings).request_authentications.of("shop", pairs)


def test_all_policies_that_are_attached_count():
    """Of the mesh, the namespace and the labels, sorted by issuer; not of others, nor those for targets."""
    policies = (
        inline("istio-system", "mesh", "d", "a"),
        inline("shop", "all", "c"),
        inline("shop", "web", "b", selector="app: web"),
        inline("shop", "db", "x", selector="app: db"),
        inline("bank", "all", "y"),
        "RequestAuthentication shop/waypoint: {targetRefs: [{kind: Service, name: web}], jwtRules: [{issuer: z}]}",
    )
    rules = tokens(*policies)
    assert [each.rule.issuer for each in rules] == ["a", "b", "c", "d"]
    assert {each.keys for each in rules} == {InlineKeys(KEYS)}


def test_keys_that_are_fetched_are_objects():
    """What the source found is what the rule gets; before, and where nothing was found, keys that nobody holds."""
    assert [each.keys for each in tokens(FETCHED, found(KeySet("keys")))] == [InlineKeys("keys")]
    for given in ([FETCHED], [FETCHED, found(NoKeys("it is closed"))]):
        assert [each.keys for each in tokens(*given)] == [InlineKeys(NOBODYS_KEYS)]


def test_the_section_says_what_is_to_be_fetched():
    """Each location once with the longest patience; pending until something is known of it, good or bad."""
    context = snapshot(
        FETCHED,
        FETCHED.replace("/jwt", "/slow").replace("one,", "one, timeout: 9s,"),
        "RequestAuthentication shop/two: {jwtRules: [{issuer: 'https://two.example.com/'}, {issuer: nowhere}]}",
        inline("shop", "inline", "three"),
        found(NoKeys("it is closed")),
    )
    two = KeyLocation("https://two.example.com/.well-known/openid-configuration", discovered=True)
    section = context.request_authentications
    assert section.wanted == {ONE: 9.0, two: 5.0}
    assert section.pending == {two}


@pytest.mark.parametrize("jwks", ['{"keys":[]}', '{"keys":[{"kty":"RSA","e":"AQAB","n":"abc"}]}', "keys"])
def test_keys_that_nobody_can_use(jwks):
    """In a policy they are as good as none: else Envoy would refuse the listener with all that it has."""
    policy = f"RequestAuthentication shop/jwt: {{jwtRules: [{{issuer: one, jwks: '{jwks}'}}]}}"
    (rule,), (finding,) = tokens(policy), snapshot(policy).findings
    assert rule.keys == InlineKeys(NOBODYS_KEYS)
    assert finding.path == "spec.jwtRules[0].jwks"


def test_who_gets_no_keys_is_told():
    """Each rule whose tokens are refused for want of keys is a finding about its policy."""
    context = snapshot(
        FETCHED,
        "RequestAuthentication shop/other: {jwtRules: [{issuer: nowhere}]}",
        found(NoKeys("it is closed")),
    )
    assert sorted((each.key.name, each.path, each.reason.split(": ")[1]) for each in context.findings if each.key) == [
        ("jwt", "spec.jwtRules[0].jwksUri", "it is closed"),
        (
            "other",
            "spec.jwtRules[0].issuer",
            '"nowhere/.well-known/openid-configuration" is not a URL of http or https',
        ),
    ]


@pytest.mark.parametrize(
    ("mode", "uri", "keys"),
    [
        (KeyFetching.SHARED, "http://keys.bank:7000/k", RemoteKeys("http://keys.bank:7000/k", "keys.bank", 7000, 5.0)),
        (KeyFetching.SHARED, "https://one.example.com/keys", InlineKeys("keys")),
        (KeyFetching.ENVOYS, "https://keys.bank/k", RemoteKeys("https://keys.bank/k", "keys.bank", 443, 5.0)),
        (
            KeyFetching.ENVOYS,
            "http://out.example.com",
            RemoteKeys("http://out.example.com", "out.example.com", 80, 5.0),
        ),
        (KeyFetching.OURS, "http://keys.bank:7000/k", InlineKeys(NOBODYS_KEYS)),
        (KeyFetching.SHARED, "http://twice.example.com", InlineKeys(NOBODYS_KEYS)),
    ],
)
def test_envoy_may_fetch_keys_itself(mode, uri, keys):
    """From a service of the mesh, or always, by the mode; a name that two namespaces define is no service."""
    services = """
        ServiceEntry bank/keys: {hosts: [keys.bank], ports: [{number: 7000, name: http, protocol: HTTP}]}
        ServiceEntry bank/twice: {hosts: [twice.example.com], ports: [{number: 80, name: http, protocol: HTTP}]}
        ServiceEntry shop/twice: {hosts: [twice.example.com], ports: [{number: 80, name: http, protocol: HTTP}]}
    """
    policy = f"RequestAuthentication shop/jwt: {{jwtRules: [{{issuer: one, jwksUri: '{uri}'}}]}}"
    assert [each.keys for each in tokens(policy, services, found(KeySet("keys")), mode=mode)] == [keys]


def test_an_issuer_alone_is_never_left_to_envoy():
    """Nor are keys that are in the policy: Envoy needs a URI."""
    rules = tokens(
        inline("shop", "a", "a"), "RequestAuthentication shop/b: {jwtRules: [{issuer: b}]}", mode=KeyFetching.ENVOYS
    )
    assert [each.keys for each in rules] == [InlineKeys(KEYS), InlineKeys(NOBODYS_KEYS)]


def test_a_policy_or_a_key_moves_those_whom_it_concerns():
    """They get another view, which is as if the policy had changed; others stay, and nobody else is affected."""
    web, db = sidecar(), sidecar("db-1", ip="10.1.0.2", LABELS={"app": "db"})
    policy = FETCHED.replace("{jwtRules", "{selector: {matchLabels: {app: web}}, jwtRules")
    before = view_of(WEB)
    contexts = [built(before)]
    for given in (policy, found(KeySet("keys")), found(KeySet("others"))):
        before = edited(before, given)
        contexts.append(built(before, contexts[-1]))
    key = ConfigKey("RequestAuthentication", "shop", "jwt")
    for old, new in pairwise(contexts):
        assert new.changed == {key}
        assert view_in(db, old) == view_in(db, new)
        assert view_in(web, old) != view_in(web, new)
        moved = moving_request(view_in(web, old), view_in(web, new), PushRequest())
        assert {each.kind for each in moved.keys} == {"RequestAuthentication"}
        assert affected_types(moved, view_in(web, new)) == ("LDS",)
        verdict = affects(view_in(db, new), scope_of(db, new), None, PushRequest(keys=new.changed), new)
        assert isinstance(verdict, Skipped)


def test_a_failure_that_changes_its_words_changes_nothing_for_proxies():
    """Why there are no keys is for people."""
    view = view_of(FETCHED, found(NoKeys("it is closed")))
    context = built(view)
    again = built(edited(view, found(NoKeys("it is away"))), context)
    assert again.changed == frozenset()
    assert view_in(sidecar(), context) == view_in(sidecar(), again)
    assert replace(context.findings[0], reason="") == replace(again.findings[0], reason="")
