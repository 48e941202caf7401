"""Surroundings narrowed to what a few virtual services look at."""

from __future__ import annotations

import pytest

from tests.envoy.meshes import egress, outlook, scope, service
from tests.envoy.samples import outbound_key
from trierarch.envoy.host_names import select_caller, select_names
from trierarch.envoy.memo import Memo
from trierarch.envoy.outbound_view import select_outbound_view
from trierarch.envoy.route_tables import build_table, index_services
from trierarch.envoy.surroundings import narrow_to_hosts, see_as_client
from trierarch.push.model import Resolution
from trierarch.push.steps import run_steps

WEB, API = service("web", "80/HTTP"), service("api", "80/HTTP")


def alias(name, target):
    """An ExternalName service."""
    return service(name, "80/HTTP", resolution=Resolution.ALIAS, external_name=f"{target}.shop.svc.cluster.local")


def full(*names):
    """Hostnames."""
    return tuple(f"{name}.shop.svc.cluster.local" for name in names)


def around(memo, *services):
    """What a client sees at port 80."""
    listener = egress(*services)
    view = select_outbound_view(outlook(scope(listener), outbound_key()))
    table = build_table(view, listener, 80, run_steps(index_services(services, memo))[80])
    names = run_steps(select_names((table.members, select_caller(view, 80)), memo))
    return see_as_client(table, names, memo)


def test_what_is_not_looked_at_may_come_and_go():
    """The narrowed surroundings are the same object, and another one when what is looked at changes."""
    memo = Memo(1000)
    few, more = around(memo, WEB), around(memo, WEB, API)
    assert narrow_to_hosts(few, full("web"), memo) is narrow_to_hosts(more, full("web"), memo)
    assert narrow_to_hosts(few, full("web", "api"), memo) is not narrow_to_hosts(more, full("web", "api"), memo)


@pytest.mark.parametrize(
    ("start", "end"), [("one", "web"), ("two", "web"), ("here", "here"), ("into", "here"), ("web", "web")]
)
def test_aliases_lead_where_they_led(start, end):
    """Also over an alias that nobody looks at; a loop ends where it begins to repeat."""
    aliases = (alias("one", "two"), alias("two", "web"), alias("into", "here"), alias("here", "there"))
    whole = around(memo := Memo(1000), WEB, API, *aliases, alias("there", "here"))
    narrowed = narrow_to_hosts(whole, full(start), memo)
    assert [each.view.concrete(*full(start)) for each in (whole, narrowed)] == [*full(end), *full(end)]
    assert set(narrowed.members.by_host) == set(full(start))
