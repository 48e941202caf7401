"""An Envoy that wants virtual hosts one by one: what it is sent for each kind of change, and that traffic follows."""

from __future__ import annotations

import json
import os
import time
from signal import SIGKILL

import httpx
import pytest

from examples.shop.processes import wait_until
from tests.chaos.load import Load
from tests.chaos.watching import wait_for_traffic
from tests.e2e.envoy_admin import read_clusters, read_configuration, read_statistics
from tests.e2e.shops import DESK, FRONT
from tests.e2e.test_edits import MORE, calls

pytestmark = pytest.mark.envoy

LISTENERS = """
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {{name: front, namespace: shop}}
spec:
  workloadSelector: {{labels: {{app: front}}}}
  outboundTrafficPolicy: {{mode: {mode}}}
  egress:
  - {{bind: {address}, port: {{number: 8080, protocol: HTTP, name: http}}, hosts: ["./*"]}}
  - {{bind: {address}, port: {{number: 8090, protocol: HTTP, name: more}}, hosts: ["./*"]}}
"""
"""Two listeners of `front`, for services of either port."""

UNKNOWN, BLOCKED = 503, 502
"""How requests for hosts that nobody defined are answered: passed through to nowhere, or refused."""

SOON = 5.0
"""Seconds within which an Envoy serves a new listener. It would wait 15 for what was never sent."""


@pytest.fixture
def front(shop, envoy):
    """The sidecar of `front`, which has its configuration."""
    sidecar = shop.add_sidecar(envoy, "front", FRONT, "delta", TRIERARCH_VHDS="true")
    wait_until("it has its configuration", lambda: sidecar.get("stock").status_code == 200)
    return sidecar


def write_listeners(shop, mode="ALLOW_ANY"):
    """Give `front` its two listeners, of which the second has no services yet; returns the wall clock time before."""
    listeners = LISTENERS.format(address=f"{shop.network}.{FRONT}", mode=mode)
    services = shop.mesh.read("front.yaml").split("---")
    return shop.mesh.write("front.yaml", "---".join([*services[:2], listeners]))


def status(address, host):
    """How a request to an address for a host is answered; None if nobody listens."""
    try:
        return httpx.get(f"http://{address}/", headers={"host": host}).status_code
    except httpx.TransportError:
        return None


def sent_after(shop, sidecar, moment):
    """What a change at a moment brought: counts of resources sent and removed, by type."""
    push = shop.control_plane.wait_for_ack(moment, sidecar.id)
    return {each["type"]: (each["sent"], each["removed"]) for each in push["sent"]}


def rejected(sidecar):
    """The counts of rejected updates that are not zero."""
    return {name: count for name, count in read_statistics(sidecar, "update_rejected").items() if count}


def test_it_has_what_others_have(shop, envoy, front):
    """Its routes are those of a client that gets them whole, but for the names of virtual hosts."""
    desk = shop.add_sidecar(envoy, "desk", DESK, "delta")
    wait_until("it has its configuration", lambda: desk.get("stock").status_code == 200)
    mine, theirs = json.loads(shop.as_front(json.dumps([read_routes(front), read_routes(desk)])))
    assert mine == {f"8080/{name}": host for name, host in theirs.items()}
    assert read_clusters(front) == read_clusters(desk)


def read_routes(sidecar):
    """The virtual hosts of its one route configuration by name, without their names."""
    (configuration,) = [each["route_config"] for each in sections(sidecar) if "route_config" in each]
    return {host.pop("name"): host for host in configuration["virtual_hosts"]}


def sections(sidecar):
    """All that came over xDS."""
    return [item for items in read_configuration(sidecar) for item in items]


def test_a_changed_virtual_service_sends_its_virtual_host_alone(shop, front):
    """Of routes that is one resource of a kilobyte; and traffic follows."""
    with Load(front) as load:
        for first, second, program in ((0, 100, "reviews-v2"), (100, 0, "reviews-v1")):
            edited_at = shop.mesh.set_weights(first, second)
            wait_for_traffic((front,), program)
            assert sent_after(shop, front, edited_at) == {"VHDS": (1, 0)}
            (sent,) = shop.control_plane.wait_for_ack(edited_at, front.id)["sent"]
            assert sent["size"] < 2_000
    assert load.failures == []
    assert rejected(front) == {}


def test_services_come_and_go(shop, front):
    """A new one brings its virtual host; one that goes takes it along, and nobody answers for it any more."""
    with Load(front) as load:
        for name in ("more-1", "more-2"):
            edited_at = shop.mesh.write("more.yaml", MORE.format(name=name, address=f"{shop.network}.4"))
            wait_until("it is called", lambda name=name: calls(front, name))
            assert sent_after(shop, front, edited_at)["VHDS"] == (1, int(name == "more-2"))
        assert front.get("more-1").status_code == UNKNOWN
        edited_at = time.time()
        (shop.mesh.folder / "more.yaml").unlink()
        assert sent_after(shop, front, edited_at)["VHDS"] == (0, 1)
        assert front.get("more-2").status_code == UNKNOWN
    assert load.failures == []
    assert rejected(front) == {}


def test_listeners_come_and_go(shop, front):
    """A new listener has its virtual hosts though Envoy asks for no more of them; so too when it comes back."""
    write_listeners(shop)
    other = f"{shop.network}.{FRONT}:8090"
    service = MORE.replace("port: 8080", "port: 8090").format(name="more", address=f"{shop.network}.4")
    for _ in range(2):
        shop.mesh.write("more.yaml", service)
        assert wait_until("it is served", lambda: status(other, "more") == 200) < SOON
        assert status(other, "reviews") == UNKNOWN
        (shop.mesh.folder / "more.yaml").unlink()
        wait_until("it is gone", lambda: status(other, "more") is None)
    assert rejected(front) == {}


def test_a_listener_that_leads_nowhere(shop, envoy):
    """Where there is nothing but the catch-all, the listener is served all the same; and the catch-all may change."""
    port = 20_000 + os.getpid() % 10_000
    front = shop.add_sidecar(envoy, "front", FRONT, "delta", TRIERARCH_VHDS="true", HTTP_PROXY_PORT=str(port))
    wait_until("it has its configuration", lambda: front.get("stock").status_code == 200)
    proxied = f"127.0.0.1:{port}"
    assert wait_until("its HTTP proxy is served", lambda: status(proxied, "stock") == UNKNOWN) < SOON
    edited_at = write_listeners(shop, mode="REGISTRY_ONLY")
    for address in (proxied, front.outbound):
        wait_until("unknown hosts are refused", lambda address=address: status(address, "nobody-knows") == BLOCKED)
    assert front.get("stock").status_code == 200
    assert sent_after(shop, front, edited_at)["VHDS"] == (2, 2)
    assert rejected(front) == {}


def test_a_control_plane_that_is_started_again(shop, front):
    """It is told what the client has and sends none of it; what has changed meanwhile, or then, is sent."""
    plane = shop.control_plane
    with Load(front) as load:
        plane.end(SIGKILL)
        plane.start()
        wait_until("the client is back", lambda: watches_virtual_hosts(plane, front))
        assert {push["outcome"] for push in plane.pushes(front.id)} == {"acked"}
        sent = [each for push in plane.pushes(front.id) for each in push["sent"]]
        assert {(each["type"], each["sent"], each["removed"]) for each in sent if each["type"] != "EDS"} == {
            (short, 0, 0) for short in ("CDS", "LDS", "RDS", "VHDS")
        }
        plane.end(SIGKILL)
        shop.mesh.set_weights(0, 100)
        plane.start()
        wait_for_traffic((front,), "reviews-v2")
        sent = [each for push in plane.pushes(front.id) for each in push["sent"] if each["sent"]]
        assert {(each["type"], each["sent"]) for each in sent if each["type"] != "EDS"} == {("VHDS", 1)}
        edited_at = shop.mesh.set_weights(100, 0)
        wait_for_traffic((front,), "reviews-v1")
        assert sent_after(shop, front, edited_at) == {"VHDS": (1, 0)}
    assert load.failures == []
    assert rejected(front) == {}


def watches_virtual_hosts(plane, sidecar):
    """Whether a client has acknowledged what the control plane has of its virtual hosts."""
    acked = [push for push in plane.pushes(sidecar.id) if push["outcome"] == "acked"]
    return any(each["type"] == "VHDS" for push in acked for each in push["sent"])


def test_state_of_the_world_has_whole_configurations(shop, envoy):
    """A client that opts in over a stream that cannot do it is served like everybody else."""
    desk = shop.add_sidecar(envoy, "desk", DESK, "sotw", TRIERARCH_VHDS="true")
    wait_until("it has its configuration", lambda: desk.get("stock").status_code == 200)
    edited_at = shop.mesh.set_weights(0, 100)
    wait_for_traffic((desk,), "reviews-v2")
    assert sent_after(shop, desk, edited_at) == {"RDS": (1, 0)}
    assert not any("/" in name for name in read_routes(desk))
