"""A ClusterLoadAssignment from the endpoints that a cluster is to have (networking.md §3.1 to §3.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.core.v3 import HealthStatus, Metadata
from protocol.proto.envoy.config.core.v3 import Locality as EnvoyLocality
from protocol.proto.envoy.config.endpoint.v3 import (
    ClusterLoadAssignment,
    EndpointAdditionalAddress,
    LbEndpoint,
    LocalityLbEndpoints,
)
from protocol.proto.envoy.config.endpoint.v3 import Endpoint as EnvoyEndpoint
from trierarch.config import labels
from trierarch.config.peer_authentication import MutualTlsMode
from trierarch.envoy.addresses import build_address, is_ip
from trierarch.envoy.locality import NOWHERE, Standpoint, apply_preference, endpoint_weight, group_by_locality
from trierarch.envoy.split_horizon import ONE_NETWORK, Horizon, split_horizon
from trierarch.envoy.well_known_types import Plain, struct
from trierarch.push.authentication import NO_POLICIES
from trierarch.push.model import Health

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trierarch.envoy.locality import Group
    from trierarch.envoy.outline import ClusterOutline
    from trierarch.push.authentication import NamespacePolicies
    from trierarch.push.endpoints import ServiceEndpoints
    from trierarch.push.model import Endpoint

_HEALTH = {
    Health.HEALTHY: HealthStatus.HEALTHY,
    Health.UNHEALTHY: HealthStatus.UNHEALTHY,
    Health.DRAINING: HealthStatus.DRAINING,
}
_CANONICAL_NAMES = (labels.CANONICAL_NAME, labels.APP_KUBERNETES_NAME, labels.APP)
_CANONICAL_REVISIONS = (labels.CANONICAL_REVISION, labels.APP_KUBERNETES_VERSION, labels.VERSION)
LATEST = "latest"
"""The canonical revision of a workload that states none; it is not written."""


class Reach(NamedTuple):
    """Which endpoints a client may use. None: any node, any cluster; no `networks`: any.

    `horizon`: how it gets to those of other networks.
    """

    node: str | None = None
    cluster: str | None = None
    networks: frozenset[str] = frozenset()
    horizon: Horizon = ONE_NETWORK


class EndpointTraits(NamedTuple):
    """What is said of each endpoint.

    `mutual_tls`: which of them speak Istio's mTLS; `telemetry`: their workload; `dual_stack`: all their addresses.
    """

    mutual_tls: bool = False
    telemetry: bool = False
    dual_stack: bool = False


class AssignmentInputs(NamedTuple):
    """All that a load assignment is made of.

    `client`: NOWHERE if no endpoint is preferred for being near. `policies`: NO_POLICIES if none of them takes mutual
    TLS from an endpoint that has it.
    """

    outline: ClusterOutline
    endpoints: ServiceEndpoints
    reach: Reach
    client: Standpoint = NOWHERE
    traits: EndpointTraits = EndpointTraits()
    policies: NamespacePolicies = NO_POLICIES


def build_load_assignment(inputs: AssignmentInputs) -> ClusterLoadAssignment:
    """The message, without any endpoints if there are none."""
    outline = inputs.outline
    groups = group_by_locality(select_endpoints(inputs))
    groups = split_horizon(groups, inputs.reach.horizon, mutual_tls=inputs.traits.mutual_tls)
    groups = apply_preference(groups, outline.preference, outline.has_outlier_detection, inputs.client)
    return ClusterLoadAssignment(
        cluster_name=outline.name, endpoints=[_build_group(group, inputs.traits) for group in groups]
    )


def select_endpoints(inputs: AssignmentInputs) -> Sequence[Endpoint]:
    """The endpoints of the cluster, in their stable order (§3.2)."""
    if inputs.policies is NO_POLICIES:
        return list(_select(inputs))
    return [_under_policies(endpoint, inputs.policies) for endpoint in _select(inputs)]


def _under_policies(endpoint: Endpoint, policies: NamespacePolicies) -> Endpoint:
    """The endpoint, without mutual TLS if a policy switches that off at its port."""
    if policies.of(endpoint.labels.items()).at(endpoint.port) is MutualTlsMode.DISABLE:
        return replace(endpoint, tls_mode=labels.TLS_MODE_DISABLED)
    return endpoint


def _select(inputs: AssignmentInputs) -> Iterator[Endpoint]:
    outline, (node, cluster, networks, horizon) = inputs.outline, inputs.reach
    port_name, subset_labels = outline.port.name, outline.subset_labels
    unusable = _unusable(outline)
    by_name = outline.discovery.is_dns
    for endpoint in inputs.endpoints.endpoints:
        if (
            endpoint.port_name == port_name
            and endpoint.health not in unusable
            and (node is None or (node and endpoint.node_name == node))
            and (cluster is None or endpoint.cluster == cluster)
            and (not networks or not endpoint.network or endpoint.network in networks)
            and subset_labels <= endpoint.labels.items()
            and _has_address(endpoint, by_name, horizon)
        ):
            yield endpoint


def _has_address(endpoint: Endpoint, by_name: bool, horizon: Horizon) -> bool:
    """Whether a client can tell where the endpoint is: behind a gateway it need not say."""
    if not endpoint.addresses:
        return horizon.is_split
    return by_name or endpoint.addresses[0].startswith(("/", "@")) or is_ip(endpoint.addresses[0])


def _unusable(outline: ClusterOutline) -> frozenset[Health]:
    """States of health that Envoy is not told of: it would otherwise keep connections to what is going away."""
    unusable = {Health.TERMINATING}
    if not outline.keep_unhealthy:
        unusable.add(Health.UNHEALTHY)
    if not outline.keep_draining:
        unusable.add(Health.DRAINING)
    return frozenset(unusable)


def _build_group(group: Group, traits: EndpointTraits) -> LocalityLbEndpoints:
    region, zone, subzone = group.locality
    return LocalityLbEndpoints(
        locality=EnvoyLocality(region=region, zone=zone, sub_zone=subzone),
        lb_endpoints=[_build_endpoint(endpoint, traits) for endpoint in group.endpoints],
        load_balancing_weight=group.weight or None,
        priority=group.priority,
    )


def _build_endpoint(endpoint: Endpoint, traits: EndpointTraits) -> LbEndpoint:
    more = endpoint.addresses[1:] if traits.dual_stack else ()
    return LbEndpoint(
        endpoint=EnvoyEndpoint(
            address=build_address(endpoint.addresses[0], endpoint.port),
            additional_addresses=[
                EndpointAdditionalAddress(address=build_address(address, endpoint.port)) for address in more
            ],
        ),
        health_status=_HEALTH.get(endpoint.health, HealthStatus.UNKNOWN),
        load_balancing_weight=endpoint_weight(endpoint),
        metadata=_metadata(endpoint, traits),
    )


def _metadata(endpoint: Endpoint, traits: EndpointTraits) -> Metadata | None:
    filters: dict[str, Mapping[str, Plain]] = {}
    if traits.mutual_tls and endpoint.tls_mode == labels.TLS_MODE_ISTIO:
        filters["envoy.transport_socket_match"] = {"tlsMode": labels.TLS_MODE_ISTIO}
    if traits.telemetry:
        filters["istio"] = {"workload": workload_label(endpoint)}
    if not filters:
        return None
    return Metadata(filter_metadata={name: struct(values) for name, values in filters.items()})


def workload_label(endpoint: Endpoint) -> str:
    """`workload;namespace;canonical name;canonical revision;cluster`; of an unknown workload the cluster only."""
    if not endpoint.workload_name:
        return f";;;;{endpoint.cluster}"
    name = _first_label(endpoint, _CANONICAL_NAMES) or endpoint.workload_name
    revision = _first_label(endpoint, _CANONICAL_REVISIONS)
    shown = "" if revision == LATEST else revision
    return f"{endpoint.workload_name};{endpoint.namespace};{name};{shown};{endpoint.cluster}"


def _first_label(endpoint: Endpoint, names: Sequence[str]) -> str:
    return next((endpoint.labels[name] for name in names if endpoint.labels.get(name)), "")
