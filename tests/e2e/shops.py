"""Shops as real processes, each in a network of its own; and how their answers are read.

The shop's mesh has one client, `front`. Here it may have a second one, `desk`: the same client under another name and
address, so that what two Envoys were sent can be compared word for word.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import TYPE_CHECKING

from examples.shop.processes import ControlPlane, Mesh, Programs, Sidecar, wait_until
from tests.e2e.ads_client import resources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from google.protobuf.message import Message

FRONT, DESK = 1, 7
"""The last numbers of the clients' addresses."""

ROUTING = "reviews-routing.yaml"

_NETWORKS = count()


def next_network() -> str:
    """The first three numbers of addresses that no other test uses now: those of processes side by side differ."""
    number = 64 * os.getpid() + next(_NETWORKS)
    return f"127.{16 + number // 256 % 224}.{number % 256}"


class Shop:
    """A mesh in a folder, its programs, a control plane and as many sidecars as a test starts.

    `log` is the control plane's. Everything ends with `stack`.
    """

    def __init__(self, folder: Path, stack: ExitStack, flags: tuple[str, ...]) -> None:
        self.network = next_network()
        self.mesh = Mesh(folder / "mesh", self.network)
        self.mesh.write("desk.yaml", self._as_desk(self.mesh.read("front.yaml")))
        self.control_plane = ControlPlane(self.mesh.folder, folder / "trierarch.log", self.network, flags)
        self.sidecars: list[Sidecar] = []
        self._folder = folder
        self._stack = stack

    def open(self) -> None:
        """Start the programs and the control plane; returns when proxies can be served."""
        self._stack.enter_context(Programs(self._folder, self.network))
        self._stack.enter_context(self.control_plane)
        self.control_plane.wait_until_ready()

    def add_sidecar(self, envoy: Path, app: str, number: int, mode: str, **metadata: str) -> Sidecar:
        """Start an Envoy beside a workload; returns before it is configured."""
        address = f"{self.network}.{number}"
        sidecar = Sidecar(envoy, self.control_plane.xds, self._folder, app=app, address=address, mode=mode, **metadata)
        self.sidecars.append(self._stack.enter_context(sidecar))
        return sidecar

    def add_clients(self, envoy: Path) -> tuple[Sidecar, Sidecar]:
        """Start both clients: `front` speaks delta, `desk` state of the world. Returns when both can be used."""
        front, desk = self.add_sidecar(envoy, "front", FRONT, "delta"), self.add_sidecar(envoy, "desk", DESK, "sotw")
        for sidecar in (front, desk):
            wait_until(f"{sidecar.id} has its configuration", lambda each=sidecar: each.get("stock").status_code == 200)
        return front, desk

    def as_front(self, text: str) -> str:
        """What is said of `desk`, said of `front`."""
        here = f"{self.network}."
        return text.replace(f"{here}{DESK}", f"{here}{FRONT}").replace("desk", "front")

    def _as_desk(self, text: str) -> str:
        here = f"{self.network}."
        return text.replace(f"{here}{FRONT}", f"{here}{DESK}").replace("front", "desk")


@contextmanager
def open_shop(folder: Path, *flags: str) -> Iterator[Shop]:
    """A shop whose programs and control plane run."""
    with ExitStack() as stack:
        shop = Shop(folder, stack, flags)
        shop.open()
        yield shop


def weights_of(response: Message) -> list[int]:
    """The weights of the route for everybody to `reviews` in a response of routes, ascending."""
    (routes,) = resources(response).values()
    (host,) = [host for host in routes.virtual_hosts if host.name.startswith("reviews.")]
    return sorted(each.weight.value for each in host.routes[-1].route.weighted_clusters.clusters)
