"""The mesh of the tests of the whole tree: a service with two workloads, and one that a Sidecar keeps out of reach."""

SHOP = """
Service shop/web: {ports: [{name: http, port: 80}], selector: {app: web}, clusterIP: 10.96.0.1}
Pod shop/web-1: {metadata: {labels: {app: web}}, containers: [{name: app}], status: {phase: Running, podIP: 10.1.0.1}}
Pod shop/web-2: {metadata: {labels: {app: web}}, containers: [{name: app}], status: {phase: Running, podIP: 10.1.0.2}}
EndpointSlice shop/web-1:
  metadata: {labels: {kubernetes.io/service-name: web}}
  addressType: IPv4
  ports: [{name: http, port: 8080}]
  endpoints:
  - {addresses: [10.1.0.1], conditions: {ready: true}, targetRef: {kind: Pod, name: web-1, namespace: shop}}
  - {addresses: [10.1.0.2], conditions: {ready: true}, targetRef: {kind: Pod, name: web-2, namespace: shop}}
VirtualService shop/web: {hosts: [web], http: [{route: [{destination: {host: web}}], timeout: 1s}]}
Service bank/vault: {ports: [{name: http, port: 80}], selector: {app: vault}, clusterIP: 10.96.0.2}
Pod bank/vault-1:
  metadata: {labels: {app: vault}}
  containers: [{name: app}]
  status: {phase: Running, podIP: 10.1.0.3}
Sidecar bank/default: {egress: [{hosts: ["./*"]}]}
"""


def routing(seconds: int) -> str:
    """The VirtualService of `web`, with a timeout."""
    http = f"[{{route: [{{destination: {{host: web}}}}], timeout: {seconds}s}}]"
    return f"VirtualService shop/web: {{hosts: [web], http: {http}}}"


BEYOND = """
Service shop/far: {ports: [{name: http, port: 80}], selector: {app: far}, clusterIP: 10.96.0.9}
Pod shop/far-1:
  metadata: {labels: {app: far, security.istio.io/tlsMode: istio}}
  containers: [{name: app}]
  status: {phase: Running, podIP: 10.9.0.1}
EndpointSlice shop/far-1:
  metadata: {labels: {kubernetes.io/service-name: far}}
  addressType: IPv4
  ports: [{name: http, port: 8080}]
  endpoints: [{addresses: [10.9.0.1], conditions: {ready: true}, targetRef: {kind: Pod, name: far-1, namespace: shop}}]
"""
"""A service besides, whose only workload is in the network that `gateway` is the way to."""


def gateway(name: str) -> str:
    """The networks: one behind a gateway of this name."""
    far = f"{{endpoints: [{{fromCidr: 10.9.0.0/16}}], gateways: [{{address: {name}, port: 15443}}]}}"
    return f"MeshNetworks mesh: {{networks: {{far: {far}}}}}"


def issuer(host: str) -> str:
    """The workloads of `web` understand the tokens of somebody who has keys at this host."""
    return f"""
        RequestAuthentication shop/web: {{jwtRules: [{{issuer: {host}, jwksUri: "https://{host}/keys"}}]}}
    """
