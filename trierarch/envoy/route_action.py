"""Envoy's route from one HTTP route of a VirtualService with one of its matches (networking.md §5.5).

`RouteInputs` holds all that is read: names are resolved to clusters and policies chosen while planning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.core.v3 import DataSource
from protocol.proto.envoy.config.route.v3 import (
    Decorator,
    DirectResponseAction,
    RedirectAction,
    Route,
    RouteAction,
    RouteActionMaxStreamDuration,
    WeightedCluster,
    WeightedClusterClusterWeight,
)
from protocol.proto.envoy.config.route.v3 import RedirectActionRedirectResponseCode as RedirectCode
from protocol.proto.envoy.config.route.v3 import RouteActionClusterNotFoundResponseCode as NotFoundCode
from protocol.proto.envoy.type.matcher.v3 import RegexMatchAndSubstitute, RegexMatcher
from trierarch.config.virtual_service import (
    BytesBody,
    HttpMatch,
    HttpRetry,
    HttpRoute,
    RedirectPort,
    RedirectPortSelection,
    TextBody,
)
from trierarch.envoy.http_filters import CORS, FAULT
from trierarch.envoy.names import parse_cluster_name
from trierarch.envoy.route_filters import build_cors, build_fault, build_mirror, mirrors
from trierarch.envoy.route_hash import build_hash_policy
from trierarch.envoy.route_headers import HeaderChanges, header_changes
from trierarch.envoy.route_match import build_route_match, path_description
from trierarch.envoy.route_retry import build_retry_policy
from trierarch.envoy.source_metadata import source_metadata
from trierarch.envoy.well_known_types import duration, pack

if TYPE_CHECKING:
    from trierarch.config.destination_rule import ConsistentHash
    from trierarch.config.virtual_service import HttpDirectResponse, HttpRedirect, HttpRewrite, HttpRouteDestination

_REDIRECT_CODES = {
    302: RedirectCode.FOUND,
    303: RedirectCode.SEE_OTHER,
    307: RedirectCode.TEMPORARY_REDIRECT,
    308: RedirectCode.PERMANENT_REDIRECT,
}
"""All others are a 301: Envoy knows no more."""

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Target(NamedTuple):
    """The cluster that a destination means, and the hash policy that its destination rule asks for."""

    cluster: str
    consistent_hash: ConsistentHash | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteInputs:
    """All that one route is built from. `owner` and `source` name the VirtualService; `port` is the listener's.

    `targets` and `mirrors` stand beside `rule.route` and `route_filters.mirrors(rule)`, one for each. `retry` is the
    route's policy or the mesh's default. `limits_streams`: the client is a gRPC client, to which the timeout is one of
    streams. `is_gateway_api`: prefixes are of whole segments, and a cluster that is not there is the server's error.
    """

    rule: HttpRoute
    match: HttpMatch | None
    owner: str
    source: str
    port: int
    targets: tuple[Target, ...]
    mirrors: tuple[str, ...]
    retry: HttpRetry
    limits_streams: bool = False
    is_gateway_api: bool = False


def build_route(inputs: RouteInputs) -> Route:
    """The route. Of several actions a redirect goes before an answer, an answer before destinations."""
    rule, match = inputs.rule, inputs.match
    changes = header_changes(rule.headers)
    route = Route(
        name=_name(rule, match),
        match=build_route_match(match, by_segment=inputs.is_gateway_api),
        metadata=source_metadata(inputs.source),
        stat_prefix=match.stat_prefix if match is not None else "",
    )
    changes.apply(route)
    if rule.redirect is not None:
        route.redirect = _build_redirect(rule.redirect, inputs.port)
    elif rule.direct_response is not None:
        route.direct_response = _build_answer(rule.direct_response)
    else:
        route.route = _build_action(inputs, changes, route)
    route.decorator = Decorator(operation=_operation(inputs))
    _apply_filters(route, rule)
    return route


def leads_somewhere(rule: HttpRoute) -> bool:
    """Whether the route has an action that Envoy accepts; one that has none would spoil the whole configuration."""
    answers = rule.redirect is not None or rule.direct_response is not None
    return answers or len(rule.route) == 1 or any(route.weight > 0 for route in rule.route)


def _name(rule: HttpRoute, match: HttpMatch | None) -> str:
    return f"{rule.name}.{match.name}" if match is not None and match.name else rule.name


def _operation(inputs: RouteInputs) -> str:
    """What happens, for traces: the one destination, or else the VirtualService, and the path."""
    path = path_description(inputs.match, by_segment=inputs.is_gateway_api)
    forwards = inputs.rule.redirect is None and inputs.rule.direct_response is None
    cluster = parse_cluster_name(inputs.targets[0].cluster) if forwards and len(inputs.targets) == 1 else None
    if cluster is not None:
        return f"{cluster.host}:{cluster.port}{path}"
    return f"{inputs.owner}:{inputs.port}{path}"


def _build_action(inputs: RouteInputs, changes: HeaderChanges, route: Route) -> RouteAction:
    """Forwarding. The header changes of the only destination are the route's own."""
    rule = inputs.rule
    timeout = duration(rule.timeout or 0.0)
    action = RouteAction(timeout=timeout)
    if inputs.is_gateway_api:
        action.cluster_not_found_response_code = NotFoundCode.INTERNAL_SERVER_ERROR
    if inputs.limits_streams:
        action.max_stream_duration = RouteActionMaxStreamDuration(max_stream_duration=timeout)
    else:
        action.max_grpc_timeout = timeout
    authority = changes.authority
    if rule.rewrite is not None:
        _apply_rewrite(action, rule.rewrite)
        authority = rule.rewrite.authority or authority
    if len(rule.route) == 1:
        own = header_changes(rule.route[0].headers)
        own.apply(route)
        authority = authority or own.authority
        action.cluster = inputs.targets[0].cluster
    else:
        action.weighted_clusters = WeightedCluster(clusters=_build_weights(inputs))
    if authority:
        action.host_rewrite_literal = authority
    _apply_resilience(action, inputs)
    return action


def _apply_resilience(action: RouteAction, inputs: RouteInputs) -> None:
    hashes = [target.consistent_hash for target in _weighted_targets(inputs) if target.consistent_hash is not None]
    action.hash_policy = [policy for each in hashes for policy in build_hash_policy(each)]
    keeps_host = bool(action.hash_policy) and len(inputs.rule.route) == 1
    action.retry_policy = build_retry_policy(inputs.retry, keeps_host=keeps_host)
    shares = mirrors(inputs.rule)
    action.request_mirror_policies = [
        build_mirror(cluster, share) for cluster, (_, share) in zip(inputs.mirrors, shares, strict=True)
    ]


def _weighted_targets(inputs: RouteInputs) -> list[Target]:
    """The targets that get any requests."""
    routes = inputs.rule.route
    if len(routes) == 1:
        return list(inputs.targets)
    return [target for target, route in zip(inputs.targets, routes, strict=True) if route.weight > 0]


def _build_weights(inputs: RouteInputs) -> list[WeightedClusterClusterWeight]:
    pairs = zip(inputs.targets, inputs.rule.route, strict=True)
    return [_build_weight(target, route) for target, route in pairs if route.weight > 0]


def _build_weight(target: Target, route: HttpRouteDestination) -> WeightedClusterClusterWeight:
    changes = header_changes(route.headers)
    weight = WeightedClusterClusterWeight(name=target.cluster, weight=route.weight)
    changes.apply(weight)
    if changes.authority:
        weight.host_rewrite_literal = changes.authority
    return weight


def _apply_rewrite(action: RouteAction, rewrite: HttpRewrite) -> None:
    if rewrite.uri_regex_rewrite is not None:
        action.regex_rewrite = RegexMatchAndSubstitute(
            pattern=RegexMatcher(regex=rewrite.uri_regex_rewrite.match), substitution=rewrite.uri_regex_rewrite.rewrite
        )
    elif rewrite.uri:
        action.prefix_rewrite = rewrite.uri


def _build_redirect(redirect: HttpRedirect, port: int) -> RedirectAction:
    action = RedirectAction(
        host_redirect=redirect.authority,
        port_redirect=_redirect_port(redirect, port),
        response_code=_REDIRECT_CODES.get(redirect.redirect_code, RedirectCode.MOVED_PERMANENTLY),
    )
    if redirect.prefix_rewrite:
        action.prefix_rewrite = redirect.prefix_rewrite
    else:
        action.path_redirect = redirect.uri
    if redirect.scheme:
        action.scheme_redirect = redirect.scheme
    return action


def _redirect_port(redirect: HttpRedirect, listener_port: int) -> int:
    """The port of the location; 0 for the one that goes without saying in its scheme."""
    match redirect.target_port:
        case RedirectPort(number):
            port = number
        case RedirectPortSelection.FROM_REQUEST_PORT:
            port = listener_port
        case _:
            port = 0
    return 0 if port == _DEFAULT_PORTS.get(redirect.scheme or "http") else port


def _build_answer(answer: HttpDirectResponse) -> DirectResponseAction:
    match answer.body:
        case TextBody(text):
            body: DataSource | None = DataSource(inline_string=text)
        case BytesBody(content):
            body = DataSource(inline_bytes=content)
        case None:
            body = None
    return DirectResponseAction(status=answer.status, body=body)


def _apply_filters(route: Route, rule: HttpRoute) -> None:
    if rule.fault is not None:
        route.typed_per_filter_config[FAULT] = pack(build_fault(rule.fault))
    if rule.cors_policy is not None:
        route.typed_per_filter_config[CORS] = pack(build_cors(rule.cors_policy))
