"""Authenticators in a row, client certificates, gateways that speak for others, and agents that ask for others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.identity.authorities import NOW
from tests.identity.token_issuer import RULE, keys, token
from tests.push.fixtures import CLUSTER, objects
from trierarch.config.store import ConfigView
from trierarch.identity.authenticate import (
    Caller,
    Credentials,
    Moment,
    PodReference,
    Proof,
    Unproved,
    authenticate,
    by_client_certificate,
)
from trierarch.identity.forwarded import HEADER, ForwardedAuthenticator, names_in
from trierarch.identity.impersonation import find_objection
from trierarch.identity.rules import parse_networks
from trierarch.identity.tokens import TokenAuthenticator

MOMENT = Moment(now=NOW, trust_domain="cluster.local")
ALICE, BOB = (f"spiffe://cluster.local/ns/shop/sa/{name}" for name in ("alice", "bob"))
GATEWAYS = ForwardedAuthenticator(parse_networks("10.0.0.0/8, fd00::/8"))
ALL = (by_client_certificate, TokenAuthenticator(rule=RULE, keys=keys), GATEWAYS)


def test_the_first_that_knows_wins():
    """A certificate comes before a token, and that before a gateway's word."""
    metadata = {"authorization": f"Bearer {token()}", HEADER: f"URI={BOB}"}
    everything = Credentials(address="10.0.0.1:1", certificate=(BOB,), metadata=metadata)
    assert authenticate(ALL, everything, MOMENT) == Caller(identities=(BOB,), proof=Proof.CLIENT_CERTIFICATE)
    bare = Credentials(address="10.0.0.1:1", metadata=metadata)
    by_token = authenticate(ALL, bare, MOMENT)
    assert isinstance(by_token, Caller)
    assert (by_token.identities, by_token.proof) == ((ALICE,), Proof.TOKEN)


def test_a_bad_token_does_not_hide_a_good_gateway():
    """Each has its say; what the others missed does not matter then."""
    metadata = {"authorization": "Bearer nonsense", HEADER: f"URI={BOB}"}
    caller = authenticate(ALL, Credentials(address="10.0.0.1:1", metadata=metadata), MOMENT)
    assert caller == Caller(identities=(BOB,), proof=Proof.FORWARDED_CERTIFICATE)


def test_all_reasons_are_joined():
    """For the log: who debugs a mesh wants to know what each of them missed."""
    verdict = authenticate(ALL, Credentials(address="10.0.0.1:1"), MOMENT)
    assert verdict == Unproved("no client certificate; no token; no forwarded client certificate")
    assert isinstance(authenticate((), Credentials(address="10.0.0.1:1"), MOMENT), Unproved)


@pytest.mark.parametrize(
    ("names", "believed"),
    [
        ((ALICE,), True),
        (("spiffe://old.example/ns/shop/sa/alice",), True),
        (("spiffe://other.example/ns/shop/sa/alice",), False),
        ((ALICE, BOB), False),
        (("spiffe://cluster.local/alice",), False),
        (("https://cluster.local",), False),
        ((), False),
    ],
)
def test_a_certificate_names_one_identity_of_the_mesh(names, believed):
    """In its trust domain or an alias of it: another mesh may have the same root, and a namespace of the same name."""
    moment = Moment(now=NOW, trust_domain="cluster.local", aliases=("old.example",))
    verdict = by_client_certificate(Credentials(address="10.0.0.1:1", certificate=names), moment)
    assert isinstance(verdict, Caller) == believed


# --- gateways --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("address", "trusted"),
    [
        ("10.1.2.3:80", True),
        ("127.0.0.1:80", True),
        ("[::1]:80", True),
        ("[fd00::7]:80", True),
        ("[::ffff:10.1.2.3]:80", True),
        ("11.1.2.3:80", False),
        ("[fe80::1]:80", False),
        ("[::ffff:11.1.2.3]:80", False),
        ("gateway:80", False),
        ("", False),
    ],
)
def test_whose_word_is_believed(address, trusted):
    """Only those in the networks that the settings name, and this very host."""
    verdict = GATEWAYS(Credentials(address=address, metadata={HEADER: f"URI={ALICE}"}), MOMENT)
    assert isinstance(verdict, Caller) == trusted


@pytest.mark.parametrize(
    ("header", "names"),
    [
        (f"By=spiffe://x;Hash=ab;URI={ALICE}", [ALICE]),
        (f'Subject="CN=a,O=\\"b; URI=evil\\"";URI={ALICE};DNS=a.b;DNS=c', [ALICE, "a.b", "c"]),
        (f"URI={ALICE},URI={BOB}", [ALICE]),
        (f"Hash=ab,URI={BOB}", []),
        (f"uri={ALICE}", [ALICE]),
        (f' URI="{ALICE}"', [ALICE]),
        (f'URI={ALICE};Subject="open', []),
        ("URI=", []),
        ("", []),
        ("nonsense", []),
        (";;;,,,", []),
    ],
)
def test_names_of_a_forwarded_certificate(header, names):
    """Of the first certificate only, with quotes as Envoy writes them; a malformed header has no names."""
    assert list(names_in(header)) == names


# --- acting for others -----------------------------------------------------------------------------------------------
AGENT = Caller(
    identities=("spiffe://cluster.local/ns/istio-system/sa/ztunnel",),
    proof=Proof.TOKEN,
    pod=PodReference(name="ztunnel-1", uid="u-z"),
)
PODS = """
    Pod istio-system/ztunnel-1: {metadata: {uid: u-z}, nodeName: n1, serviceAccountName: ztunnel}
    Pod shop/alice-1: {metadata: {uid: u-a}, nodeName: n1, serviceAccountName: alice, status: {phase: Running}}
    Pod shop/bob-1: {metadata: {uid: u-b}, nodeName: n2, serviceAccountName: bob, status: {phase: Running}}
    Pod shop/carol-1: {metadata: {uid: u-c}, nodeName: n1, serviceAccountName: carol, status: {phase: Failed}}
"""


def objection(wanted: str = ALICE, caller: Caller = AGENT, trusted=("istio-system/ztunnel",)) -> str:
    """Why the caller may not ask for `wanted`; "" if it may."""
    view, _ = ConfigView().apply(objects(PODS))
    return find_objection(caller, wanted, trusted=trusted, view=view, cluster=CLUSTER) or ""


def test_an_agent_may_ask_for_the_pods_on_its_node():
    """Its account is trusted, its pod is there, and a pod of the wanted account runs beside it."""
    assert objection() == ""


@pytest.mark.parametrize("account", ["bob", "carol", "nobody"])
def test_but_not_for_others(account):
    """A pod on another node, one that has failed, one that is not there."""
    assert "runs on node n1" in objection(f"spiffe://cluster.local/ns/shop/sa/{account}")


def test_an_agent_must_be_trusted():
    """By default nobody is; an account of the same name in another namespace is another."""
    assert "not trusted" in objection(trusted=())
    assert "not trusted" in objection(trusted=("shop/ztunnel",))


@pytest.mark.parametrize(
    "pod",
    [None, PodReference(name="ztunnel-1", uid="old"), PodReference(name="alice-1", uid="u-a")],
)
def test_an_agent_must_run_in_the_pod_of_its_token(pod):
    """A token that is bound to no pod, to one that is gone, or to another's proves no node."""
    assert "not bound to a pod" in objection(caller=replace(AGENT, pod=pod))


def test_an_agent_acts_only_for_its_own_trust_domain():
    """Another mesh may have the same root: its names are not given away by an agent of this one."""
    assert "another trust domain" in objection("spiffe://far.example/ns/shop/sa/alice")


@pytest.mark.parametrize("wanted", ["alice", "spiffe://cluster.local/ns/shop", "istiod.istio-system.svc"])
def test_only_identities_of_accounts_can_be_asked_for(wanted):
    """Not the name of the control plane itself, for instance."""
    assert "no SPIFFE identity" in objection(wanted)
