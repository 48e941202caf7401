"""The cluster of bench/codec.py by Google's library, which has no types."""

# pyright: reportAttributeAccessIssue=false
# its classes come into being when their module is imported

from __future__ import annotations

from typing import Any

from envoy.config.cluster.v3.circuit_breaker_pb2 import CircuitBreakers
from envoy.config.cluster.v3.cluster_pb2 import Cluster
from envoy.config.core.v3.base_pb2 import Metadata, RoutingPriority, TransportSocket
from envoy.config.core.v3.config_source_pb2 import AggregatedConfigSource, ApiVersion, ConfigSource
from envoy.extensions.transport_sockets.raw_buffer.v3.raw_buffer_pb2 import RawBuffer
from envoy.extensions.transport_sockets.tls.v3.secret_pb2 import SdsSecretConfig
from envoy.extensions.transport_sockets.tls.v3.tls_pb2 import CommonTlsContext, UpstreamTlsContext
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.protobuf.wrappers_pb2 import UInt32Value

UNLIMITED = 4294967295


def build_google_cluster(service: str) -> Any:  # noqa: ANN401
    """An outbound EDS cluster with automatic mutual TLS."""
    ads = ConfigSource(
        ads=AggregatedConfigSource(), resource_api_version=ApiVersion.V3, initial_fetch_timeout=Duration()
    )
    secrets = [SdsSecretConfig(name=name, sds_config=ads) for name in ("default", "ROOTCA")]
    tls = UpstreamTlsContext(
        common_tls_context=CommonTlsContext(
            alpn_protocols=["istio-peer-exchange", "istio"], tls_certificate_sds_secret_configs=secrets[:1]
        ),
        sni=f"outbound_.9080_._.{service}",
    )
    limits = CircuitBreakers.Thresholds(
        priority=RoutingPriority.DEFAULT,
        max_connections=UInt32Value(value=UNLIMITED),
        max_pending_requests=UInt32Value(value=UNLIMITED),
        max_requests=UInt32Value(value=UNLIMITED),
        max_retries=UInt32Value(value=UNLIMITED),
        track_remaining=True,
    )
    return Cluster(
        name=f"outbound|9080||{service}",
        alt_stat_name=f"outbound|9080||{service};",
        type=Cluster.DiscoveryType.EDS,
        eds_cluster_config=Cluster.EdsClusterConfig(eds_config=ads, service_name=f"outbound|9080||{service}"),
        connect_timeout=Duration(seconds=10),
        lb_policy=Cluster.LbPolicy.LEAST_REQUEST,
        circuit_breakers=CircuitBreakers(thresholds=[limits]),
        metadata=_metadata(service=service),
        transport_socket_matches=[
            Cluster.TransportSocketMatch(
                name="tlsMode-istio",
                match=Struct(fields={"tlsMode": Value(string_value="istio")}),
                transport_socket=TransportSocket(name="envoy.transport_sockets.tls", typed_config=_packed(tls)),
            ),
            Cluster.TransportSocketMatch(
                name="tlsMode-disabled",
                match=Struct(),
                transport_socket=TransportSocket(
                    name="envoy.transport_sockets.raw_buffer", typed_config=_packed(RawBuffer())
                ),
            ),
        ],
    )


def _metadata(**values: str) -> Any:  # noqa: ANN401
    fields = {name: Value(string_value=value) for name, value in values.items()}
    services = Value(list_value=ListValue(values=[Value(struct_value=Struct(fields=fields))]))
    return Metadata(filter_metadata={"istio": Struct(fields={"services": services, **fields})})


def _packed(message: Any) -> Any:  # noqa: ANN401
    packed = Packed()
    packed.Pack(message)
    return packed
