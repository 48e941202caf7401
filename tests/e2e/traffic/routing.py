"""Cases of traffic: where a request goes, what becomes of it on its way, and what is answered in a program's stead."""

from __future__ import annotations

from tests.e2e.traffic.checks import Case, get
from tests.e2e.traffic.rules import web


def weighted(**weights: int) -> str:
    """A route to versions of `web` by weight."""
    items = (f"{{destination: {{host: web, subset: {name}}}, weight: {weight}}}" for name, weight in weights.items())
    return f"route: [{', '.join(items)}]"


ROUTING = (
    Case(
        name="weights",
        shows="requests are split as the weights say, and a weight of zero gets none",
        mesh=web(weighted(v1=80, v2=20, v3=0)),
        checks=(get().repeated(100).goes_to("web-v1", "web-v2").mostly_to("web-v1"),),
    ),
    Case(
        name="another service",
        shows="the destination need not be the host that was asked for; the request keeps its host",
        mesh=web("route: [{destination: {host: vault.bank.svc.cluster.local}}]"),
        checks=(get().goes_to("vault").upstream_sees(headers={"host": "web"}),),
    ),
    Case(
        name="mirror",
        shows="a copy goes elsewhere, and its answer nowhere",
        mesh=web("V1, mirror: {host: other}"),
        checks=(get("/to-be-copied").goes_to("web-v1").copied("other"),),
    ),
    Case(
        name="mirrors",
        shows="several copies",
        mesh=web("V1, mirrors: [{destination: {host: web, subset: v2}}, {destination: {host: other}}]"),
        checks=(
            get("/to-be-copied/2").goes_to("web-v1").copied("web-v2"),
            get("/to-be-copied/3").goes_to("web-v1").copied("other"),
        ),
    ),
    Case(
        name="rewrite",
        shows="the prefix of a path, a part of it by regular expression, and the host",
        mesh=web(
            "match: [{uri: {prefix: /old}}], rewrite: {uri: /new}, V1",
            "match: [{uri: {prefix: /item}}], "
            "rewrite: {uriRegexRewrite: {match: '^/item/([0-9]+)', rewrite: '/i\\1'}}, V2",
            "rewrite: {authority: elsewhere.example}, V3",
        ),
        checks=(
            get("/old/1?q=2").goes_to("web-v1").upstream_sees(path="/new/1?q=2"),
            get("/item/17/x").goes_to("web-v2").upstream_sees(path="/i17/x", headers={"host": "web"}),
            get("/1").goes_to("web-v3").upstream_sees(path="/1", headers={"host": "elsewhere.example"}),
        ),
    ),
    Case(
        name="redirect",
        shows="path, prefix, host, scheme, port and code",
        mesh=web(
            "match: [{uri: {prefix: /a}}], redirect: {uri: /b}",
            "match: [{uri: {prefix: /c}}], "
            "redirect: {prefixRewrite: /d, authority: elsewhere.example, redirectCode: 308}",
            "match: [{uri: {prefix: /e}}], redirect: {scheme: https, port: 8443}",
        ),
        checks=(
            get("/a/1").answers(301).client_sees({"location": "http://web/b"}),
            get("/c/1").answers(308).client_sees({"location": "http://elsewhere.example/d/1"}),
            get("/e/1?q=2").answers(301).client_sees({"location": "https://web:8443/e/1?q=2"}),
        ),
    ),
    Case(
        name="direct response",
        shows="an answer without any program",
        mesh=web("match: [{uri: {prefix: /tea}}], directResponse: {status: 418, body: {string: a teapot}}", "V1"),
        checks=(get("/tea").goes_to("").answers(418).says("a teapot"), get().goes_to("web-v1")),
    ),
    Case(
        name="header operations",
        shows="of requests and answers are set, added and removed, for a route and for a destination",
        mesh=web(
            "headers: {request: {set: {x-set: one}, add: {x-add: two}, remove: [x-gone]}, "
            "response: {set: {x-back: three}}}, "
            "route: [{destination: {host: web, subset: v1}, "
            "headers: {request: {set: {x-of: v1}}, response: {remove: [x-envoy-upstream-service-time]}}}]",
        ),
        checks=(
            get(headers={"x-set": "old", "x-add": "old", "x-gone": "old"})
            .goes_to("web-v1")
            .upstream_sees(headers={"x-set": "one", "x-add": "old,two", "x-gone": None, "x-of": "v1"})
            .client_sees({"x-back": "three", "x-envoy-upstream-service-time": None}),
        ),
    ),
    Case(
        name="header operations by weight",
        shows="each of several destinations has headers of its own",
        mesh=web(
            "route: [{destination: {host: web, subset: v1}, weight: 50, headers: {response: {set: {x-of: v1}}}}, "
            "{destination: {host: other}, weight: 50, headers: {request: {set: {host: other.example}}}}]"
        ),
        checks=(
            get()
            .repeated(40)
            .goes_to("web-v1", "other")
            .client_sees({"x-of": "v1"}, program="web-v1")
            .client_sees({"x-of": None}, program="other")
            .upstream_sees(headers={"host": "web"}, program="web-v1")
            .upstream_sees(headers={"host": "other.example"}, program="other"),
        ),
    ),
    Case(
        name="cors",
        shows="the sidecar answers a browser's question, and marks answers for origins that may read them",
        mesh=web(
            "corsPolicy: {allowOrigins: [{exact: 'https://good.example'}, {regex: 'https://.*[.]fine[.]example'}], "
            "allowMethods: [GET], allowHeaders: [x-a], exposeHeaders: [x-b], maxAge: 1h, allowCredentials: true}, V1"
        ),
        checks=(
            get(method="OPTIONS", headers={"origin": "https://good.example", "access-control-request-method": "GET"})
            .goes_to("")
            .client_sees(
                {
                    "access-control-allow-origin": "https://good.example",
                    "access-control-allow-methods": "GET",
                    "access-control-allow-headers": "x-a",
                    "access-control-max-age": "3600",
                    "access-control-allow-credentials": "true",
                }
            ),
            get(headers={"origin": "https://so.fine.example"})
            .goes_to("web-v1")
            .client_sees(
                {"access-control-allow-origin": "https://so.fine.example", "access-control-expose-headers": "x-b"}
            ),
            get(headers={"origin": "https://bad.example"})
            .goes_to("web-v1")
            .client_sees({"access-control-allow-origin": None}),
        ),
    ),
)
