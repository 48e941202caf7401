"""Which endpoints are preferred for being near: the setting in force, and the priorities and weights that follow.

Theory (networking.md §2.7, §3.3). Endpoints are grouped by locality. A preference may *distribute*: give each group a
weight; or *fail over*: give each group a priority, 0 being used first. Priorities only help if Envoy notices that
endpoints fail, so they need outlier detection, unless the preference is `forced`. Clusters and endpoints are built
apart, but must agree: both ask here.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config import labels
from trierarch.config.destination_rule import LocalityLbSetting, ZoneAwareLbSetting
from trierarch.push.model import Locality, TrafficDistribution

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trierarch.config.destination_rule import LoadBalancer, LocalityDistribute, LocalityFailover
    from trierarch.config.mesh_config import MeshConfig
    from trierarch.push.model import Endpoint

_ZONE_LABELS = (labels.NETWORK, labels.REGION, labels.ZONE)
_NODE_LABELS = (*_ZONE_LABELS, labels.SUBZONE, labels.HOSTNAME)

MOST_WEIGHT = 2**32 - 1

_FAILOVER_LEVELS = 5
"""Levels of a match by locality: from 0, the very same, to 4, a region that is not the one to fail over to."""
_ZONE_AWARE_LEVELS = 3


class Reads(NamedTuple):
    """Which facts about a client matter: its locality, labels of these names."""

    locality: bool = False
    labels: frozenset[str] = frozenset()


READS_NOTHING = Reads()


class Preference(NamedTuple):
    """A setting in force. `forced`: it counts without outlier detection."""

    setting: LocalityLbSetting | ZoneAwareLbSetting
    forced: bool = False

    def fails_over(self, has_outlier_detection: bool) -> bool:
        """Whether endpoints have priorities."""
        return self.forced or has_outlier_detection

    def reads(self, has_outlier_detection: bool) -> Reads:
        """What of a client `apply_preference` looks at."""
        setting = self.setting
        if isinstance(setting, LocalityLbSetting) and setting.distribute:
            return Reads(locality=True)
        if setting.enabled is False or not self.fails_over(has_outlier_detection):
            return READS_NOTHING
        names = frozenset(item.partition("=")[0] for item in setting.failover_priority)
        by_region = isinstance(setting, ZoneAwareLbSetting)
        return Reads(locality=by_region or bool(setting.failover) or not names, labels=names)


_DISTRIBUTIONS: Mapping[TrafficDistribution, Preference] = {
    TrafficDistribution.SAME_ZONE: Preference(LocalityLbSetting(failover_priority=_ZONE_LABELS), forced=True),
    TrafficDistribution.SAME_NODE: Preference(LocalityLbSetting(failover_priority=_NODE_LABELS), forced=True),
}


def preference_in_force(
    load_balancer: LoadBalancer | None, distribution: TrafficDistribution, mesh: MeshConfig
) -> Preference | None:
    """The rule's setting, else the service's wish, else the mesh's; None if nothing is preferred."""
    if load_balancer is not None:
        if load_balancer.zone_aware_lb_setting is not None:
            return _zone_aware(load_balancer.zone_aware_lb_setting)
        if load_balancer.locality_lb_setting is not None:
            return _unless_disabled(load_balancer.locality_lb_setting)
    if distribution in _DISTRIBUTIONS:
        return _DISTRIBUTIONS[distribution]
    if mesh.zone_aware_lb_setting is not None:
        return _zone_aware(mesh.zone_aware_lb_setting)
    return _unless_disabled(mesh.locality_lb_setting)


def _zone_aware(setting: ZoneAwareLbSetting) -> Preference:
    """In force even if it is disabled, for it then tells Envoy so. Regions have priorities whatever is detected."""
    return Preference(setting, forced=setting.enabled is not False)


def _unless_disabled(setting: LocalityLbSetting | None) -> Preference | None:
    return None if setting is None or setting.enabled is False else Preference(setting)


class Group(NamedTuple):
    """Endpoints of one locality (and of one priority) with the weight of all together."""

    locality: Locality
    endpoints: tuple[Endpoint, ...]
    weight: int
    priority: int = 0


class Standpoint(NamedTuple):
    """The client as far as nearness goes. `labels`: of its workload, those that preferences name."""

    locality: Locality = Locality()
    labels: frozenset[tuple[str, str]] = frozenset()


NOWHERE = Standpoint()


def endpoint_weight(endpoint: Endpoint) -> int:
    """At least one: a weight of 0 is "not stated"."""
    return max(endpoint.weight, 1)


def group_by_locality(endpoints: Sequence[Endpoint]) -> list[Group]:
    """One group for each locality, in the order of locality labels; endpoints keep their order."""
    members: dict[Locality, list[Endpoint]] = {}
    for endpoint in endpoints:
        members.setdefault(endpoint.locality, []).append(endpoint)
    return [_group(locality, members[locality]) for locality in sorted(members, key=lambda locality: locality.label)]


def total_weight(endpoints: Iterable[Endpoint]) -> int:
    """The weight of a group: at most what Envoy can read."""
    return min(sum(map(endpoint_weight, endpoints)), MOST_WEIGHT)


def _group(locality: Locality, endpoints: Sequence[Endpoint], priority: int = 0) -> Group:
    return Group(locality, tuple(endpoints), total_weight(endpoints), priority)


def apply_preference(
    groups: list[Group], preference: Preference | None, has_outlier_detection: bool, client: Standpoint
) -> list[Group]:
    """The groups with the weights and priorities that a client at that standpoint is to use."""
    if preference is None:
        return groups
    setting = preference.setting
    if isinstance(setting, LocalityLbSetting) and setting.distribute:
        return _distribute(groups, setting.distribute, client.locality)
    if setting.enabled is False or not preference.fails_over(has_outlier_detection):
        return groups
    if setting.failover_priority:
        groups = _prioritise_by_labels(groups, setting.failover_priority, client.labels)
    if isinstance(setting, ZoneAwareLbSetting):
        return _prioritise_by_region(groups, setting.failover, client.locality)
    if setting.failover or not setting.failover_priority:
        groups = _prioritise_by_locality(groups, setting.failover, client.locality)
    return groups


def _distribute(groups: list[Group], rules: Sequence[LocalityDistribute], locality: Locality) -> list[Group]:
    """Weights by the first rule for the client's locality; what it does not mention stays, but without endpoints."""
    rule = next((rule for rule in rules if _matches(locality, rule.from_)), None)
    if rule is None:
        return groups
    weights: dict[int, int] = {}
    # Patterns may overlap: the more specific one takes its localities first.
    for pattern in sorted(rule.to, key=lambda pattern: (-pattern.count("/"), pattern.count("*"), pattern)):
        matching = [i for i, group in enumerate(groups) if i not in weights and _matches(group.locality, pattern)]
        total = sum(groups[i].weight for i in matching)
        for i in matching:
            weights[i] = ceil(groups[i].weight * rule.to[pattern] / total) or groups[i].weight
    return [
        group._replace(weight=weights[i]) if i in weights else group._replace(endpoints=())
        for i, group in enumerate(groups)
    ]


def _matches(locality: Locality, pattern: str) -> bool:
    """`region/zone/subzone`, where a part that is `*` or left out stands for any."""
    parts = [*pattern.split("/"), "", ""][:3]
    region = parts[0] in ("*", locality.region)
    return region and all(part in ("", "*", own) for part, own in zip(parts[1:], locality[1:], strict=True))


def _prioritise_by_labels(
    groups: list[Group], wanted: Sequence[str], own_labels: frozenset[tuple[str, str]]
) -> list[Group]:
    """Split each group by how many of the labels, from the first on, an endpoint has in common with the client."""
    own = dict(own_labels)
    values = [_wanted_value(item, own) for item in wanted]
    split = []
    for group in groups:
        levels: dict[int, list[Endpoint]] = {}
        for endpoint in group.endpoints:
            levels.setdefault(_label_level(values, endpoint.labels), []).append(endpoint)
        split += [_group(group.locality, levels[level], level) for level in sorted(levels)]
    return _compacted(split)


def _wanted_value(item: str, own: Mapping[str, str]) -> tuple[str, str | None]:
    """A label and the value that it should have: the client's own unless one is given (`label=value`)."""
    label, given, value = item.partition("=")
    return label, value if given else own.get(label)


def _label_level(values: Sequence[tuple[str, str | None]], endpoint_labels: Mapping[str, str]) -> int:
    """0: all alike. The earlier the first difference, the higher; another network is worse than all of that."""
    level = 0
    for i, (label, value) in enumerate(values):
        if endpoint_labels.get(label) == value:
            continue
        if i == 0 and label == labels.NETWORK:
            level += len(values)
            continue
        return level + len(values) - i
    return level


def _prioritise_by_locality(
    groups: list[Group], failover: Sequence[LocalityFailover], locality: Locality
) -> list[Group]:
    """Refine the priorities by distance; among other regions the one to fail over to comes first."""
    target = next((rule.to for rule in failover if rule.from_ == locality.region), None)
    levels = [_locality_level(group.locality, locality, target) for group in groups]
    return _refined(groups, levels, _FAILOVER_LEVELS)


def _locality_level(other: Locality, own: Locality, target: str | None) -> int:
    if other.region != own.region:
        return 3 if target is None or other.region == target else 4
    if other.zone != own.zone:
        return 2
    return 0 if other.subzone == own.subzone else 1


def _prioritise_by_region(groups: list[Group], failover: Sequence[LocalityFailover], locality: Locality) -> list[Group]:
    """Zones are Envoy's own matter with zone-aware routing: only regions have priorities."""
    target = next((rule.to for rule in failover if rule.from_ == locality.region), None)
    levels = [0 if g.locality.region == locality.region else 1 if g.locality.region == target else 2 for g in groups]
    return _refined(groups, levels, _ZONE_AWARE_LEVELS)


def _refined(groups: list[Group], levels: Sequence[int], count: int) -> list[Group]:
    """Order by the priorities that there are, then by level."""
    pairs = zip(groups, levels, strict=True)
    return _compacted([group._replace(priority=group.priority * count + level) for group, level in pairs])


def _compacted(groups: list[Group]) -> list[Group]:
    """Priorities 0, 1, 2, ... without gaps, for Envoy wants none."""
    ranks = {priority: rank for rank, priority in enumerate(sorted({group.priority for group in groups}))}
    return [group._replace(priority=ranks[group.priority]) for group in groups]
