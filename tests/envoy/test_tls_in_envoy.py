"""A real Envoy accepts the TLS, the logs and the tracing that we generate for one (`envoy --mode validate`)."""

from __future__ import annotations

import json
import os

import pytest

from tests.envoy.certificates import CERTIFICATE, KEY, ROOTS, Authority
from tests.envoy.meshes import inbound_listeners, listeners, mesh_of, service
from tests.envoy.samples import (
    HTTPS,
    external,
    generated,
    inbound_key,
    mesh,
    outbound_key,
    rule,
    scope,
    snapshot,
)
from tests.envoy.test_inbound_tls import DISABLE, PERMISSIVE, STRICT
from tests.envoy.test_listeners_in_envoy import accept
from tests.envoy.test_listeners_inbound import TARGETS
from trierarch.config.destination_rule import ClientTls, ClientTlsMode, TrafficPolicy
from trierarch.config.mesh_config import AccessLogEncoding
from trierarch.config.tracing import EnvironmentTag, HeaderTag, LiteralTag
from trierarch.envoy.secret_references import SECRETS_FOLDER
from trierarch.envoy.types import CLUSTER
from trierarch.push.authentication import PeerModes
from trierarch.push.model import Resolution
from trierarch.push.proxy import Capabilities, SecretSource
from trierarch.push.telemetry import Reporter, Telemetry, TracingSettings

pytestmark = [
    pytest.mark.envoy,
    pytest.mark.skipif(not os.environ.get("TRIERARCH_ENVOY"), reason="TRIERARCH_ENVOY names no Envoy binary"),
]

SOURCES = [SecretSource.ADS, SecretSource.FILES, SecretSource.NONE]


@pytest.fixture
def files(tmp_path):
    """A folder with certificates, and with secrets where a proxy that reads its own from files looks for them."""
    Authority().issue("spiffe://cluster.local/ns/shop/sa/web", tmp_path)
    folder = tmp_path / SECRETS_FOLDER
    folder.mkdir(parents=True)
    for name in ("default", "ROOTCA"):
        (folder / f"{name}.yaml").write_text(json.dumps({"resources": []}))
    return tmp_path


@pytest.mark.parametrize("mode", [STRICT, PERMISSIVE, DISABLE])
@pytest.mark.parametrize("source", SOURCES)
def test_inbound_listeners_in_each_mode(files, source, mode):
    """No two chains are equal, and all that they refer to is there; ports of their own included."""
    modes = PeerModes(mode, ((6666, PERMISSIVE), (8080, DISABLE), (9000, STRICT)))
    key = inbound_key(targets=TARGETS, peers=modes, capabilities=Capabilities(secrets=source))
    accept(files, [*inbound_listeners(mesh_of(), key).values()])


@pytest.mark.parametrize("source", SOURCES)
def test_tls_that_a_sidecar_terminates(files, source):
    """Certificates in files, with and without a demand for the client's."""
    tls = f"serverCertificate: {files / CERTIFICATE}, privateKey: {files / KEY}, caCertificates: {files / ROOTS}"
    ports = [
        f"{{port: {{number: {number}, protocol: HTTPS, name: x}}, defaultEndpoint: '127.0.0.1:1', tls: {{{each}}}}}"
        for number, each in ((8443, f"mode: SIMPLE, {tls}"), (9443, f"mode: MUTUAL, subjectAltNames: [a], {tls}"))
    ]
    key = inbound_key(
        peers=PeerModes(DISABLE), capabilities=Capabilities(secrets=source), address="127.0.0.1", targets=TARGETS
    )
    found = snapshot(settings=mesh(features={"tls_on_sidecar_ingress": True}))
    accept(files, [*inbound_listeners(mesh_of(sidecar=f"ingress: [{', '.join(ports)}]"), key, found).values()])


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("mode", [ClientTlsMode.SIMPLE, ClientTlsMode.MUTUAL])
def test_tls_towards_services(files, source, mode):
    """The system's roots, or files that Envoy reads itself: there is no agent that would serve them."""
    mutual = ClientTls(
        mode=mode,
        client_certificate=str(files / CERTIFICATE),
        private_key=str(files / KEY),
        ca_certificates=str(files / ROOTS),
    )
    api = external("api.example", ports=(HTTPS,), resolution=Resolution.CLIENT_SIDE)
    tls = mutual if mode is ClientTlsMode.MUTUAL else ClientTls(mode=mode, sni="api.example")
    rules = [rule(TrafficPolicy(tls=tls), host="api.example")]
    key = outbound_key(capabilities=Capabilities(secrets=source))
    clusters = generated(CLUSTER, snapshot([api]), scope([api], rules), outbound=key)
    accept(files, [], clusters=[clusters["outbound|443||api.example"]])


TAGS = (("a", LiteralTag(value="1")), ("b", EnvironmentTag(name="B")), ("c", HeaderTag(name="x", default_value="y")))
TELEMETRY = Telemetry(TracingSettings(12.5, TAGS, 64), Reporter("web", "v1", "mesh", "shop", "Kubernetes"))


@pytest.mark.parametrize(
    "logs",
    [
        {},
        {"access_log_format": "%START_TIME%"},
        {"access_log_encoding": AccessLogEncoding.JSON},
        {"access_log_encoding": AccessLogEncoding.JSON, "access_log_format": '{"a": {"b": "%PROTOCOL%"}, "n": 1}'},
    ],
)
def test_logs_and_tracing(tmp_path, logs):
    """Of requests, of connections, of listeners; with each kind of tag."""
    settings = mesh(access_log_file="/dev/null", **logs)
    found, web = snapshot(settings=settings), service("web", "80/HTTP", "9000/TCP", address="10.0.0.7")
    outbound = listeners(mesh_of(web), outbound_key(telemetry=TELEMETRY), found)
    inbound = inbound_listeners(mesh_of(), inbound_key(targets=TARGETS, telemetry=TELEMETRY), found)
    accept(tmp_path, [*outbound.values(), *inbound.values()])
