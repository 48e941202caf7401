"""How fast the codec is beside betterproto2's own and Google's upb, all in one run.

    python bench/codec.py

Prints microseconds of CPU time per operation, best of several rounds, and the ratios that matter: the codec must encode
at least 15 times and decode at least 7 times as fast as the library that it stands in for; and to build a cluster and
encode it may take 2.5 times as long as with Google's library, which is written in C. Exits 1 if it does not.
"""

from __future__ import annotations

import sys
import time
import timeit
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from common.google_cluster import build_google_cluster

from protocol.codec import decode, encode, pack
from protocol.codec.any_message import PREFIX, type_url
from protocol.proto.envoy.config.cluster.v3 import (
    CircuitBreakers,
    CircuitBreakersThresholds,
    Cluster,
    ClusterDiscoveryType,
    ClusterEdsClusterConfig,
    ClusterLbPolicy,
    ClusterTransportSocketMatch,
)
from protocol.proto.envoy.config.core.v3 import (
    Address,
    AggregatedConfigSource,
    ApiVersion,
    ConfigSource,
    HealthStatus,
    Locality,
    Metadata,
    Node,
    RoutingPriority,
    SocketAddress,
    TransportSocket,
)
from protocol.proto.envoy.config.endpoint.v3 import (
    ClusterLoadAssignment,
    Endpoint,
    LbEndpoint,
    LocalityLbEndpoints,
)
from protocol.proto.envoy.config.route.v3 import (
    Decorator,
    RetryPolicy,
    Route,
    RouteAction,
    RouteConfiguration,
    RouteMatch,
    VirtualHost,
)
from protocol.proto.envoy.extensions.transport_sockets.raw_buffer.v3 import RawBuffer
from protocol.proto.envoy.extensions.transport_sockets.tls.v3 import (
    CommonTlsContext,
    SdsSecretConfig,
    UpstreamTlsContext,
)
from protocol.proto.envoy.service.discovery.v3 import DiscoveryRequest
from protocol.proto.google.protobuf import ListValue, Struct, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from betterproto2 import Message

ENCODE_TARGET = 15.0
DECODE_TARGET = 7.0
GOOGLE_TARGET = 2.5
SERVICE = "reviews.default.svc.cluster.local"


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds per operation of the three."""

    codec: float
    library: float
    upb: float


def main() -> int:
    """Measure everything, print the table."""
    print(
        f"{'':26}{'bytes':>8}{'codec':>10}{'library':>11}{'ratio':>8}{'upb':>9}{'ratio':>8}   (us; ratio to the codec)"
    )
    slow = 0
    for name, message in build_messages().items():
        data = encode(message)
        for what, timing, target in (
            ("encode", time_encoding(message, data), ENCODE_TARGET),
            ("decode", time_decoding(message, data), DECODE_TARGET),
        ):
            slow += report(f"{name} {what}", len(data), timing, target)
    slow += compare_with_google()
    return 1 if slow else 0


def compare_with_google() -> bool:
    """Print what it costs to build a cluster and encode it; whether that takes too long."""
    theirs_built = build_google_cluster(SERVICE)
    assert theirs_built == type(theirs_built).FromString(encode(build_cluster())), "not the same cluster"
    ours = measure(lambda: encode(build_cluster()))
    theirs = measure(lambda: build_google_cluster(SERVICE).SerializeToString())
    missed = ours / theirs > GOOGLE_TARGET
    note = f"   above {GOOGLE_TARGET}" if missed else ""
    print(f"build a cluster and encode it: {ours:.1f} us, Google's {theirs:.1f} us, {ours / theirs:.2f} times{note}")
    return missed


def report(name: str, size: int, timing: Timing, target: float) -> bool:
    """Print one row; whether it misses its target."""
    ratio = timing.library / timing.codec
    missed = ratio < target
    note = f"   below {target:.0f}" if missed else ""
    print(
        f"{name:26}{size:8}{timing.codec:10.1f}{timing.library:11.1f}{ratio:8.1f}"
        f"{timing.upb:9.2f}{timing.upb / timing.codec:8.2f}{note}"
    )
    return missed


def time_encoding(message: Message, data: bytes) -> Timing:
    """Message -> bytes, by the three libraries."""
    google = google_class(message).FromString(data)
    return Timing(measure(lambda: encode(message)), measure(lambda: bytes(message)), measure(google.SerializeToString))


def time_decoding(message: Message, data: bytes) -> Timing:
    """Bytes -> message, by the three libraries."""
    kind, google = type(message), google_class(message)
    return Timing(
        measure(lambda: decode(kind, data)), measure(lambda: kind.parse(data)), measure(lambda: google.FromString(data))
    )


def measure(operation: Callable[[], object]) -> float:
    """Microseconds of CPU time per operation, in the best of five rounds; no garbage is collected, as timeit has it."""
    timer = timeit.Timer(operation, timer=time.process_time)
    count = max(1, int(0.1 / max(timer.timeit(2) / 2, 1e-6)))
    return min(timer.repeat(5, count)) / count * 1e6


def google_class(message: Message) -> Any:  # noqa: ANN401  # xds-protos has no types
    """The same message's class in xds-protos."""
    package, _, name = type_url(type(message)).removeprefix(PREFIX).rpartition(".")
    for module in ("cluster", "endpoint", "route", "discovery"):
        try:
            return getattr(import_module(f"{package}.{module}_pb2"), name)
        except (ImportError, AttributeError):
            continue
    raise LookupError(name)


# --- what is measured ------------------------------------------------------------------------------------------------
def build_messages() -> dict[str, Message]:
    """Messages like those of a mesh."""
    return {
        "Cluster": build_cluster(),
        "ClusterLoadAssignment(10)": build_load_assignment(10),
        "RouteConfiguration(100)": build_routes(100),
        "DiscoveryRequest": build_request(),
    }


def build_cluster() -> Cluster:
    """An outbound EDS cluster with automatic mutual TLS."""
    service = SERVICE
    ads = ConfigSource(
        ads=AggregatedConfigSource(), resource_api_version=ApiVersion.V3, initial_fetch_timeout=timedelta(0)
    )
    secrets = [SdsSecretConfig(name=name, sds_config=ads) for name in ("default", "ROOTCA")]
    tls = UpstreamTlsContext(
        common_tls_context=CommonTlsContext(
            alpn_protocols=["istio-peer-exchange", "istio"], tls_certificate_sds_secret_configs=secrets[:1]
        ),
        sni=f"outbound_.9080_._.{service}",
    )
    limits = CircuitBreakersThresholds(
        priority=RoutingPriority.DEFAULT,
        max_connections=4294967295,
        max_pending_requests=4294967295,
        max_requests=4294967295,
        max_retries=4294967295,
        track_remaining=True,
    )
    return Cluster(
        name=f"outbound|9080||{service}",
        alt_stat_name=f"outbound|9080||{service};",
        type=ClusterDiscoveryType.EDS,
        eds_cluster_config=ClusterEdsClusterConfig(eds_config=ads, service_name=f"outbound|9080||{service}"),
        connect_timeout=timedelta(seconds=10),
        lb_policy=ClusterLbPolicy.LEAST_REQUEST,
        circuit_breakers=CircuitBreakers(thresholds=[limits]),
        metadata=istio_metadata(service=service),
        transport_socket_matches=[
            ClusterTransportSocketMatch(
                name="tlsMode-istio",
                match=Struct(fields={"tlsMode": Value(string_value="istio")}),
                transport_socket=TransportSocket(name="envoy.transport_sockets.tls", typed_config=pack(tls)),
            ),
            ClusterTransportSocketMatch(
                name="tlsMode-disabled",
                match=Struct(),
                transport_socket=TransportSocket(
                    name="envoy.transport_sockets.raw_buffer", typed_config=pack(RawBuffer())
                ),
            ),
        ],
    )


def istio_metadata(**values: str) -> Metadata:
    """Filter metadata of one namespace."""
    fields = {name: Value(string_value=value) for name, value in values.items()}
    services = Value(list_value=ListValue(values=[Value(struct_value=Struct(fields=fields))]))
    return Metadata(filter_metadata={"istio": Struct(fields={"services": services, **fields})})


def build_load_assignment(endpoints: int) -> ClusterLoadAssignment:
    """The endpoints of a service, in one locality."""
    return ClusterLoadAssignment(
        cluster_name="outbound|9080||reviews.default.svc.cluster.local",
        endpoints=[
            LocalityLbEndpoints(
                locality=Locality(region="europe", zone="europe-1", sub_zone="rack-1"),
                lb_endpoints=[build_endpoint(number) for number in range(endpoints)],
                load_balancing_weight=endpoints,
            )
        ],
    )


def build_endpoint(number: int) -> LbEndpoint:
    """One workload."""
    socket = SocketAddress(address=f"10.1.{number // 250}.{number % 250}", port_value=9080)
    return LbEndpoint(
        endpoint=Endpoint(address=Address(socket_address=socket)),
        health_status=HealthStatus.HEALTHY,
        load_balancing_weight=1,
        metadata=Metadata(
            filter_metadata={
                "istio": Struct(fields={"workload": Value(string_value="reviews-v1;default;reviews;v1;Kubernetes")}),
                "envoy.transport_socket_match": Struct(fields={"tlsMode": Value(string_value="istio")}),
            }
        ),
    )


def build_routes(hosts: int) -> RouteConfiguration:
    """The routes of a port on which many services listen."""
    return RouteConfiguration(
        name="9080",
        virtual_hosts=[build_virtual_host(f"service-{number}.default") for number in range(hosts)],
        validate_clusters=False,
        max_direct_response_body_size_bytes=1048576,
        ignore_port_in_host_matching=True,
    )


def build_virtual_host(service: str) -> VirtualHost:
    """A service without a VirtualService."""
    action = RouteAction(
        cluster=f"outbound|9080||{service}.svc.cluster.local",
        timeout=timedelta(0),
        max_grpc_timeout=timedelta(0),
        retry_policy=RetryPolicy(
            retry_on="connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes",
            num_retries=2,
            host_selection_retry_max_attempts=5,
            retriable_status_codes=[503],
        ),
    )
    return VirtualHost(
        name=f"{service}.svc.cluster.local:9080",
        domains=[f"{service}.svc.cluster.local", service, f"{service}.svc", "10.96.0.1"],
        routes=[
            Route(
                name="default",
                match=RouteMatch(prefix="/"),
                route=action,
                decorator=Decorator(operation=f"{service}.svc.cluster.local:9080/*"),
                metadata=istio_metadata(config="/apis/networking.istio.io/v1"),
            )
        ],
        include_request_attempt_count=True,
    )


def build_request() -> DiscoveryRequest:
    """The first request of a proxy, without its extensions."""
    texts = {"NAME": "reviews-v1-1", "NAMESPACE": "default", "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.27.0"}
    metadata = {name: Value(string_value=text) for name, text in texts.items()}
    labels = {"app": Value(string_value="reviews"), "version": Value(string_value="v1")}
    metadata["LABELS"] = Value(struct_value=Struct(fields=labels))
    metadata["INTERCEPTION_MODE"] = Value(string_value="REDIRECT")
    return DiscoveryRequest(
        node=Node(
            id="sidecar~10.1.0.1~reviews-v1-1.default~default.svc.cluster.local",
            cluster="reviews.default",
            locality=Locality(region="europe", zone="europe-1"),
            metadata=Struct(fields=metadata),
            user_agent_name="envoy",
        ),
        type_url="type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        resource_names=[f"outbound|9080||service-{number}.default.svc.cluster.local" for number in range(100)],
    )


if __name__ == "__main__":
    sys.exit(main())
