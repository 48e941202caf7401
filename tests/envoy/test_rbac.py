"""RBAC filters of authorization policies: what each field and condition becomes, and what is unknown to TCP."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.protojson import to_plain
from tests.push.fixtures import ORIGIN, snapshot
from trierarch.config.admission import Admitted, admit
from trierarch.config.validate_authorization_policy import CONDITIONS
from trierarch.envoy.rbac import Access, build_http_custom, build_http_rbac, build_network_access
from trierarch.envoy.well_known_types import encode

HTTP_FILTER = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter"
NETWORK_FILTER = "type.googleapis.com/envoy.config.listener.v3.Filter"
ALLOW = "AuthorizationPolicy shop/it: {{rules: [{{{}}}]}}"
DENY = "AuthorizationPolicy shop/it: {{action: DENY, rules: [{{{}}}]}}"
RULE = "ns[shop]-policy[it]-rule[0]"
MESH_DOMAIN = ("cluster.local",)


def access(*given: str, domains=MESH_DOMAIN) -> Access:
    """What applies to a workload of `shop`."""
    return Access(snapshot(*given).authorization.of("shop", {}.items()), domains)


def http(*given: str, domains=MESH_DOMAIN) -> list[dict]:
    """The filters for requests."""
    found = access(*given, domains=domains)
    return [to_plain(HTTP_FILTER, encode(each)) for each in (*build_http_custom(found), *build_http_rbac(found))]


def network(*given: str) -> list[dict]:
    """The filters for connections."""
    return [to_plain(NETWORK_FILTER, encode(each)) for each in build_network_access(access(*given))]


def rule(filters: list[dict], name: str = RULE) -> dict:
    """One rule of the only filter."""
    (found,) = filters
    return found["typed_config"]["rules"]["policies"][name]


def sources(rules: str, **options) -> list[list[dict]]:
    """The principals of an ALLOW rule: alternatives of facts."""
    found = rule(http(ALLOW.format(rules), **options))["principals"]
    return [each["and_ids"]["ids"] for each in found]


def operations(rules: str) -> list[list[dict]]:
    """The permissions of an ALLOW rule."""
    return [each["and_rules"]["rules"] for each in rule(http(ALLOW.format(rules)))["permissions"]]


def names(rules: str, **options) -> list[dict]:
    """How the identity of the peer is matched by the only fact of a rule."""
    ((fact,),) = sources(rules, **options)
    return [each["authenticated"]["principal_name"] for each in fact["or_ids"]["ids"]]


def regex(expression: str) -> dict:
    """A string matched as a whole."""
    return {"safe_regex": {"regex": expression}}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("principals: [a.b/ns/c/sa/d]", {"exact": "spiffe://a.b/ns/c/sa/d"}),
        ("principals: ['a/ns/c/*']", {"prefix": "spiffe://a/ns/c/"}),
        ("principals: ['*/sa/d.e']", regex(r"spiffe://.*/sa/d\.e")),
        ("principals: ['*']", regex(".+")),
        ("namespaces: [a.b]", regex(r".*/ns/a\.b/.*")),
        ("namespaces: ['a*']", regex(".*/ns/a.*/.*")),
        ("serviceAccounts: [a]", regex("spiffe://.+/ns/shop/(.+/|)sa/a(/.+)?")),
        ("serviceAccounts: [b/a.c]", regex(r"spiffe://.+/ns/b/(.+/|)sa/a\.c(/.+)?")),
        ("trustDomains: [a.b]", {"prefix": "spiffe://a.b/"}),
        ("trustDomains: ['*.b']", regex(r"spiffe://[^/]*\.b/.*")),
        ("trustDomains: ['*']", {"prefix": "spiffe://"}),
    ],
)
def test_identities(source, expected):
    """By the certificate's name, exactly or by its parts; dots are dots."""
    assert names(f"from: [{{source: {{{source}}}}}]") == [expected]


@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        ("new/ns/a/sa/b", ["new/ns/a/sa/b", "old/ns/a/sa/b"]),
        ("old/ns/a/sa/b", ["new/ns/a/sa/b", "old/ns/a/sa/b"]),
        ("cluster.local/ns/a/sa/b", ["new/ns/a/sa/b", "old/ns/a/sa/b"]),
        ("foreign/ns/a/sa/b", ["foreign/ns/a/sa/b"]),
        ("new/ns/a", ["new/ns/a"]),
    ],
)
def test_identities_in_a_mesh_with_aliases(principal, expected):
    """A policy written before the trust domain changed holds for both; other meshes' identities are left alone."""
    found = names(f"from: [{{source: {{principals: [{principal}]}}}}]", domains=("new", "old"))
    assert [each["exact"] for each in found] == [f"spiffe://{each}" for each in expected]


def test_trust_domains_in_a_mesh_with_aliases():
    """Each of the mesh's means all of them."""
    found = names("from: [{source: {trustDomains: [old, foreign]}}]", domains=("new", "old"))
    assert [each["prefix"] for each in found] == ["spiffe://new/", "spiffe://old/", "spiffe://foreign/"]


@pytest.mark.parametrize(
    ("value", "issuer", "subject"),
    [
        ("https://a.example/b", {"exact": "https://a.example"}, {"exact": "b"}),
        ("'a/*'", {"exact": "a"}, regex(".+")),
        ("'*/b'", regex(".+"), {"exact": "b"}),
        ("'*b'", regex(".+"), {"suffix": "b"}),
        ("'a*'", {"prefix": "a"}, regex(".+")),
        ("'*'", regex(".+"), regex(".+")),
        ("a", {"exact": "a"}, {"exact": ""}),
    ],
)
def test_principals_of_tokens(value, issuer, subject):
    """Issuer and subject, parted at the last slash."""
    ((fact,),) = sources(f"from: [{{source: {{requestPrincipals: [{value}]}}}}]")
    found = {each["metadata"]["path"][-1]["key"]: each["metadata"]["value"] for each in fact["and_ids"]["ids"]}
    assert found == {"iss": {"string_match": issuer}, "sub": {"string_match": subject}}


def test_claims_are_strings_or_lists_of_them():
    """Nested claims by their names."""
    ((fact,),) = sources("when: [{key: 'request.auth.claims[a][b]', values: [x, 'y*']}]")
    wanted = {"or_match": {"value_matchers": [{"string_match": {"exact": "x"}}, {"string_match": {"prefix": "y"}}]}}
    found = fact["metadata"]
    assert [each["key"] for each in found["path"]] == ["payload", "a", "b"]
    assert found["value"]["or_match"]["value_matchers"] == [{"list_match": {"one_of": wanted}}, wanted]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("methods: [GET]", {"header": {"name": ":method", "string_match": {"exact": "GET"}}}),
        ("methods: ['*']", {"header": {"name": ":method", "present_match": True}}),
        (
            "hosts: ['*.a']",
            {"header": {"name": ":authority", "string_match": {"suffix": ".a", "ignore_case": True}}},
        ),
        ("paths: ['/a/*']", {"url_path": {"path": {"prefix": "/a/"}}}),
        ("ports: ['80']", {"destination_port": 80}),
    ],
)
def test_operations(operation, expected):
    """Names of hosts in any case, paths without their query, ports as numbers."""
    ((fact,),) = operations(f"to: [{{operation: {{{operation}}}}}]")
    assert fact["or_rules"]["rules"] == [expected]


def test_paths_by_their_segments():
    """The operators of templates are Envoy's stars, and every template begins with a slash."""
    ((fact,),) = operations("to: [{operation: {paths: ['/a/{*}/b/{**}', 'c/{*}']}}]")
    found = [each["uri_template"]["typed_config"]["path_template"] for each in fact["or_rules"]["rules"]]
    assert found == ["/a/*/b/**", "/c/*"]


def test_conditions_stand_with_every_source_and_every_operation():
    """On the side that they are about."""
    rules = (
        "from: [{source: {namespaces: [a]}}, {source: {namespaces: [b]}}], to: [{operation: {ports: ['80']}}], "
        "when: [{key: 'request.headers[x]', values: [y]}, {key: connection.sni, notValues: [z]}]"
    )
    assert [len(each) for each in sources(rules)] == [2, 2]
    ((port, name),) = operations(rules)
    assert "or_rules" in port
    assert name["not_rule"]["or_rules"]["rules"] == [{"requested_server_name": {"exact": "z"}}]


def test_a_rule_about_nothing_matches_everything_and_no_rule_nothing():
    """So a policy that allows without rules allows nothing."""
    assert sources("") == [[{"any": True}]]
    nothing = rule(http("AuthorizationPolicy shop/it: {}"))
    assert nothing == {"permissions": [{"not_rule": {"any": True}}], "principals": [{"not_id": {"any": True}}]}


@pytest.mark.parametrize(
    "side", ["to: [{operation: {methods: [GET]}}]", "when: [{key: 'request.headers[x]', values: [y]}]"]
)
def test_what_is_not_known_of_connections(side):
    """A rule that allows must not match more for it, one that denies must not match less."""
    rules = f"from: [{{source: {{namespaces: [a]}}}}], {side}"
    (allowing,) = network(ALLOW.format(rules))
    assert allowing["typed_config"]["rules"] == {}
    (principal,) = rule(network(DENY.format(rules)))["principals"]
    assert len(principal["and_ids"]["ids"]) == 1
    assert rule(network(DENY.format(side)))["principals"] == [{"and_ids": {"ids": [{"any": True}]}}]


def test_policies_that_are_only_tried():
    """They stand beside those that count, and say what they would have done under names of their own."""
    annotation = "{{annotations: {{istio.io/dry-run: '{1}'}}}}"
    tried = f"AuthorizationPolicy shop/{{0}}: {{{{metadata: {annotation}, action: {{2}}, rules: [{{{{}}}}]}}}}"
    (deny, allow) = http(tried.format("no", "true", "DENY"), tried.format("yes", "true", "ALLOW"))
    assert "rules" not in deny["typed_config"]
    assert deny["typed_config"]["shadow_rules_stat_prefix"] == "istio_dry_run_deny_"
    assert allow["typed_config"]["shadow_rules_stat_prefix"] == "istio_dry_run_allow_"
    (both,) = http(tried.format("no", "true", "DENY"), tried.format("really", "false", "DENY"))
    assert list(both["typed_config"]["rules"]["policies"]) == ["ns[shop]-policy[really]-rule[0]"]
    assert list(both["typed_config"]["shadow_rules"]["policies"]) == ["ns[shop]-policy[no]-rule[0]"]


# --- providers -------------------------------------------------------------------------------------------------------
ASK = (
    "AuthorizationPolicy shop/it: {action: CUSTOM, provider: {name: opa}, rules: [{to: [{operation: {paths: [/a]}}]}]}"
)
OPA = "Service policy/opa: {ports: [{name: grpc, port: 9191}]}"
PROVIDER = (
    "MeshConfig mesh: {extensionProviders: [{name: opa, %s: {service: opa.policy.svc.cluster.local, port: 9191, %s}}]}"
)


def test_a_provider_is_asked_about_what_matches():
    """One filter notes that a policy matches, the next asks if it does."""
    noting, asking = http(ASK, OPA, PROVIDER % ("envoyExtAuthzGrpc", "timeout: 1s, failOpen: true"))
    (name,) = noting["typed_config"]["shadow_rules"]["policies"]
    found = asking["typed_config"]
    assert name.startswith(found["filter_enabled_metadata"]["value"]["string_match"]["prefix"])
    assert found["grpc_service"]["envoy_grpc"]["cluster_name"] == "outbound|9191||opa.policy.svc.cluster.local"
    assert found["grpc_service"]["timeout"] == "1s"
    assert found["failure_mode_allow"] is True


def test_headers_that_a_provider_sees_and_sets():
    """The newer list of headers goes before the older one."""
    settings = (
        "pathPrefix: /check, includeHeadersInCheck: [old], includeRequestHeadersInCheck: [x-a, 'x-b-*'], "
        "includeAdditionalHeadersInCheck: {z: '1', y: '2'}, headersToUpstreamOnAllow: ['*-id'], statusOnError: '503'"
    )
    _, asking = http(ASK, OPA, PROVIDER % ("envoyExtAuthzHttp", settings))
    found = asking["typed_config"]
    assert found["allowed_headers"]["patterns"] == [
        {"exact": "x-a", "ignore_case": True},
        {"prefix": "x-b-", "ignore_case": True},
    ]
    service = found["http_service"]
    assert [each["key"] for each in service["authorization_request"]["headers_to_add"]] == ["y", "z"]
    assert list(service["authorization_response"]) == ["allowed_upstream_headers"]
    assert found["status_on_error"] == {"code": "ServiceUnavailable"}


def test_a_provider_that_knows_only_requests_is_not_asked_about_connections():
    """One that speaks gRPC is."""
    assert network(ASK, OPA, PROVIDER % ("envoyExtAuthzHttp", "")) == []
    found = [each["name"] for each in network(ASK, OPA, PROVIDER % ("envoyExtAuthzGrpc", ""))]
    assert found == ["envoy.filters.network.rbac", "envoy.filters.network.ext_authz"]


def test_where_a_provider_cannot_be_asked_everything_that_matches_is_denied():
    """Requests to the path; connections altogether, since of them no path is known."""
    for (found,) in (http(ASK), network(ASK)):
        (name,) = found["typed_config"]["rules"]["policies"]
        assert name.endswith("-deny-due-to-bad-CUSTOM-action")
        assert found["typed_config"]["rules"]["action"] == "DENY"


def test_filters_are_made_once_for_all_chains():
    """Equal policies are the same filters."""
    context = snapshot(DENY.format(""))
    one, other = (Access(context.authorization.of("shop", {}.items()), MESH_DOMAIN) for _ in range(2))
    assert build_http_rbac(one) is build_http_rbac(other)
    assert build_network_access(one) is build_network_access(other)


# --- whatever is admitted --------------------------------------------------------------------------------------------
SOURCE = (
    "principals",
    "requestPrincipals",
    "namespaces",
    "ipBlocks",
    "remoteIpBlocks",
    "serviceAccounts",
    "trustDomains",
)
OPERATION = ("hosts", "ports", "methods", "paths")
ODD = (
    "*",
    "a*",
    "*a",
    "a/b",
    "/",
    "",
    "0",
    "65535",
    "10.0.0.0/8",
    "10.0.0.0/255.0.0.0",
    "::1%a",
    "{*}",
    "/{**}/a",
    "[a]",
    "\n",
)
values = st.lists(st.one_of(st.sampled_from(ODD), st.text(max_size=4)), min_size=1, max_size=3)


def fields(names):
    """Some of these fields, or what they must not be, with values."""
    spelled = [*names, *(f"not{name[0].upper()}{name[1:]}" for name in names)]
    return st.dictionaries(st.sampled_from(spelled), values, min_size=1, max_size=3)


keys = st.sampled_from([*CONDITIONS, *(f"{name[:-1]}a][b]" for name in CONDITIONS if name.endswith("[]"))])
rules = st.fixed_dictionaries(
    {},
    optional={
        "from": st.lists(st.fixed_dictionaries({"source": fields(SOURCE)}), min_size=1, max_size=2),
        "to": st.lists(st.fixed_dictionaries({"operation": fields(OPERATION)}), min_size=1, max_size=2),
        "when": st.lists(st.fixed_dictionaries({"key": keys, "values": values}), max_size=2),
    },
)


@given(st.sampled_from(["ALLOW", "DENY", "AUDIT"]), st.lists(rules, min_size=1, max_size=2))
def test_whatever_is_admitted_can_be_built(action, spelled):
    """No value that validation lets through is one that the filters cannot say."""
    metadata = {"name": "it", "namespace": "shop"}
    document = {"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy", "metadata": metadata}
    answer = admit({**document, "spec": {"action": action, "rules": spelled}}, ORIGIN, "Kubernetes")
    if isinstance(answer, Admitted):
        found = access(answer.object)
        for filters in (build_http_rbac(found), build_network_access(found)):
            assert all(encode(each) for each in filters)
