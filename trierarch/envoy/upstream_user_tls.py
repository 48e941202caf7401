"""TLS towards a service as a DestinationRule describes it: modes SIMPLE and MUTUAL (networking.md §2.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.core.v3 import DataSource
from protocol.proto.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateValidationContext,
    CommonTlsContext,
    CommonTlsContextCombinedCertificateValidationContext,
    SdsSecretConfig,
    TlsParameters,
    TlsParametersTlsProtocol,
    UpstreamTlsContext,
)
from protocol.proto.envoy.type.matcher.v3 import StringMatcher
from trierarch.config.destination_rule import ClientTlsMode
from trierarch.envoy.secret_references import (
    SYSTEM_ROOTS,
    certificate_in_files,
    credential,
    file_certificate,
    file_roots,
    trust_files,
)
from trierarch.push.proxy import SecretSource

if TYPE_CHECKING:
    from trierarch.config.destination_rule import ClientTls
    from trierarch.config.mesh_config import MeshConfig, MeshTls

TLS_SOCKET = "envoy.transport_sockets.tls"
KUBERNETES = "kubernetes://"
CONFIG_MAP = "configmap://"
ROOTS_SUFFIX = "-cacert"


def is_config_map(credential_name: str) -> bool:
    """Whether a credential is a ConfigMap: that holds roots only, which are no secret."""
    return credential_name.startswith(CONFIG_MAP)


def tls_parameters(defaults: MeshTls | None) -> TlsParameters:
    """TLS 1.2 or 1.3, with the mesh's ciphers and curves; its minimum version does not count here."""
    return TlsParameters(
        tls_minimum_protocol_version=TlsParametersTlsProtocol.TLSv1_2,
        tls_maximum_protocol_version=TlsParametersTlsProtocol.TLSv1_3,
        cipher_suites=list(defaults.cipher_suites) if defaults is not None else [],
        ecdh_curves=list(defaults.ecdh_curves) if defaults is not None else [],
    )


def build_user_context(
    tls: ClientTls, service_names: tuple[str, ...], mesh: MeshConfig, *, http2: bool, source: SecretSource
) -> UpstreamTlsContext:
    """The context of a cluster. `service_names`: what the service says of its certificate, if the rule says nothing."""
    common = CommonTlsContext(tls_params=tls_parameters(mesh.tls_defaults), alpn_protocols=["h2"] if http2 else [])
    if tls.mode is ClientTlsMode.MUTUAL:
        _show_certificate(common, tls, source)
    if tls.insecure_skip_verify:
        common.validation_context = CertificateValidationContext()
    else:
        _verify(common, tls, service_names, source)
    return UpstreamTlsContext(sni=tls.sni, common_tls_context=common)


def _show_certificate(common: CommonTlsContext, tls: ClientTls, source: SecretSource) -> None:
    """The certificate that the client shows. Files are served by the agent, or else read by Envoy itself."""
    if tls.credential_name:
        common.tls_certificate_sds_secret_configs = [credential(_secret_name(tls.credential_name))]
    elif source is SecretSource.AGENT:
        common.tls_certificate_sds_secret_configs = [file_certificate(tls.client_certificate, tls.private_key)]
    else:
        common.tls_certificates = [certificate_in_files(tls.client_certificate, tls.private_key)]


def _verify(common: CommonTlsContext, tls: ClientTls, service_names: tuple[str, ...], source: SecretSource) -> None:
    """How the server is verified: by roots from a secret or a file, and by names."""
    demands = CertificateValidationContext(
        match_subject_alt_names=[StringMatcher(exact=name) for name in tls.subject_alt_names or service_names],
        crl=DataSource(filename=tls.ca_crl) if tls.ca_crl else None,
    )
    if tls.credential_name or source is SecretSource.AGENT:
        common.combined_validation_context = CommonTlsContextCombinedCertificateValidationContext(
            default_validation_context=demands, validation_context_sds_secret_config=_roots(tls)
        )
    else:
        trust_files(demands, tls.ca_certificates)
        common.validation_context = demands


def _roots(tls: ClientTls) -> SdsSecretConfig:
    if tls.credential_name:
        return credential(_secret_name(tls.credential_name) + ROOTS_SUFFIX)
    return file_roots(tls.ca_certificates or SYSTEM_ROOTS)


def _secret_name(credential_name: str) -> str:
    return credential_name if is_config_map(credential_name) else KUBERNETES + credential_name
