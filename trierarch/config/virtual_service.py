"""VirtualService: how requests and connections to a host are routed (networking.md §5.5, §4.5, §9.4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeAlias

from trierarch.config.common import Destination, Percent, StringMatch
from trierarch.config.wire import Bare, Flattened, Int32, OneOf, Seconds, UInt32

GRPC_STATUSES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""Names of gRPC statuses; each stands at its number."""

CLAIMS = "@request.auth.claims"
"""What stands in place of a header's name where a route asks for a claim."""


def parse_claim(header: str) -> tuple[str, ...] | None:
    """The path of the claim that a header's name stands for: `.a.b`, or `[a][b]` if names have dots. None: a header."""
    if header[: len(CLAIMS)].lower() != CLAIMS:
        return None
    path = header[len(CLAIMS) :]
    if path.startswith(".") and len(path) > 1:
        return tuple(path[1:].split("."))
    if path.startswith("[") and path.endswith("]") and len(path) > 2:
        return tuple(path[1:-1].split("]["))
    return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpMatch:
    """Conditions that must all hold. Of a route's matches one is enough. A `port` of 0 is unset."""

    name: str = ""
    uri: StringMatch | None = None
    scheme: StringMatch | None = None
    method: StringMatch | None = None
    authority: StringMatch | None = None
    headers: Mapping[str, StringMatch] = field(default_factory=dict)
    without_headers: Mapping[str, StringMatch] = field(default_factory=dict)
    query_params: Mapping[str, StringMatch] = field(default_factory=dict)
    ignore_uri_case: bool = False
    port: UInt32 = 0
    source_labels: Mapping[str, str] = field(default_factory=dict)
    source_namespace: str = ""
    gateways: tuple[str, ...] = ()
    stat_prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeaderOperations:
    """Changes to the headers of a request or a response."""

    set: Mapping[str, str] = field(default_factory=dict)
    add: Mapping[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Headers:
    """Changes to headers on the way there and back."""

    request: HeaderOperations | None = None
    response: HeaderOperations | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpRouteDestination:
    """One of the destinations that share a route's requests by weight."""

    destination: Destination | None = None
    weight: Int32 = 0
    headers: Headers | None = None


@dataclass(frozen=True, slots=True)
class RedirectPort(Bare):
    """The location names this port."""

    value: UInt32


class RedirectPortSelection(StrEnum):
    """The location's port follows from something else."""

    FROM_PROTOCOL_DEFAULT = "FROM_PROTOCOL_DEFAULT"
    FROM_REQUEST_PORT = "FROM_REQUEST_PORT"


RedirectTargetPort: TypeAlias = Annotated[
    RedirectPort | RedirectPortSelection, OneOf(port=RedirectPort, derive_port=RedirectPortSelection)
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpRedirect:
    """An answer with a Location. A `redirect_code` of 0 is unset (301)."""

    uri: str = ""
    prefix_rewrite: str = ""
    authority: str = ""
    target_port: Flattened[RedirectTargetPort | None] = None
    scheme: str = ""
    redirect_code: UInt32 = 0


@dataclass(frozen=True, slots=True)
class TextBody(Bare):
    """A body of text."""

    value: str


@dataclass(frozen=True, slots=True)
class BytesBody(Bare):
    """A body of bytes (base64 when written)."""

    value: bytes


HttpBody: TypeAlias = Annotated[TextBody | BytesBody, OneOf(string=TextBody, bytes=BytesBody)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpDirectResponse:
    """A fixed answer."""

    status: UInt32 = 0
    body: HttpBody | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegate:
    """Another VirtualService that holds the routes. An empty namespace is the root's own."""

    name: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexRewrite:
    """An RE2 expression and what replaces its match."""

    match: str = ""
    rewrite: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpRewrite:
    """Changes to path and authority before the request goes on."""

    uri: str = ""
    authority: str = ""
    uri_regex_rewrite: RegexRewrite | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpRetry:
    """When and how often a request is tried again. `retry_on` is Envoy's comma list, "" is unset."""

    attempts: Int32 = 0
    per_try_timeout: Seconds | None = None
    retry_on: str = ""
    retry_remote_localities: bool | None = None
    retry_ignore_previous_hosts: bool | None = None
    backoff: Seconds | None = None


@dataclass(frozen=True, slots=True)
class FixedDelay(Bare):
    """Seconds that a request waits."""

    value: Seconds


@dataclass(frozen=True, slots=True)
class ExponentialDelay(Bare):
    """Kept, but nothing is generated from it."""

    value: Seconds


DelayKind: TypeAlias = Annotated[
    FixedDelay | ExponentialDelay, OneOf(fixed_delay=FixedDelay, exponential_delay=ExponentialDelay)
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FaultDelay:
    """Holds back a share of the requests. `percent` is the old spelling of `percentage`."""

    kind: Flattened[DelayKind | None] = None
    percent: Int32 = 0
    percentage: Percent | None = None


@dataclass(frozen=True, slots=True)
class AbortHttpStatus(Bare):
    """Answers with this HTTP status."""

    value: Int32


@dataclass(frozen=True, slots=True)
class AbortGrpcStatus(Bare):
    """Answers with this gRPC status, by name or number."""

    value: str


@dataclass(frozen=True, slots=True)
class AbortHttp2Error(Bare):
    """Kept, but nothing is generated from it."""

    value: str


AbortError: TypeAlias = Annotated[
    AbortHttpStatus | AbortGrpcStatus | AbortHttp2Error,
    OneOf(http_status=AbortHttpStatus, grpc_status=AbortGrpcStatus, http2_error=AbortHttp2Error),
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FaultAbort:
    """Refuses a share of the requests."""

    error: Flattened[AbortError | None] = None
    percentage: Percent | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpFault:
    """Faults for tests of resilience."""

    delay: FaultDelay | None = None
    abort: FaultAbort | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpMirror:
    """A destination that gets copies of a share of the requests (all of them if there is no percentage)."""

    destination: Destination | None = None
    percentage: Percent | None = None


class UnmatchedPreflights(StrEnum):
    """What happens to a preflight request from an origin that is not allowed."""

    UNSPECIFIED = "UNSPECIFIED"
    FORWARD = "FORWARD"
    IGNORE = "IGNORE"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CorsPolicy:
    """Cross-origin requests. `allow_origin` is the old spelling of exact `allow_origins`."""

    allow_origin: tuple[str, ...] = ()
    allow_origins: tuple[StringMatch, ...] = ()
    allow_methods: tuple[str, ...] = ()
    allow_headers: tuple[str, ...] = ()
    expose_headers: tuple[str, ...] = ()
    max_age: Seconds | None = None
    allow_credentials: bool | None = None
    unmatched_preflights: UnmatchedPreflights = UnmatchedPreflights.UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpRoute:
    """What happens to requests that meet one of the matches: exactly one of route, redirect, answer, delegate.

    `mirror`, `mirror_percent` and `mirror_percentage` are the old spellings of `mirrors`.
    """

    name: str = ""
    match: tuple[HttpMatch, ...] = ()
    route: tuple[HttpRouteDestination, ...] = ()
    redirect: HttpRedirect | None = None
    direct_response: HttpDirectResponse | None = None
    delegate: Delegate | None = None
    rewrite: HttpRewrite | None = None
    timeout: Seconds | None = None
    retries: HttpRetry | None = None
    fault: HttpFault | None = None
    mirror: Destination | None = None
    mirrors: tuple[HttpMirror, ...] = ()
    mirror_percent: UInt32 | None = None
    mirror_percentage: Percent | None = None
    cors_policy: CorsPolicy | None = None
    headers: Headers | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RouteDestination:
    """One of the destinations that share a route's connections by weight."""

    destination: Destination | None = None
    weight: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TlsMatch:
    """Conditions on a TLS connection that passes through; all must hold. A `port` of 0 is unset."""

    sni_hosts: tuple[str, ...] = ()
    destination_subnets: tuple[str, ...] = ()
    port: UInt32 = 0
    source_labels: Mapping[str, str] = field(default_factory=dict)
    gateways: tuple[str, ...] = ()
    source_namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TlsRoute:
    """Where TLS connections that meet one of the matches go."""

    match: tuple[TlsMatch, ...] = ()
    route: tuple[RouteDestination, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TcpMatch:
    """Conditions on a connection; all must hold. `source_subnet` is kept, but nothing is generated from it."""

    destination_subnets: tuple[str, ...] = ()
    port: UInt32 = 0
    source_subnet: str = ""
    source_labels: Mapping[str, str] = field(default_factory=dict)
    gateways: tuple[str, ...] = ()
    source_namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TcpRoute:
    """Where connections that meet one of the matches go."""

    match: tuple[TcpMatch, ...] = ()
    route: tuple[RouteDestination, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VirtualService:
    """Routes for hosts, in force on the gateways named (the word `mesh`, also if none is named, means sidecars)."""

    hosts: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    http: tuple[HttpRoute, ...] = ()
    tls: tuple[TlsRoute, ...] = ()
    tcp: tuple[TcpRoute, ...] = ()
    export_to: tuple[str, ...] = ()
