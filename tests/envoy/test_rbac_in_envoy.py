"""A real Envoy accepts every field and condition of authorization policies, and every setting of providers."""

from __future__ import annotations

import os

import pytest

from tests.envoy.meshes import inbound_listeners, mesh_of
from tests.envoy.samples import inbound_key
from tests.envoy.test_listeners_in_envoy import accept
from tests.envoy.test_listeners_inbound import TARGETS
from tests.push.fixtures import snapshot

pytestmark = [
    pytest.mark.envoy,
    pytest.mark.skipif(not os.environ.get("TRIERARCH_ENVOY"), reason="TRIERARCH_ENVOY names no Envoy binary"),
]

MESH = """
MeshConfig mesh:
  trustDomain: new.example
  trustDomainAliases: [old.example]
  extensionProviders:
  - name: grpc
    envoyExtAuthzGrpc: {service: opa.policy.svc.cluster.local, port: 9191, timeout: 1s, failOpen: true,
      statusOnError: '403', includeRequestBodyInCheck: {maxRequestBytes: 10, packAsBytes: true}}
  - name: http
    envoyExtAuthzHttp: {service: opa.policy.svc.cluster.local, port: 8000, pathPrefix: /check, statusOnError: '503',
      includeRequestHeadersInCheck: [x-a, 'x-*', '*-x'], includeAdditionalHeadersInCheck: {a: b},
      includeRequestBodyInCheck: {maxRequestBytes: 10, allowPartialMessage: true},
      headersToUpstreamOnAllow: [a], headersToDownstreamOnAllow: [b], headersToDownstreamOnDeny: [c]}
Service policy/opa: {ports: [{name: grpc, port: 9191}, {name: http, port: 8000}]}
"""
VALUES = "[a, 'a*', '*a', '*']"
RULE = f"""
- from:
  - source: {{principals: [new.example/ns/a/sa/b, '*/sa/x', 'a*', '*'], notPrincipals: [c],
      requestPrincipals: [a/b, 'a/*', '*b', '*'], notRequestPrincipals: [c], namespaces: {VALUES}, notNamespaces: [c],
      ipBlocks: [10.0.0.0/8, '::1'], notIpBlocks: [10.0.0.1], remoteIpBlocks: [10.0.0.0/8], notRemoteIpBlocks: ['::/0'],
      trustDomains: [old.example, 'a*', '*a', '*'], notTrustDomains: [c]}}
  - source: {{serviceAccounts: [a, b/c.d], notServiceAccounts: [e]}}
  to:
  - operation: {{hosts: {VALUES}, notHosts: [b], methods: [GET, 'P*', '*'], notMethods: [PUT],
      paths: [/a, '/b/*', '*.c', '*', '/{{*}}/d', '/e/{{**}}/', 'f/{{*}}'], notPaths: [/f, '/{{*}}/g'],
      ports: ['80'], notPorts: ['81']}}
  when:
  - {{key: 'request.headers[x]', values: {VALUES}, notValues: [b]}}
  - {{key: request.auth.audiences, values: {VALUES}, notValues: [b]}}
  - {{key: request.auth.presenter, values: {VALUES}}}
  - {{key: request.auth.principal, notValues: [a/b]}}
  - {{key: 'request.auth.claims[a][b]', values: {VALUES}, notValues: [b]}}
  - {{key: source.ip, values: [10.0.0.1]}}
  - {{key: remote.ip, notValues: [10.0.0.0/8]}}
  - {{key: source.namespace, values: {VALUES}}}
  - {{key: source.principal, values: {VALUES}}}
  - {{key: source.serviceAccount, values: [a, b/c]}}
  - {{key: source.trustDomain, values: {VALUES}}}
  - {{key: destination.ip, values: [10.0.0.0/8]}}
  - {{key: destination.port, notValues: ['82']}}
  - {{key: connection.sni, values: {VALUES}, notValues: [b]}}
  - {{key: 'experimental.envoy.filters.http.lua[a]', values: [a, '[b]', '*'], notValues: ['[c*]']}}
"""
LONG_RULE = (
    f"- from: [{{source: {{serviceAccounts: [{'n' * 63}/{'a' * 253}]}}}}, {{source: {{namespaces: [{'n' * 63}]}}}}]"
)
CUSTOM_RULE = "- {to: [{operation: {paths: ['/a/{*}']}}], when: [{key: 'request.headers[x]', values: [y]}]}"


def policy(name: str, action: str, rules: str, *, tried: bool = False, provider: str = "") -> str:
    """A policy for all workloads of `shop`."""
    head = f"metadata: {{annotations: {{istio.io/dry-run: '{str(tried).lower()}'}}}}\n"
    return f"AuthorizationPolicy shop/{name}:\n" + _indented(f"{head}action: {action}\n{provider}rules:\n{rules}")


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.strip().split("\n"))


POLICIES = {
    "everything": [policy(action.lower(), action, RULE) for action in ("AUDIT", "DENY", "ALLOW")],
    "long names": [policy("deny", "DENY", LONG_RULE)],
    "tried": [policy(action.lower(), action, RULE, tried=True) for action in ("DENY", "ALLOW")],
    "nothing": ["AuthorizationPolicy shop/nothing: {}"],
    "grpc": [policy("ask", "CUSTOM", CUSTOM_RULE, provider="provider: {name: grpc}\n")],
    "http": [policy("ask", "CUSTOM", CUSTOM_RULE, provider="provider: {name: http}\n")],
    "unknown": [policy("ask", "CUSTOM", CUSTOM_RULE, provider="provider: {name: nobody}\n")],
}


@pytest.mark.parametrize("policies", POLICIES.values(), ids=POLICIES)
def test_policies_are_accepted(tmp_path, policies):
    """In chains for HTTP, TCP and whatever comes."""
    context = snapshot(MESH, *policies)
    key = inbound_key(targets=TARGETS, policies=context.authorization.of("shop", {}.items()))
    found = inbound_listeners(mesh_of(), key, context)
    assert "rbac" in str(found)
    accept(tmp_path, [*found.values()])
