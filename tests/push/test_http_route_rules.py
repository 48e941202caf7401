"""Rules of HTTPRoutes as routes of VirtualServices (networking.md §5.11)."""

import pytest
import yaml

from tests.push.fixtures import short
from trierarch.config.common import Exact, Percent, Prefix, Regex
from trierarch.config.virtual_service import (
    HttpRedirect,
    HttpRetry,
    HttpRewrite,
    RedirectPort,
    RedirectPortSelection,
    RegexRewrite,
)
from trierarch.push.http_route_rules import NO_BACKEND, Unsupported, translate_rules

BACKEND = "backendRefs: [{name: web, port: 80}]"


def translated(*rules, port=0):
    """The routes of an HTTPRoute with these rules, in order of precedence."""
    source = short("HTTPRoute shop/cart", {"rules": [yaml.safe_load(f"{{{rule}}}") for rule in rules]})
    found = translate_rules(source, port, "cluster.local")
    return [each.route for each in sorted(found, key=lambda each: each.precedence)]


def only(rule, port=0):
    """The one route of a rule."""
    (route,) = translated(rule, port=port)
    return route


def test_a_rule_without_anything_takes_everything():
    """To its backend, in the namespace of the route; it is tried again as always."""
    route = only(BACKEND)
    assert (route.name, route.match) == ("shop.cart.0", ())
    (share,) = route.route
    assert share.destination.host == "web.shop.svc.cluster.local"
    assert share.destination.port.number == 80
    assert route.retries.attempts == 2


MATCHES = {
    "path: {type: Exact, value: /a}": ("uri", Exact("/a")),
    "path: {type: PathPrefix, value: /a/}": ("uri", Prefix("/a")),
    "path: {type: PathPrefix, value: /}": ("uri", Prefix("/")),
    "path: {}": ("uri", Prefix("/")),
    "path: {type: RegularExpression, value: /a+}": ("uri", Regex("/a+")),
    "method: GET": ("method", Exact("GET")),
    "headers: [{name: x, value: y}]": ("headers", {"x": Exact("y")}),
    "queryParams: [{type: RegularExpression, name: x, value: y+}]": ("query_params", {"x": Regex("y+")}),
}


@pytest.mark.parametrize(("text", "expected"), MATCHES.items())
def test_conditions(text, expected):
    """Each of them; a prefix is one of whole segments, so a slash at its end says nothing."""
    name, value = expected
    (match,) = only(f"matches: [{{{text}}}], {BACKEND}").match
    assert getattr(match, name) == value


def test_a_port_of_the_parent_is_a_condition():
    """Of rules without others too."""
    assert [match.port for match in only(BACKEND, port=80).match] == [80]


def test_the_more_specific_goes_first():
    """Exact paths, then longer prefixes, expressions; then methods, headers, parameters; then as they were written."""
    rules = [
        f"name: {name}, matches: [{{{match}}}], {BACKEND}"
        for name, match in {
            "any": "",
            "regex": "path: {type: RegularExpression, value: /aaaaaaa}",
            "short": "path: {value: /a}",
            "long": "path: {value: /a/b}",
            "exact": "path: {type: Exact, value: /}",
            "method": "path: {value: /a}, method: GET",
            "header": "path: {value: /a}, headers: [{name: x, value: y}]",
            "query": "path: {value: /a}, queryParams: [{name: x, value: y}]",
            "short again": "path: {value: /a}",
        }.items()
    ]
    order = ["exact", "long", "method", "header", "query", "short", "short again", "any", "regex"]
    assert [route.name for route in translated(*rules)] == order


def test_each_match_is_a_route():
    """For each has a place of its own among the others."""
    routes = translated(f"matches: [{{path: {{value: /a}}}}, {{path: {{value: /long}}}}], {BACKEND}")
    assert [(route.name, route.match[0].uri.value) for route in routes] == [
        ("shop.cart.0", "/long"),
        ("shop.cart.0", "/a"),
    ]


@pytest.mark.parametrize("backends", ["", "{name: web, port: 80, weight: 0}"])
def test_without_a_backend_the_answer_is_an_error(backends):
    """None, or none that gets any requests."""
    route = only(f"backendRefs: [{backends}]")
    assert route.route == ()
    assert route.direct_response is NO_BACKEND


def test_backends():
    """Services of any namespace, hosts of the mesh, with weights and changes to headers of their own."""
    web, host = only(
        """backendRefs: [
            {name: web, namespace: other, port: 80, weight: 9, filters: [
                {type: ResponseHeaderModifier, responseHeaderModifier: {add: [{name: x, value: y}]}}]},
            {group: networking.istio.io, kind: Hostname, name: api.example, port: 443}]"""
    ).route
    assert (web.destination.host, web.weight) == ("web.other.svc.cluster.local", 9)
    assert web.headers.response.add == {"x": "y"}
    assert (host.destination.host, host.weight, host.headers) == ("api.example", 1, None)


TIMES = {
    "timeouts: {request: 5s}": (5.0, HttpRetry(attempts=2)),
    "timeouts: {request: 5s, backendRequest: 1s}": (1.0, HttpRetry(attempts=2)),
    "timeouts: {request: 5s, backendRequest: 1s}, retry: {attempts: 3, codes: [500, 503], backoff: 10ms}": (
        5.0,
        HttpRetry(attempts=3, per_try_timeout=1.0, retry_on="500,503", backoff=0.01),
    ),
    "retry: {}": (None, HttpRetry(attempts=2)),
}


@pytest.mark.parametrize(("text", "expected"), TIMES.items())
def test_timeouts_and_retries(text, expected):
    """The time of an attempt is the time of the request where there are no further ones."""
    route = only(f"{text}, {BACKEND}")
    assert (route.timeout, str(route.retries)) == (expected[0], str(expected[1]))


REDIRECTS = {
    "statusCode: 301": HttpRedirect(target_port=RedirectPortSelection.FROM_REQUEST_PORT, redirect_code=301),
    "scheme: https": HttpRedirect(
        scheme="https", target_port=RedirectPortSelection.FROM_PROTOCOL_DEFAULT, redirect_code=302
    ),
    "hostname: a.example, port: 8443": HttpRedirect(
        authority="a.example", target_port=RedirectPort(8443), redirect_code=302
    ),
    "path: {type: ReplaceFullPath, replaceFullPath: /x}": HttpRedirect(
        uri="/x", target_port=RedirectPortSelection.FROM_REQUEST_PORT, redirect_code=302
    ),
    "path: {type: ReplacePrefixMatch, replacePrefixMatch: /x}": HttpRedirect(
        prefix_rewrite="/x", target_port=RedirectPortSelection.FROM_REQUEST_PORT, redirect_code=302
    ),
}


@pytest.mark.parametrize(("text", "expected"), REDIRECTS.items())
def test_redirects(text, expected):
    """To another place; the port is the scheme's if a scheme is given, else the request's."""
    route = only(f"filters: [{{type: RequestRedirect, requestRedirect: {{{text}}}}}]")
    assert str(route.redirect) == str(expected)
    assert route.direct_response is None


REWRITES = {
    "hostname: a.example": HttpRewrite(authority="a.example"),
    "path: {type: ReplaceFullPath, replaceFullPath: /x}": HttpRewrite(
        uri_regex_rewrite=RegexRewrite(match="/.*", rewrite="/x")
    ),
    "path: {type: ReplacePrefixMatch, replacePrefixMatch: /x/}": HttpRewrite(uri="/x"),
    "path: {type: ReplacePrefixMatch, replacePrefixMatch: /}": HttpRewrite(
        uri_regex_rewrite=RegexRewrite(match=r"^/a\.b(/?)(.*)", rewrite=r"/\2")
    ),
}


@pytest.mark.parametrize(("text", "expected"), REWRITES.items())
def test_rewrites(text, expected):
    """A prefix that is taken away takes the slash after it along."""
    match = "matches: [{path: {value: /a.b}}]"
    route = only(f"{match}, filters: [{{type: URLRewrite, urlRewrite: {{{text}}}}}], {BACKEND}")
    assert str(route.rewrite) == str(expected)


MIRRORS = {"": None, "percent: 20": Percent(value=20), "fraction: {numerator: 1, denominator: 8}": Percent(value=12.5)}


@pytest.mark.parametrize(("text", "share"), MIRRORS.items())
def test_mirrors(text, share):
    """All requests, or a share of them."""
    mirror = ", ".join(filter(None, ("backendRef: {name: shadow, port: 80}", text)))
    (found,) = only(f"filters: [{{type: RequestMirror, requestMirror: {{{mirror}}}}}], {BACKEND}").mirrors
    assert found.destination.host == "shadow.shop.svc.cluster.local"
    assert found.percentage == share


def test_cross_origin_requests():
    """An asterisk in an origin stands for anything; a preflight that does not match goes nowhere."""
    cors = "allowOrigins: ['https://a.example', 'https://*.b.example'], allowMethods: [GET], maxAge: 60"
    policy = only(f"filters: [{{type: CORS, cors: {{{cors}}}}}], {BACKEND}").cors_policy
    assert policy.allow_origins == (Exact("https://a.example"), Regex(r"https://.*\.b\.example"))
    assert (policy.allow_methods, policy.max_age) == (("GET",), 60.0)
    assert policy.unmatched_preflights == "IGNORE"


def test_headers():
    """Requests and responses."""
    route = only(
        f"""filters: [
            {{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: a, value: b}}], remove: [c]}}}},
            {{type: ResponseHeaderModifier, responseHeaderModifier: {{add: [{{name: d, value: e}}]}}}}], {BACKEND}"""
    )
    assert (route.headers.request.set, route.headers.request.remove) == ({"a": "b"}, ("c",))
    assert route.headers.response.add == {"d": "e"}


UNSUPPORTED = {
    "backendRefs: [{name: web}]": "spec.rules[0].backendRefs[0].port",
    "backendRefs: [{group: x, kind: Y, name: web, port: 80}]": "spec.rules[0].backendRefs[0]",
    f"filters: [{{type: ExtensionRef, extensionRef: {{name: x}}}}], {BACKEND}": "spec.rules[0].filters[0]",
    "filters: [{type: RequestMirror, requestMirror: {backendRef: {name: x}}}]": (
        "spec.rules[0].filters[0].requestMirror.backendRef.port"
    ),
}


@pytest.mark.parametrize(("rule", "path"), UNSUPPORTED.items())
def test_what_cannot_be_done_is_said(rule, path):
    """With the place where it stands."""
    with pytest.raises(Unsupported) as fault:
        translated(rule)
    assert fault.value.path == path
