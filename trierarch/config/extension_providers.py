"""Extension providers: authorizers, tracers, logs and metrics to which policies refer by name (networking.md §6.4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeAlias

from trierarch.config.tracing import TraceContext
from trierarch.config.wire import Bare, Flattened, Int32, Int64, OneOf, Seconds, Struct, UInt32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProviderService:
    """Where a provider is: `service` is `[namespace/]hostname`."""

    service: str = ""
    port: UInt32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRequestBody:
    """How much of a request's body the authorizer sees."""

    max_request_bytes: UInt32 = 0
    allow_partial_message: bool = False
    pack_as_bytes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpAuthorizer(ProviderService):
    """An external authorizer that is asked over HTTP. `include_headers_in_check` is an old spelling."""

    timeout: Seconds | None = None
    path_prefix: str = ""
    fail_open: bool = False
    status_on_error: str = ""
    include_headers_in_check: tuple[str, ...] = ()
    include_request_headers_in_check: tuple[str, ...] = ()
    include_additional_headers_in_check: Mapping[str, str] = field(default_factory=dict)
    include_request_body_in_check: AuthorizationRequestBody | None = None
    headers_to_upstream_on_allow: tuple[str, ...] = ()
    headers_to_downstream_on_deny: tuple[str, ...] = ()
    headers_to_downstream_on_allow: tuple[str, ...] = ()
    clear_route_cache: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GrpcAuthorizer(ProviderService):
    """An external authorizer that is asked over gRPC."""

    timeout: Seconds | None = None
    fail_open: bool = False
    status_on_error: str = ""
    include_request_body_in_check: AuthorizationRequestBody | None = None
    clear_route_cache: bool = False


class TraceContextOption(StrEnum):
    """How Zipkin's context travels."""

    USE_B3 = "USE_B3"
    USE_B3_WITH_W3C_PROPAGATION = "USE_B3_WITH_W3C_PROPAGATION"


@dataclass(frozen=True, slots=True)
class HeaderValue(Bare):
    """The value itself."""

    value: str


@dataclass(frozen=True, slots=True)
class HeaderFromEnvironment(Bare):
    """The value is in this environment variable of the proxy."""

    value: str


HeaderContent: TypeAlias = Annotated[
    HeaderValue | HeaderFromEnvironment, OneOf(value=HeaderValue, env_name=HeaderFromEnvironment)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderHeader:
    """A header sent to a provider."""

    name: str = ""
    content: Flattened[HeaderContent | None] = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ZipkinProvider(ProviderService):
    """A Zipkin tracer."""

    max_tag_length: UInt32 = 0
    enable_64bit_trace_id: bool = False
    path: str = ""
    trace_context_option: TraceContextOption = TraceContextOption.USE_B3
    timeout: Seconds | None = None
    headers: tuple[ProviderHeader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LightstepProvider(ProviderService):
    """A Lightstep tracer; kept, but nothing is generated from it."""

    access_token: str = ""
    max_tag_length: UInt32 = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DatadogProvider(ProviderService):
    """A Datadog tracer."""

    max_tag_length: UInt32 = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SkyWalkingProvider(ProviderService):
    """A SkyWalking tracer."""

    access_token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StackdriverLogging:
    """Labels of log entries, by expressions."""

    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StackdriverProvider:
    """Stackdriver for traces, metrics and logs."""

    debug: bool = False
    max_number_of_attributes: Int64 | None = None
    max_number_of_annotations: Int64 | None = None
    max_number_of_message_events: Int64 | None = None
    max_tag_length: UInt32 = 0
    logging: StackdriverLogging | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenCensusProvider(ProviderService):
    """An OpenCensus agent; kept, but nothing is generated from it."""

    context: tuple[TraceContext, ...] = ()
    max_tag_length: UInt32 = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpExport:
    """Export over HTTP."""

    path: str = ""
    timeout: Seconds | None = None
    headers: tuple[ProviderHeader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GrpcExport:
    """Export over gRPC."""

    timeout: Seconds | None = None
    initial_metadata: tuple[ProviderHeader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentDetector:
    """Attributes from the proxy's environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynatraceDetector:
    """Attributes from Dynatrace's enrichment files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDetectors:
    """Where the attributes of the traced resource come from."""

    environment: EnvironmentDetector | None = None
    dynatrace: DynatraceDetector | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DynatraceApi(ProviderService):
    """Where the sampler asks for its settings."""

    http: HttpExport | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DynatraceSampler:
    """Sampling as Dynatrace wants it. A `root_spans_per_minute` of 0 is unset."""

    tenant: str = ""
    cluster_id: Int32 = 0
    root_spans_per_minute: UInt32 = 0
    http_service: DynatraceApi | None = None


Sampling: TypeAlias = Annotated[DynatraceSampler, OneOf(dynatrace_sampler=DynatraceSampler)]


class ServiceAttributeEnrichment(StrEnum):
    """Which names the traced service gets."""

    ISTIO_CANONICAL = "ISTIO_CANONICAL"
    OTEL_SEMANTIC_CONVENTIONS = "OTEL_SEMANTIC_CONVENTIONS"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenTelemetryProvider(ProviderService):
    """An OpenTelemetry collector of traces: over gRPC unless `http` is there."""

    max_tag_length: UInt32 = 0
    http: HttpExport | None = None
    grpc: GrpcExport | None = None
    resource_detectors: ResourceDetectors | None = None
    sampling: Flattened[Sampling | None] = None
    service_attribute_enrichment: ServiceAttributeEnrichment = ServiceAttributeEnrichment.ISTIO_CANONICAL


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusProvider:
    """Metrics that Prometheus scrapes from the proxy."""


@dataclass(frozen=True, slots=True)
class TextLogFormat(Bare):
    """One line of text with Envoy's command operators."""

    value: str


@dataclass(frozen=True, slots=True, eq=False)
class JsonLogFormat(Bare):
    """An object whose values are Envoy's command operators, perhaps nested."""

    value: Struct


LogFormat: TypeAlias = Annotated[TextLogFormat | JsonLogFormat, OneOf(text=TextLogFormat, labels=JsonLogFormat)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileAccessLog:
    """An access log in a file; a `path` of "" is /dev/stdout."""

    path: str = ""
    log_format: LogFormat | None = None
    omit_empty_values: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpAccessLogService(ProviderService):
    """Envoy's access log service for HTTP."""

    log_name: str = ""
    filter_state_objects_to_log: tuple[str, ...] = ()
    additional_request_headers_to_log: tuple[str, ...] = ()
    additional_response_headers_to_log: tuple[str, ...] = ()
    additional_response_trailers_to_log: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TcpAccessLogService(ProviderService):
    """Envoy's access log service for TCP."""

    log_name: str = ""
    filter_state_objects_to_log: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenTelemetryLogFormat:
    """The body of a log record, and its attributes."""

    text: str = ""
    labels: Struct | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenTelemetryAccessLog(ProviderService):
    """An OpenTelemetry collector of logs."""

    log_name: str = ""
    log_format: OpenTelemetryLogFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SdsProvider(ProviderService):
    """A further source of secrets, by the name in `credentialName: sds://name`."""

    name: str = ""


ProviderKind: TypeAlias = Annotated[
    HttpAuthorizer
    | GrpcAuthorizer
    | ZipkinProvider
    | LightstepProvider
    | DatadogProvider
    | StackdriverProvider
    | OpenCensusProvider
    | SkyWalkingProvider
    | OpenTelemetryProvider
    | PrometheusProvider
    | FileAccessLog
    | HttpAccessLogService
    | TcpAccessLogService
    | OpenTelemetryAccessLog
    | SdsProvider,
    OneOf(
        envoy_ext_authz_http=HttpAuthorizer,
        envoy_ext_authz_grpc=GrpcAuthorizer,
        zipkin=ZipkinProvider,
        lightstep=LightstepProvider,
        datadog=DatadogProvider,
        stackdriver=StackdriverProvider,
        opencensus=OpenCensusProvider,
        skywalking=SkyWalkingProvider,
        opentelemetry=OpenTelemetryProvider,
        prometheus=PrometheusProvider,
        envoy_file_access_log=FileAccessLog,
        envoy_http_als=HttpAccessLogService,
        envoy_tcp_als=TcpAccessLogService,
        envoy_otel_als=OpenTelemetryAccessLog,
        sds=SdsProvider,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExtensionProvider:
    """A provider and the name by which policies refer to it."""

    name: str = ""
    provider: Flattened[ProviderKind | None] = None
