"""A mesh without any proxy: gRPC's own xDS client and server, as `grpcio` has them (networking.md §4.11)."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from examples.shop.processes import ControlPlane, Process, wait_until
from tests.e2e.shops import next_network

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).with_name("grpc_programs.py")
PORT = 17070
DENIED = "PERMISSION_DENIED"

MESH = """
apiVersion: v1
kind: Service
metadata: {name: greeter, namespace: shop}
spec: {clusterIP: 10.96.0.10, selector: {app: greeter}, ports: [{name: grpc, port: 7070, targetPort: 17070}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: greeter-1, namespace: shop, labels: {kubernetes.io/service-name: greeter}}
addressType: IPv4
ports: [{name: grpc, port: 17070}]
endpoints:
- {addresses: [NET.1], targetRef: {kind: Pod, name: v1, namespace: shop}}
- {addresses: [NET.2], targetRef: {kind: Pod, name: v2, namespace: shop}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: greeter, namespace: shop}
spec: {host: greeter, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]}
"""
POD = """
---
apiVersion: v1
kind: Pod
metadata: {name: VERSION, namespace: shop, labels: {app: greeter, version: VERSION}}
spec: {serviceAccountName: greeter}
status: {phase: Running, podIP: ADDRESS, podIPs: [{ip: ADDRESS}], conditions: [{type: Ready, status: "True"}]}
"""
ROUTES = """
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: greeter, namespace: shop}
spec:
  hosts: [greeter]
  http:
  - match: [{headers: {canary: {exact: "yes"}}}]
    route: [{destination: {host: greeter, subset: v2}}]
  - match: [{headers: {broken: {exact: "yes"}}}]
    fault: {abort: {percentage: {value: 100}, grpcStatus: ABORTED}}
    route: [{destination: {host: greeter}}]
  - route: [{destination: {host: greeter, subset: SUBSET}}]
"""


class Caller:
    """A client process; it calls when it is told to."""

    def __init__(self, target: str, bootstrap: Path) -> None:
        command = ["env", f"GRPC_XDS_BOOTSTRAP={bootstrap}", sys.executable, PROGRAMS, "call", target]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call(self, **metadata: str) -> str:
        """The name of the server that answered, or the status of a call that failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(metadata) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


class ProxylessMesh:
    """A control plane, two servers `v1` and `v2` of a service, and a client; all without proxies."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack, self.network = folder, stack, next_network()
        (folder / "config").mkdir()
        pods = [POD.replace("VERSION", f"v{each}").replace("ADDRESS", f"{self.network}.{each}") for each in (1, 2)]
        self.write("mesh.yaml", MESH.replace("NET", self.network) + "".join(pods))
        self.control_plane = ControlPlane(folder / "config", folder / "trierarch.log", self.network)
        stack.enter_context(self.control_plane)
        self.control_plane.wait_until_ready()
        for number in (1, 2):
            self._serve(f"v{number}", f"{self.network}.{number}")
        self.caller = stack.enter_context(Caller("xds:///greeter:7070", self._bootstrap("caller", f"{self.network}.9")))

    def write(self, name: str, text: str) -> None:
        """Put a file of configuration in place."""
        (self._folder / name).write_text(text)
        (self._folder / name).rename(self._folder / "config" / name)

    def _serve(self, name: str, address: str) -> None:
        bootstrap = self._bootstrap(name, address)
        command = ("env", f"GRPC_XDS_BOOTSTRAP={bootstrap}", sys.executable, PROGRAMS, "serve", name)
        self._stack.enter_context(Process(*command, f"{address}:{PORT}", log=self._folder / f"{name}.log"))

    def _bootstrap(self, name: str, address: str) -> Path:
        """What Istio's agent would write, without certificates."""
        server = {"server_uri": self.control_plane.xds, "channel_creds": [{"type": "insecure"}]}
        bootstrap = {
            "xds_servers": [server | {"server_features": ["xds_v3"]}],
            "node": {
                "id": f"sidecar~{address}~{name}.shop~shop.svc.cluster.local",
                "metadata": {"GENERATOR": "grpc", "CLUSTER_ID": "Kubernetes"},
            },
            "server_listener_resource_name_template": "xds.istio.io/grpc/lds/inbound/%s",
        }
        path = self._folder / f"{name}.bootstrap.json"
        path.write_text(json.dumps(bootstrap))
        return path


@pytest.fixture
def mesh(tmp_path):
    """A mesh without proxies."""
    with ExitStack() as stack:
        yield ProxylessMesh(tmp_path, stack)


def test_a_client_calls_a_service(mesh):
    """It finds all endpoints by the name of the service, goes by its routes, and by new ones once they are there."""
    caller = mesh.caller
    wait_until("both servers answer", lambda: {caller.call() for _ in range(10)} == {"v1", "v2"})
    mesh.write("routes.yaml", ROUTES.replace("SUBSET", "v1"))
    wait_until("all calls go to v1", lambda: {caller.call() for _ in range(10)} == {"v1"})
    assert caller.call(canary="yes") == "v2"
    assert caller.call(broken="yes") == "ABORTED"
    mesh.write("routes.yaml", ROUTES.replace("SUBSET", "v2"))
    wait_until("all calls go to v2", lambda: {caller.call() for _ in range(10)} == {"v2"})
    assert mesh.control_plane.logged("resources_rejected") == []


POLICY = """
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: greeter, namespace: shop}
spec: {action: ACTION, rules: [{RULE}]}
"""
TOKEN = "when: [{key: 'request.headers[x-token]', values: [good]}]"


def test_a_server_goes_by_authorization_policies(mesh):
    """It denies what is denied, and what is not allowed where something is."""
    caller = mesh.caller
    wait_until("a server answers", lambda: caller.call() in ("v1", "v2"))
    mesh.write("policy.yaml", POLICY.replace("ACTION", "DENY").replace("RULE", TOKEN))
    wait_until("the token is denied", lambda: {caller.call(**{"x-token": "good"}) for _ in range(10)} == {DENIED})
    assert caller.call() in ("v1", "v2")
    mesh.write("policy.yaml", POLICY.replace("ACTION", "ALLOW").replace("RULE", TOKEN))
    wait_until("only the token is allowed", lambda: {caller.call() for _ in range(10)} == {DENIED})
    assert caller.call(**{"x-token": "good"}) in ("v1", "v2")
    wait_until("by both servers", lambda: {caller.call(**{"x-token": "good"}) for _ in range(10)} == {"v1", "v2"})
    assert mesh.control_plane.logged("resources_rejected") == []
