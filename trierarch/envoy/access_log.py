"""Access logs as the mesh configuration asks for them: a file, and Envoy's access log service (networking.md §6.5).

Each place where something is logged has loggers of its own kind: requests, connections, and connections that no chain
of a listener takes.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.accesslog.v3 import AccessLog, AccessLogFilter, ResponseFlagFilter
from protocol.proto.envoy.config.core.v3 import (
    ApiVersion,
    DataSource,
    GrpcService,
    GrpcServiceEnvoyGrpc,
    JsonFormatOptions,
    SubstitutionFormatString,
    TypedExtensionConfig,
)
from protocol.proto.envoy.extensions.access_loggers.file.v3 import FileAccessLog
from protocol.proto.envoy.extensions.access_loggers.grpc.v3 import (
    CommonGrpcAccessLogConfig,
    HttpGrpcAccessLogConfig,
    TcpGrpcAccessLogConfig,
)
from protocol.proto.envoy.extensions.formatter.req_without_query.v3 import ReqWithoutQuery
from trierarch.config.envoy_commands import PATH_WITHOUT_QUERY
from trierarch.config.log_format import read_json_format
from trierarch.config.mesh_config import AccessLogEncoding
from trierarch.envoy.well_known_types import pack, struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.config.mesh_config import MeshConfig

SERVICE_CLUSTER = "envoy_accesslog_service"
"""A cluster of the bootstrap that Istio's agent writes."""

_FIELDS = {
    "start_time": "%START_TIME%",
    "method": "%REQ(:METHOD)%",
    "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
    "protocol": "%PROTOCOL%",
    "response_code": "%RESPONSE_CODE%",
    "response_flags": "%RESPONSE_FLAGS%",
    "response_code_details": "%RESPONSE_CODE_DETAILS%",
    "connection_termination_details": "%CONNECTION_TERMINATION_DETAILS%",
    "upstream_transport_failure_reason": "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
    "bytes_received": "%BYTES_RECEIVED%",
    "bytes_sent": "%BYTES_SENT%",
    "duration": "%DURATION%",
    "upstream_service_time": "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
    "x_forwarded_for": "%REQ(X-FORWARDED-FOR)%",
    "user_agent": "%REQ(USER-AGENT)%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "authority": "%REQ(:AUTHORITY)%",
    "upstream_host": "%UPSTREAM_HOST%",
    "upstream_cluster": "%UPSTREAM_CLUSTER_RAW%",
    "upstream_local_address": "%UPSTREAM_LOCAL_ADDRESS%",
    "downstream_local_address": "%DOWNSTREAM_LOCAL_ADDRESS%",
    "downstream_remote_address": "%DOWNSTREAM_REMOTE_ADDRESS%",
    "requested_server_name": "%REQUESTED_SERVER_NAME%",
    "route_name": "%ROUTE_NAME%",
}
"""What is logged by default: key in JSON to command; in text they stand in this order."""

_TEXT = (
    '[{start_time}] "{method} {path} {protocol}" {response_code} {response_flags} {response_code_details} '
    '{connection_termination_details} "{upstream_transport_failure_reason}" {bytes_received} {bytes_sent} {duration} '
    '{upstream_service_time} "{x_forwarded_for}" "{user_agent}" "{request_id}" "{authority}" "{upstream_host}" '
    "{upstream_cluster} {upstream_local_address} {downstream_local_address} {downstream_remote_address} "
    "{requested_server_name} {route_name}"
).format(**_FIELDS)

_PEERS = (
    "upstream_peer",
    "downstream_peer",
    "wasm.upstream_peer",
    "wasm.upstream_peer_id",
    "wasm.downstream_peer",
    "wasm.downstream_peer_id",
)
"""What Istio's proxy knows of the other side."""


class Place(Enum):
    """Where something is logged, and the name that the log service knows it by."""

    REQUEST = "http_envoy_accesslog"
    CONNECTION = "tcp_envoy_accesslog"
    LISTENER = "listener_envoy_accesslog"


class AccessLogs(NamedTuple):
    """What is logged of everything. `file` "": to no file; `format` "": the default one; `service`: to a service too.

    `of_listeners`: connections that no chain takes are logged as well.
    """

    file: str = ""
    format: str = ""
    encoding: AccessLogEncoding = AccessLogEncoding.TEXT
    service: bool = False
    of_listeners: bool = True


NO_LOGS = AccessLogs()


def select_access_logs(mesh: MeshConfig, *, istio: bool) -> AccessLogs:
    """What the mesh asks for, unless it names default providers. Only Istio's bootstrap has a log service."""
    if mesh.default_providers.access_logging:
        return NO_LOGS
    return AccessLogs(
        file=mesh.access_log_file,
        format=mesh.access_log_format if mesh.access_log_file else "",
        encoding=mesh.access_log_encoding,
        service=mesh.enable_envoy_access_log_service and istio,
        of_listeners=not mesh.disable_envoy_listener_log,
    )


def build_access_logs(logs: AccessLogs, place: Place) -> list[AccessLog]:
    """The loggers of a place."""
    if place is Place.LISTENER and not logs.of_listeners:
        return []
    built = list(_build_loggers(logs, place))
    if place is Place.LISTENER:
        for each in built:
            each.filter = AccessLogFilter(response_flag_filter=ResponseFlagFilter(flags=["NR"]))
    return built


def _build_loggers(logs: AccessLogs, place: Place) -> Iterator[AccessLog]:
    if logs.file:
        config = FileAccessLog(path=logs.file, log_format=_build_format(logs))
        yield AccessLog(name="envoy.access_loggers.file", typed_config=pack(config))
    if logs.service:
        yield _build_service(place)


def _build_format(logs: AccessLogs) -> SubstitutionFormatString:
    formatters = list(_formatters(logs.format))
    if logs.encoding is AccessLogEncoding.JSON:
        fields = struct(read_json_format(logs.format) or _FIELDS)
        return SubstitutionFormatString(
            json_format=fields, json_format_options=JsonFormatOptions(), formatters=formatters
        )
    text = logs.format or _TEXT
    line = text if text.endswith("\n") else f"{text}\n"
    return SubstitutionFormatString(text_format_source=DataSource(inline_string=line), formatters=formatters)


def _formatters(text: str) -> Iterator[TypedExtensionConfig]:
    """What Envoy has to be told of: all other commands are its own."""
    if f"%{PATH_WITHOUT_QUERY}" in text:
        yield TypedExtensionConfig(name="envoy.formatter.req_without_query", typed_config=pack(ReqWithoutQuery()))


def _build_service(place: Place) -> AccessLog:
    common = CommonGrpcAccessLogConfig(
        log_name=place.value,
        grpc_service=GrpcService(envoy_grpc=GrpcServiceEnvoyGrpc(cluster_name=SERVICE_CLUSTER)),
        transport_api_version=ApiVersion.V3,
        filter_state_objects_to_log=list(_PEERS),
    )
    if place is Place.REQUEST:
        config = HttpGrpcAccessLogConfig(common_config=common)
        return AccessLog(name="envoy.access_loggers.http_grpc", typed_config=pack(config))
    return AccessLog(name="envoy.tcp_grpc_access_log", typed_config=pack(TcpGrpcAccessLogConfig(common_config=common)))
