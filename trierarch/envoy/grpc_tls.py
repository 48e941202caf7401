"""TLS of proxyless gRPC: certificates come from the provider that the client's own bootstrap configures (§4.11).

Each reference stands in two fields, the present one and the one that older clients read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.core.v3 import TransportSocket
from protocol.proto.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateProviderPluginInstance,
    CertificateValidationContext,
    CommonTlsContext,
    CommonTlsContextCertificateProviderInstance,
    CommonTlsContextCombinedCertificateValidationContext,
    DownstreamTlsContext,
    UpstreamTlsContext,
)
from protocol.proto.envoy.type.matcher.v3 import StringMatcher
from trierarch.envoy.well_known_types import pack

if TYPE_CHECKING:
    from collections.abc import Iterable

TLS_SOCKET = "envoy.transport_sockets.tls"
PROVIDER = "default"
"""The certificate provider that Istio's agent writes into the bootstrap of gRPC clients."""
CERTIFICATE = "default"
ROOTS = "ROOTCA"


def build_client_socket(identities: Iterable[str], sni: str) -> TransportSocket:
    """Mutual TLS with a server that is one of these identities."""
    context = UpstreamTlsContext(sni=sni, common_tls_context=_common_context(identities))
    return TransportSocket(name=TLS_SOCKET, typed_config=pack(context))


def build_server_socket() -> TransportSocket:
    """Mutual TLS with any client of the mesh."""
    context = DownstreamTlsContext(common_tls_context=_common_context(()), require_client_certificate=True)
    return TransportSocket(name=TLS_SOCKET, typed_config=pack(context))


def _common_context(identities: Iterable[str]) -> CommonTlsContext:
    return CommonTlsContext(
        tls_certificate_provider_instance=_plugin(CERTIFICATE),
        tls_certificate_certificate_provider_instance=_older(CERTIFICATE),
        combined_validation_context=CommonTlsContextCombinedCertificateValidationContext(
            default_validation_context=CertificateValidationContext(
                ca_certificate_provider_instance=_plugin(ROOTS),
                match_subject_alt_names=[StringMatcher(exact=identity) for identity in identities],
            ),
            validation_context_certificate_provider_instance=_older(ROOTS),
        ),
    )


def _plugin(name: str) -> CertificateProviderPluginInstance:
    return CertificateProviderPluginInstance(instance_name=PROVIDER, certificate_name=name)


def _older(name: str) -> CommonTlsContextCertificateProviderInstance:
    return CommonTlsContextCertificateProviderInstance(instance_name=PROVIDER, certificate_name=name)
