"""Cases of traffic: how a sidecar speaks to services, and its listener for clients that know they have a proxy."""

from __future__ import annotations

from tests.e2e.traffic.checks import PROXY_PORT, Case, get
from tests.e2e.traffic.rules import entry, policy, together

HOST = "partner.example"
ROOTS = "caCertificates: FILES/guarded/roots.pem"
OWN = "clientCertificate: FILES/client/certificate.pem, privateKey: FILES/client/key.pem"


def at(number: int, protocol: str = "HTTP") -> str:
    """The partner as the program at this address, whose port says that it speaks this."""
    where = entry("resolution: STATIC", f"endpoints: [{{address: NET.{number}, ports: {{http: 8081}}}}]")
    return where.replace("protocol: HTTP", f"protocol: {protocol}")


def with_tls(number: int, tls: str) -> str:
    """The same, called over TLS as this says."""
    return together(at(number), policy(HOST, f"tls: {{{tls}}}"))


UPSTREAM = (
    Case(
        name="http2 port",
        shows="a port that says HTTP/2 is spoken to in HTTP/2",
        mesh=at(43, "HTTP2"),
        checks=(get("/x", host=HOST).goes_to("modern").upstream_sees(path="/x"), get(host=HOST, by="back")),
    ),
    Case(
        name="h2 upgrade",
        shows="a rule makes HTTP/2 of HTTP/1.1 on the way",
        mesh=together(at(43), policy(HOST, "connectionPool: {http: {h2UpgradePolicy: UPGRADE}}")),
        checks=(get("/x", host=HOST).goes_to("modern").upstream_sees(path="/x"), get(host=HOST, by="back")),
    ),
    Case(
        name="no h2 upgrade",
        shows="without it the same program understands nothing",
        mesh=at(43),
        checks=(get(host=HOST).goes_to("").answers(502),),
    ),
    Case(
        name="tls origination",
        shows="the sidecar adds TLS, asks for a server name, and checks who answers",
        mesh=with_tls(
            41,
            f"mode: SIMPLE, sni: guarded.example, {ROOTS}, "
            "subjectAltNames: ['spiffe://cluster.local/ns/shop/sa/guarded']",
        ),
        checks=(get(host=HOST).goes_to("guarded"), get(host=HOST, by="back").goes_to("guarded")),
    ),
    Case(
        name="tls origination by the name asked for",
        shows="where the rule names nobody, the certificate must be of the host that was asked for",
        mesh=together(
            with_tls(41, f"mode: SIMPLE, {ROOTS}").replace(HOST, "guarded.example"),
            with_tls(41, f"mode: SIMPLE, {ROOTS}").replace("name: partner", "name: other-partner"),
        ),
        checks=(get(host="guarded.example").goes_to("guarded"), get(host=HOST).goes_to("").answers(503)),
    ),
    Case(
        name="tls origination to a stranger",
        shows="whoever has a certificate of other roots, or of another name, gets no request",
        mesh=together(
            with_tls(41, "mode: SIMPLE, sni: guarded.example, caCertificates: FILES/stranger/roots.pem"),
            with_tls(41, f"mode: SIMPLE, sni: guarded.example, {ROOTS}, subjectAltNames: [x.example]")
            .replace(HOST, "x.example")
            .replace("name: partner", "name: x"),
        ),
        checks=(get(host=HOST).goes_to("").answers(503), get(host="x.example").goes_to("").answers(503)),
    ),
    Case(
        name="mutual tls origination",
        shows="the sidecar shows a certificate of its own to who demands one",
        mesh=with_tls(42, f"mode: MUTUAL, sni: strict.example, {ROOTS}, {OWN}"),
        checks=(get(host=HOST).goes_to("strict"), get(host=HOST, by="back").goes_to("strict")),
    ),
    Case(
        name="no certificate where one is demanded",
        shows="without it the program answers nothing",
        mesh=with_tls(42, f"mode: SIMPLE, sni: strict.example, {ROOTS}"),
        checks=(get(host=HOST).goes_to("").answers(503),),
    ),
    Case(
        name="warm-up",
        shows="endpoints that have just come get their share little by little; all of them are called",
        mesh=policy(
            "web",
            "loadBalancer: {simple: ROUND_ROBIN, warmup: {duration: 10s, minimumPercent: 40, aggression: 1.5}}",
        ),
        checks=(get().repeated(40).goes_to("web-v1", "web-v2", "web-v3"),),
    ),
    Case(
        name="http proxy",
        shows="a client that knows it has a proxy is taken to the host that it names, and to no other",
        mesh=together(
            at(14).replace("number: 8080", "number: 80"),
            """
kind: Sidecar
metadata: {name: front}
spec:
  workloadSelector: {labels: {app: front}}
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
  egress:
  - {bind: NET.1, port: {number: 8080, protocol: HTTP, name: http}, hosts: ["*/*"]}
  - {bind: NET.1, port: {number: 3128, protocol: HTTP_PROXY, name: proxy}, hosts: ["./*"]}
""",
        ),
        checks=(
            get(f"http://{HOST}/x", host=HOST, port=PROXY_PORT).goes_to("other").upstream_sees(path="/x"),
            get("http://nobody.example/", host="nobody.example", port=PROXY_PORT).goes_to("").answers(502),
        ),
    ),
)
