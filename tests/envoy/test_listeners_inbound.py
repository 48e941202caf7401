"""Inbound listeners: the chains of a workload's ports, what passes through, and ports that a Sidecar binds."""

from __future__ import annotations

import pytest

from tests.envoy.golden import check_golden
from tests.envoy.meshes import STOCK_INBOUND, inbound_listeners, mesh_of, service
from tests.envoy.samples import ISTIO, inbound_key, mesh, snapshot
from trierarch.config.virtual_service import HttpRetry
from trierarch.push.model import Hostname, PortProtocol, ServiceTarget
from trierarch.push.proxy import Interception, IPMode

WEB = Hostname("shop", "web.shop.svc.cluster.local")


def target(service_port: int, target_port: int, protocol: PortProtocol) -> ServiceTarget:
    """A port that the workload serves for the service `web`."""
    return ServiceTarget(WEB, service_port, target_port, protocol)


TARGETS = (
    target(80, 8080, PortProtocol.HTTP),
    target(9000, 9000, PortProtocol.TCP),
    target(7000, 7000, PortProtocol.UNSUPPORTED),
    target(7070, 7071, PortProtocol.GRPC),
)


def chains(listener: dict) -> list[tuple[str, int, bool, str]]:
    """Each chain as (name, destination port, only what is seen to be HTTP, cluster)."""
    return [
        (
            chain["name"],
            chain["filter_chain_match"].get("destination_port", 0),
            "application_protocols" in chain["filter_chain_match"],
            _cluster(chain["filters"][-1]["typed_config"]),
        )
        for chain in listener["filter_chains"]
    ]


def _cluster(config: dict) -> str:
    if "cluster" in config:
        return config["cluster"]
    (route,) = config["route_config"]["virtual_hosts"][0]["routes"]
    return f"HTTP {route['route']['cluster']}"


def virtual_inbound(key=STOCK_INBOUND, here=None, **settings) -> dict:
    """VirtualInbound of a workload."""
    found = snapshot(settings=mesh(**settings)) if settings else snapshot()
    return inbound_listeners(here or mesh_of(), key, found)["virtualInbound"]


def test_every_port_has_the_chains_of_its_protocol():
    """The listener's own port leads nowhere, unknown ports pass through, known ones follow by number."""
    assert chains(virtual_inbound(inbound_key(targets=TARGETS))) == [
        ("virtualInbound-blackhole", 15006, False, "BlackHoleCluster"),
        ("virtualInbound-catchall-http", 0, True, "HTTP InboundPassthroughCluster"),
        ("virtualInbound", 0, False, "InboundPassthroughCluster"),
        ("0.0.0.0_7000", 7000, True, "HTTP inbound|7000||"),
        ("0.0.0.0_7000", 7000, False, "inbound|7000||"),
        ("0.0.0.0_7071", 7071, False, "HTTP inbound|7071||"),
        ("0.0.0.0_8080", 8080, False, "HTTP inbound|8080||"),
        ("0.0.0.0_9000", 9000, False, "inbound|9000||"),
    ]


def test_databases_are_understood_where_they_are_served():
    """As where they are called: by filters that can be switched."""
    key = inbound_key(targets=(target(1, 1, PortProtocol.REDIS), target(2, 2, PortProtocol.MONGO)))
    found = virtual_inbound(key, features={"redis_filter": True})["filter_chains"][-2:]
    filters = [[each["name"].rpartition(".")[2] for each in chain["filters"]] for chain in found]
    assert filters == [["redis_proxy"], ["mongo_proxy", "tcp_proxy"]]
    (redis, *_) = found[0]["filters"]
    assert redis["typed_config"]["prefix_routes"] == {"catch_all_route": {"cluster": "inbound|1||"}}


def test_the_first_service_of_a_port_wins_it():
    """Targets come in the order of their services' age."""
    key = inbound_key(targets=(target(80, 8080, PortProtocol.HTTP), target(81, 8080, PortProtocol.TCP)))
    assert chains(virtual_inbound(key))[-1] == ("0.0.0.0_8080", 8080, False, "HTTP inbound|8080||")


def test_bytes_are_looked_at_only_where_the_protocol_is_not_known():
    """The HTTP inspector stays off for known ports, and for the listener's own."""
    filters = virtual_inbound(inbound_key(targets=TARGETS))["listener_filters"]
    assert [each["name"].rpartition(".")[2] for each in filters] == ["original_dst", "http_inspector"]
    rules = filters[1]["filter_disabled"]["or_match"]["rules"]
    assert [rule["destination_port_range"]["start"] for rule in rules] == [7071, 8080, 9000, 15006]


def test_transparent_interception_keeps_the_clients_address():
    """TPROXY restores source and destination."""
    listener = virtual_inbound(inbound_key(interception=Interception.TPROXY))
    assert listener["transparent"] is True
    assert listener["listener_filters"][1]["typed_config"]["mark"] == 1337


@pytest.mark.parametrize(("mode", "address"), [(IPMode.IPV6, "::"), (IPMode.DUAL, "0.0.0.0")])
def test_the_listener_has_the_family_of_the_proxy(mode, address):
    """Both families only with dual stack on."""
    listener = virtual_inbound(inbound_key(ip_mode=mode))
    assert listener["address"]["socket_address"]["address"] == address
    assert "additional_addresses" not in listener


def test_routes_name_the_service_port_and_clusters_the_workloads():
    """The decorator speaks of the service; nothing limits how long a stream lasts; gRPC is not retried."""
    key = inbound_key(targets=(target(80, 8080, PortProtocol.HTTP), target(7070, 7071, PortProtocol.GRPC)))
    grpc, http = (
        chain["filters"][-1]["typed_config"]["route_config"] for chain in virtual_inbound(key)["filter_chains"][-2:]
    )
    assert http == {
        "name": "inbound|8080||",
        "validate_clusters": False,
        "virtual_hosts": [
            {
                "name": "inbound|http|80",
                "domains": ["*"],
                "routes": [
                    {
                        "name": "default",
                        "match": {"prefix": "/"},
                        "decorator": {"operation": "web.shop.svc.cluster.local:80/*"},
                        "route": {
                            "cluster": "inbound|8080||",
                            "timeout": "0s",
                            "max_stream_duration": {"max_stream_duration": "0s", "grpc_timeout_header_max": "0s"},
                            "retry_policy": {"retry_on": "reset-before-request", "num_retries": 2},
                        },
                    }
                ],
            }
        ],
    }
    assert "retry_policy" not in grpc["virtual_hosts"][0]["routes"][0]["route"]


def test_the_mesh_may_switch_inbound_retries_off():
    """Zero attempts are no policy."""
    key = inbound_key(targets=(target(80, 8080, PortProtocol.HTTP),))
    listener = virtual_inbound(key, default_inbound_http_retry_policy=HttpRetry(attempts=0))
    config = listener["filter_chains"][-1]["filters"][-1]["typed_config"]["route_config"]
    assert "retry_policy" not in config["virtual_hosts"][0]["routes"][0]["route"]


INGRESS = """
ingress:
- {port: {number: 8080, protocol: HTTP, name: http}, defaultEndpoint: "127.0.0.1:18080"}
- {port: {number: 5001, protocol: TCP, name: tcp}, bind: 127.0.0.9, defaultEndpoint: "unix:///app.sock"}
"""


def test_without_interception_a_sidecars_ports_are_bound():
    """Each has a listener of its own, at its address or the workload's; nothing else listens."""
    key = inbound_key(interception=Interception.NONE, address="10.1.0.11", targets=TARGETS)
    found = inbound_listeners(mesh_of(sidecar=INGRESS), key)
    assert {name: chains(listener) for name, listener in found.items()} == {
        "10.1.0.11_8080": [("10.1.0.11_8080", 8080, False, "HTTP inbound|8080||")],
        "127.0.0.9_5001": [("127.0.0.9_5001", 5001, False, "inbound|5001||")],
    }
    assert all("bind_to_port" not in listener for listener in found.values())


def test_without_interception_and_sidecar_nothing_is_bound():
    """There is nothing to listen for."""
    assert inbound_listeners(mesh_of(), inbound_key(interception=Interception.NONE, targets=TARGETS)) == {}


def test_a_sidecars_ports_replace_those_of_services():
    """They are chains of virtualInbound, named after the address, with metadata that names the Sidecar."""
    key = inbound_key(address="10.1.0.11", targets=TARGETS)
    listener = virtual_inbound(key, mesh_of(sidecar=INGRESS))
    assert [name for name, *_ in chains(listener)[3:]] == ["127.0.0.9_5001", "10.1.0.11_8080"]
    metadata = listener["filter_chains"][-1]["metadata"]["filter_metadata"]
    assert metadata == {"istio": {"config": "/apis/networking.istio.io/v1/namespaces/shop/sidecar/shop"}}


def test_a_port_that_is_not_captured_is_bound_beside_virtual_inbound():
    """CaptureMode NONE asks for a listener of its own."""
    bound = "ingress: [{port: {number: 8080, protocol: HTTP, name: http}, bind: 10.1.0.11, captureMode: NONE}]"
    assert list(inbound_listeners(mesh_of(sidecar=bound))) == ["virtualInbound", "10.1.0.11_8080"]


def test_a_pattern_names_the_statistics_of_tcp_ports():
    """The mesh's own; HTTP is counted under its listener."""
    web = service("web", "9000/TCP")
    found = snapshot((web,), settings=mesh(inbound_cluster_stat_name="in_%SERVICE%_%SERVICE_PORT%"))
    key = inbound_key(targets=(target(9000, 9000, PortProtocol.TCP),))
    listener = inbound_listeners(mesh_of(web), key, found)["virtualInbound"]
    prefixes = [chain["filters"][-1]["typed_config"]["stat_prefix"] for chain in listener["filter_chains"]]
    assert prefixes == ["BlackHoleCluster", "InboundPassthroughCluster;", "in__0", "in_web.shop_9000"]


@pytest.mark.parametrize("istio", [False, True], ids=["stock", "istio"])
def test_whole_listeners(istio):
    """Everything about the listener of a workload, for a stock Envoy and for Istio's own."""
    key = inbound_key(targets=TARGETS, **({"capabilities": ISTIO} if istio else {}))
    check_golden(f"listeners_inbound_{'istio' if istio else 'stock'}", inbound_listeners(mesh_of(), key))
