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
