"""What a route tells the filters before the router: faults, cross-origin rules; and mirrors (networking.md §5.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.core.v3 import RuntimeFractionalPercent
from protocol.proto.envoy.config.route.v3 import RouteActionRequestMirrorPolicy
from protocol.proto.envoy.extensions.filters.common.fault.v3 import FaultDelay as DelayMessage
from protocol.proto.envoy.extensions.filters.http.cors.v3 import CorsPolicy as CorsMessage
from protocol.proto.envoy.extensions.filters.http.fault.v3 import FaultAbort as AbortMessage
from protocol.proto.envoy.extensions.filters.http.fault.v3 import HttpFault as FaultMessage
from protocol.proto.envoy.type.matcher.v3 import StringMatcher
from protocol.proto.envoy.type.v3 import FractionalPercent, FractionalPercentDenominatorType
from trierarch.config.common import AnyValue, Percent
from trierarch.config.virtual_service import (
    GRPC_STATUSES,
    AbortGrpcStatus,
    AbortHttpStatus,
    FixedDelay,
    UnmatchedPreflights,
)
from trierarch.envoy.string_matches import build_string_matcher
from trierarch.envoy.well_known_types import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.config.common import Destination
    from trierarch.config.virtual_service import CorsPolicy, FaultAbort, FaultDelay, HttpFault, HttpRoute

_HUNDRED = FractionalPercentDenominatorType.HUNDRED
_MILLION = FractionalPercentDenominatorType.MILLION
_MILLIONTHS = 10_000
"""Millionths in a percent."""


def build_fault(fault: HttpFault) -> FaultMessage:
    """The fault filter's configuration; kinds of fault that Envoy does not know are left out."""
    return FaultMessage(
        delay=_build_delay(fault.delay) if fault.delay is not None else None,
        abort=_build_abort(fault.abort) if fault.abort is not None else None,
    )


def build_cors(policy: CorsPolicy) -> CorsMessage:
    """The cross-origin filter's configuration."""
    return CorsMessage(
        allow_origin_string_match=_build_origins(policy),
        allow_methods=",".join(policy.allow_methods),
        allow_headers=",".join(policy.allow_headers),
        expose_headers=",".join(policy.expose_headers),
        max_age="" if policy.max_age is None else str(int(policy.max_age)),
        allow_credentials=policy.allow_credentials,
        filter_enabled=RuntimeFractionalPercent(default_value=FractionalPercent(numerator=100, denominator=_HUNDRED)),
        forward_not_matching_preflights=policy.unmatched_preflights is not UnmatchedPreflights.IGNORE,
    )


def mirrors(route: HttpRoute) -> Iterator[tuple[Destination, FractionalPercent]]:
    """Where copies of requests go, and how many; the old spelling first. A share of zero is no mirror."""
    if route.mirror is not None:
        share = _legacy_share(route)
        if share.numerator:
            yield route.mirror, share
    for mirror in route.mirrors:
        share = _share(mirror.percentage) if mirror.percentage is not None else _all()
        if mirror.destination is not None and share.numerator:
            yield mirror.destination, share


def build_mirror(cluster: str, share: FractionalPercent) -> RouteActionRequestMirrorPolicy:
    """Copies go out under the same host name, and are never traced for themselves."""
    return RouteActionRequestMirrorPolicy(
        cluster=cluster,
        runtime_fraction=RuntimeFractionalPercent(default_value=share),
        trace_sampled=False,
        disable_shadow_host_suffix_append=True,
    )


def _build_delay(delay: FaultDelay) -> DelayMessage | None:
    if not isinstance(delay.kind, FixedDelay):
        return None
    legacy = FractionalPercent(numerator=delay.percent, denominator=_HUNDRED)
    share = legacy if delay.percentage is None else _share(delay.percentage)
    return DelayMessage(fixed_delay=duration(delay.kind.value), percentage=share)


def _build_abort(abort: FaultAbort) -> AbortMessage | None:
    built = AbortMessage(percentage=None if abort.percentage is None else _share(abort.percentage))
    match abort.error:
        case AbortHttpStatus(status):
            built.http_status = status
        case AbortGrpcStatus(name):
            built.grpc_status = _grpc_code(name)
        case _:
            return None
    return built


def _grpc_code(name: str) -> int:
    """A gRPC status by name or number; what is neither counts as UNKNOWN."""
    if name.isdecimal():
        return int(name)
    return GRPC_STATUSES.index(name if name in GRPC_STATUSES else "UNKNOWN")


def _build_origins(policy: CorsPolicy) -> list[StringMatcher]:
    """The old spelling counts only where the new one says nothing."""
    if policy.allow_origins:
        return [build_string_matcher(each) for each in policy.allow_origins if not isinstance(each, AnyValue)]
    return [StringMatcher(exact=each) for each in policy.allow_origin]


def _legacy_share(route: HttpRoute) -> FractionalPercent:
    if route.mirror_percentage is not None:
        return _share(route.mirror_percentage)
    if route.mirror_percent is not None:
        return FractionalPercent(numerator=route.mirror_percent, denominator=_HUNDRED)
    return _all()


def _all() -> FractionalPercent:
    return FractionalPercent(numerator=100, denominator=_HUNDRED)


def _share(percent: Percent) -> FractionalPercent:
    """A share in percent, to the millionth."""
    return FractionalPercent(numerator=int(percent.value * _MILLIONTHS), denominator=_MILLION)
