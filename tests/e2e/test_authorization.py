"""Who gets in where authorization policies stand guard: through real Envoys, known to each other by certificates."""

from contextlib import ExitStack

import pytest

from tests.e2e.guarded import CLOSED, WEB, WEB_PORT, Guarded
from tests.e2e.traffic.checks import TCP_PORT, Case, Check, get

pytestmark = pytest.mark.envoy

FORBIDDEN = 403


def request(by: str, path: str = "/", **more) -> Check:
    """A request for `web`, by the name that is known in both namespaces."""
    return get(path, by=by, **{"host": WEB, **more})


def stranger(path: str = "/") -> Check:
    """A request by somebody without a certificate."""
    return get(path, by="web", port=WEB_PORT)


def tcp(by: str = "front") -> Check:
    """A request for `web` that the sidecars take for plain TCP. They decide when the first byte comes."""
    return get(by=by, port=TCP_PORT, host=WEB)


def refused(check: Check) -> Check:
    """A request is answered by the proxy, a connection is closed."""
    return check.answers(CLOSED if check.request.port == TCP_PORT else FORBIDDEN)


def policy(rules: str, *, action: str = "ALLOW", name: str = "it", namespace: str = "shop", more: str = "") -> str:
    """A policy with these rules."""
    return f"""
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  action: {action}
  rules: {rules}
  {more}
"""


def source(fields: str) -> str:
    """Rules about who asks."""
    return f"[{{from: [{{source: {{{fields}}}}}]}}]"


def operation(fields: str) -> str:
    """Rules about what is asked."""
    return f"[{{to: [{{operation: {{{fields}}}}}]}}]"


CUSTOM = "CUSTOM"
GUARD = "provider: {name: guard}"

CASES = (
    Case(
        name="principal",
        shows="only the identity in the certificate gets in",
        mesh=policy(source("principals: [cluster.local/ns/shop/sa/front]")),
        checks=(request("front"), refused(request("back")), refused(stranger()), tcp(), refused(tcp(by="back"))),
    ),
    Case(
        name="namespace",
        shows="a namespace is kept out, others and strangers are not",
        mesh=policy(source("namespaces: [bank]"), action="DENY"),
        checks=(request("front"), refused(request("back")), stranger(), tcp(), refused(tcp(by="back"))),
    ),
    Case(
        name="not the principal",
        shows="everybody but one is kept out",
        mesh=policy(source("notPrincipals: ['*/sa/back']"), action="DENY"),
        checks=(refused(request("front")), request("back"), refused(stranger())),
    ),
    Case(
        name="service account",
        shows="an account of another namespace, and one of the policy's own",
        mesh=policy(source("serviceAccounts: [bank/back]")),
        checks=(refused(request("front")), request("back"), refused(stranger())),
    ),
    Case(
        name="trust domain alias",
        shows="a principal written before the trust domain changed",
        mesh=policy(source("principals: [old.example/ns/shop/sa/front]")),
        checks=(request("front"), refused(request("back"))),
    ),
    Case(
        name="nothing",
        shows="a policy that allows without rules",
        mesh=policy("[]"),
        checks=(refused(request("front")), refused(stranger()), refused(tcp())),
    ),
    Case(
        name="everything",
        shows="an empty rule",
        mesh=policy("[{}]"),
        checks=(request("front"), request("back"), stranger(), tcp()),
    ),
    Case(
        name="method and path",
        shows="both must fit; of connections neither is known, so none is allowed",
        mesh=policy(operation("methods: [GET], paths: ['/public/*']")),
        checks=(
            request("front", "/public/a"),
            refused(request("front", "/private")),
            refused(request("front", "/public/a", method="POST")),
            refused(tcp()),
        ),
    ),
    Case(
        name="path template",
        shows="segment by segment",
        mesh=policy(operation("paths: ['/users/{*}/name', '/open/{**}']")),
        checks=(
            request("front", "/users/1/name"),
            request("front", "/open/a/b?c=d"),
            refused(request("front", "/users/1/2/name")),
            refused(request("front", "/users/1/age")),
        ),
    ),
    Case(
        name="host",
        shows="in any case",
        mesh=policy(operation("hosts: ['WEB.shop.*']")),
        checks=(request("front"), refused(request("front", host="web"))),
    ),
    Case(
        name="header",
        shows="whoever sends it is kept out",
        mesh=policy("[{when: [{key: 'request.headers[x-bad]', values: ['*']}]}]", action="DENY"),
        checks=(request("front"), refused(request("front", headers={"x-bad": "1"})), refused(tcp())),
    ),
    Case(
        name="port",
        shows="connections to a port are kept out, requests to another are not",
        mesh=policy(operation("ports: ['9000']"), action="DENY"),
        checks=(request("front"), request("back"), refused(tcp()), refused(tcp(by="back"))),
    ),
    Case(
        name="address",
        shows="who is not from where everybody is",
        mesh=policy(source("ipBlocks: [127.0.0.0/8], notRemoteIpBlocks: [10.0.0.0/8]")),
        checks=(request("front"), stranger(), tcp()),
    ),
    Case(
        name="deny before allow",
        shows="what both match is denied; the mesh's policies count beside those of the namespace",
        mesh="---".join(
            (
                policy(source("namespaces: [shop, bank]"), name="allow"),
                policy(source("namespaces: [bank]"), name="deny", namespace="istio-system", action="DENY"),
            )
        ),
        checks=(request("front"), refused(request("back")), refused(stranger())),
    ),
    Case(
        name="another workload",
        shows="a policy for others does not count, one for these labels does",
        mesh="---".join(
            (
                policy("[{}]", name="other", action="DENY", more="selector: {matchLabels: {app: other}}"),
                policy(
                    source("namespaces: [bank]"), name="own", action="DENY", more="selector: {matchLabels: {app: web}}"
                ),
            )
        ),
        checks=(request("front"), refused(request("back"))),
    ),
    Case(
        name="only tried",
        shows="a policy that is tried lets everybody pass; another one keeps out whom it always did",
        mesh="---".join(
            (
                policy("[{}]", name="tried", action="DENY").replace(
                    "namespace: shop", "annotations: {istio.io/dry-run: 'true'}"
                ),
                policy(operation("paths: [/shut]"), name="shut", action="DENY"),
            )
        ),
        checks=(request("front"), refused(request("front", "/shut"))),
    ),
    Case(
        name="external authorizer",
        shows="it is asked about what the policy matches, and what it adds arrives",
        mesh=policy(operation("paths: ['/asked/*']"), action=CUSTOM, more=GUARD),
        checks=(
            request("front", "/free"),
            refused(request("front", "/asked/a")),
            request("front", "/asked/a", headers={"x-pass": "me"}).upstream_sees(headers={"x-known-as": "me"}),
            tcp(),
        ),
    ),
    Case(
        name="external authorizer and more",
        shows="whom it lets in the other policies may still keep out",
        mesh="---".join(
            (
                policy("[{}]", action=CUSTOM, name="ask", more=GUARD),
                policy(source("namespaces: [bank]"), action="DENY", name="deny"),
            )
        ),
        checks=(
            request("front", headers={"x-pass": "me"}),
            refused(request("front")),
            refused(request("back", headers={"x-pass": "me"})),
        ),
    ),
    Case(
        name="external authorizer over gRPC",
        shows="it knows the callers by their certificates, and is asked about connections too",
        mesh=policy("[{}]", action=CUSTOM, more="provider: {name: judge}"),
        checks=(request("front"), refused(request("back")), refused(stranger()), tcp(), refused(tcp("back"))),
    ),
    Case(
        name="unknown authorizer",
        shows="what would be asked about is denied",
        mesh=policy(operation("paths: [/asked]"), action=CUSTOM, more="provider: {name: nobody}"),
        checks=(request("front", "/free"), refused(request("front", "/asked"))),
    ),
)


@pytest.fixture(scope="module")
def town(tmp_path_factory, envoy):
    """A guarded server and its clients, for all cases."""
    with ExitStack() as stack:
        yield Guarded(tmp_path_factory.mktemp("guarded"), envoy, stack)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_authorization(case, town):
    """Whom the case lets in gets in, the others do not, and nobody rejects anything."""
    town.settle(case)
    assert town.complaints(case) == []
