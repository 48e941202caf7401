"""RBAC filters of gRPC servers: which policies are in them, and under which names."""

from __future__ import annotations

from tests.conformance.protojson import to_plain
from tests.push.fixtures import snapshot
from trierarch.envoy.grpc_rbac import build_grpc_rbac
from trierarch.envoy.rbac import Access
from trierarch.envoy.well_known_types import encode

HTTP_FILTER = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter"
PATH = "{{to: [{{operation: {{paths: [/{}]}}}}]}}"
DENY = "AuthorizationPolicy {}: {{action: DENY, rules: [" + PATH + "]}}"


def rules(*given: str, namespace: str = "istio") -> list[dict]:
    """The rules of each filter of a server in that namespace, by name."""
    access = Access(snapshot(*given).authorization.of(namespace, {}.items()), ("cluster.local",))
    found = [to_plain(HTTP_FILTER, encode(each))["typed_config"]["rules"] for each in build_grpc_rbac(access)]
    return [each.get("policies", {}) for each in found]


def paths(rule: dict) -> list[str]:
    """The paths that a rule is about."""
    text = str(rule)
    return [path for path in ("/a", "/b", "/c") if f"'{path}'" in text]


def test_a_rule_is_called_by_namespace_policy_and_number():
    """As istiod calls it."""
    two = "AuthorizationPolicy istio/it: {action: DENY, rules: [" + ", ".join([PATH, PATH]).format("a", "b") + "]}"
    (found,) = rules(two)
    assert {name: paths(rule) for name, rule in found.items()} == {"istio-it-0": ["/a"], "istio-it-1": ["/b"]}


def test_policies_whose_names_join_to_the_same_are_both_there():
    """`istio/system-lock` and `istio-system/lock`: one would replace the other."""
    given = {"a": "istio-system/lock", "b": "istio/system-lock", "c": "istio/x"}
    (found,) = rules(*(DENY.format(key, path) for path, key in given.items()))
    assert sorted(paths(rule)[0] for rule in found.values()) == ["/a", "/b", "/c"]
    assert "istio-x-0" in found
