"""A gateway to another network that is known by its name only: endpoints behind it are reached at its addresses."""

from __future__ import annotations

import pytest
import yaml

from examples.shop.processes import ControlPlane, wait_until
from tests.e2e.ads_client import EDS, AdsStream, resources
from tests.e2e.mesh_objects import build_object, build_pod, build_slice
from tests.e2e.shops import next_network

pytestmark = pytest.mark.slow

CLUSTER = "outbound|8080||far.shop.svc.cluster.local"
NETWORKS = (
    "networks: {{beyond: {{endpoints: [{{fromCidr: 10.9.0.0/16}}], gateways: [{{address: {name}, port: 15443}}]}}}}"
)


@pytest.fixture
def networks(tmp_path):
    """The file of networks; the gateway has a name that the system knows by itself."""
    file = tmp_path / "networks.yaml"
    file.write_text(NETWORKS.format(name="localhost"))
    return file


@pytest.fixture
def plane(tmp_path, networks):
    """A control plane with one service, whose only Pod is in the network beyond."""
    pod = build_pod("shop", "far-1", "10.9.0.1", {"app": "far", "security.istio.io/tlsMode": "istio"})
    ports = [{"name": "http", "port": 8080}]
    service = build_object("v1", "Service", "shop", "far", spec={"selector": {"app": "far"}, "ports": ports})
    folder = tmp_path / "mesh"
    folder.mkdir()
    (folder / "mesh.yaml").write_text(yaml.safe_dump_all([service, pod, build_slice("far", ports, [pod])]))
    flags = ("--networks-config", str(networks), "--allow-kill")
    with ControlPlane(folder, tmp_path / "trierarch.log", next_network(), flags) as running:
        running.wait_until_ready()
        yield running


def endpoints(plane):
    """Where a client that speaks mTLS, and is in no network, is sent."""
    node = "sidecar~10.1.0.1~front-1.shop~shop.svc.cluster.local"
    with AdsStream(plane.xds, node, delta=True, TRIERARCH_SDS="files") as stream:
        (found,) = resources(stream.ask(EDS, CLUSTER)).values()
        sockets = [each.endpoint.address.socket_address for group in found.endpoints for each in group.lb_endpoints]
        return {f"{socket.address}:{socket.port_value}" for socket in sockets}


def test_endpoints_are_reached_at_what_the_name_stands_for(plane, networks):
    """The addresses come soon after the start, stay when the actor dies, and go with the name."""
    wait_until("the name is looked up", lambda: endpoints(plane) == {"127.0.0.1:15443"})
    assert plane.kill_actor("dns").is_success
    wait_until("it is back", lambda: plane.logged("child_started") and plane.is_ready())
    assert endpoints(plane) == {"127.0.0.1:15443"}
    networks.write_text(NETWORKS.format(name="192.0.2.1"))
    wait_until("another gateway is used", lambda: endpoints(plane) == {"192.0.2.1:15443"})
