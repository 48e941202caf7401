"""What clients make of PeerAuthentications: clusters without mutual TLS, and endpoints without its mark."""

from __future__ import annotations

import pytest

from tests.conformance.protojson import to_plain
from tests.push.fixtures import scope_of, sidecar, snapshot, view_in
from trierarch.envoy.generate import generate
from trierarch.envoy.memo import Memo
from trierarch.envoy.part_cache import PartCache
from trierarch.envoy.types import CLUSTER, ENDPOINT
from trierarch.push.steps import run_steps

MESH = """
Service shop/web: {clusterIP: 10.0.0.7, ports: [{name: http, port: 80}, {name: data, port: 90}], selector: {app: web}}
Pod shop/web-1: {metadata: {labels: {app: web, version: v1, security.istio.io/tlsMode: istio}},
  status: {podIP: 10.1.0.1, phase: Running}}
Pod shop/web-2: {metadata: {labels: {app: web, version: v2, security.istio.io/tlsMode: istio}},
  status: {podIP: 10.1.0.2, phase: Running}}
EndpointSlice shop/web-x: {metadata: {labels: {kubernetes.io/service-name: web}},
  ports: [{name: http, port: 8080}, {name: data, port: 9090}], endpoints: [
  {addresses: [10.1.0.1], targetRef: {kind: Pod, name: web-1}},
  {addresses: [10.1.0.2], targetRef: {kind: Pod, name: web-2}}]}
"""
NAMESPACE = "PeerAuthentication shop/default: {mtls: {mode: %s}}"
V1 = "PeerAuthentication shop/v1: {selector: {matchLabels: {version: v1}}, %s}"
MUTUAL = "DestinationRule shop/web: {host: web, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}"
BOTH, FIRST, SECOND = ["10.1.0.1", "10.1.0.2"], ["10.1.0.1"], ["10.1.0.2"]


def resources(type_url: str, *given: str, **metadata) -> dict[str, dict]:
    """What a client in another namespace is sent."""
    context, proxy = snapshot(MESH, *given), sidecar("front-1", "front", "10.1.5.1", **metadata)
    view, scope = view_in(proxy, context), scope_of(proxy, context)
    found = run_steps(generate(view, scope, context, type_url, Memo(1000), PartCache()))
    return {each.name: to_plain(type_url, each.body) for each in found}


def kind(*given: str, secrets: str = "ads") -> str:
    """How the client connects to `web`."""
    cluster = resources(CLUSTER, *given, TRIERARCH_SDS=secrets)["outbound|80||web.shop.svc.cluster.local"]
    if "transport_socket_matches" in cluster:
        return "by mark"
    return "mutual" if "transport_socket" in cluster else "plaintext"


def marked(port: int, *given: str, secrets: str = "ads") -> list[str]:
    """The endpoints of `web` that speak mutual TLS, by the client's load assignment."""
    found = resources(ENDPOINT, *given, TRIERARCH_SDS=secrets)[f"outbound|{port}||web.shop.svc.cluster.local"]
    endpoints = [each for group in found["endpoints"] for each in group["lb_endpoints"]]
    return sorted(
        each["endpoint"]["address"]["socket_address"]["address"]
        for each in endpoints
        if "envoy.transport_socket_match" in each.get("metadata", {}).get("filter_metadata", {})
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], "by mark"),
        ([NAMESPACE % "STRICT"], "by mark"),
        ([NAMESPACE % "DISABLE"], "plaintext"),
        ([(NAMESPACE % "DISABLE").replace("shop/", "istio-system/")], "plaintext"),
        ([(NAMESPACE % "DISABLE").replace("shop/", "istio-system/"), NAMESPACE % "PERMISSIVE"], "by mark"),
        ([(NAMESPACE % "DISABLE").replace("shop/", "front/")], "by mark"),
        ([V1 % "mtls: {mode: DISABLE}"], "by mark"),
        ([NAMESPACE % "DISABLE", MUTUAL], "mutual"),
    ],
)
def test_the_namespaces_mode_decides_for_the_cluster(given, expected):
    """That of the service; workloads and ports show at endpoints only, and a rule that insists is followed."""
    assert kind(*given) == expected


@pytest.mark.parametrize(
    ("given", "at_80", "at_90"),
    [
        ([], BOTH, BOTH),
        ([NAMESPACE % "STRICT"], BOTH, BOTH),
        ([NAMESPACE % "DISABLE"], [], []),
        ([V1 % "mtls: {mode: DISABLE}"], SECOND, SECOND),
        ([V1 % "portLevelMtls: {'9090': {mode: DISABLE}}"], BOTH, SECOND),
        ([NAMESPACE % "DISABLE", V1 % "mtls: {mode: STRICT}, portLevelMtls: {'9090': {mode: DISABLE}}"], FIRST, []),
        ([NAMESPACE % "DISABLE", MUTUAL], BOTH, BOTH),
    ],
)
def test_endpoints_are_marked_as_their_workloads_accept(given, at_80, at_90):
    """Each by its own policy, at the workload's port; a rule that insists on mutual TLS leaves all marks."""
    assert [marked(80, *given), marked(90, *given)] == [at_80, at_90]


def test_clients_without_certificates_are_told_nothing():
    """They could not use it."""
    assert kind(secrets="none") == "plaintext"
    assert marked(80, secrets="none") == []


FILES = {"TLS_CLIENT_CERT_CHAIN": "/c", "TLS_CLIENT_KEY": "/k", "TLS_CLIENT_ROOT_CERT": "/r"}


@pytest.mark.parametrize(("given", "sni"), [([], "outbound_.80_._.web.shop.svc.cluster.local"), ([MUTUAL], None)])
def test_files_beside_a_client_take_the_place_of_its_own_certificate(given, sni):
    """One socket for all endpoints, without a word about the mesh in ALPN."""
    metadata = {"ISTIO_VERSION": "1.32.0", **FILES}
    cluster = resources(CLUSTER, *given, **metadata)["outbound|80||web.shop.svc.cluster.local"]
    context = cluster["transport_socket"]["typed_config"]
    common = context["common_tls_context"]
    assert context.get("sni") == sni
    assert "alpn_protocols" not in common
    assert common["tls_certificate_sds_secret_configs"][0]["name"] == "file-cert:/c~/k"
    roots = common["combined_validation_context"]["validation_context_sds_secret_config"]
    assert roots["name"] == "file-root:/r"
