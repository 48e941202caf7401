"""Dumps of resources: what is secret is not in them."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from protocol.proto.envoy.config.core.v3 import DataSource
from protocol.proto.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateValidationContext,
    GenericSecret,
    Secret,
    TlsCertificate,
    TlsSessionTicketKeys,
)
from trierarch.envoy.dump import REDACTED, dump_resource
from trierarch.envoy.types import SECRET
from trierarch.envoy.well_known_types import encode_resource
from trierarch.envoy.workload_secrets import build_secret_files, build_workload_secrets

HIDDEN = b64encode(REDACTED).decode()


def dumped(secret):
    """A secret as the debug pages show it."""
    return dump_resource(SECRET, encode_resource(secret.name, secret))


@pytest.mark.parametrize(
    "kind",
    [
        {"tls_certificate": TlsCertificate(private_key=DataSource(inline_bytes=b"PRIVATE"))},
        {"tls_certificate": TlsCertificate(private_key=DataSource(inline_string="PRIVATE"))},
        {"tls_certificate": TlsCertificate(password=DataSource(inline_string="PRIVATE"))},
        {"tls_certificate": TlsCertificate(pkcs12=DataSource(inline_bytes=b"PRIVATE"))},
        {"session_ticket_keys": TlsSessionTicketKeys(keys=[DataSource(inline_bytes=b"PRIVATE")])},
        {"generic_secret": GenericSecret(secret=DataSource(inline_string="PRIVATE"))},
        {"generic_secret": GenericSecret(secrets={"a": DataSource(inline_string="PRIVATE")})},
    ],
)
def test_what_is_secret_is_replaced(kind):
    """Whatever kind of secret it is and however it is held, a word stands in its place, as on Envoy's own page."""
    shown = json.dumps(dumped(Secret(name="x", **kind)))
    assert HIDDEN in shown
    assert "PRIVATE" not in shown
    assert b64encode(b"PRIVATE").decode() not in shown


def test_what_everybody_may_know_is_shown():
    """Certificates and roots."""
    certificate = TlsCertificate(certificate_chain=DataSource(inline_string="CHAIN"))
    assert "CHAIN" in json.dumps(dumped(Secret(name="x", tls_certificate=certificate)))
    roots = CertificateValidationContext(trusted_ca=DataSource(inline_string="ROOTS"))
    assert "ROOTS" in json.dumps(dumped(Secret(name="x", validation_context=roots)))


def test_a_workload_s_secrets():
    """Two resources; revoked certificates are named only where there is a list of them."""
    part = build_workload_secrets(key=b"PRIVATE", chain=b"chain", roots=b"roots", revoked=b"revoked")
    shown = {name: dump_resource(SECRET, each) for name, each in part.resources.items()}
    assert shown["default"]["tls_certificate"]["private_key"]["inline_bytes"] == HIDDEN
    assert shown["ROOTCA"]["validation_context"]["crl"]["inline_bytes"] == b64encode(b"revoked").decode()
    bare = build_workload_secrets(key=b"", chain=b"", roots=b"roots")
    assert "crl" not in dump_resource(SECRET, bare.resources["ROOTCA"])["validation_context"]


def test_the_same_as_files():
    """Documents in Envoy's JSON, one a secret."""
    files = build_secret_files(key=b"PRIVATE", chain=b"chain", roots=b"roots")
    names = [resource["name"] for text in files.values() for resource in json.loads(text)["resources"]]
    assert (list(files), names) == (["default.yaml", "ROOTCA.yaml"], ["default", "ROOTCA"])
