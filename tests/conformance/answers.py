"""What a client of a case would be sent, kind by kind, as proto-JSON: asked for as such a client would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.cases import Document, build_client
from tests.conformance.protojson import to_plain
from trierarch.envoy.generate import generate
from trierarch.envoy.memo import Memo
from trierarch.envoy.part_cache import PartCache
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE, type_rules
from trierarch.push.sidecar_scope import build_scope
from trierarch.push.steps import run_steps
from trierarch.push.view import select_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from protocol.xds.resources import ResourceSet
    from tests.conformance.comparing import Json
    from trierarch.push.context import PushContext
    from trierarch.push.proxy import Proxy

TYPES = {"clusters": CLUSTER, "endpoints": ENDPOINT, "listeners": LISTENER, "routes": ROUTE}


def answer(node: Document, context: PushContext) -> dict[str, list[dict]]:
    """What a client with this node asks for: an Envoy, or a gRPC client with a list of listeners."""
    proxy = build_client(node)
    sets = generate_all(proxy, context)
    return _answer_by_name(node["grpc"], proxy, sets) if "grpc" in node else _answer_envoy(proxy, sets)


def generate_all(proxy: Proxy, context: PushContext) -> dict[str, ResourceSet]:
    """Everything that the client could ask for, by kind."""
    view = select_view(proxy, context)
    scope = run_steps(build_scope(view.outbound.scope, context))
    memo, parts = Memo(100_000), PartCache()
    return {kind: run_steps(generate(view, scope, context, url, memo, parts)) for kind, url in TYPES.items()}


def _answer_envoy(proxy: Proxy, sets: dict[str, ResourceSet]) -> dict[str, list[dict]]:
    """All clusters and listeners, and the resources that these name."""
    clusters, listeners = _all(CLUSTER, sets["clusters"]), _all(LISTENER, sets["listeners"])
    return {
        "clusters": clusters,
        "endpoints": _named(ENDPOINT, sets["endpoints"], _assignment_names(clusters), proxy),
        "listeners": listeners,
        "routes": _named(ROUTE, sets["routes"], _route_names(listeners), proxy),
    }


def _answer_by_name(names: list[str], proxy: Proxy, sets: dict[str, ResourceSet]) -> dict[str, list[dict]]:
    """Listeners by name, then the routes, clusters and endpoints that they lead to."""
    listeners = _named(LISTENER, sets["listeners"], names, proxy)
    routes = _named(ROUTE, sets["routes"], _route_names(listeners), proxy)
    clusters = _named(CLUSTER, sets["clusters"], sorted(set(_cluster_names(routes))), proxy)
    return {
        "clusters": clusters,
        "endpoints": _named(ENDPOINT, sets["endpoints"], _assignment_names(clusters), proxy),
        "listeners": listeners,
        "routes": routes,
    }


def _all(type_url: str, resources: ResourceSet) -> list[dict]:
    return [to_plain(type_url, resource.body) for resource in resources]


def _named(type_url: str, resources: ResourceSet, names: Iterable[str], proxy: Proxy) -> list[dict]:
    """The resources of these names, or what answers a name that nothing defines, if anything does."""
    placeholder = type_rules(proxy)[type_url].placeholder
    found = (resources.get(name) or (placeholder(name) if placeholder else None) for name in names)
    return [to_plain(type_url, resource.body) for resource in found if resource is not None]


def _assignment_names(clusters: list[dict]) -> list[str]:
    return [cluster["eds_cluster_config"]["service_name"] for cluster in clusters if "eds_cluster_config" in cluster]


def _route_names(listeners: list[dict]) -> list[str]:
    return sorted({found["route_config_name"] for found in _find(listeners, "rds")})


def _cluster_names(routes: list[dict]) -> Iterator[str]:
    for action in _find(routes, "route"):
        if "cluster" in action:
            yield action["cluster"]
        yield from (each["name"] for each in action.get("weighted_clusters", {}).get("clusters", ()))


def _find(value: Json, key: str) -> Iterator[dict]:
    """All objects under this key, at any depth."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name == key and isinstance(item, dict):
                yield item
            yield from _find(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _find(item, key)
