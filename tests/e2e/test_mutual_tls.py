"""Mutual TLS between two stock Envoys whose certificates are files: who gets in, in each mode, while modes change."""

from __future__ import annotations

from contextlib import ExitStack

import httpx
import pytest

from examples.shop.processes import ControlPlane, wait_until
from tests.e2e.asking import Asking
from tests.e2e.certified import CertifiedSidecar
from tests.e2e.envoy_admin import read_statistics
from tests.e2e.shops import next_network
from tests.e2e.traffic.programs import Programs
from tests.envoy.certificates import Authority

pytestmark = pytest.mark.envoy

MESH = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{name: http, port: 8080, targetPort: 8081}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: web, containers: [{name: app}]}
status: {phase: Running, podIP: NET.2, podIPs: [{ip: NET.2}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8081}]
endpoints:
- {addresses: [NET.2], conditions: {ready: true}, targetRef: {kind: Pod, name: web-1, namespace: shop}}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: web, namespace: shop}
spec:
  workloadSelector: {labels: {app: web}}
  ingress: [{port: {number: 8081, protocol: HTTP, name: http}, defaultEndpoint: "0.0.0.0:18081"}]
---
apiVersion: v1
kind: Pod
metadata: {name: front-1, namespace: shop, labels: {app: front}}
spec: {serviceAccountName: front, containers: [{name: app}]}
status: {phase: Running, podIP: NET.1, podIPs: [{ip: NET.1}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: front, namespace: shop}
spec:
  workloadSelector: {labels: {app: front}}
  egress: [{bind: NET.1, port: {number: 8080, protocol: HTTP, name: http}, hosts: ["./*"]}]
"""

POLICY = """
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, portLevelMtls: {8081: {mode: %s}}}
"""

IDENTITY = "URI=spiffe://cluster.local/ns/shop/sa/front"
"""What the server is told of the client."""


class Workloads:
    """A server and a client, each with a sidecar, under a control plane."""

    def __init__(self, folder, envoy, stack: ExitStack) -> None:
        self.network = next_network()
        self._folder, self._envoy, self._stack = folder, envoy, stack
        self._authority = Authority()
        self._client = stack.enter_context(httpx.Client(timeout=10))
        self._mesh = folder / "mesh"
        self._mesh.mkdir()
        (self._mesh / "mesh.yaml").write_text(MESH.replace("NET", self.network))
        self.control_plane = stack.enter_context(ControlPlane(self._mesh, folder / "trierarch.log", self.network))
        self.control_plane.wait_until_ready()
        Programs(stack).serve_http("web", f"{self.network}.2", 18081)
        self._sidecars: dict[str, CertifiedSidecar] = {}

    def start(self, app: str, number: int, secrets: str, drain: int = 1) -> None:
        """Start a sidecar; `secrets` is where it says that it has certificates from."""
        address, xds = f"{self.network}.{number}", self.control_plane.xds
        self._sidecars[app] = self._stack.enter_context(
            CertifiedSidecar(
                self._envoy, xds, self._folder, self._authority, app=app, address=address, secrets=secrets, drain=drain
            )
        )

    def set_mode(self, mode: str) -> None:
        """Let the server accept these connections from now on."""
        draft = self._mesh / ".policy"
        draft.write_text(POLICY % mode)
        draft.rename(self._mesh / "policy.yaml")

    def through_sidecar(self) -> str:
        """How a request by the client's sidecar is introduced to the server."""
        return _introduced(self._client.get(f"http://{self.network}.1:8080/", headers={"host": "web"}))

    def plaintext(self) -> str:
        """The same of somebody without a certificate; "refused" if the connection is closed."""
        try:
            return _introduced(httpx.get(f"http://{self.network}.2:8081/", timeout=10))
        except (httpx.RemoteProtocolError, httpx.ReadError):
            return "refused"

    def draining(self) -> int:
        """How many listeners and filter chains of the server are on their way out."""
        return sum(read_statistics(self._sidecars["web"], "draining").values())

    def rejections(self) -> dict[str, int]:
        """What the Envoys would not take."""
        found = (read_statistics(each, "update_rejected") for each in self._sidecars.values())
        return {name: count for counts in found for name, count in counts.items() if count}


def _introduced(response: httpx.Response) -> str:
    """The client's certificate, as the server's sidecar tells of it; "nobody" if it tells of none."""
    if response.status_code != 200:
        return f"status {response.status_code}"
    return response.json()["headers"].get("x-forwarded-client-cert", "nobody")


@pytest.fixture
def workloads(tmp_path, envoy):
    """Both workloads, without sidecars yet."""
    with ExitStack() as stack:
        yield Workloads(tmp_path, envoy, stack)


def test_modes_with_certificates(workloads):
    """The client's sidecar always gets in and is known by its identity if TLS is used; plaintext only where allowed."""
    workloads.start("web", 2, "files")
    workloads.start("front", 1, "files")
    for mode, stranger, client in (
        ("PERMISSIVE", "nobody", IDENTITY),
        ("STRICT", "refused", IDENTITY),
        ("DISABLE", "nobody", "nobody"),
        ("STRICT", "refused", IDENTITY),
    ):
        workloads.set_mode(mode)
        wait_until(f"{mode}: a stranger is {stranger}", lambda said=stranger: workloads.plaintext() == said)
        wait_until(f"{mode}: the client is {client}", lambda said=client: said in workloads.through_sidecar())
        wait_until(f"{mode}: settled", lambda said=stranger: workloads.plaintext() == said)
    assert workloads.rejections() == {}


def test_strict_from_now_on_without_a_failed_request(workloads):
    """The client does not notice that strangers are locked out, and let in again; it is asking all the time."""
    workloads.start("web", 2, "files", drain=3)
    workloads.start("front", 1, "files")
    workloads.set_mode("PERMISSIVE")
    wait_until("the client gets in", lambda: IDENTITY in workloads.through_sidecar())
    with Asking(workloads.through_sidecar) as asking:
        for mode, stranger in (("STRICT", "refused"), ("PERMISSIVE", "nobody"), ("STRICT", "refused")):
            workloads.set_mode(mode)
            wait_until(f"{mode}: a stranger is {stranger}", lambda said=stranger: workloads.plaintext() == said)
            wait_until("older connections have ended", lambda: not workloads.draining())
    assert asking.count > 100
    assert [answer for answer in asking.answers if IDENTITY not in answer] == []
    assert workloads.rejections() == {}


def test_modes_without_certificates(workloads):
    """A server that cannot terminate TLS takes plaintext where that is allowed, and nothing where it is not."""
    workloads.start("web", 2, "none")
    workloads.start("front", 1, "none")
    for mode, said in (("PERMISSIVE", "nobody"), ("STRICT", "refused"), ("DISABLE", "nobody")):
        workloads.set_mode(mode)
        wait_until(f"{mode}: plaintext is {said}", lambda said=said: workloads.plaintext() == said)
    wait_until("the client gets in", lambda: workloads.through_sidecar() == "nobody")
    assert workloads.rejections() == {}
