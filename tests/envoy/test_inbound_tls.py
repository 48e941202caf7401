"""Mutual TLS at inbound ports: which chains there are in each mode, what they terminate, what has to be inspected."""

from __future__ import annotations

import pytest

from tests.envoy.golden import check_golden
from tests.envoy.meshes import inbound_listeners, mesh_of
from tests.envoy.samples import inbound_key, mesh, snapshot
from tests.envoy.test_listeners_inbound import TARGETS, target
from trierarch.config.mesh_config import CertificateData, MeshTls, MeshTlsProtocol
from trierarch.config.peer_authentication import MutualTlsMode
from trierarch.push.authentication import PeerModes
from trierarch.push.model import PortProtocol
from trierarch.push.proxy import Capabilities, CertificateFiles, SecretSource

STRICT, PERMISSIVE, DISABLE = MutualTlsMode.STRICT, MutualTlsMode.PERMISSIVE, MutualTlsMode.DISABLE
ISTIO = Capabilities(istio=True, secrets=SecretSource.AGENT)
STOCK = Capabilities(secrets=SecretSource.ADS)
BARE = Capabilities()

MESH_HTTP = "istio-http/1.0,istio-http/1.1,istio-h2"
NAMES = {
    "": "",
    "http/1.1,h2c": " sniffed",
    MESH_HTTP: " mesh HTTP",
    f"istio,istio-peer-exchange,{MESH_HTTP}": " mesh",
    f"istio,{MESH_HTTP}": " mesh, no exchange",
    "istio-peer-exchange,istio": " mesh TCP",
    "istio": " mesh TCP, no exchange",
}


def listener(capabilities=ISTIO, *ports, default=PERMISSIVE, targets=TARGETS, here=None, settings=None) -> dict:
    """VirtualInbound of a workload that accepts `default`, and at `ports` (number, mode) something else."""
    key = inbound_key(targets=targets, peers=PeerModes(default, ports), capabilities=capabilities, address="10.1.0.11")
    found = snapshot(settings=settings) if settings is not None else snapshot()
    return inbound_listeners(here or mesh_of(), key, found)["virtualInbound"]


def shapes(listener: dict, port: int) -> list[str]:
    """The chains of a port (0: of those that are not known) as `TRANSPORT PROTOCOLS -> WHAT BECOMES OF IT`."""
    chains = [chain for chain in listener["filter_chains"] if _match(chain).get("destination_port", 0) == port]
    return [_shape(chain) for chain in chains]


def _match(chain: dict) -> dict:
    return chain.get("filter_chain_match", {})


def _shape(chain: dict) -> str:
    match = _match(chain)
    transport = {"tls": "TLS", "raw_buffer": "plain", "": "any"}[match.get("transport_protocol", "")]
    manager = chain["filters"][-1]["typed_config"]
    target = "HTTP" if "route_config" in manager else "refused" if manager["cluster"] == "BlackHoleCluster" else "TCP"
    ended = ", terminated" if "transport_socket" in chain else ""
    return f"{transport}{NAMES[','.join(match.get('application_protocols', ()))]} -> {target}{ended}"


HTTP, TCP, AUTO = 8080, 9000, 7000

MATRIX = {
    (HTTP, STRICT): ["TLS -> HTTP, terminated"],
    (HTTP, PERMISSIVE): ["TLS mesh -> HTTP, terminated", "plain -> HTTP"],
    (HTTP, DISABLE): ["plain -> HTTP"],
    (TCP, STRICT): ["TLS -> TCP, terminated"],
    (TCP, PERMISSIVE): ["TLS mesh -> TCP, terminated", "TLS -> TCP", "plain -> TCP"],
    (TCP, DISABLE): ["plain -> TCP"],
    (AUTO, STRICT): ["TLS mesh HTTP -> HTTP, terminated", "TLS -> TCP, terminated"],
    (AUTO, PERMISSIVE): [
        "TLS mesh HTTP -> HTTP, terminated",
        "plain sniffed -> HTTP",
        "TLS mesh TCP -> TCP, terminated",
        "plain -> TCP",
        "TLS -> TCP",
    ],
    (AUTO, DISABLE): ["plain sniffed -> HTTP", "plain -> TCP"],
}


@pytest.mark.parametrize(("port", "mode"), MATRIX)
def test_the_matrix(port, mode):
    """networking.md §4.7, cell by cell: for the workload as a whole, and for a port that has a mode of its own."""
    assert shapes(listener(default=mode), port) == MATRIX[port, mode]
    other = DISABLE if mode is STRICT else STRICT
    assert shapes(listener(ISTIO, (port, mode), default=other), port) == MATRIX[port, mode]


@pytest.mark.parametrize("mode", [STRICT, PERMISSIVE, DISABLE])
def test_what_passes_through_has_the_mode_of_the_workload(mode):
    """A port that a policy speaks of and no service has gets chains of its own; others need none."""
    found = listener(ISTIO, (6666, PERMISSIVE), (8080, STRICT), default=mode)
    assert shapes(found, 0) == MATRIX[AUTO, mode]
    assert shapes(found, 6666) == MATRIX[AUTO, PERMISSIVE]
    names = [chain["name"] for chain in found["filter_chains"] if _match(chain).get("destination_port") == 6666]
    assert set(names) == {"virtualInbound-catchall-http", "virtualInbound"}


def test_a_stock_envoy_exchanges_no_metadata():
    """It would take the preamble for payload, so nothing that asks for it is matched or offered (§8.1)."""
    found = listener(STOCK)
    assert shapes(found, HTTP)[0] == "TLS mesh, no exchange -> HTTP, terminated"
    assert shapes(found, AUTO)[2] == "TLS mesh TCP, no exchange -> TCP, terminated"
    alpn = {tuple(_common(chain)["alpn_protocols"]) for chain in _terminating(found)}
    assert alpn == {("h2", "http/1.1")}


@pytest.mark.parametrize("port", [HTTP, TCP, AUTO])
def test_without_certificates_plaintext_is_taken_only_where_it_is_allowed(port):
    """PERMISSIVE leaves the plaintext half; STRICT leaves nothing: the policy would not hold if plaintext came in."""
    assert shapes(listener(BARE, default=PERMISSIVE), port) == MATRIX[port, DISABLE]
    assert shapes(listener(BARE, default=DISABLE), port) == MATRIX[port, DISABLE]
    assert shapes(listener(BARE, (port, STRICT), default=PERMISSIVE), port) == ["any -> refused"]
    everything = listener(BARE, default=STRICT)
    assert shapes(everything, port) == shapes(everything, 0) == ["any -> refused"]
    assert not list(_terminating(everything))


# --- TLS contexts ----------------------------------------------------------------------------------------------------
def _terminating(listener: dict):
    return (chain for chain in listener["filter_chains"] if "transport_socket" in chain)


def _context(chain: dict) -> dict:
    return chain["transport_socket"]["typed_config"]


def _common(chain: dict) -> dict:
    return _context(chain)["common_tls_context"]


def _one_context(capabilities=ISTIO, settings=None) -> dict:
    """The TLS context of an HTTP port."""
    found = listener(capabilities, default=STRICT, targets=(target(80, 8080, PortProtocol.HTTP),), settings=settings)
    return _context(found["filter_chains"][-1])


def _demanded(context: dict) -> list[dict]:
    validation = context["common_tls_context"]["combined_validation_context"]["default_validation_context"]
    return validation.get("match_subject_alt_names", [])


def test_peers_may_exchange_who_they_are_before_tcp():
    """The token is offered where TCP follows; HTTP has headers for it."""
    http, tcp = _terminating(listener(default=STRICT, targets=()))
    assert _common(http)["alpn_protocols"] == ["h2", "http/1.1"]
    assert _common(tcp)["alpn_protocols"] == ["istio-peer-exchange", "h2", "http/1.1"]
    (_, off) = _terminating(listener(default=STRICT, targets=(), settings=mesh(features={"metadata_exchange": False})))
    assert _common(off)["alpn_protocols"] == ["h2", "http/1.1"]


def test_clients_come_from_the_trust_domains_of_the_mesh():
    """Its own, its aliases, those of further roots; each once. A switch accepts all whose roots are known."""
    assert _demanded(_one_context()) == [{"prefix": "spiffe://cluster.local/"}]
    further = CertificateData(trust_domains=("far", "old"))
    settings = mesh(trust_domain="prod", trust_domain_aliases=("old",), ca_certificates=(further,))
    assert [each["prefix"] for each in _demanded(_one_context(settings=settings))] == [
        "spiffe://prod/",
        "spiffe://old/",
        "spiffe://far/",
    ]
    assert _demanded(_one_context(settings=mesh(features={"skip_trust_domain_check": True}))) == []


def test_versions_and_ciphers_are_the_meshs():
    """TLS 1.2 and 1.3 with Istio's ciphers, unless meshMTLS says otherwise."""
    default = _one_context()["common_tls_context"]["tls_params"]
    assert default["tls_minimum_protocol_version"] == "TLSv1_2"
    assert len(default["cipher_suites"]) == 6
    stated = MeshTls(min_protocol_version=MeshTlsProtocol.TLSV1_3, cipher_suites=("ECDHE-RSA-AES256-GCM-SHA384",))
    assert _one_context(settings=mesh(mesh_mtls=stated))["common_tls_context"]["tls_params"] == {
        "tls_minimum_protocol_version": "TLSv1_3",
        "tls_maximum_protocol_version": "TLSv1_3",
        "cipher_suites": ["ECDHE-RSA-AES256-GCM-SHA384"],
    }


@pytest.mark.parametrize(
    ("source", "field"),
    [
        (SecretSource.AGENT, "api_config_source"),
        (SecretSource.ADS, "ads"),
        (SecretSource.FILES, "path_config_source"),
    ],
)
def test_secrets_have_the_same_names_wherever_they_come_from(source, field):
    """`default` and `ROOTCA`; Envoy waits for them as long as it takes."""
    common = _one_context(Capabilities(secrets=source))["common_tls_context"]
    (own,) = common["tls_certificate_sds_secret_configs"]
    roots = common["combined_validation_context"]["validation_context_sds_secret_config"]
    assert [own["name"], roots["name"]] == ["default", "ROOTCA"]
    assert all(field in each["sds_config"] for each in (own, roots))
    assert all(each["sds_config"]["initial_fetch_timeout"] == "0s" for each in (own, roots))


def test_files_beside_an_istio_proxy_take_the_place_of_its_own_certificate():
    """A pair needs both its parts; roots are apart from it."""
    files = CertificateFiles("/c.pem", "/k.pem", "/r.pem")
    common = _one_context(Capabilities(istio=True, secrets=SecretSource.AGENT, server_files=files))[
        "common_tls_context"
    ]
    assert common["tls_certificate_sds_secret_configs"][0]["name"] == "file-cert:/c.pem~/k.pem"
    roots = common["combined_validation_context"]["validation_context_sds_secret_config"]
    assert roots["name"] == "file-root:/r.pem"
    half = Capabilities(istio=True, secrets=SecretSource.AGENT, server_files=CertificateFiles(certificate="/c.pem"))
    assert _one_context(half)["common_tls_context"]["tls_certificate_sds_secret_configs"][0]["name"] == "default"


# --- TLS of a Sidecar ------------------------------------------------------------------------------------------------
INGRESS = """
ingress:
- port: {number: 8443, protocol: HTTPS, name: a}
  defaultEndpoint: "127.0.0.1:18080"
  tls: {mode: SIMPLE, serverCertificate: /c.pem, privateKey: /k.pem}
- port: {number: 9443, protocol: TLS, name: b}
  defaultEndpoint: "127.0.0.1:18081"
  tls:
    mode: MUTUAL
    serverCertificate: /c.pem
    privateKey: /k.pem
    caCertificates: /r.pem
    subjectAltNames: [friend]
    minProtocolVersion: TLSV1_3
"""
SWITCHED_ON = mesh(features={"tls_on_sidecar_ingress": True})


def ingress(capabilities=ISTIO, *ports, default=DISABLE, settings=SWITCHED_ON) -> dict:
    """VirtualInbound of a workload whose Sidecar asks for TLS."""
    here = mesh_of(sidecar=INGRESS)
    return listener(capabilities, *ports, default=default, here=here, settings=settings)


def test_a_sidecars_tls_is_in_force_where_the_meshs_is_not():
    """HTTPS that is terminated is HTTP; with mutual TLS of the mesh, or without the switch, it is as if unsaid."""
    off = ingress()
    assert [shapes(off, port) for port in (8443, 9443)] == [["TLS -> HTTP, terminated"], ["TLS -> TCP, terminated"]]
    assert shapes(ingress(default=PERMISSIVE), 8443) == MATRIX[HTTP, PERMISSIVE]
    assert shapes(ingress(settings=mesh()), 8443) == MATRIX[TCP, DISABLE]
    assert shapes(ingress(ISTIO, (8443, DISABLE), default=STRICT), 8443) == ["TLS -> HTTP, terminated"]
    assert shapes(ingress(BARE), 8443) == ["any -> refused"]


def test_certificates_of_a_sidecar_are_files():
    """The agent serves them as secrets; a stock Envoy reads them itself."""
    simple, mutual = map(_context, _terminating(ingress()))
    assert simple["require_client_certificate"] is False
    assert "tls_params" not in simple["common_tls_context"]
    assert mutual["require_client_certificate"] is True
    assert mutual["common_tls_context"]["tls_params"] == {"tls_minimum_protocol_version": "TLSv1_3"}
    validation = mutual["common_tls_context"]["combined_validation_context"]
    assert validation["validation_context_sds_secret_config"]["name"] == "file-root:/r.pem"
    assert validation["default_validation_context"] == {"match_subject_alt_names": [{"exact": "friend"}]}
    _, own = map(_context, _terminating(ingress(STOCK)))
    assert own["common_tls_context"]["tls_certificates"] == [
        {"certificate_chain": {"filename": "/c.pem"}, "private_key": {"filename": "/k.pem"}}
    ]
    assert own["common_tls_context"]["validation_context"]["trusted_ca"] == {"filename": "/r.pem"}


def test_the_meshs_defaults_stand_behind_what_a_sidecar_says():
    """Versions, ciphers and curves of tlsDefaults."""
    defaults = MeshTls(min_protocol_version=MeshTlsProtocol.TLSV1_2, ecdh_curves=("P-256",))
    settings = mesh(features={"tls_on_sidecar_ingress": True}, tls_defaults=defaults)
    simple, mutual = (_common(chain)["tls_params"] for chain in _terminating(ingress(settings=settings)))
    assert simple == {"tls_minimum_protocol_version": "TLSv1_2", "ecdh_curves": ["P-256"]}
    assert mutual == {"tls_minimum_protocol_version": "TLSv1_3", "ecdh_curves": ["P-256"]}


# --- inspectors ------------------------------------------------------------------------------------------------------
def inspectors(listener: dict) -> dict[str, str]:
    """Each inspector with where it is off: `PORTS`, or `not PORTS`; 0 stands for ports that nobody asks for."""
    found = listener.get("listener_filters", [])
    filters = [each for each in found if each["name"].endswith("_inspector")]
    return {each["name"].rpartition(".")[2]: _off(each.get("filter_disabled", {})) for each in filters}


def _off(predicate: dict) -> str:
    if "not_match" in predicate:
        return f"not {_off(predicate['not_match'])}"
    rules = predicate["or_match"]["rules"] if "or_match" in predicate else [predicate] if predicate else []
    return " ".join(str(rule["destination_port_range"].get("start", 0)) for rule in rules)


@pytest.mark.parametrize(
    ("default", "ports", "expected"),
    [
        (PERMISSIVE, (), {"tls_inspector": "15006", "http_inspector": "7071 8080 9000 15006"}),
        (STRICT, (), {"tls_inspector": "15006"}),
        (DISABLE, (), {"http_inspector": "7071 8080 9000 15006"}),
        (STRICT, ((9000, DISABLE),), {"tls_inspector": "9000 15006"}),
        (
            STRICT,
            ((7000, PERMISSIVE),),
            {"tls_inspector": "15006", "http_inspector": "0 7071 8080 9000 15006"},
        ),
        (
            DISABLE,
            ((8080, PERMISSIVE),),
            {"tls_inspector": "not 8080", "http_inspector": "7071 8080 9000 15006"},
        ),
    ],
)
def test_only_what_is_asked_for_is_inspected(default, ports, expected):
    """TLS is looked for at known ports only, if unknown ones do not need it."""
    assert inspectors(listener(ISTIO, *ports, default=default)) == expected


def test_a_bound_port_inspects_for_itself():
    """Its listener has chains of that port alone."""
    bound = "ingress: [{port: {number: 8080, protocol: HTTP, name: http}, captureMode: NONE}]"
    key = inbound_key(capabilities=ISTIO, address="10.1.0.11")
    found = inbound_listeners(mesh_of(sidecar=bound), key)["10.1.0.11_8080"]
    assert shapes(found, 8080) == MATRIX[HTTP, PERMISSIVE]
    assert inspectors(found) == {"tls_inspector": "not 8080"}


@pytest.mark.parametrize("name", ["istio", "stock"])
def test_whole_listeners(name):
    """Everything about the listener of a workload that accepts both kinds of connections, and one kind at two ports."""
    capabilities = {"istio": ISTIO, "stock": STOCK}[name]
    targets = (target(80, 8080, PortProtocol.HTTP), target(7000, 7000, PortProtocol.UNSUPPORTED))
    found = listener(capabilities, (7000, DISABLE), (8080, STRICT), targets=targets)
    check_golden(f"listeners_inbound_tls_{name}", {"virtualInbound": found})
