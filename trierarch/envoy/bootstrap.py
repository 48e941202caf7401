"""The bootstrap of a stock Envoy: who it is and where its control plane is (platform.md §1.6, §5).

Plain data, for a person to read and to add to; it is the only Envoy configuration that we do not send over xDS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.envoy.addresses import is_ip
from trierarch.push.model import Locality

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.envoy.packing import Plain

XDS_CLUSTER = "xds-grpc"
DEFAULT_SERVICE_CLUSTER = "istio-proxy"

CONNECT_TIMEOUT = "1s"
PING_INTERVAL = "30s"
PING_TIMEOUT = "10s"
"""A control plane that vanished without a word is noticed after as long as both together."""
MANY = 100_000
"""More requests than there are ever in flight: Envoy's defaults must not stand between it and its control plane."""

_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_ADS: Mapping[str, Plain] = {"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"}


def build_bootstrap(
    *,
    node_id: str,
    xds: str,
    delta: bool = True,
    metadata: Mapping[str, Plain] | None = None,
    locality: Locality = Locality(),  # noqa: B008 - immutable
    service_cluster: str = DEFAULT_SERVICE_CLUSTER,
    admin: str = "",
) -> dict[str, Plain]:
    """The bootstrap, ready to be printed as YAML.

    `node_id` is `TYPE~IP~POD.NAMESPACE~DOMAIN`; `xds` and `admin` are HOST:PORT, `admin` "" leaves the page out;
    `delta` False asks for state of the world. Raises ValueError for an address that is not HOST:PORT.
    """
    bootstrap: dict[str, Plain] = {
        "node": _node(node_id, service_cluster, metadata or {}, locality),
        "dynamic_resources": _dynamic_resources(delta),
        "static_resources": {"clusters": [_xds_cluster(xds)]},
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


def _dynamic_resources(delta: bool) -> dict[str, Plain]:
    stream: dict[str, Plain] = {
        "api_type": "DELTA_GRPC" if delta else "GRPC",
        "transport_api_version": "V3",
        "set_node_on_first_message_only": True,
        "grpc_services": [{"envoy_grpc": {"cluster_name": XDS_CLUSTER}}],
    }
    return {"ads_config": stream, "cds_config": dict(_ADS), "lds_config": dict(_ADS)}


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
