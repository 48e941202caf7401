"""The actor that opens the xDS port, with a server that is played."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from h2.errors import ErrorCodes
from trio.testing import wait_all_tasks_blocked

from actors import grpc_server
from actors.grpc import PeerFault
from actors.line_budget import LINES
from actors.static_supervisor import supervise
from actors.supervision import SupervisorHandle
from actors.tree import ChildSpec, SupervisorSpec


class FakeServer:
    """Serves until it is drained."""

    room = 7

    def __init__(self) -> None:
        self.drained = trio.Event()
        self.deadline = None

    async def serve(self, address, *, task_status):
        """Listen, at once."""
        if address.endswith(":1"):
            raise OSError("permission denied")
        task_status.started(address.replace(":0", ":4711"))
        await self.drained.wait()

    def statistics(self):
        """Whatever it counts."""
        return "numbers"

    async def drain(self, deadline):
        """End all streams."""
        self.deadline = deadline
        self.drained.set()
        await trio.lowlevel.checkpoint()


class Stage:
    """The supervised actor. `servers`: those that were made, one for each life."""

    def __init__(self, address="127.0.0.1:0") -> None:
        self.servers = []
        self.ready = trio.Event()
        self.handle = SupervisorHandle()
        self.endpoint = grpc_server.Endpoint(name="grpc", address=address, make=self._make)
        start = partial(grpc_server.run, endpoint=self.endpoint, ready=(self.ready,))
        self.tree = SupervisorSpec(name="root", children=(ChildSpec(name="grpc", start=start),))

    def _make(self):
        self.servers.append(FakeServer())
        return self.servers[-1]

    async def start(self, nursery):
        """Start it; it is up at once, whether there is a snapshot or not."""
        await nursery.start(partial(supervise, self.tree, handle=self.handle))


async def test_the_port_is_opened_with_the_first_snapshot(nursery, lines):
    """Not before: no proxy is ever given an empty mesh."""
    stage = Stage()
    await stage.start(nursery)
    await wait_all_tasks_blocked()
    assert (stage.servers, stage.endpoint.bound) == ([], "")
    stage.ready.set()
    await wait_all_tasks_blocked()
    assert stage.endpoint.bound == "127.0.0.1:4711"
    assert [line["address"] for line in lines if line["event"] == "xds_opened"] == ["127.0.0.1:4711"]


async def test_its_next_life_has_a_server_of_its_own(nursery):
    """Killed, it opens the port again at once: the snapshot is still there."""
    stage = Stage()
    stage.ready.set()
    await stage.start(nursery)
    await wait_all_tasks_blocked()
    stage.handle.kill("grpc")
    await wait_all_tasks_blocked()
    assert len(stage.servers) == 2
    assert stage.endpoint.server is stage.servers[1]
    assert stage.endpoint.bound


async def test_drained_it_ends_in_good_order(nursery):
    """The server has ten seconds; the actor then stays, for nobody should open the port again."""
    stage = Stage()
    stage.ready.set()
    await stage.start(nursery)
    await wait_all_tasks_blocked()
    await stage.endpoint.drain()
    await wait_all_tasks_blocked()
    assert stage.servers[0].deadline == grpc_server.DRAIN
    assert (len(stage.servers), stage.endpoint.bound) == (1, "")
    await stage.endpoint.drain()


async def test_a_port_that_cannot_be_opened_is_a_crash(nursery, autojump_clock):
    """It is tried again, until it has been tried too often."""
    stage = Stage("127.0.0.1:1")
    stage.ready.set()
    with pytest.raises(Exception, match=r"permission denied") as raised:
        await supervise(stage.tree, handle=stage.handle)
    assert "root gave up" in str(raised.value)


async def test_a_port_is_described_whether_it_is_open_or_not(nursery):
    """One without an address is none."""
    stage, off = Stage(), grpc_server.Endpoint(name="secure_grpc", address="", make=FakeServer)
    (before,) = grpc_server.describe((stage.endpoint, off))
    assert (before.address, before.statistics) == ("127.0.0.1:0", None)
    stage.ready.set()
    await stage.start(nursery)
    await wait_all_tasks_blocked()
    (now,) = grpc_server.describe((stage.endpoint, off))
    assert (now.name, now.address, now.statistics) == ("grpc", "127.0.0.1:4711", "numbers")


async def test_a_crash_of_a_stream_is_logged(lines):
    """With the exception."""
    error = ValueError("boom")
    grpc_server.report_crash(error)
    (line,) = lines
    assert (line["event"], line["exc_info"]) == ("stream_crashed", error)


async def test_ended_connections_do_not_fill_the_log(lines, autojump_clock):
    """A host has some lines a minute, and its next one says how many were left out; another host has its own."""
    report, fault = grpc_server.fault_log(), PeerFault(ErrorCodes.ENHANCE_YOUR_CALM, "too many PINGs")
    for port in range(LINES + 3):
        report(f"10.0.0.1:{port}", fault)
    report("10.0.0.2:1", fault)
    await trio.sleep(60)
    report("10.0.0.1:99", fault)
    assert [line["left_out"] for line in lines] == [0] * LINES + [0, 3]
    assert (lines[0]["event"], lines[0]["peer"], lines[0]["error"]) == (
        "peer_dismissed", "10.0.0.1:0", "ENHANCE_YOUR_CALM",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("descriptors", "ports", "room"),
    [(1_000_000, 2, 20_000), (20_000, 2, 9_500), (20_000, 1, 19_000), (1_024, 2, 256), (20_000, 0, 19_000)],
)
def test_ports_take_no_more_connections_than_there_are_descriptors(descriptors, ports, room):
    """Together they leave some to files and debug pages, or half of very few."""
    assert grpc_server.connections_of_a_port(descriptors, ports) == room
