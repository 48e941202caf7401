"""The bootstrap of a stock Envoy: who it is and where its control plane is (platform.md §1.6, §5).

Plain data, for a person to read and to add to; it is the only Envoy configuration that we do not send over xDS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from trierarch.envoy.addresses import is_ip
from trierarch.envoy.secret_references import WORKLOAD_CERTIFICATE, WORKLOAD_ROOTS
from trierarch.envoy.stats_tags import build_stats_config
from trierarch.push.model import Locality

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.envoy.well_known_types import Plain

XDS_CLUSTER = "xds-grpc"
DEFAULT_SERVICE_CLUSTER = "istio-proxy"

CONNECT_TIMEOUT = "1s"
PING_INTERVAL = "30s"
PING_TIMEOUT = "10s"
"""A control plane that vanished without a word is noticed after as long as both together."""
MANY = 100_000
"""More requests than there are ever in flight: Envoy's defaults must not stand between it and its control plane."""

CONTROL_PLANE_NAME = "istiod.istio-system.svc"
"""The name in the control plane's certificate."""

RUNTIME: Mapping[str, Plain] = {
    "layers": [{"name": "regular expressions", "static_layer": {"re2.max_program_size.error_level": 32_768}}]
}
"""By itself Envoy refuses whatever has a regular expression of more than a hundred steps. Those for names in policies
have more, and so may those that users write in routes; the number is that of Istio's own bootstrap.
"""

_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_ADS: Mapping[str, Plain] = {"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"}


_TLS = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
_TOKEN = "envoy.config.grpc_credential.v3.FileBasedMetadataConfig"
FILE_BASED = "envoy.grpc_credentials.file_based_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """The control plane is trusted by the roots in a PEM file, and told who calls by the token in another one.

    The token is read for each new stream: those of Kubernetes are replaced every few hours.
    """

    roots: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityFolder:
    """The control plane is trusted, and told who calls, by the files that `trierarch identity` keeps in a folder."""

    path: str


Credentials: TypeAlias = TokenFile | IdentityFolder


def build_bootstrap(
    *,
    node_id: str,
    xds: str,
    delta: bool = True,
    metadata: Mapping[str, Plain] | None = None,
    locality: Locality = Locality(),  # noqa: B008 - immutable
    service_cluster: str = DEFAULT_SERVICE_CLUSTER,
    admin: str = "",
    credentials: Credentials | None = None,
    xds_name: str = CONTROL_PLANE_NAME,
) -> dict[str, Plain]:
    """The bootstrap, ready to be printed as YAML. With credentials it calls over TLS, and whom it calls has to be
    `xds_name`; without any, in plaintext.

    `node_id` is `TYPE~IP~POD.NAMESPACE~DOMAIN`; `xds` and `admin` are HOST:PORT, `admin` "" leaves the page out;
    `delta` False asks for state of the world. Raises ValueError for an address that is not HOST:PORT.
    """
    service: Plain = {"envoy_grpc": {"cluster_name": XDS_CLUSTER}}
    clusters: list[Plain] = []
    match credentials:
        case None:
            clusters = [_xds_cluster(xds)]
        case IdentityFolder():
            clusters = [_xds_cluster(xds) | _tls(credentials, xds_name)]
        case TokenFile():
            service = _google_service(xds, credentials, xds_name)
    bootstrap: dict[str, Plain] = {
        "node": _node(node_id, service_cluster, metadata or {}, locality),
        "dynamic_resources": _dynamic_resources(delta, service),
        "static_resources": {"clusters": clusters},
        "layered_runtime": dict(RUNTIME),
        "stats_config": build_stats_config(),
    }
    if admin:
        bootstrap["admin"] = {"address": _address(admin)}
    return bootstrap


def _node(node_id: str, service_cluster: str, metadata: Mapping[str, Plain], locality: Locality) -> dict[str, Plain]:
    node: dict[str, Plain] = {"id": node_id, "cluster": service_cluster}
    places = {"region": locality.region, "zone": locality.zone, "sub_zone": locality.subzone}
    if known := {name: value for name, value in places.items() if value}:
        node["locality"] = known
    if metadata:
        node["metadata"] = dict(metadata)
    return node


def _dynamic_resources(delta: bool, service: Plain) -> dict[str, Plain]:
    stream: dict[str, Plain] = {
        "api_type": "DELTA_GRPC" if delta else "GRPC",
        "transport_api_version": "V3",
        "set_node_on_first_message_only": True,
        "grpc_services": [service],
    }
    return {"ads_config": stream, "cds_config": dict(_ADS), "lds_config": dict(_ADS)}


# --- a stream with a token -------------------------------------------------------------------------------------------
def _google_service(xds: str, credentials: TokenFile, name: str) -> dict[str, Plain]:
    """Envoy has gRPC's own client too, which can read a token anew for each stream."""
    token: dict[str, Plain] = {
        "@type": f"type.googleapis.com/{_TOKEN}",
        "secret_data": {"filename": credentials.token},
        "header_key": "authorization",
        "header_prefix": "Bearer ",
    }
    arguments: dict[str, Plain] = {
        "grpc.ssl_target_name_override": {"string_value": name},
        "grpc.max_receive_message_length": {"int_value": -1},
        "grpc.keepalive_time_ms": {"int_value": 30_000},
        "grpc.keepalive_timeout_ms": {"int_value": 10_000},
    }
    return {
        "google_grpc": {
            "target_uri": xds,
            "stat_prefix": XDS_CLUSTER,
            "channel_credentials": {"ssl_credentials": {"root_certs": {"filename": credentials.roots}}},
            "credentials_factory_name": FILE_BASED,
            "call_credentials": [{"from_plugin": {"name": FILE_BASED, "typed_config": token}}],
            "channel_args": {"args": arguments},
        }
    }


# --- a stream with a client certificate, or without TLS --------------------------------------------------------------
def _tls(credentials: IdentityFolder, name: str) -> dict[str, Plain]:
    names: Plain = [{"san_type": "DNS", "matcher": {"exact": name}}]
    common: dict[str, Plain] = {
        "alpn_protocols": ["h2"],
        "tls_certificate_sds_secret_configs": [_secret_in(credentials.path, WORKLOAD_CERTIFICATE)],
        "combined_validation_context": {
            "default_validation_context": {"match_typed_subject_alt_names": names},
            "validation_context_sds_secret_config": _secret_in(credentials.path, WORKLOAD_ROOTS),
        },
    }
    context: dict[str, Plain] = {"@type": f"type.googleapis.com/{_TLS}", "sni": name, "common_tls_context": common}
    return {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": context}}


def _secret_in(folder: str, name: str) -> dict[str, Plain]:
    """A secret in a file of its own, read again when anything in the folder is put in its place."""
    source: dict[str, Plain] = {"path": f"{folder}/{name}.yaml", "watched_directory": {"path": folder}}
    return {"name": name, "sds_config": {"path_config_source": source, "resource_api_version": "V3"}}


def _xds_cluster(xds: str) -> dict[str, Plain]:
    host, _ = _split(xds)
    limits: dict[str, Plain] = {"max_connections": MANY, "max_pending_requests": MANY, "max_requests": MANY}
    return {
        "name": XDS_CLUSTER,
        "type": "STATIC" if is_ip(host) else "STRICT_DNS",
        "connect_timeout": CONNECT_TIMEOUT,
        "typed_extension_protocol_options": {
            _HTTP_OPTIONS: {
                "@type": f"type.googleapis.com/{_HTTP_OPTIONS}",
                "explicit_http_config": {
                    "http2_protocol_options": {
                        "connection_keepalive": {"interval": PING_INTERVAL, "timeout": PING_TIMEOUT}
                    }
                },
            }
        },
        "circuit_breakers": {"thresholds": [{"priority": "DEFAULT"} | limits, {"priority": "HIGH"} | limits]},
        "load_assignment": {
            "cluster_name": XDS_CLUSTER,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(xds)}}]}],
        },
    }


def _address(text: str) -> dict[str, Plain]:
    host, port = _split(text)
    return {"socket_address": {"address": host, "port_value": port}}


def _split(text: str) -> tuple[str, int]:
    """Host and port; an IPv6 address stands in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)
