"""Hash policies of routes: which part of a request decides the endpoint (networking.md §5.5, consistentHash)."""

from __future__ import annotations

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
from trierarch.envoy.packing import duration

if TYPE_CHECKING:
    from trierarch.push.traffic import EffectivePolicy


def consistent_hash(policy: EffectivePolicy) -> ConsistentHash | None:
    """What a policy says about hashing, or None."""
    balancer = policy.load_balancer
    return balancer.policy if balancer is not None and isinstance(balancer.policy, ConsistentHash) else None


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
