"""What clusters tell Istio's own filters: metadata `istio` and the exchange of peer metadata (networking.md §2.3).

Only for Istio's proxy: a stock Envoy has no use for either, and would reject the filter.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from protocol.proto.envoy.config.cluster.v3 import Filter
from protocol.proto.envoy.config.core.v3 import Metadata
from trierarch.config.destination_rule import ClientTlsMode
from trierarch.envoy.network_filters import metadata_exchange
from trierarch.envoy.outline import Discovery
from trierarch.envoy.well_known_types import Plain, struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trierarch.config.objects import ObjectKey
    from trierarch.envoy.outline import ClusterOutline
    from trierarch.push.model import Service
    from trierarch.push.traffic import MergedRule

NAMESPACE = "istio"
_RULE_PATH = "/apis/networking.istio.io/v1/namespaces/{key.namespace}/destination-rule/{key.name}"


def outbound_metadata(outline: ClusterOutline, telemetry_labels: bool) -> Metadata:
    """Which service, rule and subset a cluster stands for, and what its filters should leave alone."""
    values: dict[str, Plain] = {}
    if telemetry_labels and outline.discovery is not Discovery.DYNAMIC_FORWARD_PROXY:
        values["services"] = _services([outline.service])
    if outline.rule is not None:
        values["config"] = rule_path(outline.rule)
    if outline.subset:
        values["subset"] = outline.subset
    elif outline.service.mesh_external:
        values["external"] = True
    if outline.policy.tls is not None and outline.policy.tls.mode in (ClientTlsMode.SIMPLE, ClientTlsMode.MUTUAL):
        values["alpn_override"] = "false"
    return Metadata(filter_metadata={NAMESPACE: struct(values)})


def inbound_metadata(services: Iterable[Service], rule: MergedRule | None) -> Metadata | None:
    """Which services a port of the workload belongs to; None if there is nothing to tell."""
    values: dict[str, Plain] = {}
    if listed := _services(services):
        values["services"] = listed
    if rule is not None:
        values["config"] = rule_path(rule)
    return Metadata(filter_metadata={NAMESPACE: struct(values)}) if values else None


def rule_path(rule: MergedRule) -> str:
    """The path of the rule in the Kubernetes API; of several merged ones the oldest's."""
    key: ObjectKey = rule.sources[0].key
    return _RULE_PATH.format(key=key)


def _services(services: Iterable[Service]) -> list[Plain]:
    return [{"host": service.hostname, "name": service.name, "namespace": service.namespace} for service in services]


@cache
def exchange_filter() -> Filter:
    """The upstream filter that exchanges peer metadata on TCP. One object for all clusters."""
    exchange = metadata_exchange()
    return Filter(name=exchange.name, typed_config=exchange.typed_config)
