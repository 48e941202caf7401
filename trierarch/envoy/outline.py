"""Which outbound clusters a service has, and what decides each: shared by clusters and endpoints, which must agree.

No message is built here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from trierarch.config.destination_rule import ClientTlsMode, SimpleLoadBalancer
from trierarch.envoy.locality import READS_NOTHING, Preference, Reads, preference_in_force
from trierarch.envoy.names import outbound_cluster
from trierarch.push.model import PortProtocol, Registry, Resolution, TrafficDistribution
from trierarch.push.traffic import EffectivePolicy, MergedRule, effective_policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.push.mesh import Features, Mesh
    from trierarch.push.model import Service, ServicePort

_REMEMBERED = 65536


class Discovery(Enum):
    """How a cluster finds its endpoints (networking.md §1.1, §2.3)."""

    EDS = "EDS"
    STRICT_DNS = "STRICT_DNS"
    LOGICAL_DNS = "LOGICAL_DNS"
    ORIGINAL_DESTINATION = "ORIGINAL_DST"
    DYNAMIC_FORWARD_PROXY = "dynamic forward proxy"

    @property
    def is_dns(self) -> bool:
        """Whether Envoy resolves names that are listed in the cluster itself."""
        return self in (Discovery.STRICT_DNS, Discovery.LOGICAL_DNS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterOutline:
    """One outbound cluster: a port of a service, or a subset of it (`subset` "" and no labels: all endpoints).

    `reads`: what of a client its endpoints depend on; `has_user_tls`: a rule sets a TLS mode not the mesh's own;
    `panic_threshold`: percent of healthy endpoints under which Envoy uses them all, None to leave it to Envoy.
    `keeps_sessions`: a session stays with its endpoint though that is draining (networking.md §2.13).
    `keep_draining`: Envoy is told of draining endpoints; `weigh_localities`: localities count by weight in any case.
    """

    name: str
    service: Service
    port: ServicePort
    subset: str
    subset_labels: frozenset[tuple[str, str]]
    rule: MergedRule | None
    policy: EffectivePolicy
    discovery: Discovery
    preference: Preference | None
    reads: Reads
    has_user_tls: bool
    keep_unhealthy: bool
    keep_draining: bool
    panic_threshold: int | None
    keeps_sessions: bool
    weigh_localities: bool

    @property
    def has_outlier_detection(self) -> bool:
        """Whether Envoy notices endpoints that fail."""
        return self.policy.outlier_detection is not None

    @property
    def is_original_destination(self) -> bool:
        """Whether the address that the client wanted is used as it is."""
        return self.discovery is Discovery.ORIGINAL_DESTINATION


@lru_cache(maxsize=_REMEMBERED)
def outline_clusters(
    service: Service, rule: MergedRule | None, mesh: Mesh, for_router: bool
) -> tuple[ClusterOutline, ...]:
    """The clusters of a service under a rule: for each port the whole, then the subsets in order of the rule.

    Remembered, since every view asks for the clusters and again for their endpoints; all arguments are immutable and
    compare by identity.
    """
    return tuple(_outline(service, rule, mesh, for_router))


def _outline(service: Service, rule: MergedRule | None, mesh: Mesh, for_router: bool) -> Iterator[ClusterOutline]:
    discovery = _discovery(service, mesh, for_router)
    if discovery is None:
        return
    for port in service.ports:
        if not _has_cluster(port.protocol, discovery):
            continue
        yield _outline_one(service, port, rule, "", frozenset(), mesh, discovery)
        if rule is None or discovery is Discovery.DYNAMIC_FORWARD_PROXY:
            continue
        for subset in rule.spec.subsets:
            wanted = frozenset(subset.labels.items())
            yield _outline_one(service, port, rule, subset.name, wanted, mesh, discovery)


def _discovery(service: Service, mesh: Mesh, for_router: bool) -> Discovery | None:
    """How the service's endpoints are found; None for one that has no clusters of its own."""
    match service.resolution:
        case Resolution.CLIENT_SIDE:
            return Discovery.EDS
        case Resolution.DNS:
            return Discovery.LOGICAL_DNS if service.races_addresses else Discovery.STRICT_DNS
        case Resolution.DNS_ROUND_ROBIN:
            return Discovery.LOGICAL_DNS
        case Resolution.PASSTHROUGH:
            # A router has no original destination: what it receives was addressed to itself.
            listed = for_router or (mesh.features.eds_for_headless and service.registry is Registry.KUBERNETES)
            return Discovery.EDS if listed else Discovery.ORIGINAL_DESTINATION
        case Resolution.DYNAMIC_DNS:
            return Discovery.DYNAMIC_FORWARD_PROXY
        case Resolution.ALIAS:
            return None


_FORWARDED = frozenset({PortProtocol.HTTP, PortProtocol.HTTP2, PortProtocol.GRPC, PortProtocol.TLS})


def _has_cluster(protocol: PortProtocol, discovery: Discovery) -> bool:
    """Not UDP; and only protocols that name their destination can be resolved while they are forwarded."""
    if discovery is Discovery.DYNAMIC_FORWARD_PROXY:
        return protocol in _FORWARDED
    return protocol is not PortProtocol.UDP


def _outline_one(
    service: Service,
    port: ServicePort,
    rule: MergedRule | None,
    subset: str,
    subset_labels: frozenset[tuple[str, str]],
    mesh: Mesh,
    discovery: Discovery,
) -> ClusterOutline:
    policy = effective_policy(rule, subset, port.number, mesh)
    balancer = policy.load_balancer
    if balancer is not None and balancer.policy is SimpleLoadBalancer.PASSTHROUGH:
        discovery = Discovery.ORIGINAL_DESTINATION
    preference = preference_in_force(balancer, service.traffic_distribution, mesh.config)
    return ClusterOutline(
        name=outbound_cluster(port.number, subset, service.hostname),
        service=service,
        port=port,
        subset=subset,
        subset_labels=subset_labels,
        rule=rule,
        policy=policy,
        discovery=discovery,
        preference=preference,
        reads=preference.reads(policy.outlier_detection is not None) if preference is not None else READS_NOTHING,
        has_user_tls=policy.tls is not None and policy.tls.mode is not ClientTlsMode.ISTIO_MUTUAL,
        keep_unhealthy=_keeps_unhealthy(service, policy, mesh),
        keep_draining=bool(service.labels.get(mesh.features.session_cookie_label)),
        panic_threshold=_panic_threshold(service, policy, mesh),
        keeps_sessions=_keeps_sessions(service, mesh.features),
        weigh_localities=mesh.features.weigh_localities,
    )


def _keeps_unhealthy(service: Service, policy: EffectivePolicy, mesh: Mesh) -> bool:
    """Whether Envoy is told of unhealthy endpoints (networking.md §3.2, item 6)."""
    if mesh.features.send_unhealthy or service.traffic_distribution is not TrafficDistribution.ANY:
        return True
    return mesh.features.auto_send_unhealthy and _min_health(policy) <= 0


def _keeps_sessions(service: Service, features: Features) -> bool:
    asking = (features.session_cookie_label, features.session_header_label)
    return features.persistent_session and any(map(service.labels.get, asking))


def _panic_threshold(service: Service, policy: EffectivePolicy, mesh: Mesh) -> int | None:
    """Envoy's default, 50 %, would send requests to endpoints that are known to be unhealthy (networking.md §2.8)."""
    if service.traffic_distribution is not TrafficDistribution.ANY:
        return 0
    if policy.outlier_detection is not None:
        return max(_min_health(policy), 0)
    return 0 if mesh.features.auto_send_unhealthy or mesh.features.send_unhealthy else None


def _min_health(policy: EffectivePolicy) -> int:
    return policy.outlier_detection.min_health_percent if policy.outlier_detection is not None else 0
