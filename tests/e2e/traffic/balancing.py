"""Cases of traffic: which of several endpoints is chosen."""

from __future__ import annotations

from tests.e2e.traffic.checks import Case, get
from tests.e2e.traffic.rules import policy

ALL = ("web-v1", "web-v2", "web-v3")


def hashed(by: str) -> str:
    """A rule that chooses endpoints of `web` by a hash."""
    return policy("web", f"loadBalancer: {{consistentHash: {{{by}}}}}")


BALANCING = (
    Case(
        name="round robin",
        shows="each in its turn",
        mesh=policy("web", "loadBalancer: {simple: ROUND_ROBIN}"),
        checks=(get().repeated(3).goes_to(*ALL), get().repeated(3).goes_to(*ALL)),
    ),
    Case(
        name="hash of a header",
        shows="requests with the same header go to the same endpoint, those with others elsewhere, too",
        mesh=hashed("httpHeaderName: x-user"),
        checks=(
            *(get(headers={"x-user": user}).repeated(10).sticks() for user in ("ann", "bob", "cyd")),
            get().repeated(40).goes_to(*ALL),
        ),
    ),
    Case(
        name="hash of a query parameter",
        shows="the same by what is asked for",
        mesh=hashed("httpQueryParameterName: user"),
        checks=(get("/?user=ann").repeated(10).sticks(), get("/?user=bob").repeated(10).sticks()),
    ),
    Case(
        name="hash of a cookie",
        shows="the same by a cookie, which the sidecar gives to those who have none",
        mesh=hashed("httpCookie: {name: user, ttl: 1h}"),
        checks=(
            get(headers={"cookie": "user=ann"}).repeated(10).sticks().client_sees({"set-cookie": None}),
            get().repeated(40).goes_to(*ALL),
        ),
    ),
    Case(
        name="hash of the source",
        shows="the same by the caller's address",
        mesh=hashed("useSourceIp: true"),
        checks=(get().repeated(10).sticks(),),
    ),
    Case(
        name="maglev",
        shows="another algorithm",
        mesh=hashed("httpHeaderName: x-user, maglev: {tableSize: 101}"),
        checks=(get(headers={"x-user": "ann"}).repeated(10).sticks(),),
    ),
    Case(
        name="policy of a port",
        shows="a port's policy is stronger than that of the whole",
        mesh=policy(
            "web",
            "loadBalancer: {simple: ROUND_ROBIN}, portLevelSettings: "
            "[{port: {number: 8080}, loadBalancer: {consistentHash: {httpHeaderName: x-user}}}]",
        ),
        checks=(get(headers={"x-user": "ann"}).repeated(10).sticks(),),
    ),
)
