"""The whole control plane dies: Envoys serve on, come back to its successor, and are never given an empty mesh."""

from __future__ import annotations

import signal
import time

import pytest

from examples.shop.processes import wait_until
from tests.chaos.watching import edit, wait_for_clients, wait_for_traffic

pytestmark = pytest.mark.chaos

OTHER = """
apiVersion: v1
kind: Service
metadata: {name: other-%d, namespace: elsewhere, annotations: {networking.istio.io/exportTo: "."}}
spec: {ports: [{name: http, port: 80}]}
---"""
"""A service that nobody else sees."""
OTHERS = 2000
"""To read so many takes longer than changes settle: who served before all are read would serve an empty mesh."""

RECONNECTED = 60.0
"""Seconds; an Envoy that has found nobody several times waits for up to 30 before it tries again."""


@pytest.fixture(autouse=True)
def full_folder(shop):
    """A folder that is not read at a glance."""
    shop.mesh.write("others.yaml", "".join(OTHER % number for number in range(OTHERS)))


@pytest.mark.parametrize(
    ("by", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)], ids=["kill", "drain"]
)
def test_a_control_plane_that_is_started_again(by, code, shop, clients):
    """Whether it was killed or drained: no request fails, and an edit made meanwhile arrives with its successor."""
    plane = shop.control_plane
    for step in range(2):
        assert plane.end(by) == code
        _, program = edit(shop, step)
        time.sleep(0.5)
        plane.start()
        wait_for_traffic(clients, program, patience=RECONNECTED)
        wait_for_clients(plane, 2)


def test_a_control_plane_that_gives_up(shop, clients):
    """Too many kills in too short a time end the process with code 3 and a report; a new one goes on."""
    plane = shop.control_plane
    for _ in range(4):
        wait_until("grpc runs", lambda: plane.kill_actor("grpc").status_code == 200)
    assert plane.wait() == 3
    assert "trierarch cannot go on: root gave up" in plane.log.read_text()
    plane.start()
    _, program = edit(shop, 0)
    wait_for_traffic(clients, program, patience=RECONNECTED)
