"""Authorization policies for proxyless gRPC servers (networking.md §4.11).

A server goes by policies that deny and by those that allow. It can ask no provider, and notes nothing of policies that
are only tried.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from protocol.proto.envoy.extensions.filters.http.rbac.v3 import Rbac
from protocol.proto.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter
from trierarch.config.authorization_policy import Action
from trierarch.envoy.ext_authz import HTTP_RBAC
from trierarch.envoy.rbac import build_rules, is_tried, rule_name
from trierarch.envoy.well_known_types import pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.config.authorization_policy import AuthorizationPolicy
    from trierarch.config.objects import ConfigObject
    from trierarch.envoy.rbac import Access, RuleName
    from trierarch.push.authorization import Policies

_REMEMBERED = 1024


@lru_cache(maxsize=_REMEMBERED)
def build_grpc_rbac(access: Access) -> tuple[HttpFilter, ...]:
    """The filters of a server: what is denied, then what is allowed."""
    return (
        *_filters(f"{HTTP_RBAC}.DENY", Action.DENY, access.policies.deny, access),
        *_filters(HTTP_RBAC, Action.ALLOW, access.policies.allow, access),
    )


def _filters(name: str, action: Action, policies: Policies, access: Access) -> Iterator[HttpFilter]:
    """A filter that allows and has no rules denies everything: policies without rules need not be in it."""
    enforced = [policy for policy in policies if not is_tried(policy)]
    if enforced:
        ruling = [each for each in enforced if each.spec.rules]
        rules = build_rules(action, ruling, access.domains, name=_naming(ruling))
        yield HttpFilter(name=name, typed_config=pack(Rbac(rules=rules)))


def _naming(policies: list[ConfigObject[AuthorizationPolicy]]) -> RuleName:
    """How istiod calls the rules of these policies; but `a/b-c` and `a-b/c` must not have the same name, or one policy
    would replace the other. Such have the names of a sidecar's rules.
    """
    joined = Counter(map(_joined, policies))

    def name(policy: ConfigObject[AuthorizationPolicy], index: int) -> str:
        own = _joined(policy)
        return f"{own}-{index}" if joined[own] == 1 else rule_name(policy, index)

    return name


def _joined(policy: ConfigObject[AuthorizationPolicy]) -> str:
    return f"{policy.key.namespace}-{policy.key.name}"
