"""Authorization policies as RBAC filters, over HTTP and TCP (networking.md §6.3).

One filter for each action that a workload has policies of, and for CUSTOM ones a pair for each provider: a filter that
only finds out whether a policy matches, and one that then asks (`ext_authz.py`). Where each stands in a chain is
decided by who builds the chain. Filters are built once for all chains with the same policies.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from protocol.proto.envoy.config.listener.v3 import Filter
from protocol.proto.envoy.config.rbac.v3 import Policy, RbacAction
from protocol.proto.envoy.config.rbac.v3 import Rbac as Rules
from protocol.proto.envoy.extensions.filters.http.rbac.v3 import Rbac as HttpRbac
from protocol.proto.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter
from protocol.proto.envoy.extensions.filters.network.rbac.v3 import Rbac as NetworkRbac
from trierarch.config.authorization_policy import Action
from trierarch.config.labels import DRY_RUN
from trierarch.envoy.ext_authz import (
    HTTP_EXT_AUTHZ,
    HTTP_RBAC,
    NETWORK_EXT_AUTHZ,
    NETWORK_RBAC,
    SHADOW_PREFIX,
    TCP_STAT_PREFIX,
    build_http_ext_authz,
    build_network_ext_authz,
    policy_prefix,
)
from trierarch.envoy.rbac_facts import Reading, select_facts
from trierarch.envoy.rbac_rules import NEVER, build_policy
from trierarch.envoy.well_known_types import pack
from trierarch.push.authorization import UNRESTRICTED, Authorizer, BadAuthorizer, WorkloadPolicies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trierarch.config.authorization_policy import AuthorizationPolicy, Rule
    from trierarch.config.objects import ConfigObject
    from trierarch.envoy.trust_domains import TrustDomains
    from trierarch.push.authorization import CustomPolicies, Policies
    from trierarch.push.mesh import Mesh
    from trierarch.push.view import InboundKey

TRY_ALLOW, TRY_DENY = "istio_dry_run_allow_", "istio_dry_run_deny_"
"""What the results of policies that are only tried are called in dynamic metadata and statistics."""

DENIED_FOR_BAD_PROVIDER = "-deny-due-to-bad-CUSTOM-action"

_REMEMBERED = 1024
_ACTIONS = {
    Action.ALLOW: RbacAction.ALLOW,
    Action.DENY: RbacAction.DENY,
    Action.AUDIT: RbacAction.LOG,
    Action.CUSTOM: RbacAction.DENY,
}


RuleName: TypeAlias = "Callable[[ConfigObject[AuthorizationPolicy], int], str]"


class Access(NamedTuple):
    """Who may do what at a workload: its policies, and the mesh's trust domain with its aliases."""

    policies: WorkloadPolicies = UNRESTRICTED
    domains: TrustDomains = ()


OPEN = Access()
"""Anybody may do anything."""


class FilterRules(NamedTuple):
    """What one RBAC filter goes by. `tried`: rules that only note what they would have done, under `tried_prefix`."""

    enforced: Rules | None
    tried: Rules | None
    tried_prefix: str = ""


def select_access(key: InboundKey, mesh: Mesh) -> Access:
    """The access rules of a workload."""
    if key.policies == UNRESTRICTED:
        return OPEN
    return Access(key.policies, (mesh.config.trust_domain, *mesh.config.trust_domain_aliases))


# --- filters ---------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=_REMEMBERED)
def build_http_custom(access: Access) -> tuple[HttpFilter, ...]:
    """The filters that ask providers about requests."""
    return tuple(filter_ for custom in access.policies.custom for filter_ in _http_custom(custom, access.domains))


@lru_cache(maxsize=_REMEMBERED)
def build_http_rbac(access: Access) -> tuple[HttpFilter, ...]:
    """The filters that decide about requests themselves: audit, deny, allow."""
    return tuple(_http_rbac(rules) for rules in _select_rules(access, tcp=False))


@lru_cache(maxsize=_REMEMBERED)
def build_network_access(access: Access) -> tuple[Filter, ...]:
    """All filters that decide about connections: those that ask providers, then audit, deny, allow."""
    custom = (filter_ for each in access.policies.custom for filter_ in _network_custom(each, access.domains))
    return (*custom, *(_network_rbac(rules) for rules in _select_rules(access, tcp=True)))


def _http_custom(custom: CustomPolicies, domains: TrustDomains) -> Iterator[HttpFilter]:
    yield _http_rbac(_custom_rules(custom, domains, tcp=False))
    if isinstance(custom.authorizer, Authorizer):
        asks = build_http_ext_authz(custom.provider, custom.authorizer)
        yield HttpFilter(name=HTTP_EXT_AUTHZ, typed_config=pack(asks))


def _network_custom(custom: CustomPolicies, domains: TrustDomains) -> Iterator[Filter]:
    """Nothing if the provider knows only requests."""
    if isinstance(custom.authorizer, BadAuthorizer):
        yield _network_rbac(_custom_rules(custom, domains, tcp=True))
        return
    asks = build_network_ext_authz(custom.provider, custom.authorizer)
    if asks is not None:
        yield _network_rbac(_custom_rules(custom, domains, tcp=True))
        yield Filter(name=NETWORK_EXT_AUTHZ, typed_config=pack(asks))


def _http_rbac(rules: FilterRules) -> HttpFilter:
    message = HttpRbac(rules=rules.enforced, shadow_rules=rules.tried, shadow_rules_stat_prefix=rules.tried_prefix)
    return HttpFilter(name=HTTP_RBAC, typed_config=pack(message))


def _network_rbac(rules: FilterRules) -> Filter:
    message = NetworkRbac(
        rules=rules.enforced,
        shadow_rules=rules.tried,
        shadow_rules_stat_prefix=rules.tried_prefix,
        stat_prefix=TCP_STAT_PREFIX,
    )
    return Filter(name=NETWORK_RBAC, typed_config=pack(message))


# --- rules -----------------------------------------------------------------------------------------------------------
def _select_rules(access: Access, *, tcp: bool) -> Iterator[FilterRules]:
    """What the filters go by, in the order in which they decide."""
    policies = access.policies
    for action, members in (
        (Action.AUDIT, policies.audit),
        (Action.DENY, policies.deny),
        (Action.ALLOW, policies.allow),
    ):
        if members:
            yield _rules_of(action, members, access.domains, tcp=tcp)


def _rules_of(action: Action, policies: Policies, domains: TrustDomains, *, tcp: bool) -> FilterRules:
    tried = [policy for policy in policies if is_tried(policy)]
    enforced = [policy for policy in policies if not is_tried(policy)]
    return FilterRules(
        enforced=build_rules(action, enforced, domains, tcp=tcp) if enforced else None,
        tried=build_rules(action, tried, domains, tcp=tcp) if tried else None,
        tried_prefix=TRY_DENY if tried and action is Action.DENY else TRY_ALLOW,
    )


def _custom_rules(custom: CustomPolicies, domains: TrustDomains, *, tcp: bool) -> FilterRules:
    """What notes that the provider must be asked; if it cannot be, what denies instead."""
    bad = isinstance(custom.authorizer, BadAuthorizer)

    def name(policy: ConfigObject[AuthorizationPolicy], index: int) -> str:
        ending = DENIED_FOR_BAD_PROVIDER if bad else ""
        return f"{policy_prefix(custom.provider)}-{rule_name(policy, index)}{ending}"

    rules = build_rules(Action.CUSTOM, custom.policies, domains, tcp=tcp, name=name)
    return FilterRules(rules, None) if bad else FilterRules(None, rules, SHADOW_PREFIX)


def is_tried(policy: ConfigObject[AuthorizationPolicy]) -> bool:
    """Whether a policy is not enforced, only tried. The annotation's value is one of Go's booleans."""
    return policy.annotations.get(DRY_RUN, "")[:1] in ("1", "t", "T")


def rule_name(policy: ConfigObject[AuthorizationPolicy], index: int) -> str:
    """What a rule of a policy is called in filters, and so in logs and statistics."""
    return f"ns[{policy.key.namespace}]-policy[{policy.key.name}]-rule[{index}]"


def build_rules(
    action: Action,
    policies: Sequence[ConfigObject[AuthorizationPolicy]],
    domains: TrustDomains,
    *,
    tcp: bool = False,
    name: RuleName = rule_name,
) -> Rules:
    """The rules of all policies of an action. A policy without rules is there as one that matches nothing."""
    built = {name(policy, 0): NEVER for policy in policies if not policy.spec.rules}
    for policy in policies:
        for index, rule in enumerate(policy.spec.rules):
            found = _build_rule(rule, policy, domains, tcp=tcp, lenient=action is not Action.ALLOW)
            if found is not None:
                built[name(policy, index)] = found
    return Rules(action=_ACTIONS[action], policies=built)


def _build_rule(
    rule: Rule, policy: ConfigObject[AuthorizationPolicy], domains: TrustDomains, *, tcp: bool, lenient: bool
) -> Policy | None:
    return build_policy(select_facts(rule, Reading(policy.key.namespace, domains)), tcp=tcp, lenient=lenient)
