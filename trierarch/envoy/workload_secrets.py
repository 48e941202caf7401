"""A workload's own certificate and the roots that it trusts, as SDS resources (networking.md §7.1, platform.md §1.6).

They belong to one client: nothing here is ever part of a view, and nobody else is sent it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.core.v3 import DataSource
from protocol.proto.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateValidationContext,
    Secret,
    TlsCertificate,
)
from protocol.xds.resources import Part
from trierarch.envoy.packing import encode_resource
from trierarch.envoy.secret_references import WORKLOAD_CERTIFICATE, WORKLOAD_ROOTS

if TYPE_CHECKING:
    from protocol.xds.resources import Resource


def build_workload_secrets(*, key: str, chain: str, roots: str) -> Part:
    """Both secrets, from PEM. `chain` begins with the workload's own certificate."""
    return Part((_certificate(key, chain), _roots(roots)))


def _certificate(key: str, chain: str) -> Resource:
    certificate = TlsCertificate(certificate_chain=_inline(chain), private_key=_inline(key))
    return encode_resource(WORKLOAD_CERTIFICATE, Secret(name=WORKLOAD_CERTIFICATE, tls_certificate=certificate))


def _roots(roots: str) -> Resource:
    context = CertificateValidationContext(trusted_ca=_inline(roots))
    return encode_resource(WORKLOAD_ROOTS, Secret(name=WORKLOAD_ROOTS, validation_context=context))


def _inline(pem: str) -> DataSource:
    return DataSource(inline_bytes=pem.encode())
