"""A steady stream of requests through sidecars, and what became of each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Self

import httpx

if TYPE_CHECKING:
    from examples.shop.processes import Sidecar

RATE = 25.0
"""Requests a second through each sidecar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A request that was not answered as it should. `at`: wall clock seconds."""

    at: float
    sidecar: str
    what: str


class Load:
    """Requests for a host through each sidecar over one kept connection, for the length of a `with` block. Each must be
    answered with a text in which `expected` is.
    """

    def __init__(self, *sidecars: Sidecar, host: str = "reviews", expected: str = "reviews-v") -> None:
        self.failures: list[Failure] = []
        self._answered = {sidecar.id: 0 for sidecar in sidecars}
        self._host, self._expected = host, expected
        self._over = Event()
        self._threads = [Thread(target=self._send, args=(sidecar,), daemon=True) for sidecar in sidecars]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def check(self) -> None:
        """Each sidecar carried requests, and none failed."""
        assert self.failures == []
        assert all(self._answered.values()), self._answered

    @property
    def answers(self) -> int:
        """Requests that were answered as they should."""
        return sum(self._answered.values())

    def _send(self, sidecar: Sidecar) -> None:
        with httpx.Client(timeout=10) as client:
            while not self._over.wait(1 / RATE):
                self._send_one(sidecar, client)

    def _send_one(self, sidecar: Sidecar, client: httpx.Client) -> None:
        try:
            response = client.get(f"http://{sidecar.outbound}/", headers={"host": self._host})
        except httpx.TransportError as error:
            self._fail(sidecar, repr(error))
            return
        if response.status_code == 200 and self._expected in response.text:
            self._answered[sidecar.id] += 1
        else:
            self._fail(sidecar, f"{response.status_code} {response.text}")

    def _fail(self, sidecar: Sidecar, what: str) -> None:
        self.failures.append(Failure(at=time.time(), sidecar=sidecar.id, what=what))
