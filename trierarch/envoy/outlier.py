"""Ejection of endpoints that fail (networking.md §2.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.cluster.v3 import OutlierDetection as EnvoyOutlierDetection
from protocol.proto.envoy.config.common.matcher.v3 import (
    HttpHeadersMatch,
    MatchPredicate,
    MatchPredicateMatchSet,
)
from protocol.proto.envoy.config.route.v3 import HeaderMatcher
from protocol.proto.envoy.type.matcher.v3 import StringMatcher
from trierarch.envoy.well_known_types import duration

if TYPE_CHECKING:
    from trierarch.config.destination_rule import OutlierDetection

ALWAYS = 100
"""Percent of the detections that are acted on."""


def build_outlier_detection(outlier: OutlierDetection) -> EnvoyOutlierDetection:
    """The block of a cluster. Ejection by success rate, on by default in Envoy, is always off."""
    detection = EnvoyOutlierDetection(
        enforcing_success_rate=0,
        interval=duration(outlier.interval) if outlier.interval else None,
        base_ejection_time=duration(outlier.base_ejection_time) if outlier.base_ejection_time else None,
        max_ejection_percent=outlier.max_ejection_percent if outlier.max_ejection_percent > 0 else None,
    )
    if outlier.consecutive_5xx_errors is not None:
        detection.consecutive_5xx = outlier.consecutive_5xx_errors
        detection.enforcing_consecutive_5xx = _enforcing(outlier.consecutive_5xx_errors)
    if outlier.consecutive_gateway_errors is not None:
        detection.consecutive_gateway_failure = outlier.consecutive_gateway_errors
        detection.enforcing_consecutive_gateway_failure = _enforcing(outlier.consecutive_gateway_errors)
    if outlier.split_external_local_origin_errors:
        _count_local_failures(detection, outlier)
    return detection


def _count_local_failures(detection: EnvoyOutlierDetection, outlier: OutlierDetection) -> None:
    """Failures to connect are counted apart from errors that the endpoint answers; so is their success rate."""
    detection.split_external_local_origin_errors = True
    detection.enforcing_local_origin_success_rate = 0
    failures = outlier.consecutive_local_origin_failures
    if failures is not None and failures > 0:
        detection.consecutive_local_origin_failure = failures
        detection.enforcing_consecutive_local_origin_failure = ALWAYS


def _enforcing(errors: int) -> int:
    """Zero errors means: do not eject for this."""
    return ALWAYS if errors > 0 else 0


def build_error_matcher(status_codes: tuple[int, ...]) -> MatchPredicate:
    """Which responses count as errors: those with one of these status codes (at least one)."""
    matches = [_status_match(code) for code in status_codes]
    # Envoy wants two rules at least in an "or".
    return matches[0] if len(matches) == 1 else MatchPredicate(or_match=MatchPredicateMatchSet(rules=matches))


def _status_match(code: int) -> MatchPredicate:
    header = HeaderMatcher(name=":status", string_match=StringMatcher(exact=str(code)))
    return MatchPredicate(http_response_headers_match=HttpHeadersMatch(headers=[header]))
