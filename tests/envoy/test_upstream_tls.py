"""TLS towards services: modes, sockets by mark, names that are checked (networking.md §2.9)."""

import pytest

from tests.envoy.golden import check_golden
from tests.envoy.samples import (
    GRPC,
    HTTP,
    TCP,
    endpoint,
    external,
    generated,
    mesh,
    outbound_key,
    rule,
    scope,
    service,
    snapshot,
    subset,
)
from trierarch.config.destination_rule import (
    ClientTls,
    ClientTlsMode,
    LoadBalancer,
    ProxyProtocol,
    ProxyProtocolVersion,
    SimpleLoadBalancer,
    TrafficPolicy,
)
from trierarch.config.mesh_config import MeshOutboundMode, MeshOutboundTrafficPolicy, MeshTls
from trierarch.envoy.secret_references import SYSTEM_ROOTS_FILE
from trierarch.envoy.types import CLUSTER
from trierarch.push.model import Resolution
from trierarch.push.proxy import Capabilities, ProxyType, SecretSource

ISTIO = outbound_key(capabilities=Capabilities(istio=True, secrets=SecretSource.AGENT))
STOCK = outbound_key(capabilities=Capabilities(secrets=SecretSource.ADS))
WEB_ACCOUNT = "spiffe://cluster.local/ns/shop/sa/web"
HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def _cluster(tls=None, *, port=HTTP, key=ISTIO, settings=None, endpoints=(), rules=None, of=None, **policy):
    """The cluster of service `web` (or `of`) under a rule with these TLS settings."""
    web = of or service(ports=(port,))
    if rules is None:
        rules = [rule(TrafficPolicy(tls=tls, **policy), host=web.hostname)]
    context = snapshot([web], {web: list(endpoints)}, settings=settings)
    return generated(CLUSTER, context, scope([web], rules), outbound=key)[f"outbound|{port.number}||{web.hostname}"]


def _context(cluster):
    """The TLS context, of the single socket or of the one for marked endpoints."""
    matches = cluster.get("transport_socket_matches")
    socket = matches[0]["transport_socket"] if matches else cluster["transport_socket"]
    return socket["typed_config"]


def _names(cluster):
    validation = _context(cluster)["common_tls_context"]["combined_validation_context"]["default_validation_context"]
    return [name["exact"] for name in validation.get("match_subject_alt_names", [])]


def _kind(cluster):
    if "transport_socket_matches" in cluster:
        return "by mark"
    return "one socket" if "transport_socket" in cluster else "plaintext"


def test_automatic_mtls_as_a_whole():
    """Sockets by mark: with the agent's secrets for an Istio proxy, with ours for a stock Envoy."""
    clusters = {name: _cluster(key=key, rules=[]) for name, key in (("istio", ISTIO), ("stock", STOCK))}
    check_golden("clusters_auto_mtls", clusters)


@pytest.mark.parametrize(
    ("tls", "key", "settings", "expected"),
    [
        (None, ISTIO, None, "by mark"),
        (None, outbound_key(), None, "plaintext"),
        (None, ISTIO, mesh(enable_auto_mtls=False), "plaintext"),
        (ClientTls(mode=ClientTlsMode.DISABLE), ISTIO, None, "plaintext"),
        (ClientTls(mode=ClientTlsMode.ISTIO_MUTUAL), ISTIO, None, "one socket"),
        (ClientTls(mode=ClientTlsMode.ISTIO_MUTUAL), ISTIO, mesh(enable_auto_mtls=False), "one socket"),
        (ClientTls(mode=ClientTlsMode.ISTIO_MUTUAL), outbound_key(), None, "plaintext"),
        (ClientTls(mode=ClientTlsMode.SIMPLE), ISTIO, None, "one socket"),
    ],
)
def test_the_mode_of_the_rule_else_automatic(tls, key, settings, expected):
    """The decision table; a proxy without certificates never gets TLS."""
    assert _kind(_cluster(tls, key=key, settings=settings)) == expected


def test_services_outside_of_the_mesh_are_not_expected_to_speak_mtls():
    """Only a rule can make it so."""
    api = external("api.example", resolution=Resolution.CLIENT_SIDE)
    assert _kind(_cluster(of=api)) == "plaintext"
    assert _kind(_cluster(ClientTls(mode=ClientTlsMode.ISTIO_MUTUAL), of=api)) == "one socket"


@pytest.mark.parametrize(
    ("modes", "expected"), [([], "plaintext"), (["istio", "disabled"], "plaintext"), (["istio", "istio"], "one socket")]
)
def test_at_an_original_destination_all_must_speak_mtls(modes, expected):
    """No endpoint is marked there, neither of a headless service nor with PASSTHROUGH balancing."""
    endpoints = [endpoint(f"10.1.0.{n}", tls_mode=mode) for n, mode in enumerate(modes)]
    bare = service("bare", resolution=Resolution.PASSTHROUGH)
    assert _kind(_cluster(of=bare, endpoints=endpoints)) == expected
    passed = LoadBalancer(policy=SimpleLoadBalancer.PASSTHROUGH)
    assert _kind(_cluster(load_balancer=passed, endpoints=endpoints)) == expected


def test_a_router_uses_marks_for_headless_services_but_under_the_same_condition():
    """There they are EDS clusters (networking.md §2.9)."""
    key = outbound_key(type=ProxyType.ROUTER, capabilities=ISTIO.capabilities)
    bare = service("bare", resolution=Resolution.PASSTHROUGH)
    assert _kind(_cluster(of=bare, key=key, endpoints=[endpoint(tls_mode="istio")])) == "by mark"
    assert _kind(_cluster(of=bare, key=key, endpoints=[endpoint()])) == "plaintext"


def test_who_may_answer():
    """The accounts of all endpoints and the names that the service states, in each trust domain; else the rule's."""
    web = service(subject_alt_names=("spiffe://cluster.local/ns/x/sa/y", "web.example"))
    settings = mesh(trust_domain_aliases=("old",))
    assert _names(_cluster(of=web, settings=settings)) == [
        "spiffe://cluster.local/ns/x/sa/y",
        "spiffe://old/ns/x/sa/y",
        "web.example",
    ]
    stated = ClientTls(mode=ClientTlsMode.ISTIO_MUTUAL, subject_alt_names=("a", "b"))
    assert _names(_cluster(stated, of=web)) == ["a", "b"]


def test_the_server_name_is_that_of_the_cluster():
    """In the form that gateways route by, unless the rule states one."""
    assert _context(_cluster())["sni"] == "outbound_.80_._.web.shop.svc.cluster.local"
    rules = [rule(subsets=[subset("v1", version="v1")])]
    web = service()
    clusters = generated(CLUSTER, snapshot([web]), scope([web], rules), outbound=ISTIO)
    assert _context(clusters["outbound|80|v1|web.shop.svc.cluster.local"])["sni"] == (
        "outbound_.80_.v1_.web.shop.svc.cluster.local"
    )
    stated = ClientTls(mode=ClientTlsMode.ISTIO_MUTUAL, sni="web.example")
    assert _context(_cluster(stated))["sni"] == "web.example"


@pytest.mark.parametrize(
    ("key", "port", "features", "expected"),
    [
        (ISTIO, HTTP, {}, ["istio-peer-exchange", "istio"]),
        (ISTIO, GRPC, {}, ["istio-peer-exchange", "istio", "h2"]),
        (ISTIO, TCP, {"metadata_exchange": False}, ["istio"]),
        (STOCK, HTTP, {}, ["istio-http/1.1", "istio", "http/1.1"]),
        (STOCK, GRPC, {}, ["istio-h2", "istio", "h2"]),
        (STOCK, TCP, {}, ["istio"]),
    ],
)
def test_what_tls_announces(key, port, features, expected):
    """A filter of Istio's proxy adds the version of each request; a stock Envoy is told once and for all (§8.2)."""
    context = _context(_cluster(port=port, key=key, settings=mesh(features=features)))
    assert context["common_tls_context"]["alpn_protocols"] == expected


# --- modes SIMPLE and MUTUAL -----------------------------------------------------------------------------------------
def _simple(**fields):
    return ClientTls(mode=ClientTlsMode.SIMPLE, **fields)


def _mutual(**fields):
    return ClientTls(mode=ClientTlsMode.MUTUAL, **fields)


def _secrets(cluster):
    """Names of the certificate and of the roots."""
    common = _context(cluster)["common_tls_context"]
    certificates = [item["name"] for item in common.get("tls_certificate_sds_secret_configs", [])]
    return certificates, common["combined_validation_context"]["validation_context_sds_secret_config"]["name"]


@pytest.mark.parametrize(
    ("tls", "certificates", "roots"),
    [
        (_simple(), [], "file-root:system"),
        (_simple(ca_certificates="/ca.pem"), [], "file-root:/ca.pem"),
        (_mutual(client_certificate="/c", private_key="/k"), ["file-cert:/c~/k"], "file-root:system"),
        (_simple(credential_name="configmap://shop/ca"), [], "configmap://shop/ca-cacert"),
    ],
)
def test_where_certificates_and_roots_come_from(tls, certificates, roots):
    """Files through the agent, ConfigMaps from the control plane."""
    assert _secrets(_cluster(tls)) == (certificates, roots)


def test_a_secret_named_by_a_rule_is_for_gateways():
    """A sidecar uses it only if the rule selects its workload; otherwise it speaks plaintext."""
    tls = _mutual(credential_name="client")
    gateway = outbound_key(type=ProxyType.ROUTER, capabilities=ISTIO.capabilities)
    assert _secrets(_cluster(tls, key=gateway)) == (["kubernetes://client"], "kubernetes://client-cacert")
    assert _kind(_cluster(tls)) == "plaintext"


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        (_simple(), {"auto_sni": True, "auto_san_validation": True}),
        (_simple(sni="a.example"), None),
        (_simple(subject_alt_names=("a.example",)), {"auto_sni": True}),
        (_simple(insecure_skip_verify=True), {"auto_sni": True}),
    ],
)
def test_without_a_server_name_the_requests_is_used(tls, expected):
    """And checked, unless the rule names who may answer or wants no check."""
    options = _cluster(tls, port=TCP).get("typed_extension_protocol_options", {}).get(HTTP_OPTIONS, {})
    assert options.get("upstream_http_protocol_options") == expected


@pytest.mark.parametrize(
    ("stated", "sni", "expected"),
    [
        ({}, None, {"auto_sni": True, "auto_san_validation": True}),
        ({"subject_alt_names": ("spiffe://x",)}, None, {"auto_sni": True}),
        ({"sni": "a.example"}, "a.example", None),
    ],
    ids=str,
)
def test_a_forward_proxy_asks_for_whom_the_request_names(stated, sni, expected):
    """In mesh mTLS too, for it has no name of its own."""
    wild = external("*.example", resolution=Resolution.DYNAMIC_DNS)
    cluster = _cluster(ClientTls(mode=ClientTlsMode.ISTIO_MUTUAL, **stated), of=wild)
    options = cluster.get("typed_extension_protocol_options", {}).get(HTTP_OPTIONS, {})
    assert (_context(cluster).get("sni"), options.get("upstream_http_protocol_options")) == (sni, expected)


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        (None, None),
        (ClientTls(mode=ClientTlsMode.DISABLE), None),
        (ClientTls(mode=ClientTlsMode.SIMPLE), {"auto_sni": True, "auto_san_validation": True}),
        (ClientTls(mode=ClientTlsMode.ISTIO_MUTUAL), {"auto_sni": True, "auto_san_validation": True}),
        (ClientTls(mode=ClientTlsMode.SIMPLE, sni="a.example"), {}),
    ],
    ids=str,
)
@pytest.mark.parametrize("key", [ISTIO, STOCK], ids=["agent", "stock"])
def test_hosts_that_nobody_defined(tls, expected, key):
    """The mesh may want TLS for them; the request names whom to ask for."""
    policy = MeshOutboundTrafficPolicy(mode=MeshOutboundMode.ALLOW_ANY_DYNAMIC_DNS, tls=tls)
    context = snapshot(settings=mesh(outbound_traffic_policy=policy))
    cluster = generated(CLUSTER, context, scope(), outbound=key)["AllowAnyDynamicDNSCluster"]
    options = cluster["typed_extension_protocol_options"][HTTP_OPTIONS]
    assert ("transport_socket" in cluster) is (expected is not None)
    assert options.get("upstream_http_protocol_options", {}) == (expected or {})
    assert options["common_http_protocol_options"] == {"idle_timeout": "300s"}


def test_checks_may_be_switched_off():
    """The context is there, and empty."""
    common = _context(_cluster(_simple(insecure_skip_verify=True)))["common_tls_context"]
    assert common["validation_context"] == {}
    assert "combined_validation_context" not in common


def test_the_meshs_ciphers_are_for_the_users_tls():
    """Mesh mTLS has its own; the minimum version is 1.2 for both."""
    settings = mesh(tls_defaults=MeshTls(cipher_suites=("X",), ecdh_curves=("P-256",)))
    parameters = _context(_cluster(_simple(), settings=settings))["common_tls_context"]["tls_params"]
    assert (parameters["cipher_suites"], parameters["ecdh_curves"]) == (["X"], ["P-256"])
    assert parameters["tls_minimum_protocol_version"] == "TLSv1_2"
    own = _context(_cluster(settings=settings))["common_tls_context"]["tls_params"]
    assert "cipher_suites" not in own


def test_a_service_entry_says_whom_to_expect():
    """Its names count where the rule states none."""
    api = external("api.example", resolution=Resolution.CLIENT_SIDE, subject_alt_names=("one.example",))
    assert _names(_cluster(_simple(), of=api)) == ["one.example"]
    assert _names(_cluster(_simple(subject_alt_names=("two.example",)), of=api)) == ["two.example"]


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        (ClientTls(mode=ClientTlsMode.DISABLE), "raw_buffer"),
        (_simple(), "envoy.transport_sockets.tls"),
    ],
)
def test_a_proxy_header_stands_before_everything(tls, expected):
    """The socket of the rule is wrapped (networking.md §2.9)."""
    cluster = _cluster(tls, proxy_protocol=ProxyProtocol(version=ProxyProtocolVersion.V2))
    outer = cluster["transport_socket"]
    assert outer["name"] == "envoy.transport_sockets.upstream_proxy_protocol"
    assert outer["typed_config"]["config"] == {"version": "V2"}
    assert outer["typed_config"]["transport_socket"]["name"] == expected


@pytest.mark.parametrize(("path", "read"), [("", SYSTEM_ROOTS_FILE), ("/roots.pem", "/roots.pem")])
def test_a_stock_envoy_reads_files_itself(path, read):
    """It has no agent that would serve them as secrets, and verifies by a file or not at all."""
    tls = ClientTls(mode=ClientTlsMode.MUTUAL, client_certificate="/c", private_key="/k", ca_certificates=path)
    common = _context(_cluster(tls, key=STOCK))["common_tls_context"]
    assert common["tls_certificates"] == [{"certificate_chain": {"filename": "/c"}, "private_key": {"filename": "/k"}}]
    assert common["validation_context"]["trusted_ca"] == {"filename": read}
    assert "combined_validation_context" not in common
