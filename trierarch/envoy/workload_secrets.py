"""A workload's own certificate and the roots that it trusts, as SDS resources (networking.md §7.1, platform.md §1.6).

They belong to one client: nothing here is ever part of a view, and nobody else is sent it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from protocol.proto.envoy.config.core.v3 import DataSource
from protocol.proto.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateValidationContext,
    Secret,
    TlsCertificate,
)
from protocol.xds.resources import Part
from trierarch.envoy.secret_references import WORKLOAD_CERTIFICATE, WORKLOAD_ROOTS
from trierarch.envoy.types import SECRET
from trierarch.envoy.well_known_types import encode_resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.xds.resources import Resource


WORKLOAD_SECRETS = frozenset({WORKLOAD_CERTIFICATE, WORKLOAD_ROOTS})
"""Their names."""


def build_workload_secrets(*, key: bytes, chain: bytes, roots: bytes, revoked: bytes = b"") -> Part:
    """Both secrets, from PEM. `chain` begins with the workload's own certificate; `revoked`: lists of revoked ones."""
    return Part((_certificate(key, chain), _roots(roots, revoked)))


def build_secret_files(*, key: bytes, chain: bytes, roots: bytes) -> Mapping[str, bytes]:
    """The same as files, `NAME.yaml`, for an Envoy that reads its secrets itself. JSON is YAML too."""
    pair = {"certificate_chain": _text(chain), "private_key": _text(key)}
    secrets: Mapping[str, Mapping[str, object]] = {
        WORKLOAD_CERTIFICATE: {"tls_certificate": pair},
        WORKLOAD_ROOTS: {"validation_context": {"trusted_ca": _text(roots)}},
    }
    return {f"{name}.yaml": _document({"@type": SECRET, "name": name, **each}) for name, each in secrets.items()}


def _text(pem: bytes) -> Mapping[str, str]:
    return {"inline_string": pem.decode()}


def _document(resource: Mapping[str, object]) -> bytes:
    return json.dumps({"resources": [resource]}, indent=1).encode()


def _certificate(key: bytes, chain: bytes) -> Resource:
    certificate = TlsCertificate(certificate_chain=_inline(chain), private_key=_inline(key))
    return encode_resource(WORKLOAD_CERTIFICATE, Secret(name=WORKLOAD_CERTIFICATE, tls_certificate=certificate))


def _roots(roots: bytes, revoked: bytes) -> Resource:
    context = CertificateValidationContext(trusted_ca=_inline(roots), crl=_inline(revoked) if revoked else None)
    return encode_resource(WORKLOAD_ROOTS, Secret(name=WORKLOAD_ROOTS, validation_context=context))


def _inline(pem: bytes) -> DataSource:
    return DataSource(inline_bytes=pem)
