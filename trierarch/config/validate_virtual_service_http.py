"""What istiod's validation demands of the HTTP routes of a VirtualService."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config.checks import (
    check_dns_label,
    check_duration,
    check_header_name,
    check_header_value,
    check_namespace,
    check_one_line,
    check_percent,
    check_percentage,
    check_regex,
)
from trierarch.config.common import AnyValue, Exact, Prefix, Regex
from trierarch.config.validate_destinations import check_destination, check_source, check_weighted
from trierarch.config.violations import Caution, Complaints, Violation
from trierarch.config.virtual_service import (
    CLAIMS,
    GRPC_STATUSES,
    AbortGrpcStatus,
    AbortHttp2Error,
    AbortHttpStatus,
    BytesBody,
    ExponentialDelay,
    FixedDelay,
    TextBody,
    parse_claim,
)

if TYPE_CHECKING:
    from trierarch.config.common import StringMatch
    from trierarch.config.virtual_service import (
        CorsPolicy,
        Delegate,
        FaultAbort,
        FaultDelay,
        HeaderOperations,
        Headers,
        HttpDirectResponse,
        HttpMatch,
        HttpRedirect,
        HttpRetry,
        HttpRewrite,
        HttpRoute,
    )

AUTHORITY = ":authority"
METHODS = frozenset(("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE", "*"))
RETRY_CONDITIONS = frozenset(
    {
        "5xx",
        "gateway-error",
        "reset",
        "reset-before-request",
        "connect-failure",
        "envoy-ratelimited",
        "retriable-4xx",
        "refused-stream",
        "retriable-status-codes",
        "retriable-headers",
        "http3-post-connect-failure",
        "cancelled",
        "deadline-exceeded",
        "internal",
        "resource-exhausted",
        "unavailable",
    }
)
LARGE_BODY, MAX_BODY = 100 * 1024, 1024 * 1024


def check_http_route(path: str, route: HttpRoute, *, is_delegate: bool, at_gateway_only: bool) -> Complaints:
    """One route. A delegate's route is the second half of another's; claims are only known at gateways."""
    yield from _check_action(path, route, is_delegate=is_delegate)
    for index, match in enumerate(route.match):
        yield from _check_match(f"{path}.match[{index}]", match, claims=at_gateway_only)
    yield from check_weighted(f"{path}.route", route.route)
    for index, destination in enumerate(route.route):
        yield from _check_headers(f"{path}.route[{index}].headers", destination.headers)
    yield from _check_headers(f"{path}.headers", route.headers)
    yield from _check_authority(path, route)
    yield from _check_mirrors(path, route)
    yield from _check_faults(path, route)
    yield from _check_redirect(path, route)
    yield from _check_response(f"{path}.directResponse", route.direct_response)
    yield from _check_rewrite(f"{path}.rewrite", route.rewrite)
    yield from _check_cors(f"{path}.corsPolicy", route.cors_policy)
    yield from check_retry(f"{path}.retries", route.retries)
    yield from check_duration(f"{path}.timeout", route.timeout)


def _check_action(path: str, route: HttpRoute, *, is_delegate: bool) -> Complaints:
    """A route does exactly one thing with a request."""
    actions = {
        "route": bool(route.route),
        "redirect": route.redirect is not None,
        "directResponse": route.direct_response is not None,
        "delegate": route.delegate is not None,
    }
    chosen = [name for name, there in actions.items() if there]
    if not chosen:
        yield Violation(path, "one of route, redirect, directResponse or delegate is required")
    if len(chosen) > 1:
        yield Violation(path, f"only one of {' and '.join(chosen)} is possible")
    if route.delegate is not None and is_delegate:
        yield Violation(f"{path}.delegate", "a delegate cannot delegate in its turn")
    for name in ("redirect", "directResponse"):
        if actions[name] and route.rewrite is not None:
            yield Violation(f"{path}.rewrite", f"cannot be combined with {name}")
        if actions[name] and route.fault is not None:
            yield Violation(f"{path}.fault", f"cannot be combined with {name}")
    if route.delegate is not None:
        yield from _check_delegate(f"{path}.delegate", route.delegate)


def _check_delegate(path: str, delegate: Delegate) -> Complaints:
    if not delegate.name:
        yield Violation(f"{path}.name", "the name of a VirtualService is missing")
    else:
        yield from check_dns_label(f"{path}.name", delegate.name.replace(".", "-"))
    if delegate.namespace:
        yield from check_namespace(f"{path}.namespace", delegate.namespace)


def _check_match(path: str, match: HttpMatch, *, claims: bool) -> Complaints:
    yield from check_source(path, match)
    yield from _check_string(f"{path}.uri", match.uri, empty_prefix=True)
    yield from _check_string(f"{path}.scheme", match.scheme)
    yield from _check_string(f"{path}.method", match.method)
    yield from _check_string(f"{path}.authority", match.authority)
    for name, value in match.headers.items():
        yield from _check_header_match(f"{path}.headers[{name}]", name, value, claims=claims)
    for name, value in match.without_headers.items():
        # Istio lets the expression * pass here alone.
        if value != Regex("*"):
            yield from _check_header_match(f"{path}.withoutHeaders[{name}]", name, value, claims=claims)
    for name, value in match.query_params.items():
        if not name:
            yield Violation(f"{path}.queryParams", "a parameter has no name")
        yield from _check_string(f"{path}.queryParams[{name}]", value, empty_prefix=True)


def _check_header_match(path: str, name: str, value: StringMatch, *, claims: bool) -> Complaints:
    if name.startswith(CLAIMS):
        if not claims:
            yield Violation(path, "claims of tokens are only known at gateways", "list gateways other than mesh")
        if not all(parse_claim(name) or (name,)):
            yield Violation(path, "a claim has no name")
    else:
        yield from check_header_name(path, name)
    yield from _check_string(path, value)


def _check_string(path: str, match: StringMatch | None, *, empty_prefix: bool = False) -> Complaints:
    if isinstance(match, Regex):
        yield from check_regex(f"{path}.regex", match.value)
    if match == Prefix("") and not empty_prefix:
        yield Violation(f"{path}.prefix", "an empty prefix matches everything", "leave the condition out")


def _check_headers(path: str, headers: Headers | None) -> Complaints:
    if headers is None:
        return
    yield from _check_operations(f"{path}.request", headers.request)
    yield from _check_operations(f"{path}.response", headers.response)


def _check_operations(path: str, operations: HeaderOperations | None) -> Complaints:
    if operations is None:
        return
    for field, values in (("set", operations.set), ("add", operations.add)):
        for name, value in values.items():
            yield from check_header_name(f"{path}.{field}", name)
            yield from check_header_value(f"{path}.{field}[{name}]", value)
    for index, name in enumerate(operations.remove):
        yield from check_header_name(f"{path}.remove[{index}]", name, pseudo=False)


def _check_authority(path: str, route: HttpRoute) -> Complaints:
    """The authority is changed in one place at most."""
    places = [path] if _sets_authority(route.headers) else []
    places += [f"{path}.route[{index}]" for index, each in enumerate(route.route) if _sets_authority(each.headers)]
    rewritten = route.rewrite is not None and bool(route.rewrite.authority)
    if places and (rewritten or (len(places) > 1 and places[0] == path)):
        yield Violation(f"{places[0]}.headers.request.set[{AUTHORITY}]", "the authority is changed in two places")


def _sets_authority(headers: Headers | None) -> bool:
    return headers is not None and headers.request is not None and AUTHORITY in headers.request.set


def _check_mirrors(path: str, route: HttpRoute) -> Complaints:
    if route.mirror is not None:
        yield from check_destination(f"{path}.mirror", route.mirror)
        if route.mirrors:
            yield Violation(f"{path}.mirrors", "only one of mirror and mirrors is possible")
    if route.mirror_percent is not None:
        yield from check_percentage(f"{path}.mirrorPercent", route.mirror_percent)
        yield Caution(f"{path}.mirrorPercent", "deprecated", "use mirrorPercentage")
    yield from check_percent(f"{path}.mirrorPercentage", route.mirror_percentage)
    for index, mirror in enumerate(route.mirrors):
        yield from check_destination(f"{path}.mirrors[{index}].destination", mirror.destination)
        yield from check_percent(f"{path}.mirrors[{index}].percentage", mirror.percentage)


def _check_faults(path: str, route: HttpRoute) -> Complaints:
    if route.fault is None:
        return
    if route.fault.delay is None and route.fault.abort is None:
        yield Violation(f"{path}.fault", "one of delay and abort is required")
    if route.fault.delay is not None:
        yield from _check_delay(f"{path}.fault.delay", route.fault.delay)
    if route.fault.abort is not None:
        yield from _check_abort(f"{path}.fault.abort", route.fault.abort)


def _check_delay(path: str, delay: FaultDelay) -> Complaints:
    yield from check_percentage(f"{path}.percent", delay.percent)
    yield from check_percent(f"{path}.percentage", delay.percentage)
    if delay.percent:
        yield Caution(f"{path}.percent", "deprecated", "use percentage")
    match delay.kind:
        case FixedDelay(value=seconds):
            yield from check_duration(f"{path}.fixedDelay", seconds)
        case ExponentialDelay(value=seconds):
            yield from check_duration(f"{path}.exponentialDelay", seconds)
            yield Caution(f"{path}.exponentialDelay", "has no effect")
        case None:
            yield Violation(path, "fixedDelay is required")


def _check_abort(path: str, abort: FaultAbort) -> Complaints:
    yield from check_percent(f"{path}.percentage", abort.percentage)
    match abort.error:
        case AbortHttpStatus(value=status):
            yield from _check_status(f"{path}.httpStatus", status)
        case AbortGrpcStatus(value=name):
            if name not in GRPC_STATUSES:
                yield Violation(f"{path}.grpcStatus", f'"{name}" is not a gRPC status', "such as UNAVAILABLE")
        case AbortHttp2Error():
            yield Caution(f"{path}.http2Error", "has no effect")
        case None:
            yield Caution(path, "an abort without a status has no effect")


def _check_status(path: str, status: int) -> Complaints:
    if not 200 <= status <= 599:
        yield Violation(path, f"{status} is not a status between 200 and 599")


def _check_redirect(path: str, route: HttpRoute) -> Complaints:
    redirect = route.redirect
    if redirect is None:
        return
    here = f"{path}.redirect"
    if not _redirects_somewhere(redirect):
        yield Violation(here, "a redirect changes at least one of uri, prefixRewrite, authority, port and scheme")
    for name, text in (
        ("uri", redirect.uri),
        ("prefixRewrite", redirect.prefix_rewrite),
        ("authority", redirect.authority),
    ):
        yield from check_one_line(f"{here}.{name}", text)
    if redirect.redirect_code and not 300 <= redirect.redirect_code <= 399:
        yield Violation(f"{here}.redirectCode", f"{redirect.redirect_code} is not a redirect", "between 300 and 399")
    if redirect.scheme not in ("", "http", "https"):
        yield Violation(f"{here}.scheme", "only http and https are possible")
    if redirect.uri and redirect.prefix_rewrite:
        yield Violation(f"{here}.prefixRewrite", "only one of uri and prefixRewrite is possible")
    if redirect.prefix_rewrite and any(isinstance(match.uri, Exact | Regex) for match in route.match):
        yield Violation(f"{here}.prefixRewrite", "only possible where the uri is matched by prefix")


def _redirects_somewhere(redirect: HttpRedirect) -> bool:
    parts = (redirect.uri, redirect.prefix_rewrite, redirect.authority, redirect.scheme, redirect.target_port)
    return any(parts)


def _check_response(path: str, response: HttpDirectResponse | None) -> Complaints:
    if response is None:
        return
    yield from _check_status(f"{path}.status", response.status)
    match response.body:
        case TextBody(value=text):
            size = len(text.encode())
        case BytesBody(value=data):
            size = len(data)
        case None:
            size = 0
    if size > MAX_BODY:
        yield Violation(f"{path}.body", f"the body has {size} bytes, more than a proxy keeps ({MAX_BODY})")
    elif size > LARGE_BODY:
        yield Caution(f"{path}.body", f"a body of {size} bytes costs every proxy that memory")


def _check_rewrite(path: str, rewrite: HttpRewrite | None) -> Complaints:
    if rewrite is None:
        return
    if not (rewrite.uri or rewrite.authority or rewrite.uri_regex_rewrite):
        yield Violation(path, "one of uri, authority and uriRegexRewrite is required")
    yield from check_one_line(f"{path}.uri", rewrite.uri)
    yield from check_one_line(f"{path}.authority", rewrite.authority)
    if rewrite.uri_regex_rewrite is not None:
        if rewrite.uri:
            yield Violation(f"{path}.uriRegexRewrite", "only one of uri and uriRegexRewrite is possible")
        if not rewrite.uri_regex_rewrite.rewrite:
            yield Violation(f"{path}.uriRegexRewrite.rewrite", "what replaces the match is missing")
        yield from check_one_line(f"{path}.uriRegexRewrite.rewrite", rewrite.uri_regex_rewrite.rewrite)
        yield from check_regex(f"{path}.uriRegexRewrite.match", rewrite.uri_regex_rewrite.match)


def _check_cors(path: str, cors: CorsPolicy | None) -> Complaints:
    if cors is None:
        return
    for index, origin in enumerate(cors.allow_origins):
        if isinstance(origin, AnyValue) or not origin.value:
            yield Violation(f"{path}.allowOrigins[{index}]", "an origin is missing")
        yield from _check_string(f"{path}.allowOrigins[{index}]", origin, empty_prefix=True)
    for index, method in enumerate(cors.allow_methods):
        if method not in METHODS:
            yield Violation(f"{path}.allowMethods[{index}]", f'"{method}" is not an HTTP method')
    for field, names in (("allowHeaders", cors.allow_headers), ("exposeHeaders", cors.expose_headers)):
        for index, name in enumerate(names):
            yield from check_header_name(f"{path}.{field}[{index}]", name)
    yield from check_duration(f"{path}.maxAge", cors.max_age, 1)
    if cors.max_age is not None and not cors.max_age.is_integer():
        yield Violation(f"{path}.maxAge", "only whole seconds are possible")
    if cors.allow_origin:
        yield Caution(f"{path}.allowOrigin", "deprecated", "use allowOrigins")


def check_retry(path: str, retry: HttpRetry | None) -> Complaints:
    """Retries: nothing is configured for none, and the conditions are Envoy's or status codes."""
    if retry is None:
        return
    if retry.attempts < 0:
        yield Violation(f"{path}.attempts", f"{retry.attempts} is negative")
    if retry.attempts == 0 and _retry_is_configured(retry):
        yield Violation(path, "retries are configured, but attempts is 0")
    yield from check_duration(f"{path}.perTryTimeout", retry.per_try_timeout)
    yield from check_duration(f"{path}.backoff", retry.backoff)
    for condition in filter(None, map(str.strip, retry.retry_on.split(","))):
        if condition not in RETRY_CONDITIONS and not _is_status_code(condition):
            yield Violation(f"{path}.retryOn", f'"{condition}" is not a condition of Envoy')


def _retry_is_configured(retry: HttpRetry) -> bool:
    absent = (retry.per_try_timeout, retry.retry_remote_localities, retry.retry_ignore_previous_hosts, retry.backoff)
    return bool(retry.retry_on) or any(each is not None for each in absent)


def _is_status_code(condition: str) -> bool:
    return condition.isascii() and condition.isdigit() and 100 <= int(condition[:6]) <= 599
