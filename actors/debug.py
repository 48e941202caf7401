"""The debug pages over HTTP: readiness, metrics, who is connected, what was sent, why, what looks wrong, who runs.

Owns: nothing. It asks the connections, the journal and the supervision tree.
Receives: HTTP requests.
Sends: `Describe` to the factory of connections, `ReadJournal` to the journal; kills an actor where that is allowed.
Dies when: its port cannot be opened.
Recovers by: opening it again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import trio
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from actors import debug_pages
from actors.http1 import Http1
from actors.logs import get_logger
from actors.mailbox import ask
from actors.messages import Describe, ReadJournal
from trierarch.config.findings import finding_fields
from trierarch.push.status import record_fields

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

    from actors.descriptions import ConnectionDescription, PortDescription
    from actors.mailbox import Mailbox, MailboxStatistics
    from actors.messages import ToConnections, ToJournal
    from actors.metrics import Metrics
    from actors.supervision import SupervisorHandle
    from trierarch.config.findings import Finding
    from trierarch.push.status import PushRecord

log = get_logger("debug")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Whom the pages ask. `ready` says whether proxies can be served; `findings`: what is said of the configuration;
    `mailboxes`: how full those of single actors are; `ports`: where gRPC is served.
    """

    connections: Mailbox[ToConnections]
    journal: Mailbox[ToJournal]
    metrics: Metrics
    handle: SupervisorHandle
    ready: Callable[[], bool]
    findings: Callable[[], tuple[Finding, ...]]
    mailboxes: Callable[[], tuple[MailboxStatistics, ...]]
    ports: Callable[[], tuple[PortDescription, ...]]
    allow_kill: bool


async def run(
    *, sources: Sources, addresses: tuple[str, ...], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve the pages at all addresses (HOST:PORT)."""
    await Http1(build_app(sources), _report_crash).serve(addresses, task_status=task_status)


def _report_crash(error: Exception) -> None:
    """Log what went wrong in a page."""
    log.error("page_crashed", exc_info=error)


class Pages:
    """One method a page."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def index(self, _: Request) -> Response:
        """A list of all pages."""
        return PlainTextResponse("\n".join((*PAGES, KILL)) + "\n")

    async def ready(self, _: Request) -> Response:
        """200 once proxies can be served."""
        return PlainTextResponse("ready\n") if self._sources.ready() else PlainTextResponse("not ready\n", 503)

    async def version(self, _: Request) -> Response:
        """The program's version."""
        return PlainTextResponse(debug_pages.program_version() + "\n")

    async def metrics(self, _: Request) -> Response:
        """Prometheus' text format."""
        page = await _beside(lambda: generate_latest(self._sources.metrics.registry))
        return Response(page, media_type=CONTENT_TYPE_LATEST)

    async def syncz(self, request: Request) -> Response:
        """For each proxy and type, the nonce sent and the nonce acknowledged."""
        namespace = request.query_params.get("namespace", "")
        found = [each for each in await self._describe("") if namespace in ("", each.proxy.namespace)]
        return await _in_thread(lambda: [debug_pages.sync_status(each) for each in found])

    async def adsz(self, request: Request) -> Response:
        """Connected clients and what they watch."""
        found = await self._describe(request.query_params.get("proxyID", ""))
        return await _in_thread(lambda: debug_pages.clients(found))

    async def config_dump(self, request: Request) -> Response:
        """What one proxy was sent, in the shape of Envoy's own page."""
        proxy_id = request.query_params.get("proxyID", "")
        if not proxy_id:
            return PlainTextResponse("say which proxy: ?proxyID=...\n", 400)
        found = await self._describe(proxy_id)
        if not found:
            return PlainTextResponse(f"no proxy like {proxy_id!r} is connected here\n", 404)
        endpoints = "include_eds" in request.query_params
        return await _in_thread(lambda: debug_pages.config_dump(found[0], endpoints))

    async def pushes(self, request: Request) -> Response:
        """What came of the last pushes and why they were made."""
        limit = request.query_params.get("limit", "100")
        if not (limit.isdecimal() and len(limit) <= _LONGEST_LIMIT):
            return PlainTextResponse("limit is not a number\n", 400)
        proxy_id = request.query_params.get("proxyID", "")
        records: tuple[PushRecord, ...] = await ask(
            self._sources.journal, lambda reply: ReadJournal(proxy_id=proxy_id, limit=int(limit), reply=reply)
        )
        return await _in_thread(lambda: [record_fields(record) for record in records])

    async def findings(self, _: Request) -> Response:
        """What is rejected, and what looks wrong: in an object, or in how the objects of the newest snapshot fit."""
        found = self._sources.findings()
        return await _in_thread(lambda: [finding_fields(each) for each in found])

    async def actors(self, _: Request) -> Response:
        """The supervision tree's children."""
        return JSONResponse([debug_pages.actor(child) for child in self._sources.handle.statistics()])

    async def mailboxes(self, _: Request) -> Response:
        """How many messages wait for each actor in either lane, how many may, and how many it has received."""
        return JSONResponse([asdict(each) for each in self._sources.mailboxes()])

    async def ports(self, _: Request) -> Response:
        """The gRPC ports: how many connections and calls are open, were accepted, refused, or ended, and why."""
        return JSONResponse([debug_pages.port(each) for each in self._sources.ports()])

    async def kill(self, request: Request) -> Response:
        """Kill an actor, where that is allowed."""
        name = request.path_params["name"]
        if not self._sources.allow_kill:
            return PlainTextResponse("killing is not allowed; start with --allow-kill\n", 403)
        if not self._sources.handle.kill(name):
            return PlainTextResponse(f"no actor {name!r} is running; see /debug/actors\n", 404)
        return PlainTextResponse(f"killed {name}\n")

    async def _describe(self, proxy_id: str) -> tuple[ConnectionDescription, ...]:
        found: tuple[ConnectionDescription, ...] = await ask(
            self._sources.connections, lambda reply: Describe(proxy_id=proxy_id, reply=reply)
        )
        return tuple(sorted(found, key=lambda each: (each.proxy.cluster, each.proxy.namespace, each.connection)))


PAGES: Mapping[str, Callable[[Pages, Request], Awaitable[Response]]] = {
    "/": Pages.index,
    "/debug": Pages.index,
    "/ready": Pages.ready,
    "/version": Pages.version,
    "/metrics": Pages.metrics,
    "/debug/syncz": Pages.syncz,
    "/debug/adsz": Pages.adsz,
    "/debug/config_dump": Pages.config_dump,
    "/debug/pushes": Pages.pushes,
    "/debug/findings": Pages.findings,
    "/debug/actors": Pages.actors,
    "/debug/mailboxes": Pages.mailboxes,
    "/debug/ports": Pages.ports,
}
"""What is at which path. Actors are killed by POST at `KILL`."""

_LANE = trio.CapacityLimiter(1)

_LONGEST_LIMIT = 9
"""Digits: of thousands Python makes no number."""

KILL = "/debug/actors/{name}/kill"


def build_app(sources: Sources) -> Starlette:
    """The pages as an ASGI application."""
    pages = Pages(sources)
    shown = [Route(path, partial(page, pages)) for path, page in PAGES.items()]
    return Starlette(routes=[*shown, Route(KILL, pages.kill, methods=["POST"])])


async def _in_thread(build: Callable[[], object]) -> Response:
    """A page of JSON, built and encoded beside the event loop: of a large mesh it is many megabytes."""
    page = await _beside(lambda: debug_pages.encode_page(build()).encode())
    return Response(page, media_type="application/json")


async def _beside(build: Callable[[], bytes]) -> bytes:
    """Build a page in a thread, one at a time: forty would leave the event loop a fortieth of the interpreter."""
    return await trio.to_thread.run_sync(build, limiter=_LANE)
