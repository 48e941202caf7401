"""The shop with certificates: its control plane has an authority, and its client calls its catalog over mutual TLS."""

from __future__ import annotations

import httpx

from examples.shop.identities import Identities
from examples.shop.processes import ControlPlane, Mesh, Programs, Sidecar, wait_until
from tests.chaos.load import Load
from tests.e2e.agent import openssl
from tests.e2e.envoy_admin import read_statistics
from tests.e2e.shops import next_network

FRONT, CATALOG = 1, 2
IDENTITY = "spiffe://cluster.local/ns/shop/sa/front"

POLICY = """
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: catalog, namespace: shop}
spec: {selector: {matchLabels: {app: catalog}}, mtls: {mode: %s}}
"""


def load_of(sidecar: Sidecar) -> Load:
    """Requests for `catalog`, each of which must reach it under the client's own identity."""
    return Load(sidecar, host="catalog", expected=IDENTITY)


ONE_REQUEST_EACH = """
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: catalog, namespace: shop}
spec: {host: catalog, trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 1}}}}
"""
"""Every request shakes hands anew."""


class Town:
    """The shop with a control plane that has an authority, its programs, and sidecars of its client and its catalog."""

    def __init__(self, folder, envoy, stack, *flags) -> None:
        self.network = next_network()
        self.folder, self.envoy, self._stack = folder, envoy, stack
        self.mesh = Mesh(folder / "mesh", self.network)
        self.mesh.write("connections.yaml", ONE_REQUEST_EACH)
        self.identities = Identities(folder / "identities")
        self.plane = ControlPlane(
            self.mesh.folder, folder / "trierarch.log", self.network, (*self.identities.flags, "--allow-kill", *flags)
        )
        stack.enter_context(Programs(folder, self.network))
        stack.enter_context(self.plane)
        self.plane.wait_until_ready()
        wait_until("both ports", lambda: len(self.plane.logged("xds_opened")) == 2)

    def add(self, app, number, mode, *, source="ads", credentials=None, home=None, **metadata) -> Sidecar:
        """Start a sidecar; by default it shows a token, and gets its certificate over ADS."""
        sidecar = Sidecar(
            self.envoy,
            self.plane.secure,
            self.folder,
            app=app,
            address=f"{self.network}.{number}",
            mode=mode,
            credentials=self.identities.credentials(app) if credentials is None else credentials,
            home=home,
            TRIERARCH_SDS=source,
            **metadata,
        )
        return self.run(sidecar)

    def run(self, process):
        """Start a process; it ends with the town."""
        return self._stack.enter_context(process)

    def add_both(self) -> Sidecar:
        """Start both sidecars; returns the client's, ready to be used."""
        self.add("catalog", CATALOG, "sotw")
        front = self.add("front", FRONT, "delta")
        wait_until("mutual TLS", lambda: IDENTITY in front.get("catalog").text)
        return front

    def call_plainly(self) -> int | None:
        """The status of a request to catalog's sidecar without TLS; None if it closes the connection."""
        try:
            return httpx.get(f"http://{self.network}.{CATALOG}:8081/", timeout=10).status_code
        except (httpx.RemoteProtocolError, httpx.ReadError):
            return None

    def served(self) -> str:
        """The certificate that catalog's sidecar shows."""
        said = openssl("s_client", "-connect", f"{self.network}.{CATALOG}:8081", "-alpn", "istio")
        return said.partition("-----BEGIN CERTIFICATE-----")[2].partition("-----END")[0]

    def pushed_secrets(self, proxy) -> list[tuple[str, str]]:
        """Name and event of the causes of all pushes of secrets to a proxy."""
        pushes = [push for push in self.plane.logged("push_finished") if push["proxy"] == proxy]
        causes = [
            cause for push in pushes if any(sent["type"] == "SDS" for sent in push["sent"]) for cause in push["causes"]
        ]
        return [(cause["name"], cause["event"]) for cause in causes]


def rejections(*sidecars):
    """What the Envoys would not take."""
    return [
        (each.id, name, count)
        for each in sidecars
        for name, count in read_statistics(each, "update_rejected").items()
        if count
    ]
