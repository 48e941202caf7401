"""How DestinationRules of one namespace and host become the rules that are used (xds-server.md §8.4.1 to §8.4.4).

Rules with equal visibility become one: the oldest gives its policy, later ones add subsets with new names. Rules that
differ in visibility or workload selector stay side by side, and `traffic.select_rule` chooses among them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.findings import Remark
from trierarch.config.hosts import is_wildcard, resolve_short_name
from trierarch.push.model import Hostname
from trierarch.push.reuse import Groups, build_units, regroup
from trierarch.push.traffic import NO_RULES, DestinationRules, HostGroup, HostRules, MergedRule, RulesMemo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trierarch.config.destination_rule import DestinationRule, Subset
    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.push.mesh import Mesh
    from trierarch.push.steps import Steps

EVERYBODY = "*"
OWN_NAMESPACE = "."


class RulesInputs(NamedTuple):
    """All that the section may read."""

    mesh: Mesh
    rules: Mapping[ObjectKey, ConfigObject[DestinationRule]]


class _GroupInputs(NamedTuple):
    """All that a group may read: its rules, and who its host and namespace are."""

    name: Hostname
    rules: tuple[ConfigObject[DestinationRule], ...]
    mesh: Mesh


def build_destination_rules(inputs: RulesInputs, previous: DestinationRules) -> Steps[DestinationRules]:
    """All rules, merged and indexed. A group whose objects did not change keeps its rules."""
    memo, mesh = previous.memo, inputs.mesh

    def group_of(rule: ConfigObject[DestinationRule]) -> tuple[Hostname]:
        namespace = rule.key.namespace
        return (Hostname(namespace, resolve_short_name(rule.spec.host, namespace, mesh.domain)),)

    groups = regroup(inputs.rules, group_of, memo.groups if memo.domain == mesh.domain else Groups())
    yield
    wanted = ((name, _GroupInputs(name, rules, mesh)) for name, rules in groups.grouped.items())
    units = yield from build_units(wanted, _host_group, memo.units)
    return DestinationRules(
        local=_by_namespace(previous.local, ((name, unit.value.local) for name, unit in units.items())),
        exported=_by_namespace(previous.exported, ((name, unit.value.exported) for name, unit in units.items())),
        root_local=_host_rules(
            previous.root_local, ((name.host, unit.value.root_local) for name, unit in units.items())
        ),
        sources=inputs.rules,
        remarks=tuple(remark for unit in units.values() for remark in unit.value.remarks),
        memo=RulesMemo(mesh.domain, groups, units),
    )


def _by_namespace(
    before: Mapping[str, HostRules], lists: Iterable[tuple[Hostname, tuple[MergedRule, ...]]]
) -> dict[str, HostRules]:
    """Rules by namespace; a namespace whose rules are the same as before keeps its index."""
    namespaces: dict[str, list[tuple[str, tuple[MergedRule, ...]]]] = {}
    for name, rules in lists:
        if rules:
            namespaces.setdefault(name.namespace, []).append((name.host, rules))
    return {name: _host_rules(before.get(name, NO_RULES), hosts) for name, hosts in namespaces.items()}


def _host_rules(before: HostRules, hosts: Iterable[tuple[str, tuple[MergedRule, ...]]]) -> HostRules:
    exact: dict[str, tuple[MergedRule, ...]] = {}
    wildcard: dict[str, tuple[MergedRule, ...]] = {}
    for host, rules in hosts:
        if rules:
            (wildcard if is_wildcard(host) else exact)[host] = rules
    same = exact == before.exact and wildcard == before.wildcard
    return before if same else HostRules(exact=exact, wildcard=wildcard)


def _host_group(inputs: _GroupInputs) -> HostGroup:
    """Merge the rules of a host for each of the indexes that they belong to (xds-server.md §8.4.3)."""
    namespace, mesh = inputs.name.namespace, inputs.mesh
    rules = [_alone(rule, inputs.name) for rule in sorted(inputs.rules, key=_merge_order)]
    own = [rule for rule in rules if not rule.export_to or rule.export_to & {EVERYBODY, OWN_NAMESPACE, namespace}]
    private = [rule for rule in rules if _is_private(rule, mesh)]
    shared = [rule for rule in rules if rule not in private]
    local = _merge(own)
    return HostGroup(
        local=local,
        exported=local if shared == own else _merge(shared),
        root_local=_merge(private) if namespace == mesh.root_namespace else (),
        remarks=tuple(remark for merged in local for remark in _duplicate_subsets(merged)),
    )


def _merge_order(rule: ConfigObject[DestinationRule]) -> tuple[bool, tuple[float, str, str]]:
    """Rules with a selector first, then by age."""
    return (rule.spec.workload_selector is None, rule.age)


def _alone(rule: ConfigObject[DestinationRule], name: Hostname) -> MergedRule:
    selector = rule.spec.workload_selector
    return MergedRule(
        host=name.host,
        namespace=name.namespace,
        spec=rule.spec,
        sources=(rule,),
        export_to=frozenset(rule.spec.export_to) if selector is None else frozenset({OWN_NAMESPACE}),
        selector=None if selector is None else selector.match_labels,
    )


def _is_private(rule: MergedRule, mesh: Mesh) -> bool:
    """Whether only its own namespace may see a rule."""
    if not rule.export_to:
        return OWN_NAMESPACE in mesh.config.default_destination_rule_export_to
    return rule.export_to in ({OWN_NAMESPACE}, {rule.namespace})


def _merge(rules: Sequence[MergedRule]) -> tuple[MergedRule, ...]:
    """Put each rule into those before it, or beside them (xds-server.md §8.4.4).

    Whether it also stands on its own is decided by the last of those before it.
    """
    merged: list[MergedRule] = []
    for rule in rules:
        apart = True
        for index, earlier in enumerate(merged):
            together, apart = _fit(earlier, rule)
            if together:
                merged[index] = _with_added(earlier, rule)
        if apart:
            merged.append(rule)
    return tuple(merged)


def _fit(earlier: MergedRule, rule: MergedRule) -> tuple[bool, bool]:
    """Whether a rule goes into an earlier one, and whether it also stands on its own."""
    wider = bool(earlier.export_to) and rule.export_to > earlier.export_to
    if rule.export_to != earlier.export_to and not wider:
        return False, True
    if earlier.selector is not None and rule.selector is not None and earlier.selector != rule.selector:
        return False, True
    if earlier.selector == rule.selector:
        return True, False
    return True, wider


def _with_added(earlier: MergedRule, rule: MergedRule) -> MergedRule:
    """An earlier rule with the subsets that a later one adds, and its policy if the earlier has none."""
    known = {subset.name for subset in earlier.spec.subsets}
    added: tuple[Subset, ...] = tuple(subset for subset in rule.spec.subsets if subset.name not in known)
    policy = earlier.spec.traffic_policy or rule.spec.traffic_policy
    spec = replace(earlier.spec, subsets=(*earlier.spec.subsets, *added), traffic_policy=policy)
    return replace(earlier, spec=spec, sources=(*earlier.sources, *rule.sources))


def _duplicate_subsets(merged: MergedRule) -> Iterable[Remark]:
    """A subset that an older rule of the host has already defined is not used."""
    known: set[str] = set()
    for source in merged.sources:
        for index, subset in enumerate(source.spec.subsets):
            if subset.name in known:
                reason = f"subset {subset.name!r} of {merged.host} is already defined by an older rule"
                yield Remark(origin=source.origin, key=source.key, path=f"spec.subsets[{index}]", reason=reason)
        known |= {subset.name for subset in source.spec.subsets}
