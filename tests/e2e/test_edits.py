"""Edits as hasty people and programs make them, while two Envoys carry requests: all arrive, and no request fails."""

from __future__ import annotations

import re
import time

import pytest

from examples.shop.processes import wait_until
from tests.chaos.load import Load
from tests.chaos.watching import wait_for_traffic
from tests.e2e.envoy_admin import read_clusters, read_statistics

pytestmark = pytest.mark.envoy

MORE = """
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: shop}}
spec: {{ports: [{{name: http, port: 8080, targetPort: 8081}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-1, namespace: shop, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{name: http, port: 8081}}]
endpoints: [{{addresses: [{address}], conditions: {{ready: true}}}}]
"""
"""A service with one endpoint."""


def test_two_edits_ten_milliseconds_apart(shop, clients):
    """The later edit is in force, and both are pushed as one."""
    for first, second, program in ((0, 100, "reviews-v2"), (100, 0, "reviews-v1")):
        built = len(shop.control_plane.logged("snapshot_built"))
        shop.mesh.set_weights(second, first)
        time.sleep(0.01)
        edited_at = shop.mesh.set_weights(first, second)
        wait_for_traffic(clients, program)
        shop.control_plane.wait_for_ack(edited_at, clients[0].id)
        assert len(shop.control_plane.logged("snapshot_built")) == built + 1


def test_a_burst(shop, clients):
    """Two hundred edits in a row are one push, of the last state."""
    built = len(shop.control_plane.logged("snapshot_built"))
    for number in range(200):
        shop.mesh.set_weights(number % 100, 100 - number % 100)
    shop.mesh.set_weights(0, 100)
    wait_for_traffic(clients, "reviews-v2")
    assert len(shop.control_plane.logged("snapshot_built")) - built <= 3
    (push,) = [push for push in shop.control_plane.pushes(clients[0].id) if push["causes"]][-1:]
    assert {cause["name"] for cause in push["causes"]} == {"reviews"}


def test_services_come_and_go(shop, envoy):
    """A new service can be called as soon as it is there, in both protocols, and is gone when its file is."""
    clients = shop.add_clients(envoy)
    with Load(*clients) as load:
        for number in range(3):
            shop.mesh.write("more.yaml", MORE.format(name=f"more-{number}", address=f"{shop.network}.4"))
            for sidecar in clients:
                wait_until("it is called", lambda each=sidecar, name=f"more-{number}": calls(each, name))
        for sidecar in clients:
            wait_until("the first is gone", lambda each=sidecar: not calls(each, "more-0"))
            assert read_statistics(sidecar, "warming_clusters") == {"cluster_manager.warming_clusters": 0}
    assert load.failures == []


def calls(sidecar, name):
    """Whether a client's request to a service arrives."""
    response = sidecar.get(name)
    return response.status_code == 200 and response.text == "reviews-v2 saw /\n"


def test_a_cluster_changes(shop, clients):
    """A changed cluster waits for its endpoints before it takes the place of the old one, and not for long."""
    for timeout in ("2s", "3s"):
        rule = re.sub("connectTimeout: .s", f"connectTimeout: {timeout}", shop.mesh.read("reviews.yaml"))
        shop.mesh.write("reviews.yaml", rule)
        for sidecar in clients:
            took = wait_until("it is used", lambda each=sidecar, expected=timeout: connect_timeout(each) == expected)
            assert took < 10  # Envoy gives up waiting after 15 s


def connect_timeout(sidecar):
    """The connect timeout of the cluster of `reviews`' first version."""
    return read_clusters(sidecar)["outbound|8080|v1|reviews.shop.svc.cluster.local"]["connect_timeout"]
