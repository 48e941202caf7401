"""TLS that a workload's proxy terminates: the mesh's own mTLS, or what a Sidecar asks for at its port (§4.7, §9.2).

Which chains terminate TLS is decided in `inbound_chains.py`; here is what they present and demand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from protocol.proto.envoy.config.core.v3 import DataSource, TransportSocket
from protocol.proto.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateValidationContext,
    CommonTlsContext,
    CommonTlsContextCombinedCertificateValidationContext,
    DownstreamTlsContext,
    SdsSecretConfig,
    TlsParameters,
    TlsParametersTlsProtocol,
)
from protocol.proto.envoy.type.matcher.v3 import StringMatcher
from trierarch.config.common import TlsProtocol
from trierarch.config.mesh_config import MeshTls, MeshTlsProtocol
from trierarch.config.server_tls import ServerTlsMode
from trierarch.envoy.secret_references import (
    SYSTEM_ROOTS,
    WORKLOAD_CERTIFICATE,
    WORKLOAD_ROOTS,
    certificate_in_files,
    file_certificate,
    file_roots,
    trust_files,
    workload_secret,
)
from trierarch.envoy.upstream_tls import PEER_EXCHANGE
from trierarch.envoy.upstream_user_tls import TLS_SOCKET
from trierarch.envoy.well_known_types import encode, pack
from trierarch.push.proxy import NO_FILES, SecretSource

if TYPE_CHECKING:
    from trierarch.config.server_tls import ServerTls
    from trierarch.push.mesh import Mesh
    from trierarch.push.proxy import Capabilities, CertificateFiles

HTTP_ALPN = ("h2", "http/1.1")
_CIPHERS = (
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-GCM-SHA256",
)
"""For TLS 1.2; TLS 1.3 has its own."""

_VERSIONS = {
    TlsProtocol.AUTO.value: TlsParametersTlsProtocol.TLS_AUTO,
    TlsProtocol.TLSV1_0.value: TlsParametersTlsProtocol.TLSv1_0,
    TlsProtocol.TLSV1_1.value: TlsParametersTlsProtocol.TLSv1_1,
    TlsProtocol.TLSV1_2.value: TlsParametersTlsProtocol.TLSv1_2,
    TlsProtocol.TLSV1_3.value: TlsParametersTlsProtocol.TLSv1_3,
}
"""By the names that the mesh's own protocol versions have too."""

_REMEMBERED = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshServerTls:
    """The mesh's mTLS. `trust_domains`: clients must have an identity in one of them; none: any identity will do.

    `exchanges`: peers may agree to exchange who they are before TCP.
    """

    source: SecretSource
    files: CertificateFiles = NO_FILES
    trust_domains: tuple[str, ...]
    exchanges: bool = False
    newest_only: bool = False
    ciphers: tuple[str, ...] = _CIPHERS


@dataclass(frozen=True, slots=True, kw_only=True)
class UserServerTls:
    """TLS as a Sidecar describes it, with certificates in files of the proxy; `defaults` are the mesh's."""

    source: SecretSource
    settings: ServerTls
    defaults: MeshTls | None = None


def select_mesh_tls(capabilities: Capabilities, mesh: Mesh, *, exchanges: bool) -> MeshServerTls:
    """What a workload presents to those who connect to it, and what the mesh demands of them."""
    stated = mesh.config.mesh_mtls or MeshTls()
    return MeshServerTls(
        source=capabilities.secrets,
        files=capabilities.server_files,
        trust_domains=() if mesh.features.skip_trust_domain_check else _trust_domains(mesh),
        exchanges=exchanges,
        newest_only=stated.min_protocol_version is MeshTlsProtocol.TLSV1_3,
        ciphers=stated.cipher_suites or _CIPHERS,
    )


def _trust_domains(mesh: Mesh) -> tuple[str, ...]:
    """The mesh's own, its aliases, and those whose roots it was given (§7.3)."""
    config = mesh.config
    given = [domain for each in config.ca_certificates for domain in each.trust_domains]
    return tuple(dict.fromkeys((config.trust_domain, *config.trust_domain_aliases, *given)))


@lru_cache(maxsize=_REMEMBERED)
def build_server_socket(tls: MeshServerTls | UserServerTls, *, http: bool) -> TransportSocket:
    """The transport socket of a chain. `http`: the chain takes HTTP only. Remembered: a mesh has few different ones."""
    match tls:
        case MeshServerTls():
            context = _mesh_context(tls, http=http)
        case UserServerTls():
            context = _user_context(tls)
    return TransportSocket(name=TLS_SOCKET, typed_config=pack(context))


def _mesh_context(tls: MeshServerTls, *, http: bool) -> DownstreamTlsContext:
    exchange = [PEER_EXCHANGE] if tls.exchanges and not http else []
    prefixes = [StringMatcher(prefix=f"spiffe://{domain}/") for domain in tls.trust_domains]
    versions = TlsParametersTlsProtocol
    return DownstreamTlsContext(
        require_client_certificate=True,
        common_tls_context=CommonTlsContext(
            alpn_protocols=[*exchange, *HTTP_ALPN],
            tls_params=TlsParameters(
                tls_minimum_protocol_version=versions.TLSv1_3 if tls.newest_only else versions.TLSv1_2,
                tls_maximum_protocol_version=versions.TLSv1_3,
                cipher_suites=list(tls.ciphers),
            ),
            tls_certificate_sds_secret_configs=[_own_certificate(tls)],
            combined_validation_context=CommonTlsContextCombinedCertificateValidationContext(
                default_validation_context=CertificateValidationContext(match_subject_alt_names=prefixes),
                validation_context_sds_secret_config=_mesh_roots(tls),
            ),
        ),
    )


def _own_certificate(tls: MeshServerTls) -> SdsSecretConfig:
    if tls.files.certificate and tls.files.key:
        return file_certificate(tls.files.certificate, tls.files.key)
    return workload_secret(WORKLOAD_CERTIFICATE, tls.source)


def _mesh_roots(tls: MeshServerTls) -> SdsSecretConfig:
    return file_roots(tls.files.roots) if tls.files.roots else workload_secret(WORKLOAD_ROOTS, tls.source)


def _user_context(tls: UserServerTls) -> DownstreamTlsContext:
    """The agent serves files as secrets, and notices when they change; without it Envoy reads them itself."""
    settings = tls.settings
    common = CommonTlsContext(alpn_protocols=list(HTTP_ALPN), tls_params=_parameters(settings, tls.defaults))
    if tls.source is SecretSource.AGENT:
        certificate = file_certificate(settings.server_certificate, settings.private_key)
        common.tls_certificate_sds_secret_configs = [certificate]
    else:
        common.tls_certificates = [certificate_in_files(settings.server_certificate, settings.private_key)]
    if settings.mode is not ServerTlsMode.SIMPLE:
        _demand_certificate(common, settings, tls.source)
    mutual = settings.mode is ServerTlsMode.MUTUAL
    return DownstreamTlsContext(require_client_certificate=mutual, common_tls_context=common)


def _demand_certificate(common: CommonTlsContext, settings: ServerTls, source: SecretSource) -> None:
    """Whoever shows a certificate must show one that the given roots have signed."""
    demands = CertificateValidationContext(
        match_subject_alt_names=[StringMatcher(exact=name) for name in settings.subject_alt_names],
        verify_certificate_spki=list(settings.verify_certificate_spki),
        verify_certificate_hash=list(settings.verify_certificate_hash),
        crl=DataSource(filename=settings.ca_crl) if settings.ca_crl else None,
    )
    if source is SecretSource.AGENT:
        common.combined_validation_context = CommonTlsContextCombinedCertificateValidationContext(
            default_validation_context=demands,
            validation_context_sds_secret_config=file_roots(settings.ca_certificates or SYSTEM_ROOTS),
        )
    else:
        trust_files(demands, settings.ca_certificates)
        common.validation_context = demands


def _parameters(settings: ServerTls, defaults: MeshTls | None) -> TlsParameters | None:
    """The port's own, over the mesh's; None leaves all of it to Envoy."""
    stated = defaults or MeshTls()
    parameters = TlsParameters(
        tls_minimum_protocol_version=_VERSIONS[settings.min_protocol_version.value]
        or _VERSIONS[stated.min_protocol_version.value],
        tls_maximum_protocol_version=_VERSIONS[settings.max_protocol_version.value],
        cipher_suites=list(settings.cipher_suites or stated.cipher_suites),
        ecdh_curves=list(settings.ecdh_curves or stated.ecdh_curves),
    )
    return parameters if encode(parameters) else None
