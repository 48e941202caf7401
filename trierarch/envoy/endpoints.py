"""Endpoints of EDS clusters (networking.md §3): one unit for each service, the assignments of all its clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.envoy.load_assignment import build_load_assignment
from trierarch.envoy.narrowing import select_rows
from trierarch.envoy.outline import Discovery, outline_clusters
from trierarch.envoy.split_horizon import Horizon
from trierarch.envoy.units import Unit
from trierarch.envoy.well_known_types import encode_resource
from trierarch.push.model import Resolution

if TYPE_CHECKING:
    from protocol.xds.resources import Resource
    from trierarch.envoy.load_assignment import AssignmentInputs
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.narrowing import ServiceRow, ServiceRows
    from trierarch.envoy.outline import ClusterOutline
    from trierarch.envoy.outlook import Outlook
    from trierarch.envoy.units import Plan
    from trierarch.push.view import OutboundKey


def narrow_endpoints(outlook: Outlook) -> ServiceRows:
    """What of an outlook its assignments depend on."""
    key = outlook.key
    return select_rows(outlook, Horizon(outlook.context.network_gateways, key.network, key.ip_mode))


def plan_endpoints(inputs: ServiceRows, memo: Memo) -> Plan:
    """One unit for each service of the scope, in order."""
    for row in inputs.rows(memo):
        yield memo.recall(_select_unit, row)


def _select_unit(row: ServiceRow) -> Unit:
    """Only those clusters that ask for their endpoints."""
    narrowing, policies, service, rule, endpoints = row
    client = narrowing.client
    outlines = outline_clusters(service, rule, narrowing.mesh, not client.knows_destinations)
    listed = [outline for outline in outlines if _is_listed(outline, client)]
    return Unit(_build_assignments, tuple(narrowing.select(service, endpoints, policies, listed)))


def _is_listed(outline: ClusterOutline, client: OutboundKey) -> bool:
    """Whether the client asks for the endpoints. A gRPC client asks always, but gets none where names are resolved."""
    if client.is_proxyless:
        return outline.service.resolution in (Resolution.CLIENT_SIDE, Resolution.PASSTHROUGH)
    return outline.discovery is Discovery.EDS


def _build_assignments(inputs: tuple[AssignmentInputs, ...]) -> tuple[Resource, ...]:
    return tuple(encode_resource(each.outline.name, build_load_assignment(each)) for each in inputs)
