"""Retry policies (networking.md §5.6): what is tried again, how often, and on which host."""

from __future__ import annotations

from http import HTTPStatus

from protocol.proto.envoy.config.route.v3 import (
    RetryPolicy,
    RetryPolicyRetryBackOff,
    RetryPolicyRetryHostPredicate,
    RetryPolicyRetryPriority,
)
from protocol.proto.envoy.extensions.retry.host.previous_hosts.v3 import PreviousHostsPredicate
from protocol.proto.envoy.extensions.retry.priority.previous_priorities.v3 import PreviousPrioritiesConfig
from trierarch.config.virtual_service import HttpRetry
from trierarch.envoy.well_known_types import duration, pack

DEFAULT_RETRY = HttpRetry(attempts=2)
"""The policy of a route that says nothing, in a mesh that says nothing."""

RETRY_ON = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"
"""When a request is tried again if the policy does not say."""

_BY_STATUS_CODE = "retriable-status-codes"
_STATUS_CODES = frozenset(str(status.value) for status in HTTPStatus)
_HOST_SELECTION_ATTEMPTS = 5
_PRIORITY_UPDATE_FREQUENCY = 2


def build_retry_policy(retry: HttpRetry, *, keeps_host: bool = False) -> RetryPolicy | None:
    """The policy, or None where nothing is tried again (no attempts).

    `keeps_host`: consistent hashing chooses the host, so a retry does not shun the previous one unless told to.
    """
    if retry.attempts <= 0:
        return None
    retry_on, status_codes = _conditions(retry.retry_on or RETRY_ON)
    shuns = not keeps_host if retry.retry_ignore_previous_hosts is None else retry.retry_ignore_previous_hosts
    return RetryPolicy(
        retry_on=retry_on,
        num_retries=retry.attempts,
        retriable_status_codes=status_codes,
        per_try_timeout=None if retry.per_try_timeout is None else duration(retry.per_try_timeout),
        retry_host_predicate=[_previous_hosts()] if shuns else [],
        host_selection_retry_max_attempts=_HOST_SELECTION_ATTEMPTS,
        retry_priority=_previous_priorities() if retry.retry_remote_localities else None,
        retry_back_off=None
        if retry.backoff is None
        else RetryPolicyRetryBackOff(base_interval=duration(retry.backoff)),
    )


def build_inbound_retry_policy(retry: HttpRetry | None) -> RetryPolicy | None:
    """The policy for a workload's own port: only what certainly did not reach it, unless the mesh says otherwise."""
    if retry is None:
        return RetryPolicy(retry_on="reset-before-request", num_retries=2)
    return build_retry_policy(retry)


def _conditions(retry_on: str) -> tuple[str, list[int]]:
    """Envoy's comma list and, apart, the status codes among it. A number counts only if HTTP knows it."""
    tokens = [token.strip() for token in retry_on.split(",")]
    codes = [int(token) for token in tokens if token in _STATUS_CODES]
    words = [token for token in tokens if token and token not in _STATUS_CODES]
    if codes and _BY_STATUS_CODE not in words:
        words.append(_BY_STATUS_CODE)
    return ",".join(words), codes


def _previous_hosts() -> RetryPolicyRetryHostPredicate:
    return RetryPolicyRetryHostPredicate(
        name="envoy.retry_host_predicates.previous_hosts", typed_config=pack(PreviousHostsPredicate())
    )


def _previous_priorities() -> RetryPolicyRetryPriority:
    settings = PreviousPrioritiesConfig(update_frequency=_PRIORITY_UPDATE_FREQUENCY)
    return RetryPolicyRetryPriority(name="envoy.retry_priorities.previous_priorities", typed_config=pack(settings))
