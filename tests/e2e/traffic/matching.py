"""Cases of traffic: by what a request is recognised, and where it goes then."""

from __future__ import annotations

from tests.e2e.traffic.checks import Case, get
from tests.e2e.traffic.rules import VERSIONS, together, web

MATCHING = (
    Case(
        name="no rule",
        shows="a service without a VirtualService is called by all its names, and all its endpoints are used",
        checks=(
            get().repeated(40).goes_to("web-v1", "web-v2", "web-v3"),
            get(host="web.shop", by="back").repeated(40).goes_to("web-v1", "web-v2", "web-v3"),
            get(host="other.shop.svc.cluster.local").goes_to("other"),
            get(host="other:8080").goes_to("other"),
        ),
    ),
    Case(
        name="uri",
        shows="the first route that matches the path decides; without any, the request is not for us",
        mesh=web(
            "match: [{uri: {exact: /a}}], V1",
            "match: [{uri: {prefix: /a}}, {uri: {regex: '/[x-z]+[0-9]'}}], V2",
            "match: [{uri: {prefix: /b}}], V3",
        ),
        checks=(
            get("/a").goes_to("web-v1"),
            get("/a?q=1").goes_to("web-v1"),
            get("/a/b").goes_to("web-v2"),
            get("/xyz7").goes_to("web-v2"),
            get("/b/c").goes_to("web-v3"),
            get("/xyz").answers(404),
        ),
    ),
    Case(
        name="uri in any letters",
        shows="ignoreUriCase makes exact and prefix matches blind for upper and lower case",
        mesh=web("match: [{uri: {prefix: /Aa}, ignoreUriCase: true}], V1", "V2"),
        checks=(get("/aA/b").goes_to("web-v1"), get("/a").goes_to("web-v2")),
    ),
    Case(
        name="headers",
        shows="exact, prefix, regex and mere presence; all of one match, any of several",
        mesh=web(
            "match: [{headers: {x-a: {exact: '1'}, x-b: {prefix: b}}}, {headers: {x-c: {regex: 'c+'}}}], V1",
            "match: [{headers: {x-d: {}}}], V2",
            "V3",
        ),
        checks=(
            get(headers={"x-a": "1", "x-b": "bbb"}).goes_to("web-v1"),
            get(headers={"x-a": "1"}).goes_to("web-v3"),
            get(headers={"x-c": "ccc"}).goes_to("web-v1"),
            get(headers={"x-c": "cd"}).goes_to("web-v3"),
            get(headers={"x-d": "whatever"}).goes_to("web-v2"),
        ),
    ),
    Case(
        name="without headers",
        shows="a route for those who do not say something",
        mesh=web("match: [{withoutHeaders: {x-a: {exact: '1'}}}], V1", "V2"),
        checks=(
            get().goes_to("web-v1"),
            get(headers={"x-a": "2"}).goes_to("web-v1"),
            get(headers={"x-a": "1"}).goes_to("web-v2"),
        ),
    ),
    Case(
        name="query parameters",
        shows="exact, regex and mere presence",
        mesh=web(
            "match: [{queryParams: {q: {exact: a}}}, {queryParams: {r: {regex: '[0-9]+'}}}], V1",
            "match: [{queryParams: {s: {}}}], V2",
            "V3",
        ),
        checks=(
            get("/?q=a").goes_to("web-v1"),
            get("/?r=17&q=b").goes_to("web-v1"),
            get("/?s=").goes_to("web-v2"),
            get("/?q=b").goes_to("web-v3"),
        ),
    ),
    Case(
        name="method and authority",
        shows="requests are told apart by their method and by the host as it is written",
        mesh=web("match: [{method: {exact: POST}}], V1", "match: [{authority: {prefix: web.shop}}], V2", "V3"),
        checks=(
            get(method="POST").goes_to("web-v1"),
            get(host="web.shop").goes_to("web-v2"),
            get().goes_to("web-v3"),
        ),
    ),
    Case(
        name="source labels",
        shows="a route for one workload only",
        mesh=web("match: [{sourceLabels: {app: back}}], V1", "V2"),
        checks=(get(by="front").goes_to("web-v2"), get(by="back").goes_to("web-v1")),
    ),
    Case(
        name="source namespace and port",
        shows="what cannot hold for a caller is left out",
        mesh=web(
            "match: [{sourceNamespace: bank}], V1",
            "match: [{port: 9999}], V1",
            "match: [{port: 8080, sourceNamespace: shop}], V2",
        ),
        checks=(get().goes_to("web-v2"),),
    ),
    Case(
        name="gateways",
        shows="a VirtualService for a gateway alone means nothing to a sidecar",
        mesh=together(
            "kind: VirtualService\nmetadata: {name: web}\nspec: {hosts: [web], gateways: [edge], http: [{V1}]}",
            VERSIONS,
        ),
        checks=(get().repeated(40).goes_to("web-v1", "web-v2", "web-v3"),),
    ),
    Case(
        name="delegate",
        shows="a VirtualService leaves a part of its paths to another one, whose matches are within its own",
        mesh=together(
            web("match: [{uri: {prefix: /left}}], delegate: {name: left, namespace: bank}", "V1"),
            """
kind: VirtualService
metadata: {name: left, namespace: bank}
spec:
  http:
  - {match: [{uri: {prefix: /left/new}}], V2}
  - {V3}
""",
        ),
        checks=(
            get("/left/new/1").goes_to("web-v2"),
            get("/left/old").goes_to("web-v3"),
            get("/right").goes_to("web-v1"),
        ),
    ),
    Case(
        name="wildcard host",
        shows="a VirtualService for *.shop.svc.cluster.local holds for whatever has none of its own",
        mesh=together(
            web("V1"),
            """
kind: VirtualService
metadata: {name: all}
spec: {hosts: ["*.shop.svc.cluster.local"], http: [{route: [{destination: {host: other}}]}]}
""",
        ),
        checks=(get().goes_to("web-v1"), get(host="place").goes_to("other")),
    ),
)
