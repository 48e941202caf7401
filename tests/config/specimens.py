"""One rich document of each kind that is checked: most fields, all of them right. Tests change them in places."""

from __future__ import annotations

import yaml

_TEXT = r"""
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: it, namespace: shop, labels: {team: web}, creationTimestamp: "2024-05-01T12:00:00Z"}
spec:
  hosts: [reviews, "*.example.com"]
  gateways: [mesh, infra/edge]
  exportTo: [".", bank]
  http:
  - name: first
    match:
    - name: api
      uri: {prefix: /api}
      scheme: {exact: http}
      method: {exact: GET}
      authority: {regex: "a.*"}
      headers: {x-user: {exact: jason}, x-any: {}}
      withoutHeaders: {x-old: {prefix: "1"}}
      queryParams: {q: {regex: "[0-9]+"}}
      port: 80
      sourceLabels: {app: web}
      gateways: [mesh]
    route:
    - destination: {host: reviews, subset: v1, port: {number: 9080}}
      weight: 75
      headers: {request: {add: {x-a: "1"}, remove: [x-b]}}
    - {destination: {host: reviews, subset: v2}, weight: 25}
    timeout: 5s
    retries: {attempts: 3, perTryTimeout: 2s, retryOn: "5xx,503", backoff: 25ms}
    fault: {delay: {fixedDelay: 1s, percentage: {value: 10}}, abort: {httpStatus: 503, percentage: {value: 0.1}}}
    mirrors: [{destination: {host: shadow}, percentage: {value: 50}}]
    rewrite: {uriRegexRewrite: {match: "^/a/(.*)", rewrite: "/b/\\1"}}
    corsPolicy: {allowOrigins: [{exact: "https://a.b"}], allowMethods: [GET], maxAge: 24h, allowCredentials: true}
    headers: {response: {set: {x-host: "%HOSTNAME%"}}}
  - match: [{uri: {prefix: /old}}]
    redirect: {prefixRewrite: /new, authority: new.example.com, redirectCode: 302, port: 8080}
  - directResponse: {status: 404, body: {bytes: aGVsbG8=}}
  tls:
  - match: [{sniHosts: [a.example.com], destinationSubnets: [10.0.0.0/8], port: 443}]
    route: [{destination: {host: a.example.com}}]
  tcp:
  - match: [{port: 9000, sourceLabels: {app: web}}]
    route: [{destination: {host: reviews}, weight: 1}, {destination: {host: ratings}, weight: 1}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: it, namespace: shop}
spec:
  host: reviews
  exportTo: ["*"]
  trafficPolicy:
    loadBalancer:
      consistentHash: {httpCookie: {name: c, path: /, ttl: 1h, attributes: [{name: Secure}]}, maglev: {tableSize: 5}}
      localityLbSetting: {distribute: [{from: r1/*, to: {r1/*: 80, r2: 20}}]}
      warmup: {duration: 30s, minimumPercent: 10, aggression: 1.5}
    connectionPool:
      tcp: {maxConnections: 5, connectTimeout: 3s, tcpKeepalive: {probes: 3, time: 60s}, idleTimeout: 0s}
      http: {http1MaxPendingRequests: 5, http2KeepAlive: {interval: 10s, timeout: 2s}, h2UpgradePolicy: UPGRADE}
    outlierDetection: {consecutive5xxErrors: 5, interval: 5s, maxEjectionPercent: 50}
    tls: {mode: SIMPLE, credentialName: cert, sni: a.b}
    portLevelSettings: [{port: {number: 80}, loadBalancer: {simple: RANDOM}, tls: {mode: ISTIO_MUTUAL}}]
    tunnel: {protocol: CONNECT, targetHost: a.b, targetPort: 443}
    retryBudget: {percent: 20, minRetryConcurrency: 3}
  subsets:
  - {name: v1, labels: {version: v1}}
  - {name: v2, labels: {version: v2}, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: it, namespace: shop}
spec:
  hosts: [pay.example.com]
  addresses: [10.1.1.1, 10.2.0.0/16]
  ports: [{number: 443, name: tls, protocol: TLS, targetPort: 8443}, {number: 80, name: http, protocol: HTTP}]
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints:
  - {address: 10.0.0.1, ports: {tls: 9443}, labels: {app: pay}, locality: r1/z1, weight: 3, serviceAccount: pay}
  - {address: "unix:///var/run/pay.sock"}
  subjectAltNames: [pay]
  exportTo: ["."]
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: it, namespace: shop}
spec: {address: vm.example.com, ports: {http: 8080}, labels: {app: vm}, network: n1, weight: 1, serviceAccount: vm}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: it, namespace: shop}
spec:
  workloadSelector: {labels: {app: web}}
  ingress:
  - {port: {number: 80, protocol: HTTP, name: http}, defaultEndpoint: "127.0.0.1:8080", bind: 0.0.0.0}
  - port: {number: 443, protocol: HTTPS, name: https}
    defaultEndpoint: unix:///tmp/web
    tls: {mode: SIMPLE, serverCertificate: /c, privateKey: /k}
  egress:
  - {port: {number: 9080, protocol: HTTP, name: http}, bind: 127.0.0.1, captureMode: NONE, hosts: ["./reviews.svc"]}
  - {bind: "unix:///tmp/egress", port: {protocol: TCP, name: uds}, hosts: ["bank/*.example.com", "~*/old.example.com"]}
  - {hosts: ["istio-system/*"]}
  inboundConnectionPool: {tcp: {maxConnections: 100}}
  outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: out.example.com, port: {number: 443}}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: it, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  mtls: {mode: STRICT}
  portLevelMtls: {"8080": {mode: DISABLE}, "9000": {}}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: it, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  jwtRules:
  - issuer: https://login.example.com
    audiences: [shop]
    jwksUri: https://login.example.com/keys
    fromHeaders: [{name: x-token, prefix: "Bearer "}]
    fromParams: [token]
    fromCookies: [session]
    outputPayloadToHeader: x-payload
    outputClaimToHeaders: [{header: x-sub, claim: sub}]
    forwardOriginalToken: true
    timeout: 3s
    spaceDelimitedClaims: [roles]
    presence: REQUIRED
  - {issuer: other, jwks: '{"keys":[{"kty":"oct","k":"AA"}]}'}
"""

SPECIMENS: tuple[dict[str, object], ...] = tuple(yaml.load_all(_TEXT, yaml.CSafeLoader))
