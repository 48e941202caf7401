"""A real Envoy and a control plane of its own that serves it whatever it is given, one configuration after another.

The control plane is the product's, its gRPC server and its sessions, driven by a test instead of actors. It tells what
the Envoy would not take. Nothing is generated here.
"""

from __future__ import annotations

import json
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx
import trio

from actors.ads_service import DELTA_METHOD, SOTW_METHOD
from actors.grpc import Server
from examples.shop.processes import Process
from protocol.xds.events import Acked, Asked, Nacked, Unsubscribed
from protocol.xds.resources import EMPTY, ResourceSet
from protocol.xds.session import AdsSession
from protocol.xds.wire_requests import decode_delta_request, decode_sotw_request
from tests.e2e.sweep_machine import fit
from tests.e2e.sweep_secrets import Secrets
from trierarch.envoy.bootstrap import build_bootstrap
from trierarch.envoy.types import SECRET, TYPE_RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from actors.ports import StreamPort
    from protocol.xds.requests import Request

PATIENCE = 20.0
"""Seconds within which an Envoy has taken or refused a configuration."""

PAUSE = 0.005

_NOBODY = "127.0.0.1:1"
"""A resolver that is not there: names are not found at once, and nobody outside is asked."""

_DNS = "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig"

Sets = dict[str, ResourceSet]
"""Type URL -> what is served of it."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """What one Envoy is being served. `refused` are its objections to the latest configuration."""

    delta: bool
    folder: Path
    secrets: Secrets
    refused: list[str] = field(default_factory=list)
    connected: trio.Event = field(default_factory=trio.Event)
    _sets: Sets = field(default_factory=dict)
    _unanswered: dict[str, str] = field(default_factory=dict)
    _turn: trio.Lock = field(default_factory=trio.Lock)
    _port: StreamPort | None = None
    _session: AdsSession | None = None

    async def serve(self, port: StreamPort) -> None:
        """Serve the Envoy's stream. It has one in its life: an Envoy that came back would have crashed."""
        assert self._port is None, "the Envoy came back"
        self._port = port
        self._session = (AdsSession.delta if self.delta else AdsSession.sotw)(TYPE_RULES, "sweep")
        decode = decode_delta_request if self.delta else decode_sotw_request
        while (message := await port.receive()) is not None:
            async with self._turn:
                await self._receive(decode(message))

    async def show(self, sets: Mapping[str, ResourceSet]) -> None:
        """Serve this from now on, made to fit this machine; returns when it is on its way."""
        self.refused.clear()
        async with self._turn:
            self._sets = fit(sets, self.folder)
            await self._offer(self._sets)

    @property
    def unanswered(self) -> list[str]:
        """The types of which the Envoy owes an answer."""
        return [TYPE_RULES[url].short for url in self._unanswered]

    async def _receive(self, request: Request) -> None:
        assert self._session is not None
        self._session, events = self._session.receive(request)
        for event in events:
            match event:
                case Acked(type_url=url, nonce=nonce):
                    self._answered(url, nonce)
                case Nacked(type_url=url, nonce=nonce, message=reason):
                    self._answered(url, nonce)
                    self.refused.append(f"{TYPE_RULES[url].short}: {reason}")
                case Unsubscribed(type_url=url):
                    self._unanswered.pop(url, None)
                case Asked(type_url=url):
                    await self._offer([url])
                case _:
                    pass
        self.connected.set()

    def _answered(self, url: str, nonce: str) -> None:
        """The answer to the last response of a type answers those before, which an Envoy may pass over."""
        if self._unanswered.get(url) == nonce:
            del self._unanswered[url]

    async def _offer(self, types: Iterable[str]) -> None:
        assert self._session is not None
        for url in self._session.due(types):
            self._session, response = self._session.respond(url, self._resources(url), following=url not in types)
            if response is not None:
                self._unanswered[url] = response.nonce
                await self._port.send(response.buffers)

    def _resources(self, url: str) -> ResourceSet:
        assert self._session is not None
        if url == SECRET:
            return self.secrets.build(self._session.names(SECRET))
        return self._sets.get(url, EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """A running Envoy and its stage."""

    name: str
    stage: Stage
    process: Process
    client: httpx.AsyncClient
    admin: str

    async def judge(self, sets: Mapping[str, ResourceSet]) -> list[str]:
        """Show it a configuration and wait until all of it is in use; returns what it objects to.

        Raises `ChildProcessError` if it crashes.
        """
        await self.stage.show(sets)
        unsettled: list[str] = []
        with trio.move_on_after(PATIENCE) as patience:
            while unsettled := await self._unsettled():
                await trio.sleep(PAUSE)
        late = [f"not in use after {PATIENCE:g} s: {', '.join(unsettled)}"] if patience.cancelled_caught else []
        return self.stage.refused + late

    async def _unsettled(self) -> list[str]:
        """The types that await an answer, else the gauges of what waits for something."""
        if self.process.code() is not None:
            raise ChildProcessError(f"Envoy ended with code {self.process.code()}: see {self.process.log}")
        if self.stage.unanswered:
            return self.stage.unanswered
        page = await self.client.get(f"http://{self.admin}/stats", params={"filter": "warming", "format": "json"})
        return [each["name"] for each in page.json()["stats"] if each.get("value")]


async def open_audience(
    envoy: Path,
    folder: Path,
    name: str,
    address: str,
    *,
    delta: bool,
    task_status: trio.TaskStatus[Audience],
) -> None:
    """Keep an Envoy and its control plane running on this address until cancelled."""
    stage = Stage(delta=delta, folder=folder / name, secrets=Secrets.issue(folder / name))
    server = Server({DELTA_METHOD: stage.serve, SOTW_METHOD: stage.serve}, on_crash=_say)
    async with trio.open_nursery() as nursery:
        xds = await nursery.start(server.serve, f"{address}:15010")
        bootstrap = folder / f"{name}.bootstrap.json"
        bootstrap.write_text(json.dumps(_bootstrap(name, xds, f"{address}:15000", delta)))
        options = ("--disable-hot-restart", "--concurrency", "1", "--drain-time-s", "1", "-l", "error")
        with Process(envoy, "-c", bootstrap, *options, log=folder / f"{name}.log") as process:
            with trio.fail_after(PATIENCE):
                await stage.connected.wait()
            async with httpx.AsyncClient(verify=False) as client:
                admin = f"{address}:15000"
                task_status.started(Audience(name=name, stage=stage, process=process, client=client, admin=admin))
                await trio.sleep_forever()


def _bootstrap(name: str, xds: str, admin: str, delta: bool) -> dict[str, object]:
    bootstrap = build_bootstrap(
        node_id=f"sidecar~127.0.0.1~{name}.sweep~cluster.local", xds=xds, delta=delta, admin=admin
    )
    host, port = _NOBODY.split(":")
    nobody = {"socket_address": {"address": host, "port_value": int(port)}}
    resolver = {"@type": _DNS, "resolvers": [nobody], "dns_resolver_options": {"no_default_search_domain": True}}
    return {
        **bootstrap,
        "typed_dns_resolver_config": {"name": "envoy.network.dns_resolver.cares", "typed_config": resolver},
    }


def _say(error: Exception) -> None:
    """Whatever ends a stream is a mistake of this test: it is shown, and what follows fails."""
    traceback.print_exception(error)
