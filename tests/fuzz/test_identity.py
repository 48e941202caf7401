"""Mutated signing requests, tokens, sets of keys, forwarded certificates, bundles: believed or refused, never a crash.
Whatever was signed bears the caller's name and no other, and no reason quotes what may be a key.
"""

from __future__ import annotations

import base64
import json
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from jwt.api_jws import PyJWS

from protocol.codec import encode
from protocol.csr import IstioCertificateRequest, decode_request
from protocol.errors import RemoteError
from protocol.proto.google.protobuf import Struct, Value
from protocol.spiffe import parse_spiffe
from tests.fuzz.mutation import mutate, mutate_document, mutate_message
from tests.identity.authorities import ALICE, DAY, NOW, csr, ec_key, kubernetes_bundle, own_root, plain_bundle, rsa_key
from tests.identity.token_issuer import RULE, claims, keys, public_jwk, token
from trierarch.identity.authenticate import Caller, Credentials, Moment, Unproved
from trierarch.identity.authority import Authority
from trierarch.identity.bundle import BadBundle, load_plugged
from trierarch.identity.csr_request import plan_leaf, read_csr
from trierarch.identity.forwarded import HEADER, ForwardedAuthenticator, names_in
from trierarch.identity.leaf import Lifetimes, Refused, sign
from trierarch.identity.tokens import TokenAuthenticator, read_keys

LIFETIMES = Lifetimes(default=DAY, longest=90 * DAY)
MOMENT = Moment(now=NOW, trust_domain="cluster.local")
EVIL = x509.UniformResourceIdentifier("spiffe://cluster.local/ns/kube-system/sa/root")
CSRS = tuple(
    x509.load_pem_x509_csr(pem).public_bytes(Encoding.DER)
    for pem in (
        csr(ec_key("fuzz"), EVIL, common_name="root"),
        csr(rsa_key("fuzz"), x509.DNSName("istiod.istio-system.svc")),
        csr(ec_key("fuzz")),
    )
)
METADATA = Struct(
    fields={"ImpersonatedIdentity": Value(string_value=ALICE), "CertSigner": Value(string_value="x"), "n": Value()}
)
TOKENS = tuple(
    each.encode()
    for each in (token(), token(kid=None), token(rsa_key("two"), kid="two"), token(exp=NOW - 1), token(aud=["x"]))
)
BUNDLES = tuple(build(name, own_root()) for build in (plain_bundle, kubernetes_bundle) for name in ("one", "two"))
HEADERS = (
    f"By=spiffe://x;Hash=ab;URI={ALICE}".encode(),
    f'Subject="CN=a,O=\\"b\\"";URI={ALICE};DNS=a.b,URI=spiffe://evil'.encode(),
)


def pem_of(der: bytes) -> bytes:
    """DER as a CSR in PEM."""
    body = base64.encodebytes(der)
    return b"-----BEGIN CERTIFICATE REQUEST-----\n" + body + b"-----END CERTIFICATE REQUEST-----\n"


# --- one case each: how it ended -------------------------------------------------------------------------------------
def sign_mutated(random: Random) -> str:
    """A CSR with wrong bytes inside; in a message with wrong fields."""
    der = mutate(random, random.choice(CSRS), CSRS) if random.random() < 0.7 else random.choice(CSRS)
    pem = pem_of(der) if random.random() < 0.8 else mutate(random, pem_of(der), CSRS)
    message = encode(
        IstioCertificateRequest(
            csr=pem.decode("latin-1"), validity_duration=random.choice((0, 60, -1, 2**62)), metadata=METADATA
        )
    )
    if random.random() < 0.3:
        message = mutate_message(random, message, [message])
    try:
        request = decode_request(message)
    except RemoteError:
        return "undecoded"
    read = read_csr(request.csr)
    planned = read if isinstance(read, Refused) else plan_leaf(read, (ALICE,), request.lifetime, LIFETIMES)
    leaf = planned if isinstance(planned, Refused) else sign(own_root(), planned, now=NOW, serial=1)
    if isinstance(leaf, Refused):
        return "refused"
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [name.value for name in names] == [ALICE]
    assert all(each.value == ALICE for each in leaf.subject)
    return "signed"


def believe_mutated(random: Random) -> str:
    """A token with wrong bytes, one that is rightly encoded and wrongly filled, or one that its issuer filled so."""
    match random.randrange(3):
        case 0:
            text = mutate(random, random.choice(TOKENS), TOKENS).decode("latin-1")
        case 1:
            parts = random.choice(TOKENS).decode().split(".")
            place = random.randrange(2)
            content = json.loads(base64.urlsafe_b64decode(parts[place] + "=="))
            parts[place] = encoded(mutate_document(random, content, [content, {"alg": "none", "crit": ["b64"]}]))
            text = ".".join(parts)
        case _:
            content = json.dumps(mutate_document(random, claims(), [claims()], most=1)).encode()
            text = PyJWS().encode(content, rsa_key("one"), "RS256", headers={"kid": "one"})
    shown = Credentials(address="10.0.0.1:1", metadata={"authorization": f"Bearer {text}"})
    verdict = TokenAuthenticator(rule=RULE, keys=keys)(shown, MOMENT)
    if isinstance(verdict, Caller):
        assert verdict.identities == (ALICE,)
        return "believed"
    assert isinstance(verdict, Unproved)
    return "unproved"


def read_mutated_keys(random: Random) -> str:
    """A set of keys with wrong values or bytes."""
    document = {"keys": [public_jwk("one"), public_jwk("ec", ec_key("fuzz"))]}
    text = json.dumps(mutate_document(random, document, [document]), default=str).encode()
    if random.random() < 0.3:
        text = mutate(random, text, [text])
    try:
        return "keys" if read_keys(text) else "none"
    except ValueError:
        return "none"


def forward_mutated(random: Random) -> str:
    """A header with wrong bytes, from a gateway that is believed."""
    header = mutate(random, random.choice(HEADERS), HEADERS).decode("latin-1")
    verdict = ForwardedAuthenticator(())(Credentials(address="127.0.0.1:1", metadata={HEADER: header}), MOMENT)
    assert tuple(names_in(header)) == (verdict.identities if isinstance(verdict, Caller) else ())
    return "names" if isinstance(verdict, Caller) and all(map(parse_spiffe, verdict.identities)) else "none"


def load_mutated_bundle(random: Random) -> str:
    """A bundle of files with wrong bytes, or with files that are missing or another's."""
    files = dict(random.choice(BUNDLES))
    for name in random.sample(sorted(files), k=random.randint(1, 2)):
        match random.randrange(4):
            case 0:
                files[name] = mutate(random, files[name], list(files.values()))
            case 1:
                del files[name]
            case 2:
                files[name] = random.choice(list(random.choice(BUNDLES).values()))
            case _:
                lines = files[name].splitlines()
                der = base64.b64decode(b"".join(lines[1 : lines.index(lines[-1])]), validate=False)
                files[name] = b"\n".join((lines[0], base64.b64encode(mutate(random, der, [der])), lines[-1], b""))
    match load_plugged(files):
        case Authority():
            return "loaded"
        case BadBundle(reason=reason):
            assert not any(line in reason for content in files.values() for line in secret_lines(content))
            return "bad"
        case None:
            return "none"


def secret_lines(content: bytes) -> list[str]:
    """The lines of a PEM text, without those that begin and end it."""
    return [line for line in content.decode("latin-1").splitlines() if len(line) > 8 and "-" not in line]


def encoded(document: object) -> str:
    """A part of a token."""
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


pytestmark = pytest.mark.filterwarnings("ignore:Parsed a serial number")  # certificates may have a negative one, yet

CASES = {
    sign_mutated: {"undecoded", "refused", "signed"},
    believe_mutated: {"believed", "unproved"},
    read_mutated_keys: {"keys", "none"},
    forward_mutated: {"names", "none"},
    load_mutated_bundle: {"loaded", "bad", "none"},
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_mutated(case):
    """Several hundred of each: every outcome occurs, and nothing else."""
    random = Random(1)
    assert {case(random) for _ in range(600)} == CASES[case]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("seed", range(5))
def test_tens_of_thousands_mutated(case, seed):
    """Five thousand for each seed."""
    random = Random(1000 + seed)
    assert {case(random) for _ in range(5_000)} <= CASES[case]
