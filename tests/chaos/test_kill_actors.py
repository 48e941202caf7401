"""Kill any actor while two real Envoys carry requests and an edit is on its way: nobody notices more than a delay."""

from __future__ import annotations

import pytest

from examples.shop.processes import wait_until
from tests.chaos.watching import (
    ROUTED,
    edit,
    is_back,
    kill,
    wait_for_cause,
    wait_for_clients,
    wait_for_traffic,
)

pytestmark = pytest.mark.chaos

PIPELINE = ("journal", "config", "intake", "debouncer", "snapshot_builder", "generator", "push_scheduler")
BESIDE = ("dns", "jwks", "collector", "debug")
"""Who has no part in an edit of routes."""

STREAMS_END = ("pipeline", "connections", "grpc")
"""Whoever dies with these is disconnected and comes back by itself: its client asks, so nothing has to be pushed."""

STAGES = ("", "config_changed", "batch_released")
"""What is logged last before the kill: while the file is read, while the debouncer holds its change, while it is built
and pushed.
"""

PAIRS = (
    ("config", "intake"),
    ("intake", "debouncer"),
    ("debouncer", "snapshot_builder"),
    ("snapshot_builder", "push_scheduler"),
    ("generator", "push_scheduler"),
    ("push_scheduler", "connections"),
    ("intake", "grpc"),
)


@pytest.fixture(autouse=True)
def slow_debounce(monkeypatch):
    """Changes settle for as long as it takes to kill somebody meanwhile."""
    monkeypatch.setenv("PILOT_DEBOUNCE_AFTER", "400ms")


def edit_up_to(stage, shop, step):
    """Edit, and wait until it is logged how far that has come; returns what `edit` does."""
    told = len(shop.control_plane.logged(stage))
    edited = edit(shop, step)
    if stage:
        wait_until(stage, lambda: len(shop.control_plane.logged(stage)) > told, pause=0.001)
    return edited


@pytest.mark.parametrize("name", [*PIPELINE, *BESIDE, *STREAMS_END])
def test_an_edit_survives_the_death_of(name, shop, clients):
    """Whenever the actor dies, the edit arrives, and is known as the cause wherever it had to be pushed."""
    plane = shop.control_plane
    for step, stage in enumerate(STAGES):
        edited_at, program = edit_up_to(stage, shop, step)
        kill(plane, name)
        wait_for_traffic(clients, program)
        wait_until(f"{name} runs again", lambda: is_back(plane, name))
        if name not in STREAMS_END:
            wait_for_cause(plane, clients, edited_at)
    wait_for_clients(plane, 2)
    wait_until("nobody waits for a first answer", lambda: are_synchronised(plane, len(clients)))
    edited_at, program = edit(shop, len(STAGES))
    wait_for_traffic(clients, program)
    wait_for_cause(plane, clients, edited_at)
    assert all(ROUTED in plane.command("why", sidecar.id, "--last", "1") for sidecar in clients)


def test_an_edit_survives_the_death_of_connections_one_by_one(shop, clients):
    """A connection goes on from where its last life was. One that dies twice in five seconds ends its own stream only,
    and its client comes back.
    """
    plane = shop.control_plane
    for step, stage in enumerate(STAGES[1:]):
        _, program = edit_up_to(stage, shop, step)
        kill(plane, "connection-1")
        wait_for_traffic(clients, program)
    assert len(plane.logged("child_restarted")) == 1
    assert [line["child"] for line in plane.logged("intensity_exceeded")] == ["connection-1"]
    wait_until("the client is back", lambda: len(plane.logged("stream_opened")) == 3)
    wait_for_clients(plane, 2)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_an_edit_survives_two_deaths_at_once(pair, shop, clients):
    """Two neighbours that die together lose nothing either."""
    plane = shop.control_plane
    for step, stage in enumerate(STAGES[1:]):
        _, program = edit_up_to(stage, shop, step)
        for name in pair:
            kill(plane, name)
        wait_for_traffic(clients, program)
        for name in pair:
            wait_until(f"{name} runs again", lambda each=name: is_back(plane, each))


@pytest.mark.parametrize("name", [*PIPELINE, *STREAMS_END, "connection-1"])
def test_a_client_that_is_just_connecting(name, shop, envoy):
    """Killed while it gets its first configuration, a client is complete all the same."""
    plane = shop.control_plane
    sidecar = shop.add_sidecar(envoy, "front", 1, "delta")
    wait_until("the stream", lambda: plane.logged("stream_opened"), pause=0.001)
    kill(plane, name)
    wait_until("it can be used", lambda: sidecar.get("stock").status_code == 200)
    wait_until("it has acknowledged everything", lambda: are_synchronised(plane, 1))


def are_synchronised(plane, number):
    """Whether so many clients are there, and each has acknowledged all that it was sent, and was sent everything."""
    statuses = plane.get("/debug/syncz").json()
    return len(statuses) == number and all(
        status.get(f"{name}_sent", "") == status.get(f"{name}_acked", "") != ""
        for status in statuses
        for name in ("cluster", "endpoint", "listener", "route")
    )
