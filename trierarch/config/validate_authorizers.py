"""What is wrong with an external authorizer, a provider that CUSTOM policies ask.

Nothing of it keeps the mesh configuration out of force, as it is with istiod: the policies that name such a provider
deny what they match instead (networking.md §6.4).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from trierarch.config.checks import check_dns_label, check_header_name, check_one_line
from trierarch.config.extension_providers import HttpAuthorizer
from trierarch.config.violations import Complaints, Violation

if TYPE_CHECKING:
    from trierarch.config.extension_providers import AuthorizationRequestBody, GrpcAuthorizer

_ENVOY_STATUS = frozenset(str(status.value) for status in HTTPStatus) - {"101", "102", "103", "418", "425", "451"}
"""Statuses that Envoy has a name for."""


def check_authorizer(path: str, name: str, authorizer: HttpAuthorizer | GrpcAuthorizer) -> Complaints:
    """Everything about one authorizer but its service and port, which all providers have."""
    yield from check_dns_label(f"{path}.name", name)
    if authorizer.timeout is not None and authorizer.timeout < 0:
        yield Violation(f"{path}.timeout", "a duration cannot be negative")
    yield from _check_status(f"{path}.statusOnError", authorizer.status_on_error)
    yield from _check_body(f"{path}.includeRequestBodyInCheck", authorizer.include_request_body_in_check)
    if isinstance(authorizer, HttpAuthorizer):
        yield from _check_http(path, authorizer)


def _check_status(path: str, status: str) -> Complaints:
    if status and status not in _ENVOY_STATUS:
        yield Violation(path, f'"{status}" is not a status of HTTP')


def _check_body(path: str, body: AuthorizationRequestBody | None) -> Complaints:
    if body is not None and not body.max_request_bytes:
        yield Violation(f"{path}.maxRequestBytes", "at least one byte of the body must be sent")


def _check_http(path: str, authorizer: HttpAuthorizer) -> Complaints:
    if authorizer.path_prefix and not authorizer.path_prefix.startswith("/"):
        yield Violation(f"{path}.pathPrefix", f'"{authorizer.path_prefix}" does not begin with a slash')
    for name, value in authorizer.include_additional_headers_in_check.items():
        yield from check_header_name(f"{path}.includeAdditionalHeadersInCheck", name)
        yield from check_one_line(f"{path}.includeAdditionalHeadersInCheck[{name}]", value)
    for field, headers in (
        ("includeHeadersInCheck", authorizer.include_headers_in_check),
        ("includeRequestHeadersInCheck", authorizer.include_request_headers_in_check),
        ("headersToUpstreamOnAllow", authorizer.headers_to_upstream_on_allow),
        ("headersToDownstreamOnDeny", authorizer.headers_to_downstream_on_deny),
        ("headersToDownstreamOnAllow", authorizer.headers_to_downstream_on_allow),
    ):
        if "*" in headers:
            yield Violation(f"{path}.{field}", "a lone * is not possible", "a prefix such as x-* or a suffix")
