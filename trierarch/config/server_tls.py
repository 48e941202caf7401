"""TLS settings of a server: of a Gateway's port or of a Sidecar's ingress listener."""

from dataclasses import dataclass
from enum import StrEnum

from trierarch.config.common import TlsProtocol


class ServerTlsMode(StrEnum):
    """How TLS is terminated, or passed through."""

    PASSTHROUGH = "PASSTHROUGH"
    SIMPLE = "SIMPLE"
    MUTUAL = "MUTUAL"
    AUTO_PASSTHROUGH = "AUTO_PASSTHROUGH"
    ISTIO_MUTUAL = "ISTIO_MUTUAL"
    OPTIONAL_MUTUAL = "OPTIONAL_MUTUAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCertificate:
    """File names of a certificate and its key."""

    server_certificate: str = ""
    private_key: str = ""
    ca_certificates: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServerTls:
    """TLS of a port; file names or names of Secrets."""

    https_redirect: bool = False
    mode: ServerTlsMode = ServerTlsMode.PASSTHROUGH
    server_certificate: str = ""
    private_key: str = ""
    ca_certificates: str = ""
    ca_crl: str = ""
    credential_name: str = ""
    credential_names: tuple[str, ...] = ()
    ca_cert_credential_name: str = ""
    tls_certificates: tuple[ServerCertificate, ...] = ()
    subject_alt_names: tuple[str, ...] = ()
    verify_certificate_spki: tuple[str, ...] = ()
    verify_certificate_hash: tuple[str, ...] = ()
    insecure_skip_verify: bool | None = None
    min_protocol_version: TlsProtocol = TlsProtocol.AUTO
    max_protocol_version: TlsProtocol = TlsProtocol.AUTO
    cipher_suites: tuple[str, ...] = ()
    ecdh_curves: tuple[str, ...] = ()
