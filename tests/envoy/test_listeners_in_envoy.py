"""A real Envoy accepts the listeners and routes that we generate (`envoy --mode validate`)."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace

import pytest

from tests.envoy.meshes import (
    STOCK,
    destination_rule,
    egress,
    external,
    inbound_listeners,
    listeners,
    mesh_of,
    routes,
    scope,
    service,
    virtual_service,
)
from tests.envoy.samples import inbound_key, mesh, outbound_key, snapshot
from tests.envoy.test_connection_settings import EVERYTHING as EVERY_SETTING
from tests.envoy.test_connection_settings import of_the_mesh
from tests.envoy.test_listeners_inbound import INGRESS, TARGETS
from trierarch.config.mesh_config import MeshOutboundMode, MeshOutboundTrafficPolicy
from trierarch.envoy.bootstrap import RUNTIME
from trierarch.push.model import Resolution
from trierarch.push.proxy import Interception, IPMode
from trierarch.push.routing import Semantics

ENVOY = os.environ.get("TRIERARCH_ENVOY", "")
pytestmark = [
    pytest.mark.envoy,
    pytest.mark.skipif(not ENVOY, reason="TRIERARCH_ENVOY names no Envoy binary"),
]
TYPES = "type.googleapis.com/envoy.extensions"
HCM = f"{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager"
FILTERS = {
    "fault": "fault.v3.HTTPFault",
    "cors": "cors.v3.Cors",
    "stateful_session": "stateful_session.v3.StatefulSession",
    "router": "router.v3.Router",
}

EVERYTHING = """
hosts: [web, a.example]
http:
- name: all
  match:
  - uri: {regex: "/a+"}
    headers: {x: {regex: "b+"}, y: {}}
    withoutHeaders: {z: {exact: "1"}}
    queryParams: {q: {prefix: v}}
    method: {exact: GET}
  route:
  - {destination: {host: web, subset: v1}, weight: 9, headers: {request: {set: {a: b, host: c}}}}
  - {destination: {host: web}, weight: 1}
  rewrite: {uriRegexRewrite: {match: "^/a", rewrite: /b}}
  timeout: 3s
  retries: {attempts: 3, retryOn: "5xx,503", perTryTimeout: 1s, retryRemoteLocalities: true, backoff: 20ms}
  mirrors: [{destination: {host: web}, percentage: {value: 0.5}}]
  fault: {delay: {fixedDelay: 1s, percentage: {value: 1}}, abort: {grpcStatus: UNAVAILABLE}}
  corsPolicy: {allowOrigins: [{regex: ".*"}], maxAge: 1h}
  headers: {response: {add: {s: t}, remove: [u]}}
- {match: [{uri: {prefix: /r}}], redirect: {prefixRewrite: /s, scheme: https, derivePort: FROM_REQUEST_PORT}}
- {match: [{uri: {exact: /d}}], directResponse: {status: 418, body: {string: teapot}}}
- {route: [{destination: {host: web}}], rewrite: {uri: /x, authority: y}}
tcp:
- {match: [{destinationSubnets: [10.9.0.0/16]}], route: [{destination: {host: web}}]}
tls:
- match: [{sniHosts: [a.example]}]
  route: [{destination: {host: web}, weight: 1}, {destination: {host: web}, weight: 2}]
"""
HASHED = "{host: web.shop.svc.cluster.local, trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: h}}}}"


def accept(tmp_path, found: list[dict], configurations: list[dict] = (), clusters: list[dict] = ()) -> None:
    """Let Envoy read these listeners, each route configuration in a listener of its own, and these clusters."""
    carriers = [_carrier(number, each) for number, each in enumerate(configurations)]
    bootstrap = _bootstrap([*found, *carriers])
    bootstrap["static_resources"]["clusters"] += clusters
    path = tmp_path / "envoy.json"
    path.write_text(json.dumps(bootstrap))
    command = [ENVOY, "--mode", "validate", "-c", str(path), "-l", "error"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def _carrier(number: int, configuration: dict) -> dict:
    filters = [
        {"name": f"envoy.filters.http.{name}", "typed_config": {"@type": f"{TYPES}.filters.http.{kind}"}}
        for name, kind in FILTERS.items()
    ]
    manager = {"@type": HCM, "stat_prefix": "x", "route_config": configuration, "http_filters": filters}
    address = {"socket_address": {"address": "127.0.0.1", "port_value": 20000 + number}}
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    return {"name": f"carrier-{number}", "address": address, "filter_chains": [chain]}


def _bootstrap(found: list[dict]) -> dict:
    names = {"control"} | set(_clusters(found))
    grpc = {
        "api_type": "GRPC",
        "transport_api_version": "V3",
        "grpc_services": [{"envoy_grpc": {"cluster_name": "control"}}],
    }
    return {
        "layered_runtime": dict(RUNTIME),
        "node": {"id": "test", "cluster": "test"},
        "dynamic_resources": {"ads_config": grpc},
        "static_resources": {
            "listeners": found,
            "clusters": [{"name": name, "type": "STATIC", "load_assignment": {"cluster_name": name}} for name in names],
        },
    }


def _clusters(value) -> list[str]:
    """Every cluster that is named somewhere in plain data: Envoy wants to know them."""
    if isinstance(value, list):
        return [name for each in value for name in _clusters(each)]
    if not isinstance(value, dict):
        return []
    own = [value["cluster"]] if isinstance(value.get("cluster"), str) else []
    own += [each["name"] for each in value.get("weighted_clusters", {}).get("clusters", ())]
    return own + [name for each in value.values() for name in _clusters(each)]


VIEWS = {
    "captured": STOCK,
    "bare": outbound_key(interception=Interception.NONE),
    "transparent": outbound_key(interception=Interception.TPROXY, idle_timeout=60.0, exact_balance=True),
    "six": outbound_key(ip_mode=IPMode.IPV6),
    "dual": outbound_key(ip_mode=IPMode.DUAL, http10=True),
}


@pytest.mark.parametrize("key", VIEWS.values(), ids=VIEWS)
def test_outbound_listeners_and_routes_are_accepted(tmp_path, key):
    """Every class of port, every feature of a VirtualService, for every way of interception and family."""
    web = service("web", "80/HTTP", "81/GRPC_WEB", "9000/TCP", "7000", "27017/MONGO", address="10.0.0.7")
    others = (
        external("a.example", "443/TLS"),
        external("*.b.example", "443/TLS", "80/HTTP", resolution=Resolution.DYNAMIC_DNS),
        external("net.example", "5000/TCP", address="198.51.100.0/24"),
    )
    here = mesh_of(web, *others, virtual=(virtual_service(EVERYTHING),), rules=(destination_rule(HASHED),))
    accept(tmp_path, [*listeners(here, key).values()], [*routes(here, key).values()])


def test_routes_with_the_meaning_of_the_gateway_api_are_accepted(tmp_path):
    """Prefixes of whole segments, with and without a rewrite."""
    route = "route: [{destination: {host: web}}]"
    matches = "[{uri: {prefix: /}}, {uri: {prefix: /cart}}]"
    text = f"{{hosts: [web], http: [{{match: {matches}, {route}, rewrite: {{uri: /basket}}}}, {{{route}}}]}}"
    virtual = replace(virtual_service(text), semantics=Semantics.GATEWAY_API)
    accept(tmp_path, [], [*routes(mesh_of(service("web", "80/HTTP"), virtual=(virtual,))).values()])


def test_proxies_and_sockets_are_accepted(tmp_path):
    """Listeners that a Sidecar binds, an HTTP proxy, names that the proxy resolves."""
    web = service("web", "80/HTTP", "81/HTTP")
    policy = MeshOutboundTrafficPolicy(mode=MeshOutboundMode.ALLOW_ANY_DYNAMIC_DNS)
    found = snapshot(settings=mesh(proxy_http_port=15002, outbound_traffic_policy=policy))
    socket = f"unix://{tmp_path}/web.sock"
    here = scope(egress(web, port="0/HTTP", bind=socket, binds=True), egress(web, port="3128/HTTP_PROXY"), egress(web))
    accept(tmp_path, [*listeners(here, STOCK, found).values()], [*routes(here, STOCK, found).values()])


def test_connection_settings_are_accepted(tmp_path):
    """All of them, at connections from and to a workload."""
    found = of_the_mesh(EVERY_SETTING)
    key = inbound_key(targets=TARGETS)
    both = {**listeners(mesh_of(service("web", "80/HTTP")), STOCK, found), **inbound_listeners(mesh_of(), key, found)}
    accept(tmp_path, [*both.values()])


def test_databases_are_accepted(tmp_path):
    """Those that Envoy understands without its contrib filters."""
    here = mesh_of(service("db", "6379/REDIS", "27017/MONGO", address="10.0.0.7"))
    found = snapshot(settings=mesh(features={"redis_filter": True}))
    accept(tmp_path, [*listeners(here, STOCK, found).values()])


@pytest.mark.parametrize(
    "label", [{"persistent-session": "seat:/shop"}, {"persistent-session-header": "x-seat"}], ids=str
)
def test_sessions_are_accepted(tmp_path, label):
    """By cookie and by header."""
    web = service("web", "80/HTTP", labels={f"istio.io/{name}": value for name, value in label.items()})
    here, found = mesh_of(web), snapshot(settings=mesh(features={"persistent_session": True}))
    accept(tmp_path, [*listeners(here, STOCK, found).values()], [*routes(here, STOCK, found).values()])


@pytest.mark.parametrize("interception", Interception)
def test_inbound_listeners_are_accepted(tmp_path, interception):
    """Ports of services, and ports that a Sidecar names."""
    services = inbound_key(targets=TARGETS, interception=interception)
    accept(tmp_path, [*inbound_listeners(mesh_of(), services).values()])
    named = inbound_key(address="127.0.0.1", interception=interception)
    accept(tmp_path, [*inbound_listeners(mesh_of(sidecar=INGRESS), named).values()])
