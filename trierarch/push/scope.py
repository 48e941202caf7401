"""Who is affected by a change, and in which types (xds-server.md §5.1 to §5.3).

`affects` asks it of a view: are any of the changed keys within its reach, now or before? `affected_types` asks it of
the types: a table of kinds. Both may say yes for nothing (the bytes then turn out to be the same, and nothing is sent)
but never no when something would differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from trierarch.push.proxy import ProxyType
from trierarch.push.request import ConfigKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.push.context import PushContext
    from trierarch.push.request import PushRequest
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import View

SEEN_IN_VIEWS = frozenset({"AuthorizationPolicy", "RequestAuthentication"})
"""Kinds whose objects are in the views of those they apply to: whom a change concerns, it moves to another view."""

NAMESPACED_POLICIES = frozenset({"EnvoyFilter", "WasmPlugin", "TrafficExtension", "Telemetry"})
"""Kinds that apply to workloads of their own namespace, or to all from the root namespace."""

SCOPED = frozenset({"ServiceEntry", "Endpoints", "VirtualService", "DestinationRule", "Sidecar", "PeerAuthentication"})
"""Kinds of which a Sidecar scope knows whether it depends on them. Of any other kind everybody is affected."""

NEVER: Mapping[ProxyType, frozenset[str]] = MappingProxyType(
    {ProxyType.SIDECAR: frozenset({"Gateway", "Address"}), ProxyType.ROUTER: frozenset({"Sidecar", "Address"})}
)
"""Kinds that never concern a type of proxy."""

ALWAYS = frozenset({ProxyType.WAYPOINT, ProxyType.ZTUNNEL, ProxyType.AGENTGATEWAY})
"""Types of proxy that are pushed to whatever changed."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A view that a change does not concern, and why, for people."""

    reason: str


Verdicts = dict[tuple["ProxyType", "SidecarScope"], "PushRequest | Skipped"]
"""What was said of one request to views of a type and a scope: views share scopes, and keys may be many."""


def affects(
    view: View,
    scope: SidecarScope,
    previous_scope: SidecarScope | None,
    request: PushRequest,
    context: PushContext,
    verdicts: Verdicts | None = None,
) -> PushRequest | Skipped:
    """The request narrowed to the keys that concern a view, or `Skipped`. The very request if all of them do.

    `scope` is the view's in `context`; `previous_scope` its scope in the snapshot that its proxies have, None if that
    is the same. The former notices what came, the latter what went. Whoever asks of many views hands in one dictionary
    of `verdicts`, empty at first, for each request.
    """
    if request.forced or view.outbound.type in ALWAYS:
        return request
    if not request.keys:
        return Skipped("nothing of what changed is sent to proxies")
    verdict = None if verdicts is None else verdicts.get((view.outbound.type, scope))
    if verdict is None:
        verdict = _narrowed(request, _concerned(request, view.outbound.type, scope, previous_scope, context), scope)
        if verdicts is not None:
            verdicts[view.outbound.type, scope] = verdict
    if verdict is request:
        return request
    served = _served(request, view)
    known = frozenset() if isinstance(verdict, Skipped) else verdict.keys
    return verdict if served <= known else _narrowed(request, known | served, scope)


def _narrowed(request: PushRequest, concerned: frozenset[ConfigKey], scope: SidecarScope) -> PushRequest | Skipped:
    if concerned == request.keys:
        return request
    return replace(request, keys=concerned) if concerned else Skipped(_why_not(request, scope))


def _concerned(
    request: PushRequest,
    proxy_type: ProxyType,
    scope: SidecarScope,
    previous_scope: SidecarScope | None,
    context: PushContext,
) -> frozenset[ConfigKey]:
    """The keys that concern all proxies of a type and a scope."""
    return frozenset(key for key in request.keys if _concerns(key, proxy_type, scope, previous_scope, context))


def _concerns(
    key: ConfigKey,
    proxy_type: ProxyType,
    scope: SidecarScope,
    previous_scope: SidecarScope | None,
    context: PushContext,
) -> bool:
    if key.kind in SEEN_IN_VIEWS or key.kind in NEVER.get(proxy_type, frozenset()):
        return False
    if proxy_type is ProxyType.ROUTER:
        return _concerns_router(key, scope, previous_scope)
    if key.kind in NAMESPACED_POLICIES:
        return key.namespace in (context.mesh.root_namespace, scope.key.namespace)
    if key.kind not in SCOPED:
        return True
    return scope.depends(key) or (previous_scope is not None and previous_scope.depends(key))


def _concerns_router(key: ConfigKey, scope: SidecarScope, previous_scope: SidecarScope | None) -> bool:
    """A gateway skips only services that it neither sees nor saw."""
    scopes = [each for each in (scope, previous_scope) if each is not None]
    return key.kind != "ServiceEntry" or any(key.name in each.by_host for each in scopes)


def _served(request: PushRequest, view: View) -> frozenset[ConfigKey]:
    """The services that the proxy itself serves: they count even if its Sidecar does not import them."""
    if view.outbound.type is ProxyType.ROUTER:
        return frozenset()
    own = {ConfigKey("ServiceEntry", *target.service) for target in view.inbound.targets}
    return request.keys & own


def _why_not(request: PushRequest, scope: SidecarScope) -> str:
    sidecar = scope.key.sidecar
    reach = f"Sidecar {sidecar.namespace}/{sidecar.name}" if sidecar else f"namespace {scope.key.namespace}"
    names = sorted(f"{key.kind} {key.namespace}/{key.name}" for key in request.keys)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    said = f"{', '.join(names[:3])}{more}"
    if all(key.kind in SEEN_IN_VIEWS for key in request.keys):
        return f"for other workloads: {said}"
    return f"out of reach of {reach}: {said}"


# --- types -----------------------------------------------------------------------------------------------------------
TYPES = ("CDS", "EDS", "LDS", "RDS", "VHDS", "NDS")
"""Short names of the types that follow from the kinds below, in push order. Secrets and extensions have rules of their
own, which come with them."""

_ALL = frozenset(TYPES)

UNTOUCHED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "Gateway": _ALL,
        "WorkloadEntry": _ALL - {"EDS"},
        "WorkloadGroup": _ALL,
        "AuthorizationPolicy": _ALL - {"LDS"},
        "RequestAuthentication": _ALL - {"LDS"},
        "PeerAuthentication": frozenset({"LDS", "RDS", "VHDS", "NDS"}),
        "Secret": _ALL,
        "Telemetry": frozenset({"CDS", "EDS", "NDS"}),
        "WasmPlugin": frozenset({"CDS", "EDS", "NDS"}),
        "TrafficExtension": frozenset({"CDS", "EDS", "NDS"}),
        "ProxyConfig": _ALL,
        "DNSName": _ALL - {"NDS"},
        "Endpoints": _ALL - {"EDS"},
        "NetworkGateways": _ALL - {"EDS"},
        "Address": _ALL,
        "DestinationRule": frozenset({"NDS"}),
        "EnvoyFilter": frozenset({"NDS"}),
        "MeshConfig": frozenset({"NDS"}),
    }
)
"""Kind -> types in which a change of it alone changes nothing (xds-server.md §5.3). Kinds not listed change all types.

VirtualService and Sidecar are not listed, though istiod skips EDS (and NDS) for them: both change which services are in
reach, and here the set of a view, not a request of the client, decides which load assignments and names there are.
PeerAuthentication changes LDS too, but only of workloads that it moves to another view.
"""

UNTOUCHED_AT_ROUTERS: Mapping[str, frozenset[str]] = MappingProxyType({"Gateway": frozenset({"EDS", "NDS"})})
"""What differs from `UNTOUCHED` for gateways."""


REACHING: Mapping[str, frozenset[str]] = MappingProxyType(
    {"VirtualService": frozenset({"EDS"}), "Sidecar": frozenset({"EDS"})}
)
"""Kind -> types in which a change of it alone changes only what is in reach. A client learns of that from its clusters,
and forgets the endpoints of those that it loses by itself: nothing is said of these."""


def affected_types(request: PushRequest, view: View) -> tuple[str, ...]:
    """The types in which a request may change something for a view that it affects, in push order."""
    return _touched(request.forced, _kinds(request), view.outbound.type, by_themselves=False)


def types_by_themselves(request: PushRequest, view: View) -> tuple[str, ...]:
    """Those of the affected types that a request changes not only by changing what is in reach."""
    return _touched(request.forced, _kinds(request), view.outbound.type, by_themselves=True)


def _kinds(request: PushRequest) -> frozenset[str]:
    return frozenset(key.kind for key in request.keys)


@lru_cache(maxsize=1024)
def _touched(forced: bool, kinds: frozenset[str], proxy_type: ProxyType, *, by_themselves: bool) -> tuple[str, ...]:
    """Remembered, for every proxy asks, and few combinations of kinds change together."""
    if proxy_type is ProxyType.ZTUNNEL:
        return ()
    if forced:
        return TYPES
    table = {**UNTOUCHED, **UNTOUCHED_AT_ROUTERS} if proxy_type is ProxyType.ROUTER else UNTOUCHED
    exceptions = (table, REACHING) if by_themselves else (table,)
    touched = {short for kind in kinds for short in _ALL.difference(*(each.get(kind, ()) for each in exceptions))}
    return tuple(short for short in TYPES if short in touched)
