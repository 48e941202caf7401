"""One mesh, served to an Envoy that speaks delta and one that speaks state of the world, at once."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from examples.shop.processes import wait_until
from tests.e2e.envoy_admin import read_configuration, read_names, read_statistics, resource_name
from tests.e2e.shops import ROUTING

pytestmark = pytest.mark.envoy

MALFORMED = """
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: broken, namespace: shop}
spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews}, weight: -5}]}]}
---
kind: Service
  metadata: [this is not YAML
"""


@pytest.fixture
def clients(shop, envoy):
    """Both clients' sidecars, ready to be used."""
    return shop.add_clients(envoy)


def reviews(sidecar, requests=30):
    """Where that many requests to `reviews` went."""
    return Counter(sidecar.get("reviews").text.split()[0] for _ in range(requests))


def wait_for_reviews(clients, *programs):
    """Wait until every client's requests to `reviews` go to just these programs."""
    for sidecar in clients:
        wait_until(f"{sidecar.id} calls {programs}", lambda each=sidecar: reviews(each, 20).keys() == set(programs))


def assert_nothing_rejected(clients):
    """No Envoy has rejected anything."""
    for sidecar in clients:
        rejected = read_statistics(sidecar, "update_rejected")
        assert rejected.keys() >= {"cluster_manager.cds.update_rejected", "listener_manager.lds.update_rejected"}
        assert {name: count for name, count in rejected.items() if count} == {}


def test_traffic_is_equal(shop, envoy, clients):
    """Weights, header matches, rewrites, retries and external services work alike in both protocols."""
    shop.add_sidecar(envoy, "catalog", 2, "delta")
    for sidecar in clients:
        wait_until("catalog's sidecar", lambda each=sidecar: each.get("catalog").status_code == 200)
        split = reviews(sidecar, 60)
        assert split["reviews-v1"] > split["reviews-v2"]
        assert sidecar.get("reviews", x_tester="yes").text == "reviews-v2 saw /\n"
        assert sidecar.get("catalog", "/old/items/7").text == "catalog saw /items/7\n"
        assert [sidecar.get("stock", "/flaky").status_code for _ in range(6)] == [200] * 6
        assert sidecar.get("rates.partner.example").text == "rates saw /\n"
        assert sidecar.get("nobody-knows").status_code == 503  # passed through, but to whom?
    assert_nothing_rejected(shop.sidecars)


def test_configuration_is_equal(shop, clients):
    """Two Envoys of like workloads have the same resources with the same contents, whichever protocol they speak."""
    front, desk = (shop.as_front(json.dumps(read_configuration(sidecar))) for sidecar in clients)
    assert json.loads(front) == json.loads(desk)
    assert_nothing_rejected(clients)


def test_an_edit_shifts_traffic(shop, clients):
    """An edit arrives at both, with nothing rejected, and is known as the cause of the push to each."""
    for first, second, program in ((0, 100, "reviews-v2"), (100, 0, "reviews-v1")):
        edited_at = shop.mesh.set_weights(first, second)
        wait_for_reviews(clients, program)
        for sidecar in clients:
            push = shop.control_plane.wait_for_ack(edited_at, sidecar.id)
            assert [cause["name"] for cause in push["causes"]] == ["reviews"]
            assert [each["type"] for each in push["sent"]] == ["RDS"]
            assert "VirtualService shop/reviews updated" in shop.control_plane.command("why", sidecar.id)
    assert_nothing_rejected(clients)


def test_a_deleted_file_returns_to_the_default(shop, clients):
    """Without its VirtualService a service's requests go to all its endpoints in turn."""
    (shop.mesh.folder / ROUTING).unlink()
    wait_until("the push", lambda: "VirtualService shop/reviews deleted" in shop.control_plane.command("why", "front"))
    wait_for_reviews(clients, "reviews-v1", "reviews-v2")
    for sidecar in clients:
        tester = Counter(sidecar.get("reviews", x_tester="yes").text.split()[0] for _ in range(20))
        assert tester == {"reviews-v1": 10, "reviews-v2": 10}  # nothing but round robin is left
    assert_nothing_rejected(clients)


def test_a_malformed_document_harms_nobody(shop, clients):
    """Everything else works on, edits too; the log says what is wrong and where, the metric counts it, and both say
    when it is over.
    """
    plane = shop.control_plane
    shop.mesh.write("broken.yaml", MALFORMED)
    wait_until("the rejections", lambda: len(plane.logged("object_rejected")) == 2)
    refused, unreadable = plane.logged("object_rejected")
    assert "VirtualService" in refused["object"]
    assert "shop/broken" in refused["object"]
    assert (unreadable["file"], refused["file"]) == ("broken.yaml", "broken.yaml")
    assert unreadable["line"] > refused["line"]
    assert plane.is_ready()
    metrics = plane.get("/metrics").text
    assert 'pilot_total_rejected_configs{name="shop/broken",type="VirtualService"} 1.0' in metrics
    shop.mesh.set_weights(0, 100)
    wait_for_reviews(clients, "reviews-v2")
    (shop.mesh.folder / "broken.yaml").unlink()
    wait_until("the all-clear", lambda: len(plane.logged("finding_resolved")) == 2)
    assert "pilot_total_rejected_configs{" not in plane.get("/metrics").text
    assert_nothing_rejected(clients)


def test_debug_pages_tell_what_envoy_has(shop, clients):
    """Everything sent is acknowledged; our dump names what Envoy's does; clients, pushes and actors are listed."""
    plane, (front, desk) = shop.control_plane, clients
    statuses = {each["proxy"]: each for each in plane.get("/debug/syncz").json()}
    assert statuses.keys() == {front.id, desk.id}
    for status in statuses.values():
        for name in ("cluster", "endpoint", "listener", "route"):
            assert status[f"{name}_sent"] == status[f"{name}_acked"] != ""
    dump = plane.get("/debug/config_dump", proxyID=front.id, include_eds="true").json()["configs"]
    items = [item for section in dump for key in section if key.startswith("dynamic_") for item in section[key]]
    assert {resource_name(item) for item in items} == read_names(front)
    listed = plane.get("/debug/adsz").json()
    assert listed["totalClients"] == 2
    assert {each["delta"] for each in listed["clients"]} == {True, False}
    assert {each["proxy"] for each in plane.pushes()} == {front.id, desk.id}
    running = {each["name"] for each in plane.get("/debug/actors").json() if each["state"] == "running"}
    assert {"config", "intake", "push_scheduler", "grpc", "connection-1", "connection-2"} <= running
    assert 'pilot_xds{version=""} 2.0' in plane.get("/metrics").text


def test_an_envoy_that_is_gone_is_forgotten(shop, clients):
    """A client that vanishes is no longer listed, counted or pushed to."""
    front, _ = clients
    front.end()
    wait_until("one client", lambda: shop.control_plane.get("/debug/adsz").json()["totalClients"] == 1)
    assert 'pilot_xds{version=""} 1.0' in shop.control_plane.get("/metrics").text
    assert shop.control_plane.get("/debug/config_dump", proxyID=front.id).status_code == 404
