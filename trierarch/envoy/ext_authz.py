"""Filters that ask an external authorizer, over HTTP or gRPC (networking.md §6.4).

Each asks only about what the RBAC filter before it has found to match a policy of its provider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.core.v3 import (
    ApiVersion,
    GrpcService,
    GrpcServiceEnvoyGrpc,
    HeaderValue,
    HttpUri,
)
from protocol.proto.envoy.extensions.filters.http.ext_authz.v3 import (
    AuthorizationRequest,
    AuthorizationResponse,
    BufferSettings,
    HttpService,
)
from protocol.proto.envoy.extensions.filters.http.ext_authz.v3 import ExtAuthz as HttpExtAuthz
from protocol.proto.envoy.extensions.filters.network.ext_authz.v3 import ExtAuthz as NetworkExtAuthz
from protocol.proto.envoy.type.matcher.v3 import ListStringMatcher, MetadataMatcher, StringMatcher, ValueMatcher
from protocol.proto.envoy.type.v3 import HttpStatus, StatusCode
from trierarch.config.extension_providers import GrpcAuthorizer, HttpAuthorizer
from trierarch.envoy.names import outbound_cluster
from trierarch.envoy.rbac_values import build_metadata, build_string
from trierarch.envoy.well_known_types import duration

if TYPE_CHECKING:
    from trierarch.config.extension_providers import AuthorizationRequestBody
    from trierarch.push.authorization import Authorizer

HTTP_RBAC, NETWORK_RBAC = "envoy.filters.http.rbac", "envoy.filters.network.rbac"
HTTP_EXT_AUTHZ, NETWORK_EXT_AUTHZ = "envoy.filters.http.ext_authz", "envoy.filters.network.ext_authz"
TCP_STAT_PREFIX = "tcp."

SHADOW_PREFIX = "istio_ext_authz_"
"""What the filter before notes its finding under."""
_FINDING = f"{SHADOW_PREFIX}shadow_effective_policy_id"

_TIMEOUT = 600.0


def policy_prefix(provider: str) -> str:
    """How the policies of a provider are recognised among those that match."""
    return f"istio-ext-authz-{provider}"


def build_http_ext_authz(provider: str, authorizer: Authorizer) -> HttpExtAuthz:
    """The filter for requests."""
    settings = authorizer.settings
    message = HttpExtAuthz(
        transport_api_version=ApiVersion.V3,
        failure_mode_allow=settings.fail_open,
        status_on_error=_build_status(settings.status_on_error),
        with_request_body=_build_body(settings.include_request_body_in_check),
        filter_enabled_metadata=_build_condition(HTTP_RBAC, provider),
        clear_route_cache=settings.clear_route_cache,
    )
    match settings:
        case HttpAuthorizer():
            headers = settings.include_request_headers_in_check or settings.include_headers_in_check
            message.allowed_headers = _build_names(headers)
            message.http_service = _build_http_service(settings, authorizer)
        case GrpcAuthorizer():
            message.grpc_service = _build_grpc_service(settings, authorizer)
    return message


def build_network_ext_authz(provider: str, authorizer: Authorizer) -> NetworkExtAuthz | None:
    """The filter for connections; None if the authorizer knows only requests."""
    settings = authorizer.settings
    if not isinstance(settings, GrpcAuthorizer):
        return None
    return NetworkExtAuthz(
        stat_prefix=TCP_STAT_PREFIX,
        grpc_service=_build_grpc_service(settings, authorizer),
        failure_mode_allow=settings.fail_open,
        transport_api_version=ApiVersion.V3,
        filter_enabled_metadata=_build_condition(NETWORK_RBAC, provider),
    )


def _build_condition(rbac: str, provider: str) -> MetadataMatcher:
    """A policy of the provider has matched."""
    return build_metadata(rbac, (_FINDING,), ValueMatcher(string_match=StringMatcher(prefix=policy_prefix(provider))))


def _build_status(status: str) -> HttpStatus | None:
    return HttpStatus(code=StatusCode(int(status))) if status else None


def _build_body(body: AuthorizationRequestBody | None) -> BufferSettings | None:
    if body is None:
        return None
    return BufferSettings(
        max_request_bytes=body.max_request_bytes,
        allow_partial_message=body.allow_partial_message,
        pack_as_bytes=body.pack_as_bytes,
    )


def _build_grpc_service(settings: GrpcAuthorizer, authorizer: Authorizer) -> GrpcService:
    timeout = _TIMEOUT if settings.timeout is None else settings.timeout
    envoy = GrpcServiceEnvoyGrpc(cluster_name=_cluster(authorizer), authority=authorizer.service.host)
    return GrpcService(envoy_grpc=envoy, timeout=duration(timeout))


def _build_http_service(settings: HttpAuthorizer, authorizer: Authorizer) -> HttpService:
    timeout = _TIMEOUT if settings.timeout is None else settings.timeout
    server = HttpUri(uri=f"http://{authorizer.service.host}", cluster=_cluster(authorizer), timeout=duration(timeout))
    return HttpService(
        server_uri=server,
        path_prefix=settings.path_prefix,
        authorization_request=_build_request(settings),
        authorization_response=_build_response(settings),
    )


def _build_request(settings: HttpAuthorizer) -> AuthorizationRequest | None:
    added = sorted(settings.include_additional_headers_in_check.items())
    if not added:
        return None
    return AuthorizationRequest(headers_to_add=[HeaderValue(key=name, value=value) for name, value in added])


def _build_response(settings: HttpAuthorizer) -> AuthorizationResponse | None:
    upstream = _build_names(settings.headers_to_upstream_on_allow)
    denied = _build_names(settings.headers_to_downstream_on_deny)
    allowed = _build_names(settings.headers_to_downstream_on_allow)
    if not (upstream or denied or allowed):
        return None
    return AuthorizationResponse(
        allowed_upstream_headers=upstream, allowed_client_headers=denied, allowed_client_headers_on_success=allowed
    )


def _build_names(headers: tuple[str, ...]) -> ListStringMatcher | None:
    """Names of headers, whose case says nothing."""
    patterns = [build_string(name) for name in headers]
    for pattern in patterns:
        pattern.ignore_case = True
    return ListStringMatcher(patterns=patterns) if patterns else None


def _cluster(authorizer: Authorizer) -> str:
    return outbound_cluster(authorizer.settings.port, "", authorizer.service.host)
