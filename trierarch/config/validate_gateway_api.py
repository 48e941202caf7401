"""What an HTTPRoute must be like: what the schema of the Gateway API demands as far as it shows, and what Envoy takes.

A cluster's API server checks the schema, a folder does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config.checks import (
    check_duration,
    check_header_name,
    check_header_value,
    check_one_line,
    check_optional_duration,
    check_optional_port,
    check_percentage,
    check_regex,
)
from trierarch.config.http_route import (
    Cors,
    HeaderModifier,
    PathMatchType,
    RequestMirror,
    RequestRedirect,
    UrlRewrite,
    ValueMatchType,
)
from trierarch.config.violations import Complaints, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trierarch.config.http_route import (
        BackendShare,
        HttpRouteSpec,
        PathModifier,
        RouteFilter,
        RouteMatch,
        RouteRule,
        ValueMatch,
    )
    from trierarch.config.objects import ConfigObject

_MOST_WEIGHT = 1_000_000


def check_gateway_http_route(subject: ConfigObject[HttpRouteSpec]) -> Complaints:
    """Everything about one HTTPRoute."""
    for index, rule in enumerate(subject.spec.rules):
        yield from _check_rule(f"spec.rules[{index}]", rule)


def _check_rule(path: str, rule: RouteRule) -> Complaints:
    for index, match in enumerate(rule.matches):
        yield from _check_match(f"{path}.matches[{index}]", match)
    yield from _check_filters(path, rule.filters)
    for index, backend in enumerate(rule.backend_refs):
        yield from _check_backend(f"{path}.backendRefs[{index}]", backend)
    yield from check_optional_duration(f"{path}.timeouts.request", rule.timeouts.request)
    yield from check_optional_duration(f"{path}.timeouts.backendRequest", rule.timeouts.backend_request)
    if rule.retry is not None:
        yield from check_duration(f"{path}.retry.backoff", rule.retry.backoff)


def _check_match(path: str, match: RouteMatch) -> Complaints:
    if match.path is not None and match.path.type is PathMatchType.REGULAR_EXPRESSION:
        yield from check_regex(f"{path}.path.value", match.path.value)
    for field, values in (("headers", match.headers), ("queryParams", match.query_params)):
        for index, value in enumerate(values):
            yield from _check_value(f"{path}.{field}[{index}]", value)


def _check_value(path: str, match: ValueMatch) -> Complaints:
    yield from check_header_name(f"{path}.name", match.name)
    if match.type is ValueMatchType.REGULAR_EXPRESSION:
        yield from check_regex(f"{path}.value", match.value)


def _check_backend(path: str, backend: BackendShare) -> Complaints:
    yield from check_optional_port(f"{path}.port", backend.port)
    if not 0 <= backend.weight <= _MOST_WEIGHT:
        yield Violation(f"{path}.weight", f"{backend.weight} is not between 0 and {_MOST_WEIGHT}")
    yield from _check_filters(path, backend.filters)


def _check_filters(path: str, filters: Sequence[RouteFilter]) -> Complaints:
    for index, each in enumerate(filters):
        here = f"{path}.filters[{index}]"
        match each.action:
            case HeaderModifier() as modifier:
                yield from _check_headers(here, modifier)
            case RequestRedirect() as redirect:
                yield from check_one_line(f"{here}.requestRedirect.hostname", redirect.hostname)
                yield from check_optional_port(f"{here}.requestRedirect.port", redirect.port)
                yield from _check_path(f"{here}.requestRedirect.path", redirect.path)
            case UrlRewrite() as rewrite:
                yield from check_one_line(f"{here}.urlRewrite.hostname", rewrite.hostname)
                yield from _check_path(f"{here}.urlRewrite.path", rewrite.path)
            case RequestMirror() as mirror:
                yield from _check_mirror(f"{here}.requestMirror", mirror)
            case Cors() as cors:
                yield from _check_cors(f"{here}.cors", cors)
            case None:
                pass


def _check_headers(path: str, modifier: HeaderModifier) -> Complaints:
    for header in (*modifier.set, *modifier.add):
        yield from check_header_name(path, header.name)
        yield from check_header_value(f"{path}[{header.name}]", header.value)
    for name in modifier.remove:
        yield from check_header_name(path, name)


def _check_path(path: str, modifier: PathModifier | None) -> Complaints:
    if modifier is not None:
        yield from check_one_line(f"{path}.replaceFullPath", modifier.replace_full_path)
        yield from check_one_line(f"{path}.replacePrefixMatch", modifier.replace_prefix_match)


def _check_mirror(path: str, mirror: RequestMirror) -> Complaints:
    yield from check_optional_port(f"{path}.backendRef.port", mirror.backend_ref.port)
    if mirror.percent is not None:
        yield from check_percentage(f"{path}.percent", mirror.percent)
    share = mirror.fraction
    if share is not None and not 0 <= share.numerator <= share.denominator != 0:
        yield Violation(f"{path}.fraction", f"{share.numerator}/{share.denominator} is no share")


def _check_cors(path: str, cors: Cors) -> Complaints:
    for field, names in (("allowHeaders", cors.allow_headers), ("exposeHeaders", cors.expose_headers)):
        for index, name in enumerate(names):
            yield from check_header_name(f"{path}.{field}[{index}]", name)
