"""Outbound listeners: where they bind, which chains they have, what an unknown connection becomes."""

from __future__ import annotations

import pytest

from tests.envoy.golden import check_golden
from tests.envoy.meshes import (
    STOCK,
    egress,
    external,
    http,
    listeners,
    mesh_of,
    planned_listeners,
    scope,
    service,
    summary,
    virtual_service,
)
from tests.envoy.samples import ISTIO, endpoint, mesh, outbound_key, snapshot
from trierarch.envoy.listener_entries import PLACES_PER_STEP
from trierarch.push.model import Resolution
from trierarch.push.proxy import Interception, IPMode

BARE = outbound_key(interception=Interception.NONE)
WEB = service("web", "80/HTTP", "81/GRPC_WEB", "9000/TCP", "443/TLS", "53/UDP", "7000", address="10.0.0.7")


def test_each_class_of_port_has_its_place():
    """HTTP shares the wildcard, TCP and TLS have the service's address, detected ports both kinds, UDP nothing."""
    host = "web.shop.svc.cluster.local"
    assert {name: summary(listener) for name, listener in listeners(mesh_of(WEB)).items()} == {
        "0.0.0.0_80": ["http/1.1,h2c -> routes 80", "otherwise -> PassthroughCluster"],
        "0.0.0.0_81": ["http/1.1,h2c -> routes 81", "otherwise -> PassthroughCluster"],
        "10.0.0.7_443": [f"all -> outbound|443||{host}"],
        "10.0.0.7_7000": [f"http/1.1,h2c -> routes {host}:7000", f"otherwise -> outbound|7000||{host}"],
        "10.0.0.7_9000": [f"all -> outbound|9000||{host}"],
        "virtualOutbound": ["port 15001 -> BlackHoleCluster", "all -> PassthroughCluster"],
    }


def test_a_service_without_address_shares_the_wildcard():
    """External services on one port are told apart by server name; what has none of the names passes through."""
    one, two = external("one.example", "443/TLS"), external("two.example", "443/TLS")
    assert summary(listeners(mesh_of(one, two))["0.0.0.0_443"]) == [
        "one.example -> outbound|443||one.example",
        "two.example -> outbound|443||two.example",
        "otherwise -> PassthroughCluster",
    ]


def test_an_address_range_is_matched_on_the_wildcard():
    """A CIDR cannot be bound."""
    net = external("net.example", "5000/TCP", address="198.51.100.0/24")
    assert summary(listeners(mesh_of(net))["0.0.0.0_5000"]) == [
        "198.51.100.0/24 -> outbound|5000||net.example",
        "otherwise -> PassthroughCluster",
    ]


def test_a_port_handed_on_is_not_bound():
    """With traffic capture only virtualOutbound accepts connections, all others get them from it."""
    found = listeners(mesh_of(WEB))
    assert found.pop("virtualOutbound")["use_original_dst"] is True
    assert {listener["bind_to_port"] for listener in found.values()} == {False}


def test_without_interception_ports_are_bound_on_loopback():
    """Applications connect to 127.0.0.1; an HTTP listener then takes everything and inspects nothing."""
    found = listeners(mesh_of(WEB), BARE)
    assert "virtualOutbound" not in found
    plain = found["127.0.0.1_80"]
    assert summary(plain) == ["all -> routes 80"]
    assert "bind_to_port" not in plain
    assert "listener_filters" not in plain
    assert plain["max_connections_to_accept_per_socket_event"] == 1


def test_a_sidecar_binds_where_it_says():
    """An egress listener with a port and an address of its own serves just the services that it imports."""
    here = scope(egress(WEB, port="18080/HTTP", bind="127.0.0.9", binds=True))
    found = listeners(here, BARE)
    assert list(found) == ["127.0.0.9_18080"]
    assert found["127.0.0.9_18080"]["address"] == {"socket_address": {"address": "127.0.0.9", "port_value": 18080}}
    assert http(found["127.0.0.9_18080"]["filter_chains"][0])["stat_prefix"] == "outbound_127.0.0.9_18080;"


def test_a_unix_socket_is_bound_by_its_path():
    """The listener and its routes are named after the socket."""
    path = "unix:///var/run/web.sock"
    (listener,) = listeners(scope(egress(WEB, port="0/HTTP", bind=path, binds=True)), BARE).values()
    assert listener["name"] == f"{path}_0"
    assert listener["address"] == {"pipe": {"path": "/var/run/web.sock"}}
    assert summary(listener) == [f"all -> routes {path}"]


def test_a_port_that_a_sidecar_names_keeps_the_catch_all_out():
    """The later, wider listener adds no chain to it."""
    own, other = service("own", "9000/TCP"), service("other", "9000/TCP")
    here = scope(egress(own, port="9000/TCP"), egress(own, other))
    assert summary(listeners(here)["0.0.0.0_9000"])[0] == "all -> outbound|9000||own.shop.svc.cluster.local"


def test_registry_only_refuses_what_is_unknown():
    """Everything that would pass through goes to the black hole."""
    found = listeners(mesh_of(WEB, registry_only=True))
    assert summary(found["0.0.0.0_80"])[-1] == "otherwise -> BlackHoleCluster"
    assert summary(found["virtualOutbound"])[-1] == "all -> BlackHoleCluster"


def test_an_egress_proxy_takes_what_is_unknown():
    """The Sidecar's proxy stands in for passing through, everywhere."""
    found = listeners(mesh_of(WEB, egress_proxy=("out.shop.svc.cluster.local", "", 3128)))
    proxy = "outbound|3128||out.shop.svc.cluster.local"
    assert summary(found["0.0.0.0_80"])[-1] == f"otherwise -> {proxy}"
    assert summary(found["virtualOutbound"])[-1] == f"all -> {proxy}"


def test_a_headless_service_listens_at_each_endpoint_but_ones_own():
    """Its TCP ports are reached at the Pods' addresses; HTTP ports stay on the wildcard."""
    store = service("store", "5000/TCP", "80/HTTP", resolution=Resolution.PASSTHROUGH)
    pods = [endpoint(address, port=5000, port_name="p5000") for address in ("10.1.0.1", "10.1.0.2", "10.1.0.3")]
    key = outbound_key(own_addresses=frozenset({"10.1.0.1"}))
    found = listeners(mesh_of(store), key, snapshot((store,), {store: pods}))
    assert list(found) == ["0.0.0.0_80", "10.1.0.2_5000", "10.1.0.3_5000", "virtualOutbound"]


def test_a_headless_service_without_endpoints_has_no_listener():
    """Kubernetes' has none; an external one that names no endpoints takes the wildcard."""
    store = service("store", "5000/TCP", resolution=Resolution.PASSTHROUGH)
    outer = external("any.example", "5001/TCP", resolution=Resolution.PASSTHROUGH)
    assert list(listeners(mesh_of(store, outer))) == ["0.0.0.0_5001", "virtualOutbound"]


def test_transparent_interception_shows_in_virtual_outbound():
    """With TPROXY the listener's socket is transparent."""
    found = listeners(mesh_of(), outbound_key(interception=Interception.TPROXY))
    assert found["virtualOutbound"]["transparent"] is True


@pytest.mark.parametrize(
    ("mode", "first", "further"),
    [(IPMode.IPV4, "0.0.0.0_80", None), (IPMode.IPV6, "::_80", None), (IPMode.DUAL, "0.0.0.0_80", "::")],
)
def test_the_wildcard_follows_the_families_of_the_proxy(mode, first, further):
    """A proxy with both families listens on both."""
    listener = listeners(mesh_of(WEB), outbound_key(ip_mode=mode))[first]
    addresses = listener.get("additional_addresses", [])
    assert [each["address"]["socket_address"]["address"] for each in addresses] == ([further] if further else [])


def test_dual_stack_binds_both_addresses_of_a_service():
    """Only if the switch is on."""
    both = service("both", "9000/TCP", addresses={"Kubernetes": ("10.0.0.9", "fd00::9")})
    key = outbound_key(ip_mode=IPMode.DUAL)
    on = listeners(mesh_of(both), key, snapshot(settings=mesh(features={"dual_stack": True})))["10.0.0.9_9000"]
    off = listeners(mesh_of(both), key)["10.0.0.9_9000"]
    assert on["additional_addresses"][0]["address"]["socket_address"]["address"] == "fd00::9"
    assert "additional_addresses" not in off


def test_the_detection_timeout_is_the_meshs_where_http_is_detected():
    """A listener that needs no bytes to choose a chain waits for none."""
    found = listeners(mesh_of(WEB), STOCK, snapshot(settings=mesh(protocol_detection_timeout=5.0)))
    assert found["0.0.0.0_80"]["listener_filters_timeout"] == "5s"
    assert found["10.0.0.7_9000"]["listener_filters_timeout"] == "0s"


def test_the_http_proxy_listens_on_loopback():
    """For applications that are told to use a proxy; absolute URLs are understood."""
    listener = listeners(mesh_of(), STOCK, snapshot(settings=mesh(proxy_http_port=15002)))["127.0.0.1_15002"]
    assert summary(listener) == ["all -> routes http_proxy"]
    assert http(listener["filter_chains"][0])["http_protocol_options"]["allow_absolute_url"] is True


@pytest.mark.parametrize("istio", [False, True], ids=["stock", "istio"])
def test_whole_listeners(istio):
    """Everything about the listeners of a small mesh, for a stock Envoy and for Istio's own."""
    routed = virtual_service("{hosts: [web], tcp: [{match: [{port: 9000}], route: [{destination: {host: web}}]}]}")
    key = outbound_key(capabilities=ISTIO) if istio else STOCK
    outer = external("api.example", "443/TLS")
    found = listeners(mesh_of(WEB, outer, virtual=(routed,)), key)
    check_golden(f"listeners_outbound_{'istio' if istio else 'stock'}", found)


def test_a_plan_pauses_while_it_thinks():
    """Planning for thousands of services gives the event loop its turn between them."""
    many = mesh_of(*(service(f"s{number}", "80/HTTP", "9000/TCP") for number in range(PLACES_PER_STEP)))
    assert sum(item is None for item in planned_listeners(many)) == 2
