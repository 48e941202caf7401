"""Mutual TLS between two stock Envoys whose certificates are files: who gets in, in each mode, while modes change."""

from __future__ import annotations

from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread
from typing import TYPE_CHECKING, Self

import httpx
import pytest

from examples.shop.processes import ControlPlane, wait_until
from tests.e2e.certified import CertifiedSidecar
from tests.e2e.shops import next_network
from tests.envoy.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Callable

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


class Asking:
    """Asks the same again and again as long as the block lasts; `different` are the answers that came, each once."""

    def __init__(self, ask: Callable[[], str]) -> None:
        self.count = 0
        self.different: set[str] = set()
        self._ask = ask
        self._ended = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.different.add(self._ask())
            except httpx.TransportError as error:
                self.different.add(repr(error))
            self.count += 1


class Program(BaseHTTPRequestHandler):
    """Says how the client was introduced by the sidecar."""

    def do_GET(self) -> None:
        """Answer with the client's certificate, as the sidecar tells of it."""
        body = self.headers.get("x-forwarded-client-cert", "nobody").encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


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
        self._serve()

    def _serve(self) -> None:
        server = HTTPServer((f"{self.network}.2", 18081), Program)
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        Thread(target=server.serve_forever, daemon=True).start()

    def start(self, app: str, number: int, secrets: str, drain: int = 1) -> None:
        """Start a sidecar; `secrets` is where it says that it has certificates from."""
        address, xds = f"{self.network}.{number}", self.control_plane.xds
        self._stack.enter_context(
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
        """What the server says to a request by the client's sidecar."""
        return self._client.get(f"http://{self.network}.1:8080/", headers={"host": "web"}).text

    def plaintext(self) -> str:
        """What the server says to somebody without a certificate; "refused" if the connection is closed."""
        try:
            return httpx.get(f"http://{self.network}.2:8081/", timeout=10).text
        except httpx.RemoteProtocolError:
            return "refused"
        except httpx.ReadError:
            return "refused"

    def draining(self) -> int:
        """How many listeners and filter chains of the server are on their way out."""
        page = httpx.get(f"http://{self.network}.2:15000/stats?format=json", timeout=10).json()
        return sum(each["value"] for each in page["stats"] if each.get("name", "").endswith("draining"))

    def rejections(self) -> dict[str, int]:
        """What the Envoys would not take."""
        pages = [
            httpx.get(f"http://{self.network}.{each}:15000/stats?format=json", timeout=10).json() for each in (1, 2)
        ]
        found = {each["name"]: each["value"] for page in pages for each in page["stats"] if "name" in each}
        return {name: count for name, count in found.items() if name.endswith("update_rejected") and count}


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
    assert [answer for answer in asking.different if IDENTITY not in answer] == []
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
