"""HTTPRoute of the Gateway API: routes of the hosts of its parents, be they gateways or services (networking.md §9.15).

The defaults of Kubernetes' schema are the defaults here.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeAlias

from trierarch.config.wire import Flattened, Int32, OneOf, Seconds

GATEWAY_API = "gateway.networking.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentReference:
    """What a route is attached to: a gateway, or a service of the mesh. A `port` of 0 means all of them."""

    group: str = GATEWAY_API
    kind: str = "Gateway"
    namespace: str = ""
    name: str = ""
    section_name: str = ""
    port: Int32 = 0


class PathMatchType(StrEnum):
    """How a path is compared."""

    EXACT = "Exact"
    PATH_PREFIX = "PathPrefix"
    REGULAR_EXPRESSION = "RegularExpression"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathMatch:
    """A condition on the path. A prefix is one of whole segments."""

    type: PathMatchType = PathMatchType.PATH_PREFIX
    value: str = "/"


class ValueMatchType(StrEnum):
    """How a value is compared."""

    EXACT = "Exact"
    REGULAR_EXPRESSION = "RegularExpression"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueMatch:
    """A condition on a header or query parameter."""

    type: ValueMatchType = ValueMatchType.EXACT
    name: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteMatch:
    """Conditions that must all hold. Of a rule's matches one is enough."""

    path: PathMatch | None = None
    headers: tuple[ValueMatch, ...] = ()
    query_params: tuple[ValueMatch, ...] = ()
    method: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderField:
    """A header and its value."""

    name: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderModifier:
    """Changes to headers."""

    set: tuple[HeaderField, ...] = ()
    add: tuple[HeaderField, ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeaderModifier(HeaderModifier):
    """Changes to the headers of requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHeaderModifier(HeaderModifier):
    """Changes to the headers of responses."""


class PathModifierType(StrEnum):
    """What of a path is replaced."""

    FULL_PATH = "ReplaceFullPath"
    PREFIX_MATCH = "ReplacePrefixMatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathModifier:
    """What a path, or the prefix by which the rule matched it, is replaced by."""

    type: PathModifierType = PathModifierType.FULL_PATH
    replace_full_path: str = ""
    replace_prefix_match: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRedirect:
    """An answer with another location. A `port` of 0 is the one that follows from the scheme, or the request's."""

    scheme: str = ""
    hostname: str = ""
    path: PathModifier | None = None
    port: Int32 = 0
    status_code: Int32 = 302


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlRewrite:
    """Another host and path for the backend."""

    hostname: str = ""
    path: PathModifier | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendReference:
    """Where requests go: a service, or (kind Hostname of Istio) any host of the mesh. A `port` of 0 is unset."""

    group: str = ""
    kind: str = "Service"
    name: str = ""
    namespace: str = ""
    port: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fraction:
    """A share."""

    numerator: Int32 = 0
    denominator: Int32 = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMirror:
    """Copies of requests. Without `percent` and `fraction`: of all."""

    backend_ref: BackendReference = field(default_factory=BackendReference)
    percent: Int32 | None = None
    fraction: Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cors:
    """Cross-origin requests. `max_age` in seconds."""

    allow_origins: tuple[str, ...] = ()
    allow_methods: tuple[str, ...] = ()
    allow_headers: tuple[str, ...] = ()
    expose_headers: tuple[str, ...] = ()
    allow_credentials: bool = False
    max_age: Int32 = 5


FilterAction: TypeAlias = Annotated[
    RequestHeaderModifier | ResponseHeaderModifier | RequestRedirect | UrlRewrite | RequestMirror | Cors,
    OneOf(
        request_header_modifier=RequestHeaderModifier,
        response_header_modifier=ResponseHeaderModifier,
        request_redirect=RequestRedirect,
        url_rewrite=UrlRewrite,
        request_mirror=RequestMirror,
        cors=Cors,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteFilter:
    """A step in the handling of requests. `action` None: of a type that is not known here."""

    type: str = ""
    action: Flattened[FilterAction | None] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendShare(BackendReference):
    """One of the backends that share a rule's requests by weight."""

    weight: Int32 = 1
    filters: tuple[RouteFilter, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long a request may take, with all its attempts; and one attempt."""

    request: Seconds | None = None
    backend_request: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a request is tried again."""

    codes: tuple[Int32, ...] = ()
    attempts: Int32 | None = None
    backoff: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRule:
    """What happens to the requests that meet one of the matches; without any, to all."""

    name: str = ""
    matches: tuple[RouteMatch, ...] = ()
    filters: tuple[RouteFilter, ...] = ()
    backend_refs: tuple[BackendShare, ...] = ()
    timeouts: Timeouts = field(default_factory=Timeouts)
    retry: Retry | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpRouteSpec:
    """The specification of an HTTPRoute. `hostnames` do not count where a parent is a service."""

    parent_refs: tuple[ParentReference, ...] = ()
    hostnames: tuple[str, ...] = ()
    rules: tuple[RouteRule, ...] = ()
