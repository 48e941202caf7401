"""Route configurations as a whole: which there are, how they are spliced, and that the same always gives the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.codec import encode
from tests.envoy.golden import check_golden
from tests.envoy.meshes import (
    STOCK,
    destination_rule,
    egress,
    joined,
    mesh_of,
    outlook,
    planned_routes,
    routes,
    scope,
    service,
    virtual_service,
)
from tests.envoy.samples import mesh, snapshot
from trierarch.envoy.memo import Memo
from trierarch.envoy.outbound_view import select_outbound_view
from trierarch.envoy.route_configuration import build_route_configuration
from trierarch.envoy.route_tables import NO_MEMBERS, build_table, index_services
from trierarch.envoy.routes import select_hosts
from trierarch.envoy.virtual_host_runs import hosts_of
from trierarch.envoy.virtual_host_selection import select_catch_all, select_virtual_hosts
from trierarch.envoy.virtual_hosts import catch_all_host
from trierarch.push.steps import run_steps

WEB = service("web", "80/HTTP", "9000/TCP", "7000", address="10.0.0.7")
CANARY = """
hosts: [web]
http:
- match: [{headers: {x-user: {exact: alice}}}]
  route: [{destination: {host: web, subset: v2}}]
- name: split
  route:
  - {destination: {host: web, subset: v1}, weight: 90}
  - {destination: {host: web, subset: v2}, weight: 10}
  timeout: 2s
  retries: {attempts: 3, perTryTimeout: 500ms, retryOn: "5xx"}
"""


def test_each_name_that_a_listener_asks_for_has_its_configuration():
    """One for each HTTP port, one for each detected port of a service, none for TCP."""
    assert list(routes(mesh_of(WEB))) == ["80", "web.shop.svc.cluster.local:7000"]


def test_the_http_proxy_has_its_own():
    """All services, all their ports, and the catch-all."""
    found = routes(mesh_of(WEB), STOCK, snapshot(settings=mesh(proxy_http_port=15002)))["http_proxy"]
    assert [host["name"] for host in found["virtual_hosts"]] == [
        "web.shop.svc.cluster.local:7000",
        "web.shop.svc.cluster.local:80",
        "allow_any",
    ]


def test_a_unix_socket_has_its_own():
    """It is named after the socket's path."""
    path = "unix:///var/run/web.sock"
    assert list(routes(scope(egress(WEB, port="0/HTTP", bind=path, binds=True)))) == [path]


@pytest.mark.parametrize("listener", [{"port": "0/HTTP", "bind": "unix:///x"}, {"port": "3128/HTTP_PROXY"}], ids=str)
def test_names_have_ports_where_the_listener_has_none(listener):
    """Whichever port comes first; but for the default port a client need not write it."""
    one = service("web", "8081/HTTP", "80/HTTP")
    here = scope(egress(one, binds=True, **listener))
    view, name = select_outbound_view(outlook(here)), listener.get("bind", "3128")
    domains = {each.name: each.domains for each in run_steps(select_hosts(view, name, Memo(10_000)))}
    assert all(":8081" in domain for domain in domains["web.shop.svc.cluster.local:8081"])
    assert "web.shop.svc.cluster.local:80" in domains["web.shop.svc.cluster.local:80"]


def test_a_whole_configuration():
    """Everything about the routes of a small mesh with a canary."""
    rule = destination_rule("{host: web.shop.svc.cluster.local, subsets: [{name: v1}, {name: v2}]}")
    here = mesh_of(WEB, service("api", "80/GRPC"), virtual=(virtual_service(CANARY),), rules=(rule,))
    check_golden("routes_outbound", routes(here))


NAMES = st.lists(st.sampled_from(["web", "api", "pay", "front", "stock"]), min_size=1, max_size=5, unique=True)
PORTS = st.sampled_from(["80/HTTP", "80/GRPC", "80", "81/HTTP", "9000/TCP"])
SERVICES = st.builds(
    lambda names, ports: tuple(service(name, *sorted(set(ports), key=ports.index)) for name in names),
    NAMES,
    st.lists(PORTS, min_size=1, max_size=3, unique_by=lambda port: port.partition("/")[0]),
)
RULES = st.sampled_from(
    [
        "{hosts: [web], http: [{route: [{destination: {host: api}}]}]}",
        "{hosts: ['*.shop.svc.cluster.local'], http: [{name: all, route: [{destination: {host: web}}]}]}",
        "{hosts: [api, a.example], http: [{match: [{port: 80}], redirect: {uri: /x}}]}",
    ]
).map(virtual_service)


@settings(max_examples=settings.default.max_examples // 4)
@given(services=SERVICES, virtual=st.lists(RULES, max_size=3))
def test_equal_meshes_have_equal_bytes(services, virtual):
    """Planned twice, in memory or not, the bytes are the same."""
    here = mesh_of(*services, virtual=virtual)
    once, again = (list(planned_routes(here)) for _ in range(2))
    assert joined(once) == joined(again)


@settings(max_examples=settings.default.max_examples // 4)
@given(services=SERVICES, virtual=st.lists(RULES, max_size=3))
def test_a_spliced_configuration_is_the_encoding_of_the_whole_message(services, virtual):
    """Byte for byte: nobody can tell that it was put together from pieces."""
    listener = egress(*services, virtual=virtual)
    here = scope(listener)
    view, memo = select_outbound_view(outlook(here)), Memo(10_000)
    members = run_steps(index_services(listener.services, memo)).get(80, NO_MEMBERS)
    hosts = hosts_of(run_steps(select_virtual_hosts(build_table(view, listener, 80, members), memo)))
    whole = build_route_configuration("80", [*hosts, catch_all_host(select_catch_all(view))])
    spliced = joined(planned_routes(here))
    assert spliced.get("80", encode(whole)) == encode(whole)


@settings(max_examples=settings.default.max_examples // 4)
@given(services=SERVICES, virtual=st.lists(RULES, max_size=3))
def test_names_and_domains_are_never_repeated(services, virtual):
    """Envoy refuses a configuration in which two virtual hosts share a name or a domain."""
    for found in routes(mesh_of(*services, virtual=virtual)).values():
        names = [host["name"] for host in found["virtual_hosts"]]
        domains = [domain.lower() for host in found["virtual_hosts"] for domain in host["domains"]]
        assert len(set(names)) == len(names)
        assert len(set(domains)) == len(domains)
