"""What one change costs, from the edit to the last ACK: the whole tree of actors in this process, without sockets.

    python bench/change.py [--services 200] [--proxies 100 1000] [--rounds 5]

All proxies have equal views. So the difference between many and few of them is what each further proxy costs: to hand
out the push, to step its session, to write a small message, to read its ACK, to log the line. Budgets of
architecture.md §5: 0.12 ms for one type, 0.2 ms for two; what the system takes to send a message comes on top here
(bench/grpc_fanout.py), for nothing is sent.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from common import NAMESPACES, Table, endpoint_slice, made, mesh, pod_ip

import supervisor
from actors import ads_service
from actors.logs import configure_logs
from actors.messages import SourceChanged
from actors.ports import Peer, StreamClosed
from protocol.codec import encode
from protocol.proto.envoy.config.core.v3 import Node
from protocol.proto.google.protobuf import Struct, Value
from protocol.wire import text_field
from protocol.wire_reading import read_varint
from protocol.xds.requests import DeltaRequest
from protocol.xds.wire_requests import encode_delta_request
from trierarch.config.destination_rule import DestinationRule, OutlierDetection, TrafficPolicy
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE
from trierarch.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from actors.mailbox import Mailbox
    from trierarch.config.objects import AnyObject

SETTINGS = Settings(
    grpc_addr="",
    http_addr="",
    monitoring_addr="",
    collects_when_idle=False,
    debounce_after=0.01,
    max_requests_per_second=1e6,
)


def ejecting(version: int) -> AnyObject:
    """A rule that makes other clusters of service 0."""
    policy = TrafficPolicy(outlier_detection=OutlierDetection(interval=float(version)))
    return made("DestinationRule", 0, version, DestinationRule(host="svc-0", traffic_policy=policy))


KINDS = {
    "one endpoint (EDS)": (partial(endpoint_slice, 0), 0.12),
    "one DestinationRule (CDS, EDS)": (ejecting, 0.2),
}
"""The edits by version, and milliseconds for each further proxy."""

QUIET = 0.3
"""Seconds without a message after which a change has arrived everywhere."""


# --- a client --------------------------------------------------------------------------------------------------------
class Client:
    """A stream whose client acknowledges everything at once and keeps nothing."""

    method = ads_service.DELTA_METHOD
    metadata: dict[str, str] = {}

    def __init__(self, number: int, pulse: Pulse) -> None:
        self.peer = Peer(address=f"127.0.0.1:{number}")
        self._pulse = pulse
        self._requests, self._incoming = trio.open_memory_channel[bytes](100)
        self._asked = False
        self.requests = self._requests
        for request in self._opening(number):
            self._requests.send_nowait(request)

    def _opening(self, number: int) -> Iterator[bytes]:
        node = Node(id=f"sidecar~{pod_ip(0, number)}~pod-0-{number}.ns-0~ns-0.svc.cluster.local", metadata=_METADATA)
        yield encode_delta_request(DeltaRequest(type_url=CLUSTER, initial={}, node=encode(node)))
        yield encode_delta_request(DeltaRequest(type_url=LISTENER, initial={}))
        yield encode_delta_request(DeltaRequest(type_url=ROUTE, subscribe=("80", "81"), initial={}))

    async def receive(self) -> bytes | None:
        """The next request."""
        return await self._incoming.receive()

    async def send(self, buffers: Sequence[bytes]) -> None:
        """A response: acknowledged. After the first clusters the client asks for their endpoints."""
        self._pulse.beat()
        type_url, nonce = _read_closing(buffers[-1])
        self._requests.send_nowait(text_field(2, type_url) + text_field(6, nonce))
        if type_url == CLUSTER and not self._asked:
            self._asked = True
            self._requests.send_nowait(self._pulse.endpoints_request)

    def blocked(self) -> bool:
        """Never."""
        return False

    async def end(self, code: int, message: str) -> None:
        """The stream is over."""
        raise StreamClosed(f"{code} {message}")

    def reset(self) -> None:
        """The stream is over."""
        self._requests.close()


_METADATA = Struct(
    fields={
        "ISTIO_VERSION": Value(string_value="1.32.0"),
        "NAMESPACE": Value(string_value="ns-0"),
        "LABELS": Value(struct_value=Struct(fields={"app": Value(string_value="svc-0")})),
    }
)


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
        self._intake: Mailbox | None = None

    async def run(self, inbox: Mailbox, *, intake: Mailbox, task_status: trio.TaskStatus[None]) -> None:
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


async def measure(services: int, proxies: int, rounds: int) -> dict[str, float]:
    """Milliseconds of CPU time per change, by kind."""
    world, pulse = World(services), Pulse(services)
    source = supervisor.SourceSpec(name="bench", start=world.run)
    system = supervisor.build_system(SETTINGS, (source,))
    found = {}
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run, system)
        await system.ready.wait()
        serve = partial(
            ads_service.serve_stream, connections=system.mailboxes.connections, metrics=system.metrics, delta=True
        )
        for number in range(proxies):
            nursery.start_soon(serve, Client(number, pulse))
        await pulse.calm(4 * proxies)
        for kind, (edit, _) in KINDS.items():
            found[kind] = await _changes(world, pulse, edit, proxies, rounds)
        nursery.cancel_scope.cancel()
    return found


async def _changes(world: World, pulse: Pulse, edit: Callable[[int], AnyObject], proxies: int, rounds: int) -> float:
    spent = []
    for version in range(1, rounds + 1):
        expected, start = pulse.messages + proxies, time.process_time()
        await world.edit(edit(version))
        await pulse.calm(expected)
        spent.append((time.process_time() - start) * 1000)
    return statistics.median(spent)


@contextmanager
def discarded_logs() -> Iterator[None]:
    """Log as in production, to nowhere: the lines are a part of the cost."""
    with Path("/dev/null").open("w") as nowhere:
        configure_logs("info", console=False, stream=nowhere)
        yield


def main() -> int:
    """Measure, print, compare with the budgets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, default=200)
    parser.add_argument("--proxies", type=int, nargs=2, default=(100, 1000))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    few, many = arguments.proxies
    gc.disable()
    with discarded_logs():
        costs = {number: trio.run(measure, arguments.services, number, arguments.rounds) for number in (few, many)}
    table = Table(f"{arguments.services} services")
    for kind, (_, budget) in KINDS.items():
        for number in (few, many):
            table.value(f"{kind}, {number} proxies", costs[number][kind])
        table.value("  each further proxy", (costs[many][kind] - costs[few][kind]) / (many - few), budget)
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
