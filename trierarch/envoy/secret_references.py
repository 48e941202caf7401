"""References to certificates and trust roots, by name and by where the proxy gets them from (networking.md §2.9, §7.1).

No secret is held here. Istio's agent serves the workload's own secrets and files as well; a proxy without an agent gets
its own from us and reads files itself.
"""

from __future__ import annotations

from functools import cache

from protocol.proto.envoy.config.core.v3 import (
    AggregatedConfigSource,
    ApiConfigSource,
    ApiConfigSourceApiType,
    ApiVersion,
    ConfigSource,
    DataSource,
    GrpcService,
    GrpcServiceEnvoyGrpc,
    PathConfigSource,
    WatchedDirectory,
)
from protocol.proto.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateValidationContext,
    SdsSecretConfig,
    TlsCertificate,
)
from trierarch.envoy.well_known_types import duration
from trierarch.push.proxy import SecretSource

WORKLOAD_CERTIFICATE = "default"
WORKLOAD_ROOTS = "ROOTCA"
SYSTEM_ROOTS = "system"
AGENT_CLUSTER = "sds-grpc"
"""A cluster of the bootstrap that Istio's agent writes."""
SYSTEM_ROOTS_FILE = "/etc/ssl/certs/ca-certificates.crt"
"""Where Debian, Alpine and Envoy's own images keep the system's roots."""
SECRETS_FOLDER = "./var/run/secrets/trierarch"
"""Where a proxy whose secrets are files finds them, `NAME.yaml`, relative to its working directory. It reads them again
when anything in that folder is put in its place.
"""

_ADS = AggregatedConfigSource()


@cache
def workload_secret(name: str, source: SecretSource) -> SdsSecretConfig:
    """The workload's own certificate or its roots, one object for all. Envoy waits for them as long as it takes."""
    match source:
        case SecretSource.AGENT:
            config = _agent()
        case SecretSource.FILES:
            watched = WatchedDirectory(path=SECRETS_FOLDER)
            path = PathConfigSource(path=f"{SECRETS_FOLDER}/{name}.yaml", watched_directory=watched)
            config = ConfigSource(path_config_source=path)
        case SecretSource.ADS | SecretSource.NONE:  # NONE is not asked
            config = ConfigSource(ads=_ADS)
    config.initial_fetch_timeout = duration(0)
    config.resource_api_version = ApiVersion.V3
    return SdsSecretConfig(name=name, sds_config=config)


def file_roots(path: str) -> SdsSecretConfig:
    """Roots in a file of the proxy, or the system's, through the agent."""
    return _of_agent(f"file-root:{path}")


def file_certificate(certificate: str, key: str) -> SdsSecretConfig:
    """A certificate with its key in files of the proxy, through the agent."""
    return _of_agent(f"file-cert:{certificate}~{key}")


def certificate_in_files(certificate: str, key: str) -> TlsCertificate:
    """The same for a proxy without an agent: it reads the files when it is told of them."""
    return TlsCertificate(certificate_chain=DataSource(filename=certificate), private_key=DataSource(filename=key))


def trust_files(context: CertificateValidationContext, path: str) -> None:
    """Let a proxy without an agent trust the roots in a file; without a path the system's.

    `system_root_certs` would say so too, but Envoy ignores it (only gRPC reads it) and then verifies nothing.
    """
    context.trusted_ca = DataSource(filename=path or SYSTEM_ROOTS_FILE)


def credential(name: str) -> SdsSecretConfig:
    """A secret of the mesh, `kubernetes://NAME` or `configmap://NAMESPACE/NAME`, from the control plane."""
    return SdsSecretConfig(name=name, sds_config=ConfigSource(ads=_ADS, resource_api_version=ApiVersion.V3))


def _of_agent(name: str) -> SdsSecretConfig:
    config = _agent()
    config.resource_api_version = ApiVersion.V3
    return SdsSecretConfig(name=name, sds_config=config)


def _agent() -> ConfigSource:
    return ConfigSource(
        api_config_source=ApiConfigSource(
            api_type=ApiConfigSourceApiType.GRPC,
            transport_api_version=ApiVersion.V3,
            set_node_on_first_message_only=True,
            grpc_services=[GrpcService(envoy_grpc=GrpcServiceEnvoyGrpc(cluster_name=AGENT_CLUSTER))],
        )
    )
