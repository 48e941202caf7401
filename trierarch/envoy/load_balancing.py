"""How a cluster chooses among its endpoints (networking.md §2.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.cluster.v3 import (
    Cluster,
    ClusterCommonLbConfig,
    ClusterCommonLbConfigLocalityWeightedLbConfig,
    ClusterCommonLbConfigZoneAwareLbConfig,
    ClusterLbPolicy,
    ClusterLeastRequestLbConfig,
    ClusterMaglevLbConfig,
    ClusterRingHashLbConfig,
    ClusterRoundRobinLbConfig,
    ClusterSlowStartConfig,
)
from protocol.proto.envoy.config.core.v3 import HealthStatus, HealthStatusSet, RuntimeDouble
from protocol.proto.envoy.type.v3 import Percent
from trierarch.config.destination_rule import (
    ConsistentHash,
    LocalityLbSetting,
    Maglev,
    RingHash,
    SimpleLoadBalancer,
    ZoneAwareLbSetting,
)
from trierarch.envoy.well_known_types import duration

if TYPE_CHECKING:
    from trierarch.config.destination_rule import LoadBalancer
    from trierarch.envoy.locality import Preference
    from trierarch.envoy.outline import ClusterOutline

DEFAULT_RING_SIZE = 1024
DEFAULT_AGGRESSION = 1.0
DEFAULT_MIN_WEIGHT_PERCENT = 10.0
SESSION_STATUSES = (HealthStatus.HEALTHY, HealthStatus.DRAINING, HealthStatus.UNKNOWN, HealthStatus.DEGRADED)
"""Endpoints in these states keep the sessions that they have (networking.md §2.13)."""

_SIMPLE = {
    SimpleLoadBalancer.ROUND_ROBIN: ClusterLbPolicy.ROUND_ROBIN,
    SimpleLoadBalancer.RANDOM: ClusterLbPolicy.RANDOM,
    SimpleLoadBalancer.PASSTHROUGH: ClusterLbPolicy.CLUSTER_PROVIDED,
}
"""What is not listed here is LEAST_REQUEST."""


def set_load_balancing(cluster: Cluster, balancer: LoadBalancer | None) -> None:
    """Set the policy, and what belongs to it. Not for clusters that provide their own (original destination)."""
    policy = balancer.policy if balancer is not None else None
    if isinstance(policy, ConsistentHash):
        _set_consistent_hash(cluster, policy)
        return
    cluster.lb_policy = _SIMPLE.get(policy, ClusterLbPolicy.LEAST_REQUEST) if policy else ClusterLbPolicy.LEAST_REQUEST
    slow_start = _slow_start(balancer) if balancer is not None else None
    if slow_start is None:
        return
    if cluster.lb_policy is ClusterLbPolicy.LEAST_REQUEST:
        cluster.least_request_lb_config = ClusterLeastRequestLbConfig(slow_start_config=slow_start)
    elif cluster.lb_policy is ClusterLbPolicy.ROUND_ROBIN:
        cluster.round_robin_lb_config = ClusterRoundRobinLbConfig(slow_start_config=slow_start)


def _set_consistent_hash(cluster: Cluster, policy: ConsistentHash) -> None:
    match policy.algorithm:
        case Maglev(table_size=size):
            cluster.lb_policy = ClusterLbPolicy.MAGLEV
            cluster.maglev_lb_config = ClusterMaglevLbConfig(table_size=size or None)
        case RingHash(minimum_ring_size=size):
            _set_ring(cluster, size)
        case None:
            _set_ring(cluster, policy.minimum_ring_size)


def _set_ring(cluster: Cluster, size: int) -> None:
    cluster.lb_policy = ClusterLbPolicy.RING_HASH
    cluster.ring_hash_lb_config = ClusterRingHashLbConfig(minimum_ring_size=size or DEFAULT_RING_SIZE)


def _slow_start(balancer: LoadBalancer) -> ClusterSlowStartConfig | None:
    """How a new endpoint warms up; the old spelling knows the duration only."""
    warmup = balancer.warmup
    if warmup is None:
        seconds = balancer.warmup_duration_secs
        return ClusterSlowStartConfig(slow_start_window=duration(seconds)) if seconds is not None else None
    aggression = DEFAULT_AGGRESSION if warmup.aggression is None else warmup.aggression
    percent = DEFAULT_MIN_WEIGHT_PERCENT if warmup.minimum_percent is None else warmup.minimum_percent
    return ClusterSlowStartConfig(
        slow_start_window=None if warmup.duration is None else duration(warmup.duration),
        # Envoy wants a runtime key though nobody overrides it.
        aggression=RuntimeDouble(default_value=aggression, runtime_key="("),
        min_weight_percent=Percent(value=percent),
    )


def build_common_lb_config(outline: ClusterOutline) -> ClusterCommonLbConfig:
    """What all policies have in common: when to panic, how localities count, which hosts keep their sessions."""
    common = ClusterCommonLbConfig()
    if outline.panic_threshold is not None:
        common.healthy_panic_threshold = Percent(value=outline.panic_threshold)
    if outline.keeps_sessions:
        common.override_host_status = HealthStatusSet(statuses=list(SESSION_STATUSES))
    preference = outline.preference
    if preference is not None and isinstance(preference.setting, ZoneAwareLbSetting):
        common.zone_aware_lb_config = _zone_aware(preference.setting)
    elif outline.weigh_localities or _weighs_localities(preference, outline.has_outlier_detection):
        common.locality_weighted_lb_config = ClusterCommonLbConfigLocalityWeightedLbConfig()
    return common


def _weighs_localities(preference: Preference | None, has_outlier_detection: bool) -> bool:
    """Whether a setting asks for it: weights are stated, or groups to fail over to."""
    if preference is None or not isinstance(preference.setting, LocalityLbSetting):
        return False
    setting = preference.setting
    fails_over = preference.fails_over(has_outlier_detection) and (setting.failover or setting.failover_priority)
    return bool(setting.distribute or fails_over)


def _zone_aware(setting: ZoneAwareLbSetting) -> ClusterCommonLbConfigZoneAwareLbConfig:
    if setting.enabled is False:
        return ClusterCommonLbConfigZoneAwareLbConfig(routing_enabled=Percent(value=0))
    return ClusterCommonLbConfigZoneAwareLbConfig(min_cluster_size=setting.min_cluster_size)
