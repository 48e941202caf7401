"""Hash policies of routes: which part of a request decides the endpoint (networking.md §5.5, consistentHash)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from protocol.proto.envoy.config.route.v3 import (
    RouteActionHashPolicy,
    RouteActionHashPolicyConnectionProperties,
    RouteActionHashPolicyCookie,
    RouteActionHashPolicyCookieAttribute,
    RouteActionHashPolicyHeader,
    RouteActionHashPolicyQueryParameter,
)
from trierarch.config.destination_rule import (
    ConsistentHash,
    HashHttpCookie,
    HashHttpHeader,
    HashQueryParameter,
    HashSourceIp,
)
from trierarch.envoy.well_known_types import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.config.destination_rule import DestinationRule, PortTrafficPolicy, TrafficPolicy
    from trierarch.push.traffic import EffectivePolicy, MergedRule

_REMEMBERED = 65536


def consistent_hash(policy: EffectivePolicy) -> ConsistentHash | None:
    """What a policy says about hashing, or None."""
    balancer = policy.load_balancer
    return balancer.policy if balancer is not None and isinstance(balancer.policy, ConsistentHash) else None


@lru_cache(maxsize=_REMEMBERED)
def may_hash(rule: MergedRule) -> bool:
    """Whether a rule says anything about hashing, for any subset or port. Of all others routes need not know."""
    return any(map(_hashes, _policies(rule.spec)))


def _policies(spec: DestinationRule) -> Iterator[TrafficPolicy | PortTrafficPolicy]:
    policies = (spec.traffic_policy, *(subset.traffic_policy for subset in spec.subsets))
    for policy in policies:
        if policy is not None:
            yield policy
            yield from policy.port_level_settings


def _hashes(policy: TrafficPolicy | PortTrafficPolicy) -> bool:
    return policy.load_balancer is not None and isinstance(policy.load_balancer.policy, ConsistentHash)


def build_hash_policy(consistent: ConsistentHash) -> list[RouteActionHashPolicy]:
    """At most one policy; none for a hash of nothing."""
    match consistent.key:
        case HashHttpHeader(name):
            return [RouteActionHashPolicy(header=RouteActionHashPolicyHeader(header_name=name))]
        case HashHttpCookie() as cookie:
            return [RouteActionHashPolicy(cookie=_build_cookie(cookie))]
        case HashSourceIp(wanted):
            source = RouteActionHashPolicyConnectionProperties(source_ip=True)
            return [RouteActionHashPolicy(connection_properties=source)] if wanted else []
        case HashQueryParameter(name):
            return [RouteActionHashPolicy(query_parameter=RouteActionHashPolicyQueryParameter(name=name))]
        case None:
            return []


def _build_cookie(cookie: HashHttpCookie) -> RouteActionHashPolicyCookie:
    return RouteActionHashPolicyCookie(
        name=cookie.name,
        ttl=None if cookie.ttl is None else duration(cookie.ttl),
        path=cookie.path,
        attributes=[
            RouteActionHashPolicyCookieAttribute(name=each.name, value=each.value) for each in cookie.attributes
        ],
    )
