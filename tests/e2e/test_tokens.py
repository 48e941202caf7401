"""Tokens at a real Envoy: accepted, refused, believed by policies; while keys change, actors die, issuers are away."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from contextlib import ExitStack

import httpx
import jwt
import pytest

from examples.shop.processes import ControlPlane, Sidecar, wait_until
from tests.e2e.asking import Asking
from tests.e2e.issuers import Publisher, SigningKey, key_set
from tests.e2e.shops import next_network
from tests.e2e.traffic.programs import Programs

pytestmark = pytest.mark.envoy

GOOD, INLINE, AWAY = (f"https://{name}.example.com" for name in ("good", "inline", "away"))
MESH = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{name: http, port: 8080, targetPort: 8081}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web}}
spec: {serviceAccountName: web, containers: [{name: app}]}
status: {phase: Running, podIP: NET.2, podIPs: [{ip: NET.2}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: web, namespace: shop}
spec:
  workloadSelector: {labels: {app: web}}
  ingress: [{port: {number: 8081, protocol: HTTP, name: http}, defaultEndpoint: "0.0.0.0:18081"}]
"""


class Workload:
    """A server with a sidecar that understands tokens of four issuers, one of which is away."""

    def __init__(self, folder, envoy, stack: ExitStack) -> None:
        self.network = next_network()
        self._mesh = folder / "mesh"
        self._mesh.mkdir()
        self.key, self.next_key, self.inline_key = SigningKey("one"), SigningKey("two"), SigningKey("three", "ES256")
        self.publisher = stack.enter_context(Publisher(f"{self.network}.9"))
        self.publish(self.key)
        self.write("mesh", MESH.replace("NET", self.network))
        self.understand({})
        self.control_plane = stack.enter_context(
            ControlPlane(self._mesh, folder / "trierarch.log", self.network, ("--allow-kill",))
        )
        self.control_plane.wait_until_ready()
        Programs(stack).serve_http("web", f"{self.network}.2", 18081)
        stack.enter_context(
            Sidecar(envoy, self.control_plane.xds, folder, app="web", address=f"{self.network}.2", mode="delta")
        )
        self._client = stack.enter_context(self._open_client())
        wait_until("the sidecar serves", lambda: self.get().status_code == 200)

    def publish(self, *keys: SigningKey) -> None:
        """Let the issuers on the network have these keys."""
        self.publisher.pages["/keys"] = key_set(*keys)
        self.publisher.pages["/.well-known/openid-configuration"] = json.dumps(
            {"issuer": self.publisher.url, "jwks_uri": f"{self.publisher.url}/keys"}
        )

    def understand(self, more) -> None:
        """Understand the issuers' tokens, with these further fields for the good one's."""
        rules = [
            {"issuer": GOOD, "audiences": ["shop"], "jwksUri": f"{self.publisher.url}/keys", **more},
            {"issuer": INLINE, "jwks": key_set(self.inline_key)},
            {"issuer": AWAY, "jwksUri": f"http://{self.network}.9:9/keys"},
            {"issuer": self.publisher.url},
        ]
        self.apply("RequestAuthentication", "jwt", {"jwtRules": rules})

    def apply(self, kind, name, spec) -> None:
        """Write an object of the kind; a spec of None removes it."""
        if spec is None:
            (self._mesh / f"{name}.yaml").unlink()
            return
        metadata = {"name": name, "namespace": "shop"}
        self.write(
            name, json.dumps({"apiVersion": "security.istio.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
        )

    def write(self, name, text) -> None:
        """Write a file as an editor does."""
        (self._mesh / f".{name}").write_text(text)
        (self._mesh / f".{name}").rename(self._mesh / f"{name}.yaml")

    def _open_client(self) -> httpx.Client:
        """Whose requests have a connection each: one that stays open stays with the filters that it began with."""
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(base_url=f"http://{self.network}.2:8081", timeout=10, limits=limits)

    def get(self, token: str = "", path: str = "/", **options) -> httpx.Response:
        """A request, with a token or without."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return self._client.get(path, headers=headers | options.pop("headers", {}), **options)

    def status(self, token: str = "", path: str = "/") -> int:
        """How a request is answered."""
        return self.get(token, path).status_code

    def headers(self, **options) -> dict[str, str]:
        """The headers of a request as they reach the program."""
        return self.get(**options).json()["headers"]

    def asking(self, token: str) -> Asking[int]:
        """Whoever asks with this token again and again."""
        return Asking(lambda: self.status(token))


@pytest.fixture(scope="module")
def workload(tmp_path_factory, envoy):
    """One for all tests here."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("PILOT_JWT_PUB_KEY_REFRESH_INTERVAL", "500ms")
        yield Workload(tmp_path_factory.mktemp("tokens"), envoy, stack)


def tampered(token: str) -> str:
    """A token whose claims are not those that were signed."""
    head, claims, signature = token.split(".")
    other = jwt.utils.base64url_encode(urlsafe_b64decode(claims + "==").replace(b"anna", b"otto")).decode()
    return f"{head}.{other}.{signature}"


def test_tokens(workload):
    """Each that is right gets in, each that is wrong in one way does not; none is needed."""
    key, stranger = workload.key, SigningKey("one")
    verdicts = {
        "none": ("", 200),
        "right": (key.sign(GOOD), 200),
        "of several audiences": (key.sign(GOOD, aud=["bank", "shop"]), 200),
        "of an issuer whose keys are in the policy": (workload.inline_key.sign(INLINE), 200),
        "of an issuer who was asked where its keys are": (key.sign(workload.publisher.url), 200),
        "expired": (key.sign(GOOD, lifetime=-300), 401),
        "not valid yet": (key.sign(GOOD, nbf=4_000_000_000), 401),
        "for somebody else": (key.sign(GOOD, aud="bank"), 403),
        "tampered with": (tampered(key.sign(GOOD)), 401),
        "signed by a stranger under a known name": (stranger.sign(GOOD), 401),
        "signed by a key that nobody knows": (SigningKey("four").sign(GOOD), 401),
        "signed by another issuer": (workload.inline_key.sign(GOOD), 401),
        "of an unknown issuer": (key.sign("https://unknown.example.com"), 401),
        "of an issuer who is away": (key.sign(AWAY), 401),
        "unsigned": (jwt.encode({"iss": GOOD, "aud": "shop"}, "", algorithm="none"), 401),
        "no token at all": ("nonsense", 401),
    }
    assert {name: workload.status(token) for name, (token, _) in verdicts.items()} == {
        name: status for name, (_, status) in verdicts.items()
    }


def test_where_tokens_are_and_what_becomes_of_them(workload):
    """In headers, parameters and cookies that a rule names; claims and payload reach the program, tokens if wanted."""
    token = workload.key.sign(GOOD, org={"unit": "north"})
    workload.understand(
        {
            "fromHeaders": [{"name": "x-token", "prefix": "Key "}],
            "fromParams": ["token"],
            "fromCookies": ["session"],
            "outputPayloadToHeader": "x-payload",
            "outputClaimToHeaders": [{"header": "x-sub", "claim": "sub"}, {"header": "x-unit", "claim": "org.unit"}],
            "forwardOriginalToken": True,
        }
    )
    ways = (
        {"headers": {"x-token": f"Key {token}"}},
        {"params": {"token": token}},
        {"headers": {"cookie": f"session={token}"}},
    )
    wait_until("the outputs are there", lambda: "x-sub" in workload.headers(**ways[0]))
    for way in ways:
        found = workload.headers(**way)
        assert (found["x-sub"], found["x-unit"]) == ("anna", "north")
        payload = jwt.utils.base64url_decode(found["x-payload"])
        assert json.loads(payload)["iss"] == GOOD
    assert workload.headers(**ways[0])["x-token"] == f"Key {token}"
    workload.understand({})
    wait_until("the token is where it was", lambda: workload.status(token) == 200)
    assert "authorization" not in workload.headers(token=token)


def test_policies_believe_tokens(workload):
    """By issuer and subject, and by claims, also those that are lists in one string; without a token nobody gets in."""
    anna, otto = workload.key.sign(GOOD), workload.key.sign(GOOD, sub="otto", scope="read write")
    claim = {"key": "request.auth.claims[scope]", "values": ["write"]}
    rules = [
        {"from": [{"source": {"requestPrincipals": [f"{GOOD}/anna"]}}], "to": [{"operation": {"paths": ["/anna"]}}]},
        {"to": [{"operation": {"paths": ["/write"]}}], "when": [claim]},
        {"from": [{"source": {"requestPrincipals": ["*"]}}], "to": [{"operation": {"paths": ["/any"]}}]},
    ]
    workload.apply("AuthorizationPolicy", "access", {"rules": rules})
    wait_until("the policy is in force", lambda: workload.status() == 403)
    verdicts = {
        path: [workload.status(token, path) for token in (anna, otto, "")] for path in ("/anna", "/write", "/any")
    }
    assert verdicts == {"/anna": [200, 403, 403], "/write": [403, 200, 403], "/any": [200, 200, 403]}
    assert workload.status(workload.key.sign(GOOD, lifetime=-300), "/any") == 401
    workload.apply("AuthorizationPolicy", "access", None)
    wait_until("the policy has gone", lambda: workload.status() == 200)


def test_keys_are_rotated(workload):
    """The next key is published beside the old one, then alone: who has the right token never notices."""
    with workload.asking(workload.key.sign(GOOD)) as asking:
        workload.publish(workload.key, workload.next_key)
        wait_until("the next key is known", lambda: workload.status(workload.next_key.sign(GOOD)) == 200)
    assert asking.answers == {200}
    with workload.asking(workload.next_key.sign(GOOD)) as asking:
        workload.publish(workload.next_key)
        wait_until("the old key is forgotten", lambda: workload.status(workload.key.sign(GOOD)) == 401)
        workload.publish(workload.key, workload.next_key)
        wait_until("the old key is back", lambda: workload.status(workload.key.sign(GOOD)) == 200)
    assert asking.answers == {200}


def test_nobody_notices_a_death(workload):
    """Not that of the source of keys, of intake or of the builder; nor that the issuer breaks down meanwhile."""
    good = workload.publisher.pages["/keys"]
    with workload.asking(workload.key.sign(GOOD)) as asking:
        workload.publisher.pages["/keys"] = "<html>out of order</html>"
        wait_until("the failure is seen", lambda: len(workload.control_plane.logged("keys_unfetched")) > 2)
        for actor in ("jwks", "intake", "snapshot_builder", "jwks"):
            restarts = len(workload.control_plane.logged("child_restarted"))
            assert workload.control_plane.kill_actor(actor).is_success
            wait_until(
                "it is back", lambda before=restarts: len(workload.control_plane.logged("child_restarted")) > before
            )
            workload.control_plane.wait_until_ready()
        workload.publisher.pages["/keys"] = good
    assert asking.count > 50
    assert asking.answers == {200}
    assert workload.status(SigningKey("four").sign(GOOD)) == 401


@pytest.mark.slow
def test_nobody_notices_a_new_control_plane(workload):
    """It serves nobody before it has the keys, though the issuer is slow: no proxy is told to refuse good tokens."""
    workload.publisher.delay = 1.0
    with workload.asking(workload.key.sign(GOOD)) as asking:
        workload.control_plane.end()
        known = len(workload.control_plane.logged("keys_fetched"))
        workload.control_plane.start()
        workload.control_plane.wait_until_ready()
        assert len(workload.control_plane.logged("keys_fetched")) == known + 2
        workload.publisher.delay = 0.0
        deny = {"action": "DENY", "rules": [{"to": [{"operation": {"paths": ["/no"]}}]}]}
        workload.apply("AuthorizationPolicy", "access", deny)
        wait_until("the sidecar has come back", lambda: workload.status("", "/no") == 403, patience=90)
    assert asking.answers == {200}
    assert workload.status(SigningKey("four").sign(GOOD)) == 401
