"""Which labels anybody selects by: only these may be part of a view key.

Labels that choose a Sidecar are not among them: the choice itself is in the key (`ScopeKey.sidecar`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config import labels as names
from trierarch.push.model import TrafficDistribution

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trierarch.config.destination_rule import DestinationRule, LocalityLbSetting, TrafficPolicy, ZoneAwareLbSetting
    from trierarch.config.virtual_service import VirtualService
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Service
    from trierarch.push.routing import VirtualServices
    from trierarch.push.services import Services
    from trierarch.push.steps import Steps
    from trierarch.push.traffic import DestinationRules

ZONE_LABELS = (names.NETWORK, names.REGION, names.ZONE)
NODE_LABELS = (*ZONE_LABELS, names.SUBZONE, names.HOSTNAME)
"""What near endpoints are chosen by, in the order of their weight (xds-server.md §9.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selectors:
    """The section of the snapshot, by value: label keys that may influence outbound and inbound configuration.

    `node`: some service keeps to the caller's own node.
    """

    outbound: frozenset[str] = frozenset()
    inbound: frozenset[str] = frozenset()
    node: bool = False


class SelectorsInputs(NamedTuple):
    """All that the section may read."""

    mesh: Mesh
    services: Services
    virtual_services: VirtualServices
    rules: DestinationRules


def build_selectors(inputs: SelectorsInputs, previous: Selectors) -> Steps[Selectors]:
    """The labels that rules, routes and services mention. The old object if they are the same."""
    labels = set(_of_mesh(inputs.mesh))
    for source in inputs.rules.sources.values():
        labels.update(_of_rule(source.spec))
    yield
    for root in inputs.virtual_services.roots:
        labels.update(_of_virtual_service(root.spec))
    yield
    labels.update(_of_services(inputs.services.ordered))
    node = names.HOSTNAME in labels or any(service.node_local for service in inputs.services.ordered)
    selectors = Selectors(outbound=frozenset(labels), node=node)
    return previous if selectors == previous else selectors


def _of_mesh(mesh: Mesh) -> Iterator[str]:
    yield from _of_locality(mesh.config.locality_lb_setting)
    yield from _of_locality(mesh.config.zone_aware_lb_setting)


def _of_rule(rule: DestinationRule) -> Iterator[str]:
    if rule.workload_selector is not None:
        yield from rule.workload_selector.match_labels
    for policy in (rule.traffic_policy, *(subset.traffic_policy for subset in rule.subsets)):
        if policy is not None:
            yield from _of_policy(policy)


def _of_policy(policy: TrafficPolicy) -> Iterator[str]:
    balancers = [policy.load_balancer, *(entry.load_balancer for entry in policy.port_level_settings)]
    for balancer in balancers:
        if balancer is not None:
            yield from _of_locality(balancer.locality_lb_setting)
            yield from _of_locality(balancer.zone_aware_lb_setting)


def _of_locality(setting: LocalityLbSetting | ZoneAwareLbSetting | None) -> Iterator[str]:
    """The labels of a failoverPriority; `label=value` does not ask the caller, but costs nothing here."""
    if setting is not None:
        yield from (entry.partition("=")[0] for entry in setting.failover_priority)


def _of_virtual_service(spec: VirtualService) -> Iterator[str]:
    for http in spec.http:
        for match in http.match:
            yield from match.source_labels
    for tls in spec.tls:
        for tls_match in tls.match:
            yield from tls_match.source_labels
    for tcp in spec.tcp:
        for tcp_match in tcp.match:
            yield from tcp_match.source_labels


def _of_services(services: Iterable[Service]) -> Iterator[str]:
    wishes = {service.traffic_distribution for service in services}
    if TrafficDistribution.SAME_ZONE in wishes:
        yield from ZONE_LABELS
    if TrafficDistribution.SAME_NODE in wishes:
        yield from NODE_LABELS
