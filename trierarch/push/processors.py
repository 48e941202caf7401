"""The build of a snapshot: ordered processors, each of which owns one section.

A processor names its inputs (tables of the view and sections before it) by picking them out of the snapshot so far. If
each of them is identical to what the same pick finds in the previous snapshot, the section is taken over whole; else it
is built, with the old section at hand, so that whatever in it has the same inputs is reused. A new family of
configuration is a new processor, a new field of `PushContext`, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trierarch.config import key_sets, resolved_names
from trierarch.push.authentication import AuthenticationInputs, build_authentication
from trierarch.push.authorization import AuthorizationInputs, build_authorization
from trierarch.push.changes import changed_config_keys
from trierarch.push.context import PushContext
from trierarch.push.dead_ends import DeadEndsInputs, build_dead_ends
from trierarch.push.endpoints import EndpointsInputs, build_endpoints
from trierarch.push.mesh import ContextSettings, KeyFetching, MeshInputs, build_mesh
from trierarch.push.mesh_routes import MeshRoutesInputs, build_mesh_routes
from trierarch.push.network_gateways import NetworkGatewaysInputs, build_network_gateways
from trierarch.push.request_authentication import RequestAuthenticationsInputs, build_request_authentications
from trierarch.push.routing import RoutingInputs, build_virtual_services
from trierarch.push.rule_merging import RulesInputs, build_destination_rules
from trierarch.push.selectors import SelectorsInputs, build_selectors
from trierarch.push.services import ServicesInputs, build_services
from trierarch.push.sidecar_scope import SidecarsInputs, build_sidecars
from trierarch.push.workloads import WorkloadsInputs, build_workloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trierarch.config.findings import Finding
    from trierarch.config.store import ConfigView
    from trierarch.push.steps import Steps

__all__ = ["PROCESSORS", "ContextSettings", "Processor", "build_push_context"]


@dataclass(frozen=True, slots=True)
class Processor:
    """Builds one section. `section` is the field of `PushContext` that it owns."""

    section: str
    pick: Callable[[PushContext], tuple[object, ...]]
    build: Callable[[Any, Any], Steps[Any]]
    """From what `pick` picked and the old section to the new one."""


def _mesh(context: PushContext) -> MeshInputs:
    view = context.view
    return MeshInputs(context.settings, view.table("MeshConfig"), view.table("MeshNetworks"))


def _workloads(context: PushContext) -> WorkloadsInputs:
    view = context.view
    return WorkloadsInputs(
        context.mesh, view.table("Pod"), view.table("Node"), view.table("Namespace"), view.table("WorkloadEntry")
    )


def _services(context: PushContext) -> ServicesInputs:
    view = context.view
    return ServicesInputs(context.mesh, view.table("Service"), view.table("ServiceEntry"), view.table("Namespace"))


def _endpoints(context: PushContext) -> EndpointsInputs:
    view = context.view
    return EndpointsInputs(
        context.mesh, context.services, context.workloads, view.table("EndpointSlice"), view.table("Endpoints")
    )


def _network_gateways(context: PushContext) -> NetworkGatewaysInputs:
    view = context.view
    return NetworkGatewaysInputs(
        context.mesh, view.table("Service"), view.table("Node"), view.table(resolved_names.KIND)
    )


def _mesh_routes(context: PushContext) -> MeshRoutesInputs:
    view = context.view
    return MeshRoutesInputs(context.mesh, context.services, view.table("HTTPRoute"), view.table("ServiceEntry"))


def _virtual_services(context: PushContext) -> RoutingInputs:
    return RoutingInputs(context.mesh, context.view.table("VirtualService"), context.mesh_routes.derived)


def _destination_rules(context: PushContext) -> RulesInputs:
    return RulesInputs(context.mesh, context.view.table("DestinationRule"))


def _sidecars(context: PushContext) -> SidecarsInputs:
    return SidecarsInputs(context.mesh, context.view.table("Sidecar"))


def _authentication(context: PushContext) -> AuthenticationInputs:
    return AuthenticationInputs(context.mesh, context.view.table("PeerAuthentication"))


def _authorization(context: PushContext) -> AuthorizationInputs:
    return AuthorizationInputs(context.mesh, context.services, context.view.table("AuthorizationPolicy"))


def _request_authentications(context: PushContext) -> RequestAuthenticationsInputs:
    mesh, view = context.mesh, context.view
    services = None if mesh.features.jwks_fetching is KeyFetching.OURS else context.services
    return RequestAuthenticationsInputs(mesh, services, view.table("RequestAuthentication"), view.table(key_sets.KIND))


def _selectors(context: PushContext) -> SelectorsInputs:
    return SelectorsInputs(context.mesh, context.services, context.virtual_services, context.destination_rules)


def _dead_ends(context: PushContext) -> DeadEndsInputs:
    return DeadEndsInputs(context.mesh, context.services, context.view.table("VirtualService"))


PROCESSORS = (
    Processor("mesh", _mesh, build_mesh),
    Processor("workloads", _workloads, build_workloads),
    Processor("services", _services, build_services),
    Processor("endpoints", _endpoints, build_endpoints),
    Processor("network_gateways", _network_gateways, build_network_gateways),
    Processor("mesh_routes", _mesh_routes, build_mesh_routes),
    Processor("virtual_services", _virtual_services, build_virtual_services),
    Processor("destination_rules", _destination_rules, build_destination_rules),
    Processor("sidecars", _sidecars, build_sidecars),
    Processor("authentication", _authentication, build_authentication),
    Processor("authorization", _authorization, build_authorization),
    Processor("request_authentications", _request_authentications, build_request_authentications),
    Processor("selectors", _selectors, build_selectors),
    Processor("dead_ends", _dead_ends, build_dead_ends),
)
"""In the order in which they run: a processor picks only sections of those before it."""


def build_push_context(
    view: ConfigView, settings: ContextSettings, previous: PushContext | None, number: int
) -> Steps[PushContext]:
    """The snapshot of a view. `previous`: the one before it, None at first; `number` is the caller's count.

    Yields after each unit of work. `changed` of the result says in which push keys it differs from `previous`; after
    None it is everything that there is.
    """
    old = previous or PushContext()
    context = PushContext(number=number, view=view, settings=settings)
    for processor in PROCESSORS:
        section = yield from _section(processor, context, old, reuse=previous is not None)
        context = replace(context, **{processor.section: section})
    changed = yield from changed_config_keys(old, context)
    return replace(context, changed=changed, findings=tuple(_findings(context)))


def _section(processor: Processor, context: PushContext, old: PushContext, *, reuse: bool) -> Steps[Any]:
    """The old section if all its inputs are the same (sections and objects by identity), else a new one."""
    inputs, before = processor.pick(context), getattr(old, processor.section)
    if reuse and inputs == processor.pick(old):
        return before
    return (yield from processor.build(inputs, before))


def _findings(context: PushContext) -> Iterator[Finding]:
    yield from context.virtual_services.remarks
    yield from context.destination_rules.remarks
    yield from context.sidecars.remarks
    yield from context.authentication.remarks
    yield from context.authorization.remarks
    yield from context.request_authentications.remarks
    yield from context.dead_ends.remarks
