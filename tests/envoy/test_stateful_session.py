"""Sessions that stay with one endpoint (networking.md §2.13, §4.1)."""

import pytest

from tests.envoy.meshes import http, listeners, mesh_of, routes, service, virtual_service
from tests.envoy.samples import mesh, outbound_key, snapshot
from trierarch.envoy.stateful_session import CookieSession, HeaderSession, select_session
from trierarch.push.mesh import Features

ON = snapshot(settings=mesh(features={"persistent_session": True}))
COOKIE, HEADER = "istio.io/persistent-session", "istio.io/persistent-session-header"
FILTER = "envoy.filters.http.stateful_session"


def sticky(name="web", **labels):
    """A service with labels."""
    return service(name, "80/HTTP", labels=labels)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({COOKIE: "seat"}, CookieSession("seat", "/")),
        ({COOKIE: "seat:/shop"}, CookieSession("seat", "/shop")),
        ({COOKIE: "seat", HEADER: "x-seat"}, CookieSession("seat", "/")),
        ({HEADER: "x-seat"}, HeaderSession("x-seat")),
        ({HEADER: ""}, None),
        ({}, None),
    ],
    ids=str,
)
def test_labels_ask_for_a_session(labels, expected):
    """A cookie, with its path if one is given, before a header; and nothing where the switch is off."""
    assert select_session(sticky(**labels), Features(persistent_session=True)) == expected
    assert select_session(sticky(**labels), Features()) is None


def test_the_labels_can_be_set():
    """To others, or to none."""
    features = Features(persistent_session=True, session_cookie_label="seat", session_header_label="")
    assert select_session(sticky(seat="number:/shop"), features) == CookieSession("number", "/shop")
    assert select_session(sticky(**{COOKIE: "seat", HEADER: "x-seat"}), features) is None


def test_virtual_hosts_say_whose_sessions_are_kept():
    """Those of the services that ask for it, whoever routes for them; a host that is no service has none."""
    web, api, plain = sticky(**{COOKIE: "seat"}), sticky("api", **{HEADER: "x-seat"}), sticky("plain")
    routed = virtual_service("{hosts: [web, other.example], http: [{route: [{destination: {host: plain}}]}]}")
    found = routes(mesh_of(web, api, plain, virtual=[routed]), snapshot=ON)["80"]["virtual_hosts"]
    states = {host["name"]: host.get("typed_per_filter_config", {}).get(FILTER) for host in found}
    session = states["web.shop.svc.cluster.local:80"]["stateful_session"]["session_state"]
    assert session["name"] == "envoy.http.stateful_session.cookie"
    assert session["typed_config"]["cookie"] == {"name": "seat", "path": "/"}
    session = states["api.shop.svc.cluster.local:80"]["stateful_session"]["session_state"]
    assert session["typed_config"]["name"] == "x-seat"
    assert states["plain.shop.svc.cluster.local:80"] is None
    assert states["other.example:80"] is None
    assert states["allow_any"] is None


@pytest.mark.parametrize(("context", "expected"), [(ON, True), (snapshot(), False)])
def test_the_filter_is_there_where_the_switch_is_on(context, expected):
    """Before the router, in every outbound connection manager, whether or not a service asks for sessions yet."""
    chain = listeners(mesh_of(sticky()), outbound_key(), context)["0.0.0.0_80"]["filter_chains"][0]
    names = [each["name"] for each in http(chain)["http_filters"]]
    assert (names[-2] == FILTER) is expected
    assert (FILTER in names) is expected
