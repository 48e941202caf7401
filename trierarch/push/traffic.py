"""Destination rules of a snapshot: merged, indexed, looked up (xds-server.md §8.4, networking.md §0.4, §2.4).

The path of a rule: `rule_merging.py` puts those of one namespace and host together, `find_rules` finds them for a
service and a client's namespace, `select_rule` chooses one of those found for a proxy, and `effective_policy` is what
that one says for a subset and a port.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.hosts import most_specific_cover
from trierarch.push.reuse import Groups, Units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from trierarch.config.destination_rule import (
        ClientTls,
        ConnectionPool,
        DestinationRule,
        LoadBalancer,
        OutlierDetection,
        PortTrafficPolicy,
        ProxyProtocol,
        RetryBudget,
        Subset,
        TrafficPolicy,
        Tunnel,
    )
    from trierarch.config.findings import Remark
    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Hostname


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergedRule:
    """One or several DestinationRules of one host that are used as one.

    `sources[0]` is the oldest and gives its name to metadata; `spec` is the merged specification; `host` is fully
    qualified. `selector`: None, or labels that the client workload must have.
    """

    host: str
    namespace: str
    spec: DestinationRule
    sources: tuple[ConfigObject[DestinationRule], ...]
    export_to: frozenset[str]
    selector: Mapping[str, str] | None = None

    def subset(self, name: str) -> Subset | None:
        """The subset of that name, or None."""
        return next((subset for subset in self.spec.subsets if subset.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostRules:
    """Rules by host, exact and wildcard apart; each list in the order of merging."""

    exact: Mapping[str, tuple[MergedRule, ...]] = field(default_factory=dict)
    wildcard: Mapping[str, tuple[MergedRule, ...]] = field(default_factory=dict)

    def covering(self, host: str) -> tuple[MergedRule, ...]:
        """The rules of the most specific host that covers `host`, which may be a wildcard itself."""
        found = self.exact.get(host)
        if found is not None or not self.wildcard:
            return found or ()
        cover = most_specific_cover(host, self.wildcard)
        return self.wildcard[cover] if cover else ()


NO_RULES = HostRules()


class HostGroup(NamedTuple):
    """The rules of one namespace and host, by who may look them up (xds-server.md §8.4.3)."""

    local: tuple[MergedRule, ...]
    exported: tuple[MergedRule, ...]
    root_local: tuple[MergedRule, ...]
    remarks: tuple[Remark, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RulesMemo:
    """What the next build reuses. The groups hold for short names resolved in `domain`."""

    domain: str = ""
    groups: Groups[Hostname, ConfigObject[DestinationRule]] = field(default_factory=lambda: Groups())
    units: Units[Hostname, HostGroup] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DestinationRules:
    """The section of the snapshot: `local` and `exported` by namespace, `root_local` for the root namespace.

    `sources`: the objects by key; `remarks`: what their authors should know.
    """

    local: Mapping[str, HostRules] = field(default_factory=dict)
    exported: Mapping[str, HostRules] = field(default_factory=dict)
    root_local: HostRules = NO_RULES
    sources: Mapping[ObjectKey, ConfigObject[DestinationRule]] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    memo: RulesMemo = field(default_factory=RulesMemo)


def find_rules(
    rules: DestinationRules, client_namespace: str, service_namespace: str, host: str, root_namespace: str
) -> tuple[MergedRule, ...]:
    """The rules that clients of a namespace apply to a service: the first step that finds any wins (§8.4.5)."""
    own, *exported = lookup_path(rules, client_namespace, service_namespace, root_namespace)
    if found := own.covering(host):
        return found
    for others in exported:
        if visible := _visible(others.covering(host), client_namespace):
            return visible
    return ()


def lookup_path(
    rules: DestinationRules, client_namespace: str, service_namespace: str, root_namespace: str
) -> tuple[HostRules, HostRules, HostRules]:
    """Where the rules for services of a namespace are looked for, in order. The same path finds the same rules."""
    own = rules.root_local if client_namespace == root_namespace else rules.local.get(client_namespace, NO_RULES)
    exported = rules.exported
    return own, exported.get(service_namespace, NO_RULES), exported.get(root_namespace, NO_RULES)


def _visible(rules: tuple[MergedRule, ...], namespace: str) -> tuple[MergedRule, ...]:
    """Those that are exported to the namespace; the same tuple if all are."""
    seen = [rule for rule in rules if not rule.export_to or "*" in rule.export_to or namespace in rule.export_to]
    return rules if len(seen) == len(rules) else tuple(seen)


def select_rule(
    rules: Sequence[MergedRule], namespace: str, labels: AbstractSet[tuple[str, str]] | None
) -> MergedRule | None:
    """The rule that a proxy of `namespace` with these labels uses (xds-server.md §8.4.6).

    The first with a selector that fits, if it stands in the proxy's own namespace; else the last without a selector.
    `labels` None: inbound, where rules with selectors never apply.
    """
    if len(rules) == 1 and rules[0].selector is None:
        return rules[0]  # as nearly always
    if labels is not None:
        for rule in rules:
            if rule.selector is not None and rule.namespace == namespace and rule.selector.items() <= labels:
                return rule
    return next((rule for rule in reversed(rules) if rule.selector is None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePolicy:
    """What a rule says for one subset and one port, the mesh's defaults filled in. None: nobody says anything.

    Compares by the identity of its blocks, so it may be part of a unit's inputs.
    """

    connection_pool: ConnectionPool | None = None
    load_balancer: LoadBalancer | None = None
    outlier_detection: OutlierDetection | None = None
    tls: ClientTls | None = None
    tunnel: Tunnel | None = None
    proxy_protocol: ProxyProtocol | None = None
    retry_budget: RetryBudget | None = None


def effective_policy(rule: MergedRule | None, subset_name: str, port_number: int, mesh: Mesh) -> EffectivePolicy:
    """The policy of a cluster (networking.md §2.4): the rule's, over the mesh's defaults."""
    return _with_mesh_defaults(stated_policy(rule, subset_name, port_number), mesh)


def stated_policy(rule: MergedRule | None, subset_name: str, port_number: int) -> EffectivePolicy:
    """What a rule says of a cluster, overlaid by what it says of the subset. Nothing if there is no rule.

    `subset_name` "" is the service as a whole; a subset that the rule does not have adds nothing.
    """
    if rule is None:
        return EffectivePolicy()
    policy = _of_rule(rule.spec.traffic_policy, port_number)
    subset = rule.subset(subset_name) if subset_name else None
    if subset is None or subset.traffic_policy is None:
        return policy
    return _overlaid(policy, subset.traffic_policy, port_number)


def _of_rule(policy: TrafficPolicy | None, port_number: int) -> EffectivePolicy:
    """A port-level entry stands alone: nothing is inherited beside it."""
    if policy is None:
        return EffectivePolicy()
    entry = _port_entry(policy, port_number)
    if entry is not None:
        return EffectivePolicy(
            connection_pool=entry.connection_pool,
            load_balancer=entry.load_balancer,
            outlier_detection=entry.outlier_detection,
            tls=entry.tls,
        )
    return EffectivePolicy(
        connection_pool=policy.connection_pool,
        load_balancer=policy.load_balancer,
        outlier_detection=policy.outlier_detection,
        tls=policy.tls,
        tunnel=policy.tunnel,
        proxy_protocol=policy.proxy_protocol,
        retry_budget=policy.retry_budget,
    )


def _overlaid(base: EffectivePolicy, subset: TrafficPolicy, port_number: int) -> EffectivePolicy:
    """Each block of the subset's policy replaces the base's; those of its port-level entry do so even when absent."""
    policy = EffectivePolicy(
        connection_pool=subset.connection_pool or base.connection_pool,
        load_balancer=subset.load_balancer or base.load_balancer,
        outlier_detection=subset.outlier_detection or base.outlier_detection,
        tls=subset.tls or base.tls,
        tunnel=subset.tunnel or base.tunnel,
        proxy_protocol=subset.proxy_protocol or base.proxy_protocol,
        retry_budget=subset.retry_budget or base.retry_budget,
    )
    entry = _port_entry(subset, port_number)
    if entry is None:
        return policy
    return replace(
        policy,
        connection_pool=entry.connection_pool,
        load_balancer=entry.load_balancer,
        outlier_detection=entry.outlier_detection,
        tls=entry.tls,
    )


def _port_entry(policy: TrafficPolicy, port_number: int) -> PortTrafficPolicy | None:
    entries = policy.port_level_settings
    return next((entry for entry in entries if entry.port is not None and entry.port.number == port_number), None)


def _with_mesh_defaults(policy: EffectivePolicy, mesh: Mesh) -> EffectivePolicy:
    defaults = mesh.config.default_traffic_policy
    if defaults is None:
        return policy
    return replace(
        policy,
        connection_pool=policy.connection_pool or defaults.connection_pool,
        outlier_detection=policy.outlier_detection or defaults.outlier_detection,
    )
