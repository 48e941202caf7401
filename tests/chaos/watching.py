"""What the tests that kill things do and look at."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx

from examples.shop.processes import PATIENCE, wait_until
from tests.chaos.load import Load
from tests.e2e.envoy_admin import read_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from examples.shop.processes import ControlPlane, Sidecar
    from tests.e2e.shops import Shop

ROUTED = "VirtualService shop/reviews updated"
"""How `trierarch why` names the edits that these tests make."""

_NEVER = (
    "update_rejected",
    "cluster_manager.cluster_removed",
    "listener_manager.listener_removed",
    "listener_manager.listener_modified",
)
"""Statistics that stay 0 while nothing but routes is edited."""


@contextmanager
def unnoticed(*sidecars: Sidecar) -> Iterator[None]:
    """Requests run meanwhile, and none fails; no Envoy rejects, loses or replaces anything but routes."""
    with Load(*sidecars) as load:
        yield
    load.check()
    for sidecar in sidecars:
        happened = {name: count for name, count in read_statistics(sidecar, *_NEVER).items() if count}
        assert happened == {}, sidecar.id


def edit(shop: Shop, step: int) -> tuple[float, str]:
    """Send all requests for `reviews` to the other version; returns the wall clock time before, and the version."""
    first = 100 * (step % 2)
    return shop.mesh.set_weights(first, 100 - first), "reviews-v1" if first else "reviews-v2"


def kill(plane: ControlPlane, name: str) -> None:
    """Kill an actor. Whoever kills `debug`, alone or with others, gets no answer."""
    try:
        assert plane.kill_actor(name).status_code == 200
    except httpx.TransportError:
        assert name in {"pipeline", "connections", "grpc", "debug"}


def is_back(plane: ControlPlane, name: str) -> bool:
    """Whether an actor that was killed runs again."""
    return any(
        each["name"] == name and each["state"] == "running" and each["restarts"]
        for each in plane.get("/debug/actors").json()
    )


def wait_for_clients(plane: ControlPlane, count: int) -> None:
    """Wait until so many clients are connected, and none that is gone is listed."""
    wait_until(f"{count} clients", lambda: plane.get("/debug/adsz").json()["totalClients"] == count)


def wait_for_traffic(sidecars: tuple[Sidecar, ...], program: str, patience: float = PATIENCE) -> None:
    """Wait until all requests of all clients for `reviews` go to this program."""

    def called(sidecar: Sidecar) -> set[str]:
        return {sidecar.get("reviews").text.split()[0] for _ in range(5)}

    for sidecar in sidecars:
        wait_until(f"{sidecar.id} calls {program}", lambda each=sidecar: called(each) == {program}, patience)


def wait_for_cause(plane: ControlPlane, sidecars: tuple[Sidecar, ...], moment: float) -> None:
    """Wait until the log has told for each client that the edit of `reviews` caused a push to it after a moment."""

    def causes(proxy: str) -> set[str]:
        pushes = [push for push in plane.logged("push_finished") if push["proxy"] == proxy]
        return {cause["name"] for push in pushes if push["finished"] > moment for cause in push["causes"]}

    for sidecar in sidecars:
        wait_until(f"the cause of the push to {sidecar.id}", lambda each=sidecar: "reviews" in causes(each.id))
