"""Tracing as ProxyConfig says it: where spans go and which tags they have (networking.md §9.14)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeAlias

from trierarch.config.destination_rule import ClientTls
from trierarch.config.wire import Flattened, Int64, OneOf, UInt32


@dataclass(frozen=True, slots=True, kw_only=True)
class TracerAddress:
    """Where a tracer (Zipkin, Datadog) is."""

    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipkinTracer(TracerAddress):
    """A Zipkin tracer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatadogTracer(TracerAddress):
    """A Datadog tracer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LightstepTracer(TracerAddress):
    """A Lightstep tracer (no longer supported by Envoy)."""

    access_token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackdriverTracer:
    """A Stackdriver tracer."""

    debug: bool = False
    max_number_of_attributes: Int64 | None = None
    max_number_of_annotations: Int64 | None = None
    max_number_of_message_events: Int64 | None = None


class TraceContext(StrEnum):
    """Headers that carry the context of a trace."""

    UNSPECIFIED = "UNSPECIFIED"
    W3C_TRACE_CONTEXT = "W3C_TRACE_CONTEXT"
    GRPC_BIN = "GRPC_BIN"
    CLOUD_TRACE_CONTEXT = "CLOUD_TRACE_CONTEXT"
    B3 = "B3"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCensusTracer(TracerAddress):
    """An OpenCensus agent (no longer supported by Envoy)."""

    context: tuple[TraceContext, ...] = ()


Tracer: TypeAlias = Annotated[
    ZipkinTracer | LightstepTracer | DatadogTracer | StackdriverTracer | OpenCensusTracer,
    OneOf(
        zipkin=ZipkinTracer,
        lightstep=LightstepTracer,
        datadog=DatadogTracer,
        stackdriver=StackdriverTracer,
        open_census_agent=OpenCensusTracer,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralTag:
    """A tag with a fixed value."""

    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentTag:
    """A tag from an environment variable of the proxy."""

    name: str = ""
    default_value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderTag:
    """A tag from a request header."""

    name: str = ""
    default_value: str = ""


CustomTagKind: TypeAlias = Annotated[
    LiteralTag | EnvironmentTag | HeaderTag, OneOf(literal=LiteralTag, environment=EnvironmentTag, header=HeaderTag)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomTag:
    """A tag added to every span."""

    kind: Flattened[CustomTagKind | None] = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tracing:
    """Tracing as it was configured before Telemetry. `sampling` is in percent, 0 is unset (1%)."""

    tracer: Flattened[Tracer | None] = None
    custom_tags: Mapping[str, CustomTag] = field(default_factory=dict)
    max_path_tag_length: UInt32 = 0
    sampling: float = 0.0
    tls_settings: ClientTls | None = None
    enable_istio_tags: bool | None = None
