"""The debug pages, asked in this process about a mesh that runs in it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, fields

import httpx
import pytest
import trio

from actors import debug
from actors.descriptions import PortDescription
from actors.grpc import ServerStatistics
from tests.actors.fake_stream import FakeEnvoy
from tests.actors.meshes import SHOP, routing
from tests.actors.system import Mesh, start_mesh
from trierarch.config.findings import Rejected
from trierarch.config.objects import Origin
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE


@dataclass
class Pages:
    """The pages of a running mesh."""

    mesh: Mesh
    client: httpx.AsyncClient

    async def get(self, path, status=200, **parameters):
        """The JSON of a page."""
        response = await self.client.get(path, params=parameters)
        assert response.status_code == status, response.text
        return response.json() if status == 200 else response.text


COUNTS = {each.name: number for number, each in enumerate(fields(ServerStatistics))}
PORTS = (
    PortDescription(name="grpc", address="127.0.0.1:4711", encrypted=False, statistics=ServerStatistics(**COUNTS)),
    PortDescription(name="secure_grpc", address="127.0.0.1:0", encrypted=True, statistics=None),
)


@pytest.fixture
async def pages(nursery):
    """A mesh with a proxy in each of two namespaces, after an edit that concerned one of them."""
    envoys = [FakeEnvoy("web-1.shop", "10.1.0.1", delta=True), FakeEnvoy("vault-1.bank", "10.1.0.3", delta=False)]
    mesh = await start_mesh(nursery, SHOP, envoys=envoys)
    mesh.edit(routing(2))
    await mesh.settle()
    async with open_client(mesh, allow_kill=True) as client:
        yield Pages(mesh=mesh, client=client)


def open_client(mesh, *, allow_kill=False, ready=True):
    """A client of the pages of a mesh, without a network between."""
    shared = mesh.system.shared
    sources = debug.Sources(
        connections=shared.mail.connections, journal=shared.mail.journal, metrics=shared.metrics, handle=shared.handle,
        ready=lambda: ready and shared.ready.is_set(), findings=shared.findings, allow_kill=allow_kill,
        mailboxes=lambda: (shared.mail.intake.statistics(), shared.mail.journal.statistics()), ports=lambda: PORTS,
    )  # fmt: skip
    return httpx.AsyncClient(transport=httpx.ASGITransport(debug.build_app(sources)), base_url="http://test")


async def test_the_index_names_all_pages(pages, autojump_clock):
    """For whoever does not know where to look."""
    response = await pages.client.get("/debug")
    assert {"/ready", "/metrics", "/debug/syncz", "/debug/pushes"} <= set(response.text.split())


async def test_ready_once_proxies_can_be_served(pages, autojump_clock):
    """503 before the first snapshot, 200 after it."""
    assert (await pages.client.get("/ready")).status_code == 200
    async with open_client(pages.mesh, ready=False) as client:
        assert (await client.get("/ready")).status_code == 503


@pytest.mark.parametrize("path", ["/metrics", "/debug/syncz", "/debug/pushes", "/debug/findings"])
async def test_long_pages_are_built_one_at_a_time_beside_the_event_loop(pages, autojump_clock, monkeypatch, path):
    """However many ask for them at once: a folder full of nonsense makes even the metrics long."""
    threads, at_work, most = set(), 0, 0

    def build(*_):
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        threads.add(threading.current_thread())
        time.sleep(0.001)
        at_work -= 1
        return b""

    monkeypatch.setattr(debug, "generate_latest", build)
    monkeypatch.setattr(debug.debug_pages, "encode_page", lambda _: build().decode())
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(pages.client.get, path)
    assert most == 1
    assert threading.current_thread() not in threads


async def test_metrics_are_in_prometheus_format(pages, autojump_clock):
    """With istiod's names."""
    text = (await pages.client.get("/metrics")).text
    assert 'pilot_xds{version=""} 2.0' in text
    assert "pilot_services 2.0" in text


async def test_version(pages, autojump_clock):
    """Name and number."""
    assert (await pages.client.get("/version")).text.startswith("trierarch ")


async def test_syncz_shows_what_was_sent_and_acknowledged(pages, autojump_clock):
    """An item for each proxy, in order of namespaces; with equal nonces where everything is acknowledged."""
    bank, shop = await pages.get("/debug/syncz")
    assert (bank["proxy"], shop["proxy"], shop["cluster_id"]) == ("vault-1.bank", "web-1.shop", "Kubernetes")
    for name in ("cluster", "listener", "route", "endpoint"):
        assert shop[f"{name}_sent"] == shop[f"{name}_acked"] != ""
    assert shop["resources"][CLUSTER] == {
        "sent": shop["cluster_sent"], "acked": shop["cluster_acked"], "lastError": ""
    }  # fmt: skip
    assert [each["proxy"] for each in await pages.get("/debug/syncz", namespace="bank")] == ["vault-1.bank"]


async def test_adsz_shows_who_is_connected(pages, autojump_clock):
    """With dialect, snapshot and subscriptions."""
    page = await pages.get("/debug/adsz", proxyID="web-1")
    assert page["totalClients"] == 1
    (client,) = page["clients"]
    assert client["connectionId"].startswith("web-1.shop-")
    assert (client["delta"], client["address"]) == (True, "127.0.0.1:1")
    assert (client["identity"], client["certificateExpires"]) == ("", None)
    assert client["watches"][CLUSTER] == []
    assert client["watches"][ENDPOINT] == sorted(client["watches"][ENDPOINT]) != []
    newest = max(record.snapshot for record in pages.mesh.records)
    assert client["snapshot"] == newest


async def test_config_dump_shows_what_a_proxy_holds(pages, autojump_clock):
    """In the sections of Envoy's own page; endpoints only on request; of routes only those that it asked for."""
    page = await pages.get("/debug/config_dump", proxyID="web-1.shop")
    kinds = [section["@type"].rpartition(".")[2] for section in page["configs"]]
    assert kinds == ["ClustersConfigDump", "ListenersConfigDump", "RoutesConfigDump"]
    held = pages.mesh.envoys[0].client.held
    clusters, listeners, routes = page["configs"]
    assert [each["cluster"]["name"] for each in clusters["dynamic_active_clusters"]] == list(held[CLUSTER])
    assert [each["name"] for each in listeners["dynamic_listeners"]] == list(held[LISTENER])
    assert {each["route_config"]["name"] for each in routes["dynamic_route_configs"]} == set(held[ROUTE])
    page = await pages.get("/debug/config_dump", proxyID="web-1.shop", include_eds="")
    assert len(page["configs"]) == 4


async def test_config_dump_needs_a_proxy(pages, autojump_clock):
    """400 without one, 404 for one that is not here."""
    assert "?proxyID=" in await pages.get("/debug/config_dump", 400)
    assert "nobody" in await pages.get("/debug/config_dump", 404, proxyID="nobody")


async def test_pushes_say_why(pages, autojump_clock):
    """The last records of a proxy, newest last, with causes, what was sent, and how long each stage took."""
    (push,) = await pages.get("/debug/pushes", proxyID="web-1", limit="1")
    assert (push["outcome"], push["reasons"]) == ("acked", {"config": 1})
    assert [(cause["kind"], cause["name"], cause["event"]) for cause in push["causes"]] == [
        ("VirtualService", "web", "updated")
    ]
    assert [sent["type"] for sent in push["sent"]] == ["RDS"]
    assert list(push["stages"]) == ["debounced", "built", "generated", "granted", "written", "acknowledged"]
    (skip,) = await pages.get("/debug/pushes", proxyID="vault", limit="1")
    assert (skip["outcome"], list(skip["skipped"])) == ("skipped", ["all"])
    assert skip["causes"] == push["causes"]
    for limit in ("many", "²", "9" * 5_000):
        assert "number" in await pages.get("/debug/pushes", 400, limit=limit)


async def test_actors_shows_the_tree(pages, autojump_clock):
    """Supervisors and workers, connections among them."""
    children = {child["name"]: child for child in await pages.get("/debug/actors")}
    assert children["debouncer"] == {
        "name": "debouncer", "supervisor": "pipeline", "state": "running", "restarts": 0, "reason": ""
    }  # fmt: skip
    assert children["pipeline"]["supervisor"] == "root"
    assert sum(child["supervisor"] == "connections" for child in children.values()) == 2


async def test_mailboxes_say_how_full_they_are(pages, autojump_clock):
    """What waits is counted, and what has been received, for whoever wonders who cannot keep up."""
    intake, journal = await pages.get("/debug/mailboxes")
    assert (intake["name"], intake["flow"], intake["control"]) == ("intake", 0, 0)
    assert intake["flow_capacity"] == 10
    pages.mesh.edit(routing(3))
    await pages.mesh.settle()
    intake_then, journal_then = await pages.get("/debug/mailboxes")
    assert intake_then["received"] > intake["received"]
    assert journal_then["received"] > journal["received"]


async def test_ports_say_what_became_of_connections(pages, autojump_clock):
    """One that is not open yet has an address and no numbers."""
    plain, secure = await pages.get("/debug/ports")
    assert (plain["name"], plain["address"], plain["encrypted"]) == ("grpc", "127.0.0.1:4711", False)
    assert plain["statistics"] == COUNTS
    assert (secure["encrypted"], secure["statistics"]) == (True, None)


async def test_an_actor_can_be_killed(pages, autojump_clock):
    """It is restarted, and the page says what happened to it. One that does not exist cannot be."""
    response = await pages.client.post("/debug/actors/debouncer/kill")
    assert (response.status_code, response.text) == (200, "killed debouncer\n")
    await trio.sleep(1)
    (child,) = [child for child in await pages.get("/debug/actors") if child["name"] == "debouncer"]
    assert (child["state"], child["restarts"], child["reason"]) == ("running", 1, "killed")
    assert (await pages.client.post("/debug/actors/nobody/kill")).status_code == 404
    assert (await pages.client.get("/debug/actors/debouncer/kill")).status_code == 405


async def test_killing_has_to_be_allowed(pages, autojump_clock):
    """403 where it is not, and nothing happens."""
    async with open_client(pages.mesh) as client:
        response = await client.post("/debug/actors/debouncer/kill")
    assert response.status_code == 403
    assert "--allow-kill" in response.text
    assert pages.mesh.restarts() == {}


async def test_findings_are_about_objects_and_about_how_they_fit(pages, autojump_clock):
    """What a source says of its objects, and what only a snapshot can know; both only as long as they are true."""
    assert await pages.get("/debug/findings") == []
    origin = Origin(source="world", path="a.yaml", line=3)
    pages.mesh.world.findings = (Rejected(origin=origin, key=None, path="", reason="no kind"),)
    pages.mesh.edit("VirtualService shop/lost: {hosts: [lost], http: [{route: [{destination: {host: nowhere}}]}]}")
    await pages.mesh.settle()
    rejected, lost = await pages.get("/debug/findings")
    assert rejected == {
        "level": "error", "file": "a.yaml", "line": 3, "object": "", "path": "", "reason": "no kind", "hint": ""
    }  # fmt: skip
    assert (lost["level"], lost["object"]) == ("warning", "VirtualService/shop/lost")
    assert "nowhere" in lost["reason"]
    pages.mesh.world.findings = ()
    pages.mesh.delete("VirtualService", "shop/lost")
    await pages.mesh.settle()
    assert await pages.get("/debug/findings") == []
