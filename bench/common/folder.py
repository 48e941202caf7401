"""The mesh of `common.mesh` as a folder of files, one for each service, and edits of it as one makes them in files."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from common.mesh import NAMESPACES, PODS_PER_SERVICE, pod_ip

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SERVICE = """\
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  clusterIP: 10.{high}.{middle}.{low}
  selector: {{app: {name}}}
  ports: [{{name: http, port: 80, targetPort: 8080}}]
"""

POD = """\
---
apiVersion: v1
kind: Pod
metadata: {{name: {pod}, namespace: {namespace}, labels: {{app: {name}, version: v1}}}}
spec: {{serviceAccountName: {name}, containers: [{{name: app}}]}}
status: {{phase: Running, podIP: {ip}}}
"""

SLICE = """\
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}, namespace: {namespace}, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{name: http, port: 8080}}]
endpoints:
"""

ENDPOINT = """\
- addresses: [{ip}]
  conditions: {{ready: true}}
  targetRef: {{kind: Pod, name: {pod}, namespace: {namespace}}}
"""

ROUTING = """\
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  hosts: [{name}]
  http: [{{route: [{{destination: {{host: {name}, subset: v1}}}}], timeout: {timeout}s}}]
"""

RULE = """\
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  host: {name}
  subsets:
  - {{name: v1, labels: {{version: v1}}}}
  - {{name: v2, labels: {{version: {second}}}}}
"""

WIDE_RULE = """\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: all, namespace: istio-system}
spec:
  host: "*.svc.cluster.local"
  trafficPolicy: {outlierDetection: {interval: 7s}}
"""

PEER = """\
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {{name: default, namespace: {namespace}}}
spec: {{mtls: {{mode: {mode}}}}}
"""

AUTHORIZATION = """\
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {{name: some, namespace: {namespace}}}
spec:
  rules:
  - from: [{{source: {{namespaces: [ns-1, ns-2]}}}}]
    to: [{{operation: {{methods: [GET], paths: ["/api/*"]}}}}]
"""

KEYS = (
    '{"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", '
    '"x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}'
)
"""The public key of RFC 7517 A.1."""

REQUEST = """\
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {{name: some, namespace: {namespace}}}
spec: {{jwtRules: [{{issuer: tokens.example.org, jwks: '{keys}'}}]}}
"""

BROKEN = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: broken, namespace: ns-0
spec: [
"""


class MeshFolder:
    """Writes it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write_services(self, numbers: Iterable[int], *, timeout: int = 1) -> None:
        """Services with their pods, slices, routes and rules."""
        for index in numbers:
            self.write_service(index, timeout=timeout)

    def write_service(self, index: int, *, timeout: int = 1, second: str = "v2", pods: int = PODS_PER_SERVICE) -> None:
        """Everything of one service, with as many of its pods as endpoints."""
        names = {"name": f"svc-{index}", "namespace": f"ns-{index % NAMESPACES}"}
        all_pods = [{"pod": f"pod-{index}-{number}", "ip": pod_ip(index, number)} for number in range(PODS_PER_SERVICE)]
        address = {"high": 100 + index // 65536, "middle": index // 256 % 256, "low": index % 256}
        documents = [
            SERVICE.format(**names, **address),
            *(POD.format(**names, **each) for each in all_pods),
            SLICE.format(**names) + "".join(ENDPOINT.format(**names, **each) for each in all_pods[:pods]),
            ROUTING.format(**names, timeout=timeout),
            RULE.format(**names, second=second),
        ]
        self.write(f"{names['namespace']}/{names['name']}.yaml", "".join(documents))

    def write(self, path: str, text: str) -> None:
        """A file as a whole."""
        file = self._root / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def delete_namespace(self, number: int) -> None:
        """All its files."""
        shutil.rmtree(self._root / f"ns-{number}")
