"""What is equal is built once, encoded once and held once, however many proxies have it."""

from __future__ import annotations

import gc

import pytest

from actors.push_scheduler import LONGEST_UNPLACED
from tests.actors.fake_stream import FakeEnvoy
from tests.actors.meshes import SHOP, routing
from tests.actors.system import start_mesh
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE
from trierarch.push.context import PushContext


@pytest.fixture
async def mesh(nursery, autojump_clock):
    """Two proxies of one service, of which one speaks the delta dialect, and a third in another namespace."""
    envoys = [
        FakeEnvoy("web-1.shop", "10.1.0.1", delta=True),
        FakeEnvoy("web-2.shop", "10.1.0.2", delta=False),
        FakeEnvoy("vault-1.bank", "10.1.0.3", delta=True),
    ]
    return await start_mesh(nursery, SHOP, envoys=envoys)


def lookups(mesh, result):
    """Units of generation that were found ("hit") or built ("miss")."""
    return mesh.system.shared.metrics.registry.get_sample_value("trierarch_memo_lookups_total", {"result": result})


async def sets_of(mesh):
    """The sets of each connection, by proxy and type."""
    return {each.proxy.id: {url: w.resources for url, w in each.watches.items()} for each in await mesh.describe()}


async def test_proxies_with_equal_views_hold_the_same_sets(mesh, autojump_clock):
    """The very same objects, in both dialects."""
    sets = await sets_of(mesh)
    for url in (CLUSTER, ENDPOINT, LISTENER, ROUTE):
        assert sets["web-1.shop"][url] is sets["web-2.shop"][url]


async def test_proxies_that_differ_in_what_they_serve_share_what_they_may_call(nursery, autojump_clock):
    """A proxy without a service of its own has other inbound parts and the same outbound ones."""
    envoys = [FakeEnvoy("web-1.shop", "10.1.0.1", delta=True), FakeEnvoy("guest-1.shop", "10.1.0.9", delta=True)]
    sets = await sets_of(await start_mesh(nursery, SHOP, envoys=envoys))
    web, guest = sets["web-1.shop"][CLUSTER], sets["guest-1.shop"][CLUSTER]
    assert web is not guest
    assert web.parts[0] is guest.parts[0]
    assert sets["web-1.shop"][ROUTE] is sets["guest-1.shop"][ROUTE]


async def test_another_proxy_of_a_view_builds_nothing(mesh, autojump_clock):
    """All that it gets is there already."""
    built = lookups(mesh, "miss")
    await mesh.connect("web-1.shop", "10.1.0.1")
    await mesh.settle()
    assert lookups(mesh, "miss") == built
    mesh.check()


async def test_a_change_builds_only_what_it_changes(mesh, autojump_clock):
    """One timeout: the few units between it and the route configuration that it is part of, once for both proxies."""
    before = await sets_of(mesh)
    built = lookups(mesh, "miss")
    mesh.edit(routing(2))
    await mesh.settle()
    assert 0 < lookups(mesh, "miss") - built < built / 5
    after = await sets_of(mesh)
    for url in (CLUSTER, ENDPOINT, LISTENER):
        assert after["web-1.shop"][url] is before["web-1.shop"][url]
    assert after["web-1.shop"][ROUTE] is not before["web-1.shop"][ROUTE]
    assert after["web-1.shop"][ROUTE] is after["web-2.shop"][ROUTE]


async def test_only_what_differs_is_sent_to_a_delta_client(mesh, autojump_clock):
    """A new service brings one cluster, its endpoints and the routes that name it; the rest stays unsaid."""
    mesh.records.clear()
    mesh.edit("Service shop/new: {ports: [{name: http, port: 80}], selector: {app: new}}")
    await mesh.settle()
    sent = {sent.short: sent.sent for record in mesh.records_of(mesh.envoys[0]) for sent in record.sent}
    assert sent == {"CDS": 1, "EDS": 1, "RDS": 1}


async def test_old_snapshots_are_forgotten(mesh, autojump_clock):
    """After many edits that do not concern a proxy, memory holds a few snapshots and none of them is old."""
    first = mesh.records[-1].snapshot
    for seconds in range(2, 3 * LONGEST_UNPLACED):
        mesh.edit(routing(seconds))
        await mesh.settle()
    gc.collect()
    held = [each.number for each in gc.get_objects() if isinstance(each, PushContext) and each.number >= first]
    assert len(held) <= 5, held
    assert max(held) - min(held) <= LONGEST_UNPLACED
