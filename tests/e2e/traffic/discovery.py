"""Cases of traffic: who is there, who may be seen, and what happens to requests for everybody else."""

from __future__ import annotations

from tests.e2e.traffic.checks import Case, get
from tests.e2e.traffic.rules import VERSIONS, entry, together, web

UNREADY = """
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8081}]
endpoints:
- {addresses: [NET.11], conditions: {ready: %s}, targetRef: {kind: Pod, name: web-v1, namespace: shop}}
- {addresses: [NET.12], conditions: {ready: false}, targetRef: {kind: Pod, name: web-v2, namespace: shop}}
"""


DISCOVERY = (
    Case(
        name="static entry",
        shows="a ServiceEntry of addresses, with a port of their own",
        mesh=entry("resolution: STATIC", "endpoints: [{address: NET.14, ports: {http: 8081}}]"),
        checks=(
            get(host="partner.example").goes_to("other"),
            get(host="partner.example:8080", by="back").goes_to("other"),
        ),
    ),
    Case(
        name="entry by name",
        shows="a ServiceEntry whose endpoint is found by DNS",
        mesh=entry("resolution: DNS", "endpoints: [{address: localhost, ports: {http: PARTNER}}]"),
        checks=(
            get(host="partner.example").goes_to("partner").upstream_sees(headers={"host": "partner.example"}),
            get(host="partner.example", by="back").goes_to("partner"),
        ),
    ),
    Case(
        name="entry by name with a rule",
        shows="an external service has subsets and rewrites like any other",
        mesh=together(
            entry("resolution: DNS_ROUND_ROBIN", "endpoints: [{address: localhost, ports: {http: PARTNER}}]"),
            """
kind: VirtualService
metadata: {name: partner}
spec:
  hosts: [partner.example]
  http: [{rewrite: {uri: /api/}, route: [{destination: {host: partner.example}}]}]
""",
        ),
        checks=(get("/x", host="partner.example").goes_to("partner").upstream_sees(path="/api/x"),),
    ),
    Case(
        name="workload entry",
        shows="a ServiceEntry selects machines and Pods by label",
        mesh=together(
            """
kind: ServiceEntry
metadata: {name: partner}
spec:
  hosts: [partner.example]
  ports: [{number: 8080, targetPort: 8081, name: http, protocol: HTTP}]
  resolution: STATIC
  workloadSelector: {labels: {app: other}}
""",
            """
kind: WorkloadEntry
metadata: {name: machine}
spec: {address: NET.17, labels: {app: other}}
""",
        ),
        checks=(get(host="partner.example").repeated(30).goes_to("other", "vault"),),
    ),
    Case(
        name="registry only",
        shows="requests for a host that nobody knows are refused",
        checks=(
            get(host="nobody.example").goes_to("").answers(502),
            get(host="nobody.example", by="back").answers(502),
        ),
    ),
    Case(
        name="allow any",
        shows="such requests are passed through: here, where nothing was intercepted, there is nowhere to go",
        mesh="""
kind: Sidecar
metadata: {name: front}
spec:
  workloadSelector: {labels: {app: front}}
  outboundTrafficPolicy: {mode: ALLOW_ANY}
  egress: [{bind: NET.1, port: {number: 8080, protocol: HTTP, name: http}, hosts: ["*/*"]}]
""",
        checks=(
            get(host="nobody.example").goes_to("").answers(503),
            get(host="nobody.example", by="back").answers(502),
            get(host="other").goes_to("other"),
        ),
    ),
    Case(
        name="scope",
        shows="a sidecar knows what its Sidecar imports, and no more",
        mesh="""
kind: Sidecar
metadata: {name: front}
spec:
  workloadSelector: {labels: {app: front}}
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
  egress:
  - bind: NET.1
    port: {number: 8080, protocol: HTTP, name: http}
    hosts: [bank/*, ./other.shop.svc.cluster.local, ./marker.example]
""",
        checks=(
            get(host="vault.bank").goes_to("vault"),
            get(host="other").goes_to("other"),
            get(host="place").answers(502),
            get(host="place", by="back").answers(200),
        ),
    ),
    Case(
        name="service for its namespace",
        shows="a service that is not exported cannot be called from another namespace",
        mesh="""
apiVersion: v1
kind: Service
metadata: {name: vault, namespace: bank, annotations: {networking.istio.io/exportTo: .}}
spec: {selector: {app: vault}, ports: [{name: http, port: 8080, targetPort: 8081}]}
""",
        checks=(get(host="vault.bank").answers(502), get(host="other").goes_to("other")),
    ),
    Case(
        name="rules for their namespace",
        shows="a VirtualService or a DestinationRule that is not exported means nothing to others",
        mesh="""
kind: VirtualService
metadata: {name: other, namespace: bank}
spec:
  hosts: [other.shop.svc.cluster.local]
  exportTo: ["."]
  http: [{directResponse: {status: 418}}]
---
kind: VirtualService
metadata: {name: place, namespace: bank}
spec:
  hosts: [place.shop.svc.cluster.local]
  http: [{directResponse: {status: 418}}]
---
kind: DestinationRule
metadata: {name: vault, namespace: bank}
spec: {host: vault, exportTo: ["."], subsets: [{name: v1}]}
---
kind: VirtualService
metadata: {name: vault}
spec:
  hosts: [vault.bank.svc.cluster.local]
  http: [{route: [{destination: {host: vault.bank.svc.cluster.local, subset: v1}}]}]
""",
        checks=(
            get(host="other").goes_to("other"),
            get(host="place").goes_to("").answers(418),
            get(host="vault.bank").goes_to("").answers(503),
        ),
    ),
    Case(
        name="unready endpoints",
        shows="endpoints that are not ready get nothing",
        mesh=UNREADY % "true",
        checks=(get().repeated(20).goes_to("web-v1"),),
    ),
    Case(
        name="no endpoints",
        shows="with nobody ready there is nobody to answer",
        mesh=UNREADY % "false",
        checks=(get().goes_to("").answers(503),),
    ),
    Case(
        name="a subset that is not defined",
        shows="a route to it answers 503, others are not harmed",
        mesh=web("match: [{uri: {prefix: /v4}}], route: [{destination: {host: web, subset: v4}}]", "V1"),
        checks=(get("/v4").goes_to("").answers(503), get().goes_to("web-v1")),
    ),
    Case(
        name="headless service",
        shows="a service without an address is called by its name, and each Pod by its own",
        mesh="""
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{name: http, port: 8080, targetPort: 8081}]}
""",
        checks=(get().repeated(40).goes_to("web-v1", "web-v2", "web-v3"), get(host="web-0.web.shop").answers(200)),
    ),
    Case(
        name="external name",
        shows="an ExternalName is another name of a service",
        mesh="""
apiVersion: v1
kind: Service
metadata: {name: alias}
spec: {type: ExternalName, externalName: other.shop.svc.cluster.local, ports: [{name: http, port: 8080}]}
""",
        checks=(get(host="alias").goes_to("other"),),
    ),
    Case(
        name="rules of a workload",
        shows="a DestinationRule for one client only",
        mesh=together(
            VERSIONS.replace("host: web", "host: web\n  workloadSelector: {matchLabels: {app: back}}"),
            "kind: VirtualService\nmetadata: {name: web}\nspec: {hosts: [web], http: [{V1}]}",
        ),
        checks=(get().answers(503), get(by="back").repeated(10).goes_to("web-v1")),
    ),
)
