"""ReadinessProbe: how the agent of a virtual machine checks its application. Nothing in xDS comes from it."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from trierarch.config.wire import Flattened, Int32, OneOf, UInt32


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeHeader:
    """A header of the probe's request."""

    name: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpProbe:
    """A GET that must succeed."""

    path: str = ""
    port: UInt32 = 0
    host: str = ""
    scheme: str = ""
    http_headers: tuple[ProbeHeader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpProbe:
    """A connection that must open."""

    host: str = ""
    port: UInt32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecProbe:
    """A command that must exit with 0."""

    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcProbe:
    """A gRPC health check."""

    port: UInt32 = 0
    service: str = ""


ProbeMethod: TypeAlias = Annotated[
    HttpProbe | TcpProbe | ExecProbe | GrpcProbe,
    OneOf(http_get=HttpProbe, tcp_socket=TcpProbe, exec=ExecProbe, grpc=GrpcProbe),
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadinessProbe:
    """A check and its rhythm. Numbers of 0 are unset."""

    method: Flattened[ProbeMethod | None] = None
    initial_delay_seconds: Int32 = 0
    timeout_seconds: Int32 = 0
    period_seconds: Int32 = 0
    success_threshold: Int32 = 0
    failure_threshold: Int32 = 0
