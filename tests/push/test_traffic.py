"""Destination rules: merged, found, chosen, and what they say for a subset and a port."""

from __future__ import annotations

import pytest

from tests.push.fixtures import built, edited, snapshot, view_of
from trierarch.push.traffic import effective_policy, find_rules, select_rule

HOST = "web.shop.svc.cluster.local"


def found(context, client="shop", service="shop", host=HOST):
    """Names of the objects behind each rule that clients of a namespace find for a service."""
    rules = find_rules(context.destination_rules, client, service, host, context.mesh.root_namespace)
    return [[source.key.name for source in rule.sources] for rule in rules]


def one(context):
    """The only rule of host web in namespace shop."""
    (rule,) = find_rules(context.destination_rules, "shop", "shop", HOST, "istio-system")
    return rule


def pool(size):
    """A traffic policy with a recognisable pool."""
    return f"{{connectionPool: {{tcp: {{maxConnections: {size}}}}}}}"


def size(policy):
    """The recognisable part of a policy; None if it has no pool."""
    return policy.connection_pool.tcp.max_connections if policy.connection_pool else None


def test_rules_of_one_host_become_one():
    """The oldest gives policy and name, later ones add subsets with new names (networking.md §0.4)."""
    context = snapshot(f"""
        DestinationRule shop/b-old: {{host: web, trafficPolicy: {pool(1)}, subsets: [{{name: v1}}],
          metadata: {{creationTimestamp: '2020-01-01T00:00:00Z'}}}}
        DestinationRule shop/a-new: {{host: {HOST}, trafficPolicy: {pool(2)}, subsets: [{{name: v1}}, {{name: v2}}]}}
    """)
    rule = one(context)
    assert [source.key.name for source in rule.sources] == ["b-old", "a-new"]
    assert size(rule.spec.traffic_policy) == 1
    assert [subset.name for subset in rule.spec.subsets] == ["v1", "v2"]
    (remark,) = context.findings
    assert (remark.key.name, remark.path) == ("a-new", "spec.subsets[0]")


def test_the_policy_of_a_younger_rule_fills_in():
    """If the oldest has none (clusters/merge-no-policy)."""
    rule = one(
        snapshot(
            f"DestinationRule shop/a: {{host: web}}\nDestinationRule shop/b: {{host: web, trafficPolicy: {pool(2)}}}"
        )
    )
    assert size(rule.spec.traffic_policy) == 2


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("", "", [["a", "b"]]),
        ("exportTo: ['.']", "exportTo: ['.']", [["a", "b"]]),
        ("", "exportTo: ['.']", [["a"], ["b"]]),
        ("exportTo: ['.']", "exportTo: ['.', x]", [["a", "b"]]),
        ("exportTo: ['.', x]", "exportTo: ['.']", [["a"], ["b"]]),
        ("workloadSelector: {matchLabels: {a: b}}", "workloadSelector: {matchLabels: {a: b}}", [["a", "b"]]),
        ("workloadSelector: {matchLabels: {a: b}}", "workloadSelector: {matchLabels: {c: d}}", [["a"], ["b"]]),
        ("workloadSelector: {matchLabels: {a: b}}", "", [["a"], ["b"]]),
        ("", "workloadSelector: {matchLabels: {a: b}}", [["b"], ["a"]]),
        ("workloadSelector: {matchLabels: {a: b}}", "exportTo: ['.', x]", [["a", "b"], ["b"]]),
        ("workloadSelector: {matchLabels: {a: b}}", "exportTo: ['.']", [["a", "b"]]),
    ],
)
def test_what_merges_with_what(first, second, expected):
    """xds-server.md §8.4.4, row by row; rules with a selector come first."""
    context = snapshot(
        f"DestinationRule shop/a: {{host: web, {first}}}\nDestinationRule shop/b: {{host: web, {second}}}"
    )
    assert found(context) == expected


def test_where_rules_are_found():
    """The client's namespace, the service's, the root's; no inheritance between them (xds-server.md §8.4.5)."""
    view = view_of(
        "DestinationRule client/own: {host: web.shop.svc.cluster.local}",
        "DestinationRule shop/of-service: {host: web}",
        "DestinationRule istio-system/of-root: {host: web.shop.svc.cluster.local}",
    )
    assert found(built(view), client="client") == [["own"]]
    assert found(built(view), client="third") == [["of-service"]]
    of_service = view.table("DestinationRule")
    gone = [rule for rule in of_service.values() if rule.key.name == "of-service"]
    assert found(built(edited(view, deletes=gone)), client="third") == [["of-root"]]


def test_rules_that_are_not_exported_are_not_found():
    """Private ones only at home; the mesh's default may make them private; root clients see the root's private ones."""
    private = "DestinationRule shop/r: {host: web, exportTo: ['.']}"
    assert found(snapshot(private)) == [["r"]]
    assert found(snapshot(private), client="other") == []
    lent = "DestinationRule shop/r: {host: web, exportTo: [other]}"
    assert found(snapshot(lent), client="other") == [["r"]]
    assert found(snapshot(lent), client="third") == []
    default = "MeshConfig mesh: {defaultDestinationRuleExportTo: ['.']}"
    assert found(snapshot(default, "DestinationRule shop/r: {host: web}"), client="other") == []
    root = "DestinationRule istio-system/r: {host: web.shop.svc.cluster.local, exportTo: ['.']}"
    assert found(snapshot(root), client="istio-system") == [["r"]]
    assert found(snapshot(root), client="other") == []


def test_the_most_specific_host_wins():
    """Exact before wildcards, longer wildcards before shorter; a wildcard service finds wildcard rules."""
    text = """
        DestinationRule shop/all: {host: '*'}
        DestinationRule shop/suffix: {host: '*.svc.cluster.local'}
        DestinationRule shop/exact: {host: web}
    """
    context = snapshot(text)
    assert found(context) == [["exact"]]
    assert found(context, host="cart.shop.svc.cluster.local") == [["suffix"]]
    assert found(context, host="pay.example") == [["all"]]
    assert found(context, host="*.shop.svc.cluster.local") == [["suffix"]]


def test_which_rule_a_proxy_uses():
    """A selector that fits, at home; else the last without one; inbound never one with a selector (§8.4.6)."""
    context = snapshot("""
        DestinationRule shop/chosen: {host: web, workloadSelector: {matchLabels: {app: web}}}
        DestinationRule shop/plain: {host: web}
    """)
    rules = find_rules(context.destination_rules, "shop", "shop", HOST, "istio-system")
    name = lambda *arguments: select_rule(rules, *arguments).sources[0].key.name  # noqa: E731
    assert name("shop", frozenset({("app", "web"), ("x", "y")})) == "chosen"
    assert name("shop", {"app": "cart"}.items()) == "plain"
    assert name("other", {"app": "web"}.items()) == "plain"
    assert name("shop", None) == "plain"
    assert select_rule((), "shop", frozenset()) is None


POLICY = f"""
    DestinationRule shop/r:
      host: web
      trafficPolicy:
        connectionPool: {{tcp: {{maxConnections: 1}}}}
        tls: {{mode: SIMPLE}}
        proxyProtocol: {{version: V2}}
        portLevelSettings:
        - {{port: {{number: 90}}, loadBalancer: {{simple: RANDOM}}}}
      subsets:
      - name: pooled
        trafficPolicy: {pool(2)}
      - name: ported
        trafficPolicy:
          outlierDetection: {{}}
          tls: {{mode: MUTUAL}}
          portLevelSettings: [{{port: {{number: 80}}, connectionPool: {{tcp: {{maxConnections: 3}}}}}}]
      - name: bare
"""


@pytest.mark.parametrize(
    ("subset", "port", "expected"),
    [
        ("", 80, {"pool": 1, "tls": "SIMPLE", "balancer": False, "outlier": False, "proxy": True}),
        ("", 90, {"pool": None, "tls": None, "balancer": True, "outlier": False, "proxy": False}),
        ("pooled", 80, {"pool": 2, "tls": "SIMPLE", "balancer": False, "outlier": False, "proxy": True}),
        ("pooled", 90, {"pool": 2, "tls": None, "balancer": True, "outlier": False, "proxy": False}),
        ("ported", 80, {"pool": 3, "tls": None, "balancer": False, "outlier": False, "proxy": True}),
        ("ported", 90, {"pool": None, "tls": "MUTUAL", "balancer": True, "outlier": True, "proxy": False}),
        ("bare", 80, {"pool": 1, "tls": "SIMPLE", "balancer": False, "outlier": False, "proxy": True}),
        ("unknown", 80, {"pool": 1, "tls": "SIMPLE", "balancer": False, "outlier": False, "proxy": True}),
    ],
)
def test_effective_policy(subset, port, expected):
    """networking.md §2.4: a port entry stands alone, a subset overlays block by block, its port entry wholly."""
    context = snapshot(POLICY)
    policy = effective_policy(one(context), subset, port, context.mesh)
    assert {
        "pool": size(policy),
        "tls": policy.tls.mode.value if policy.tls else None,
        "balancer": policy.load_balancer is not None,
        "outlier": policy.outlier_detection is not None,
        "proxy": policy.proxy_protocol is not None,
    } == expected


def test_the_mesh_fills_what_nobody_says():
    """Pool and outlier detection, also where a port entry lacks them, and without any rule."""
    context = snapshot(POLICY, f"MeshConfig mesh: {{defaultTrafficPolicy: {pool(9)}}}")
    rule = one(context)
    assert [size(effective_policy(rule, "", port, context.mesh)) for port in (80, 90)] == [1, 9]
    assert size(effective_policy(None, "", 80, context.mesh)) == 9
    assert effective_policy(None, "", 80, context.mesh).tls is None


def test_equal_policies_are_equal():
    """By the identity of their blocks, so that a policy may be part of a memo's key."""
    context = snapshot(POLICY)
    first, second = (effective_policy(one(context), "", 80, context.mesh) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
