"""Cases of traffic: what the sidecar does when something fails or is slow, and how it makes things fail on purpose."""

from __future__ import annotations

from tests.e2e.traffic.checks import Case, get
from tests.e2e.traffic.rules import policy, web

EJECTS = "outlierDetection: {consecutive5xxErrors: 1, interval: 60s, baseEjectionTime: 60s, maxEjectionPercent: 100}"
"""Whoever fails once gets no requests for a minute."""


RESILIENCE = (
    Case(
        name="delay",
        shows="some requests are delayed on purpose",
        mesh=web(
            "match: [{headers: {x-slow: {}}}], fault: {delay: {fixedDelay: 500ms, percentage: {value: 100}}}, V1",
            "V1",
        ),
        checks=(
            get(headers={"x-slow": "yes"}).goes_to("web-v1").takes(0.45, 5.0),
            get().goes_to("web-v1").takes(0.0, 0.45),
        ),
    ),
    Case(
        name="abort",
        shows="some requests fail on purpose: all of them, none, or a half",
        mesh=web(
            "match: [{uri: {prefix: /all}}], fault: {abort: {httpStatus: 418, percentage: {value: 100}}}, V1",
            "match: [{uri: {prefix: /half}}], fault: {abort: {httpStatus: 418, percentage: {value: 50}}}, V1",
            "fault: {abort: {httpStatus: 418, percentage: {value: 0}}}, V1",
        ),
        checks=(
            get("/all").repeated(10).goes_to("").answers(418),
            get("/half").repeated(40).goes_to("", "web-v1").answers(418, 200),
            get("/none").repeated(10).goes_to("web-v1"),
        ),
    ),
    Case(
        name="retries",
        shows="a request that fails is tried again, as often as the rule says and not more",
        mesh=web("retries: {attempts: 2, retryOn: 5xx, backoff: 10ms}, V1"),
        checks=(
            get("/fail/2/twice").goes_to("web-v1").upstream_sees(headers={"x-envoy-attempt-count": "3"}),
            get("/fail/3/thrice").answers(500),
        ),
    ),
    Case(
        name="no retries",
        shows="with no attempts each failure is seen",
        mesh=web("retries: {attempts: 0}, V1"),
        checks=(get("/fail/1/unretried").answers(500), get("/fail/1/unretried").goes_to("web-v1")),
    ),
    Case(
        name="timeout",
        shows="whoever takes too long is not waited for; each attempt may have a limit of its own",
        mesh=web(
            "match: [{uri: {prefix: /sleep/2/once}}], timeout: 200ms, V1",
            "match: [{uri: {prefix: /sleep/2/twice}}], timeout: 5s, "
            "retries: {attempts: 1, perTryTimeout: 200ms, retryOn: 5xx, backoff: 10ms}, V1",
            "V2",
        ),
        checks=(
            get("/sleep/2/once").answers(504).takes(0.15, 2.0),
            get("/sleep/2/twice").answers(504).takes(0.3, 2.0),
            get("/sleep/0.3").goes_to("web-v2").takes(0.25, 2.0),
        ),
    ),
    Case(
        name="outlier",
        shows="an endpoint that fails gets no further requests",
        mesh=policy("web", f"loadBalancer: {{simple: ROUND_ROBIN}}, {EJECTS}"),
        checks=(
            get("/fail-at/web-v2/500").repeated(6).answers(200, 500),
            get().repeated(30).goes_to("web-v1", "web-v3"),
        ),
    ),
    Case(
        name="failover",
        shows="endpoints near by are used as long as there is one that works, then those far away",
        mesh=policy("place", f"loadBalancer: {{localityLbSetting: {{enabled: true}}}}, {EJECTS}"),
        checks=(
            get(host="place").repeated(10).goes_to("near"),
            get("/fail-at/near/500", host="place").answers(500),
            get(host="place").repeated(10).goes_to("far"),
        ),
    ),
    Case(
        name="no failover",
        shows="without outlier detection distance does not matter",
        checks=(get(host="place").repeated(40).goes_to("near", "far"),),
    ),
    Case(
        name="distribute",
        shows="requests are split between localities as a rule says",
        mesh=policy(
            "place",
            "loadBalancer: {localityLbSetting: {distribute: [{from: eu/*, to: {'eu/*': 10, 'us/*': 90}}]}}, "
            "outlierDetection: {consecutive5xxErrors: 100}",
        ),
        checks=(get(host="place").repeated(60).goes_to("near", "far").mostly_to("far"),),
    ),
    Case(
        name="circuit breaker",
        shows="of requests at once only so many are let through, and so many may wait",
        mesh=policy(
            "other", "connectionPool: {tcp: {maxConnections: 1}, http: {http1MaxPendingRequests: 1, maxRetries: 0}}"
        ),
        checks=(
            get("/sleep/0.3", host="other").at_the_same_time(5).goes_to("other", "").answers(200, 503),
            get(host="other").repeated(5).goes_to("other"),
        ),
    ),
)
