"""The whole tree of actors in this process, without sockets: a source that is edited by hand, and sidecars' streams."""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import trio

import supervisor
from actors import ads_service
from actors.logs import configure_logs
from actors.messages import SourceChanged
from actors.ports import Peer, StreamClosed
from common.mesh import NAMESPACES, mesh, pod_ip
from protocol.codec import encode
from protocol.errors import LocalError, RemoteError
from protocol.proto.envoy.config.core.v3 import Node
from protocol.proto.google.protobuf import Struct, Value
from protocol.wire import text_field
from protocol.wire_reading import read_varint
from protocol.xds.requests import DeltaRequest
from protocol.xds.wire_requests import encode_delta_request
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE
from trierarch.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from actors.mailbox import Mailbox
    from actors.messages import ToIntake
    from actors.source_messages import ToSource
    from trierarch.config.objects import AnyObject

SETTINGS = Settings(
    grpc_addr="",
    secure_grpc_addr="",
    http_addr="",
    monitoring_addr="",
    collects_briefly=False,
    debounce_after=0.01,
    max_requests_per_second=1e6,
)

QUIET = 0.3
"""Seconds without a message after which a change has arrived everywhere."""

SETTLED = 1.0
"""Seconds after which somebody has been told of a change, if anybody is."""


# --- clients ---------------------------------------------------------------------------------------------------------
class Client:
    """A stream whose client acknowledges everything at once and keeps nothing."""

    method = ads_service.DELTA_METHOD
    metadata: dict[str, str] = {}

    def __init__(self, number: int, node: Node, pulse: Pulse) -> None:
        self.peer = Peer(address=f"127.0.0.1:{number}")
        self._pulse = pulse
        self._requests = deque(self._opening(node))
        self._wake: Callable[[], None] = lambda: None
        self._asked = False
        self.nonces: dict[str, str] = {}

    def ask(self, request: bytes) -> None:
        """Send a request."""
        self._requests.append(request)
        self._wake()

    def _opening(self, node: Node) -> Iterator[bytes]:
        yield encode_delta_request(DeltaRequest(type_url=CLUSTER, initial={}, node=encode(node)))
        yield encode_delta_request(DeltaRequest(type_url=LISTENER, initial={}))
        yield encode_delta_request(DeltaRequest(type_url=ROUTE, subscribe=("80", "81"), initial={}))

    async def receive(self) -> bytes | None:
        """Nobody waits for a request: whoever serves this client wants to be woken."""
        raise LocalError("this client wakes whoever serves it")

    def receive_nowait(self) -> bytes | None:
        """The next request, if there is one."""
        if not self._requests:
            raise trio.WouldBlock
        return self._requests.popleft()

    def pending(self) -> bool:
        """Whether there is a request."""
        return bool(self._requests)

    def due_at(self) -> float:
        """Requests come whole or not at all."""
        return inf

    def on_arrival(self, wake: Callable[[], None]) -> None:
        """Wake somebody for each request."""
        self._wake = wake

    async def send(self, *messages: Sequence[bytes]) -> None:
        """Responses: acknowledged."""
        for buffers in messages:
            self._acknowledge(buffers)

    def _acknowledge(self, buffers: Sequence[bytes]) -> None:
        """After the first clusters the client asks for their endpoints."""
        self._pulse.beat()
        type_url, nonce = _read_closing(buffers[-1])
        self.nonces[type_url] = nonce
        self.ask(text_field(2, type_url) + text_field(6, nonce))
        if type_url == CLUSTER and not self._asked:
            self._asked = True
            self.ask(self._pulse.endpoints_request)

    def blocked(self) -> bool:
        """Never."""
        return False

    async def end(self, code: int, message: str) -> None:
        """The stream is over."""
        raise StreamClosed(f"{code} {message}")

    def reset(self) -> None:
        """The stream is over; nobody asks whether it is."""


def replica(number: int, namespaces: int = 1) -> Node:
    """The sidecar of one of many pods of a service: those of a namespace have equal views."""
    return _node(0, number, f"ns-{number % namespaces}")


def workload(number: int) -> Node:
    """The sidecar of the first pod of service `number`: each has a view of its own."""
    return _node(number, 0, f"ns-{number % NAMESPACES}")


def _node(service: int, number: int, namespace: str) -> Node:
    name = f"pod-{service}-{number}.{namespace}"
    labels = Struct(fields={"app": Value(string_value=f"svc-{service}")})
    metadata = {
        "ISTIO_VERSION": Value(string_value="1.32.0"),
        "NAMESPACE": Value(string_value=namespace),
        "LABELS": Value(struct_value=labels),
    }
    identity = f"sidecar~{pod_ip(service, number)}~{name}~{namespace}.svc.cluster.local"
    return Node(id=identity, metadata=Struct(fields=metadata))


def _read_closing(buffer: bytes) -> tuple[str, str]:
    """Type URL and nonce: the last buffer of a response begins with them (fields 4 and 5)."""
    length, start = read_varint(buffer, 1)
    type_url = buffer[start : start + length].decode()
    length, start = read_varint(buffer, start + length + 1)
    return type_url, buffer[start : start + length].decode()


class Pulse:
    """Whether anything is on its way still."""

    def __init__(self, services: int) -> None:
        self.messages = 0
        self.last = 0.0
        names = tuple(
            f"outbound|80|{subset}|svc-{index}.ns-{index % NAMESPACES}.svc.cluster.local"
            for index in range(services)
            for subset in ("", "v1", "v2")
        )
        self.endpoints_request = encode_delta_request(DeltaRequest(type_url=ENDPOINT, subscribe=names, initial={}))

    def beat(self) -> None:
        """A message was sent."""
        self.messages += 1
        self.last = trio.current_time()

    async def calm(self, messages: int) -> None:
        """Wait for so many messages, and then until nothing has been sent for a while."""
        with trio.fail_after(60):
            while self.messages < messages or trio.current_time() < self.last + QUIET:
                await trio.sleep(QUIET / 5)


# --- the system ------------------------------------------------------------------------------------------------------
class World:
    """A source of the mesh that is edited by hand."""

    def __init__(self, services: int) -> None:
        self._objects = tuple(mesh(services))
        self._intake: Mailbox[ToIntake] | None = None

    async def run(
        self, inbox: Mailbox[ToSource], *, intake: Mailbox[ToIntake], task_status: trio.TaskStatus[None]
    ) -> None:
        """Tell everything whenever asked."""
        self._intake = intake
        task_status.started()
        while True:
            await intake.send(
                SourceChanged(source="bench", upserts=self._objects, full=True, seen_at=trio.current_time())
            )
            await inbox.receive()

    async def edit(self, changed: AnyObject) -> None:
        """One object changed."""
        assert self._intake is not None
        await self._intake.send(SourceChanged(source="bench", upserts=(changed,), seen_at=trio.current_time()))


@dataclass(frozen=True, slots=True)
class Running:
    """A system that has built its first snapshot."""

    pulse: Pulse
    nursery: trio.Nursery
    system: supervisor.System

    async def connect(self, proxies: int, node: Callable[[int], Node] = replica) -> tuple[Client, ...]:
        """Connect so many sidecars, and wait until they have everything. `node`: who the one of that number is."""
        expected = self.pulse.messages + 4 * proxies
        clients = tuple(Client(number, node(number), self.pulse) for number in range(proxies))
        for client in clients:
            self.nursery.start_soon(self._serve, client)
        await self.pulse.calm(expected)
        return clients

    async def _serve(self, client: Client) -> None:
        """Until the stream ends, which for some is our decision."""
        shared = self.system.shared
        with suppress(RemoteError):
            await ads_service.serve_stream(
                client, connections=shared.mail.connections, metrics=shared.metrics, delta=True
            )

    async def settle(self) -> None:
        """Wait until whatever was done has had its effect, and all is quiet."""
        await trio.sleep(SETTLED)
        await self.pulse.calm(0)


@dataclass(frozen=True, slots=True)
class Edited(Running):
    """One whose mesh is edited by hand."""

    world: World

    async def change(self, edited: AnyObject, proxies: int) -> None:
        """Edit one object, and wait until so many messages have gone out and all is quiet."""
        expected = self.pulse.messages + proxies
        await self.world.edit(edited)
        await self.pulse.calm(expected)


@asynccontextmanager
async def running(services: int, settings: Settings = SETTINGS) -> AsyncIterator[Edited]:
    """The system with a mesh of so many services."""
    world = World(services)
    async with started(services, settings, (supervisor.SourceSpec(name="bench", start=world.run),)) as system:
        yield Edited(system.pulse, system.nursery, system.system, world)


@asynccontextmanager
async def started(
    services: int, settings: Settings, sources: tuple[supervisor.SourceSpec, ...] | None = None
) -> AsyncIterator[Running]:
    """The system with the sources of a mesh of so many services, or with those that the settings name."""
    system = supervisor.build_system(settings, sources)
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run, system)
        await system.shared.ready.wait()
        yield Running(Pulse(services), nursery, system)
        nursery.cancel_scope.cancel()


@contextmanager
def discarded_logs() -> Iterator[None]:
    """Log as in production, to nowhere: the lines are a part of the cost."""
    with Path("/dev/null").open("w") as nowhere:
        configure_logs("info", console=False, stream=nowhere)
        yield
