"""What each field of an HTTP route of a VirtualService makes of Envoy's route."""

from __future__ import annotations

import pytest

from tests.envoy.meshes import STOCK, destination_rule, mesh_of, routes, service, virtual_service

HOST = "web.shop.svc.cluster.local"
WEB = service("web", "80/HTTP")
TO_WEB = "route: [{destination: {host: web}}]"


def route(fields: str, *, rules=(), key=STOCK) -> dict:
    """The first route of a VirtualService whose only HTTP route has these fields (YAML flow style)."""
    found = virtual_service("{hosts: [web], http: [{" + fields + "}]}")
    return routes(mesh_of(WEB, virtual=(found,), rules=rules), key)["80"]["virtual_hosts"][0]["routes"][0]


MATCHES = {
    "match: [{uri: {exact: /a}}]": {"path": "/a", "case_sensitive": True},
    "match: [{uri: {prefix: /a}}]": {"prefix": "/a", "case_sensitive": True},
    "match: [{uri: {regex: '/a+'}}]": {"safe_regex": {"regex": "/a+"}, "case_sensitive": True},
    "match: [{uri: {prefix: /a}, ignoreUriCase: true}]": {"prefix": "/a", "case_sensitive": False},
    "name: no-match": {"prefix": "/"},
    "match: [{headers: {b: {exact: x}, a: {prefix: y}}}]": {
        "prefix": "/",
        "case_sensitive": True,
        "headers": [
            {"name": "a", "string_match": {"prefix": "y"}},
            {"name": "b", "string_match": {"exact": "x"}},
        ],
    },
    "match: [{headers: {a: {}}, withoutHeaders: {b: {}, c: {regex: x}}}]": {
        "prefix": "/",
        "case_sensitive": True,
        "headers": [
            {"name": "a", "present_match": True},
            {"name": "b", "present_match": True, "invert_match": True},
            {
                "name": "c",
                "string_match": {"safe_regex": {"regex": "x"}},
                "invert_match": True,
                "treat_missing_header_as_empty": True,
            },
        ],
    },
    "match: [{scheme: {exact: https}, method: {exact: GET}, authority: {prefix: a.}, headers: {z: {exact: x}}}]": {
        "prefix": "/",
        "case_sensitive": True,
        "headers": [
            {"name": "z", "string_match": {"exact": "x"}},
            {"name": ":method", "string_match": {"exact": "GET"}},
            {"name": ":authority", "string_match": {"prefix": "a."}},
            {"name": ":scheme", "string_match": {"exact": "https"}},
        ],
    },
    'match: [{queryParams: {b: {}, a: {exact: x}, c: {prefix: ""}}}]': {
        "prefix": "/",
        "case_sensitive": True,
        "query_parameters": [
            {"name": "a", "string_match": {"exact": "x"}},
            {"name": "b", "present_match": True},
            {"name": "c", "present_match": True},
        ],
    },
}


@pytest.mark.parametrize(("fields", "match"), MATCHES.items(), ids=str)
def test_a_match_becomes_envoys(fields, match):
    """Paths, headers by name, then the request line's parts; query parameters by name."""
    assert route(f"{fields}, {TO_WEB}")["match"] == match


def test_names_and_statistics_come_from_route_and_match():
    """The route is called after both; metadata names the object."""
    found = route("name: first, match: [{name: exact, uri: {exact: /a}, statPrefix: sp}], " + TO_WEB)
    path = "/apis/networking.istio.io/v1/namespaces/shop/virtual-service/web"
    assert found["name"] == "first.exact"
    assert found["stat_prefix"] == "sp"
    assert found["metadata"] == {"filter_metadata": {"istio": {"config": path}}}
    assert found["decorator"] == {"operation": f"{HOST}:80/a"}


def test_one_destination_is_a_cluster():
    """Subset and port of the destination are in the cluster's name."""
    assert route("route: [{destination: {host: web, subset: v2, port: {number: 81}}}]")["route"]["cluster"] == (
        f"outbound|81|v2|{HOST}"
    )


def test_several_destinations_share_by_weight():
    """Those without weight are left out; the operation is named after the VirtualService."""
    found = route(
        "route: [{destination: {host: web, subset: v1}, weight: 90},"
        " {destination: {host: web, subset: v2}, weight: 10}, {destination: {host: web}}]"
    )
    clusters = found["route"]["weighted_clusters"]["clusters"]
    assert [(each["name"], each["weight"]) for each in clusters] == [
        (f"outbound|80|v1|{HOST}", 90),
        (f"outbound|80|v2|{HOST}", 10),
    ]
    assert found["decorator"] == {"operation": "web:80/*"}


REWRITES = {
    "rewrite: {uri: /b}": {"prefix_rewrite": "/b"},
    "rewrite: {authority: other}": {"host_rewrite_literal": "other"},
    "rewrite: {uriRegexRewrite: {match: '^/a', rewrite: /c}}": {
        "regex_rewrite": {"pattern": {"regex": "^/a"}, "substitution": "/c"}
    },
    "timeout: 3s": {"timeout": "3s", "max_grpc_timeout": "3s"},
    "name: plain": {"timeout": "0s", "max_grpc_timeout": "0s"},
    "headers: {request: {set: {Host: h}}}": {"host_rewrite_literal": "h"},
    "headers: {request: {set: {':authority': h}, add: {host: other}}}": {"host_rewrite_literal": "h"},
}


@pytest.mark.parametrize(("fields", "expected"), REWRITES.items(), ids=str)
def test_the_action_changes_what_is_forwarded(fields, expected):
    """Path, authority and time limits."""
    action = route(f"{fields}, {TO_WEB}")["route"]
    assert {name: action.get(name) for name in expected} == expected


def test_headers_are_changed_on_the_way_there_and_back():
    """First what is set, then what is added, by name; Envoy's own pseudo headers are left alone."""
    found = route(
        "headers: {request: {set: {b: '2', a: '1'}, add: {c: '3', ':path': x}, remove: [d, host]},"
        " response: {remove: [e]}}, " + TO_WEB
    )
    overwrite = "OVERWRITE_IF_EXISTS_OR_ADD"
    assert found["request_headers_to_add"] == [
        {"header": {"key": "a", "value": "1"}, "append_action": overwrite},
        {"header": {"key": "b", "value": "2"}, "append_action": overwrite},
        {"header": {"key": "c", "value": "3"}},
    ]
    assert found["request_headers_to_remove"] == ["d"]
    assert found["response_headers_to_remove"] == ["e"]


def test_headers_of_a_destination_are_the_clusters_own_if_there_are_several():
    """With one destination they are the route's."""
    many = route(
        "route: [{destination: {host: web}, weight: 1, headers: {request: {set: {a: '1', host: x}}}},"
        " {destination: {host: web}, weight: 1}]"
    )
    first, second = many["route"]["weighted_clusters"]["clusters"]
    assert first["request_headers_to_add"][0]["header"] == {"key": "a", "value": "1"}
    assert first["host_rewrite_literal"] == "x"
    assert "request_headers_to_add" not in second
    one = route("route: [{destination: {host: web}, headers: {request: {set: {a: '1'}}}}]")
    assert one["request_headers_to_add"][0]["header"] == {"key": "a", "value": "1"}


REDIRECTS = {
    "{uri: /n, authority: a.example}": {"path_redirect": "/n", "host_redirect": "a.example"},
    "{authority: a.example}": {"path_redirect": "", "host_redirect": "a.example"},
    "{scheme: https, port: 443}": {"path_redirect": "", "scheme_redirect": "https"},
    "{scheme: https, port: 8443}": {"path_redirect": "", "scheme_redirect": "https", "port_redirect": 8443},
    "{derivePort: FROM_REQUEST_PORT, scheme: https}": {
        "path_redirect": "",
        "scheme_redirect": "https",
        "port_redirect": 80,
    },
    "{derivePort: FROM_REQUEST_PORT}": {"path_redirect": ""},
    "{uri: /n, redirectCode: 307}": {"path_redirect": "/n", "response_code": "TEMPORARY_REDIRECT"},
}


@pytest.mark.parametrize(("redirect", "expected"), REDIRECTS.items(), ids=str)
def test_a_redirect_answers_with_a_location(redirect, expected):
    """The port that goes without saying in the scheme is left out."""
    assert route(f"redirect: {redirect}")["redirect"] == expected


def test_a_fixed_answer():
    """Status and body, as text or as bytes."""
    assert route("directResponse: {status: 418, body: {string: teapot}}")["direct_response"] == {
        "status": 418,
        "body": {"inline_string": "teapot"},
    }
    assert route("directResponse: {status: 204}")["direct_response"] == {"status": 204}


def test_a_redirect_goes_before_an_answer_before_destinations():
    """Of several actions one counts."""
    both = route("redirect: {uri: /n}, directResponse: {status: 200}, " + TO_WEB)
    assert "redirect" in both
    assert "direct_response" in route("directResponse: {status: 200}, " + TO_WEB)


FAULTS = {
    "{delay: {fixedDelay: 2s, percentage: {value: 0.5}}}": {
        "delay": {"fixed_delay": "2s", "percentage": {"numerator": 5000, "denominator": "MILLION"}}
    },
    "{delay: {fixedDelay: 2s, percent: 20}}": {"delay": {"fixed_delay": "2s", "percentage": {"numerator": 20}}},
    "{abort: {httpStatus: 503}}": {"abort": {"http_status": 503}},
    "{abort: {grpcStatus: UNAVAILABLE, percentage: {value: 100}}}": {
        "abort": {"grpc_status": 14, "percentage": {"numerator": 1000000, "denominator": "MILLION"}}
    },
    "{abort: {grpcStatus: '7'}}": {"abort": {"grpc_status": 7}},
}


@pytest.mark.parametrize(("fault", "expected"), FAULTS.items(), ids=str)
def test_faults_are_the_fault_filters_business(fault, expected):
    """Shares are written in millionths, the old spelling in hundredths."""
    config = route(f"fault: {fault}, {TO_WEB}")["typed_per_filter_config"]["envoy.filters.http.fault"]
    del config["@type"]
    assert config == expected


def test_cross_origin_rules_are_the_cors_filters_business():
    """Unmatched preflights go on, unless they are to be ignored."""
    found = route(
        "corsPolicy: {allowOrigins: [{prefix: 'https://a'}], allowMethods: [GET, PUT], maxAge: 24h,"
        f" allowCredentials: true}}, {TO_WEB}"
    )
    config = found["typed_per_filter_config"]["envoy.filters.http.cors"]
    del config["@type"]
    assert config == {
        "allow_origin_string_match": [{"prefix": "https://a"}],
        "allow_methods": "GET,PUT",
        "max_age": "86400",
        "allow_credentials": True,
        "filter_enabled": {"default_value": {"numerator": 100}},
        "forward_not_matching_preflights": True,
    }
    ignoring = route(f"corsPolicy: {{allowOrigin: [b], unmatchedPreflights: IGNORE}}, {TO_WEB}")
    config = ignoring["typed_per_filter_config"]["envoy.filters.http.cors"]
    assert config["allow_origin_string_match"] == [{"exact": "b"}]
    assert config["forward_not_matching_preflights"] is False


MIRRORS = {
    "mirror: {host: web, subset: m}": [("m", {"numerator": 100})],
    "mirror: {host: web, subset: m}, mirrorPercent: 5": [("m", {"numerator": 5})],
    "mirror: {host: web, subset: m}, mirrorPercentage: {value: 0}": [],
    "mirrors: [{destination: {host: web, subset: a}, percentage: {value: 1.5}}, {destination: {host: web}}]": [
        ("a", {"numerator": 15000, "denominator": "MILLION"}),
        ("", {"numerator": 100}),
    ],
}


@pytest.mark.parametrize(("fields", "expected"), MIRRORS.items(), ids=str)
def test_mirrors_get_copies_of_a_share(fields, expected):
    """All of the requests if no share is named; none at all for a share of zero."""
    policies = route(f"{fields}, {TO_WEB}")["route"].get("request_mirror_policies", [])
    assert policies == [
        {
            "cluster": f"outbound|80|{subset}|{HOST}",
            "runtime_fraction": {"default_value": share},
            "trace_sampled": False,
            "disable_shadow_host_suffix_append": True,
        }
        for subset, share in expected
    ]


RETRY_ON = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"
RETRIES = {
    "name: default": {"retry_on": RETRY_ON, "num_retries": 2},
    "retries: {attempts: 5}": {"retry_on": RETRY_ON, "num_retries": 5},
    "retries: {attempts: 1, retryOn: '5xx, 503,reset'}": {
        "retry_on": "5xx,reset,retriable-status-codes",
        "retriable_status_codes": [503],
        "num_retries": 1,
    },
    "retries: {attempts: 1, retryOn: '999,reset'}": {"retry_on": "999,reset", "num_retries": 1},
    "retries: {attempts: 1, perTryTimeout: 700ms, backoff: 100ms}": {
        "retry_on": RETRY_ON,
        "num_retries": 1,
        "per_try_timeout": "0.700s",
        "retry_back_off": {"base_interval": "0.100s"},
    },
}


@pytest.mark.parametrize(("fields", "expected"), RETRIES.items(), ids=str)
def test_retries_follow_the_policy(fields, expected):
    """Numbers that are HTTP status codes are taken out of the list of conditions."""
    policy = route(f"{fields}, {TO_WEB}")["route"]["retry_policy"]
    assert policy.pop("host_selection_retry_max_attempts") == "5"
    assert len(policy.pop("retry_host_predicate")) == 1
    assert policy == expected


@pytest.mark.parametrize("retries", ["{attempts: 0}", "{}"])
def test_no_attempts_are_no_retries(retries):
    """Zero and unset are the same."""
    assert "retry_policy" not in route(f"retries: {retries}, {TO_WEB}")["route"]


def test_retries_may_stay_or_go_elsewhere():
    """Previous hosts are shunned unless the route says not; other localities are tried if it says so."""
    stays = route(f"retries: {{attempts: 1, retryIgnorePreviousHosts: false}}, {TO_WEB}")["route"]["retry_policy"]
    assert "retry_host_predicate" not in stays
    elsewhere = route(f"retries: {{attempts: 1, retryRemoteLocalities: true}}, {TO_WEB}")["route"]["retry_policy"]
    assert elsewhere["retry_priority"]["typed_config"]["update_frequency"] == 2


HASHES = {
    "{httpHeaderName: x-user}": {"header": {"header_name": "x-user"}},
    "{useSourceIp: true}": {"connection_properties": {"source_ip": True}},
    "{httpQueryParameterName: q}": {"query_parameter": {"name": "q"}},
    "{httpCookie: {name: c, ttl: 60s, path: /p}}": {"cookie": {"name": "c", "ttl": "60s", "path": "/p"}},
}


@pytest.mark.parametrize(("consistent", "expected"), HASHES.items(), ids=str)
def test_consistent_hashing_shows_in_the_route(consistent, expected):
    """The destination rule says what is hashed; a retry then stays with its host."""
    rule = destination_rule(f"{{host: {HOST}, trafficPolicy: {{loadBalancer: {{consistentHash: {consistent}}}}}}}")
    action = route(TO_WEB, rules=(rule,))["route"]
    assert action["hash_policy"] == [expected]
    assert "retry_host_predicate" not in action["retry_policy"]


def test_a_subset_may_be_hashed_otherwise():
    """The subset's own policy goes before the host's."""
    rule = destination_rule(
        f"{{host: {HOST}, trafficPolicy: {{loadBalancer: {{simple: RANDOM}}}}, subsets: [{{name: v1, trafficPolicy:"
        " {loadBalancer: {consistentHash: {httpHeaderName: h}}}}]}"
    )
    hashed = route("route: [{destination: {host: web, subset: v1}}]", rules=(rule,))["route"]
    assert hashed["hash_policy"] == [{"header": {"header_name": "h"}}]
    assert "hash_policy" not in route(TO_WEB, rules=(rule,))["route"]
