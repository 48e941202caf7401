"""Small meshes for tests, in the text that users write: YAML to objects, to a view, to a snapshot.

    context = snapshot('''
        Service shop/web: {ports: [{name: http, port: 80}], selector: {app: web}}
        VirtualService shop/web: {hosts: [web], http: [{route: [{destination: {host: web}}]}]}
    ''')

Any test may import this module (`from tests.push.fixtures import snapshot`): an editable installation puts the root of
the checkout on the path. A line `KIND NAMESPACE/NAME: {...}` is an object; the value is its spec, except for kinds
whose fields stand beside the metadata, and except for the keys `metadata` and `status`. Whole YAML documents may be
given to `objects` too.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import yaml

from trierarch.config.decode import Decoded, decode_mesh_config, decode_mesh_networks, decode_object
from trierarch.config.kinds import KINDS, Family
from trierarch.config.objects import Origin
from trierarch.config.store import ConfigView
from trierarch.push.processors import ContextSettings, build_push_context
from trierarch.push.proxy import NodeInfo, build_proxy
from trierarch.push.sidecar_scope import build_scope
from trierarch.push.steps import run_steps
from trierarch.push.view import select_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trierarch.config.objects import AnyObject
    from trierarch.push.context import PushContext
    from trierarch.push.proxy import Proxy
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import View

CLUSTER = "Kubernetes"
ORIGIN = Origin(source="test")
_BESIDE_METADATA = frozenset({"EndpointSlice", "Endpoints", "Namespace"})
_ENVELOPE = ("metadata", "status")


def objects(text: str, cluster: str = CLUSTER) -> tuple[AnyObject, ...]:
    """The objects of a text: short lines `KIND NAMESPACE/NAME: {...}`, or YAML documents separated by `---`."""
    found: list[AnyObject] = []
    for document in yaml.safe_load_all(textwrap.dedent(text)):
        if document and "apiVersion" in document:
            found.append(decoded(document, cluster))
        else:
            found.extend(short(name, body or {}, cluster) for name, body in (document or {}).items())
    return tuple(found)


def short(name: str, body: Mapping[str, object], cluster: str = CLUSTER) -> AnyObject:
    """The object that `KIND NAMESPACE/NAME` and a body in short form mean."""
    kind = name.partition(" ")[0]
    if KINDS[kind].family is Family.MESH:
        return mesh_settings(kind, body, cluster)
    return decoded(document(name, body), cluster)


def document(name: str, body: Mapping[str, object]) -> dict[str, object]:
    """The document that they mean, for an object that is no settings of the mesh."""
    kind, _, path = name.partition(" ")
    namespace, _, own_name = path.rpartition("/")
    beside = {key: body[key] for key in _ENVELOPE if key in body}
    rest = {key: value for key, value in body.items() if key not in _ENVELOPE}
    metadata = {"name": own_name, "namespace": namespace, **beside.pop("metadata", {})}
    stated = {"apiVersion": KINDS[kind].api_versions[0], "kind": kind, **beside, "metadata": metadata}
    return {**stated, **(rest if kind in _BESIDE_METADATA else {"spec": rest})}


def decoded(document: Mapping[str, object], cluster: str = CLUSTER) -> AnyObject:
    """The object of a document, which must be well-formed."""
    result = decode_object(document, ORIGIN, cluster)
    assert isinstance(result, Decoded), result
    return result.object


def mesh_settings(kind: str, document: Mapping[str, object], cluster: str = CLUSTER) -> AnyObject:
    """A MeshConfig or MeshNetworks."""
    decode = decode_mesh_config if kind == "MeshConfig" else decode_mesh_networks
    result = decode(document, ORIGIN, cluster)
    assert isinstance(result, Decoded), result
    return result.object


def view_of(*given: AnyObject | str) -> ConfigView:
    """A view of objects and texts."""
    return edited(ConfigView(), *given)


def edited(view: ConfigView, *given: AnyObject | str, deletes: Iterable[AnyObject] = ()) -> ConfigView:
    """The view after these objects came (in place of those with the same key) and others went."""
    upserts = [each for item in given for each in (objects(item) if isinstance(item, str) else (item,))]
    return view.apply(upserts, [each.key for each in deletes])[0]


def built(
    view: ConfigView, previous: PushContext | None = None, settings: ContextSettings | None = None
) -> PushContext:
    """The snapshot of a view, after another one or cold."""
    number = previous.number + 1 if previous else 1
    return run_steps(build_push_context(view, settings or ContextSettings(), previous, number))


def snapshot(*given: AnyObject | str, settings: ContextSettings | None = None) -> PushContext:
    """The snapshot of objects and texts, cold."""
    return built(view_of(*given), settings=settings)


def sidecar(name: str = "web-1", namespace: str = "shop", ip: str = "10.1.0.1", **metadata: object) -> Proxy:
    """A sidecar whose id names the Pod NAMESPACE/NAME."""
    node = NodeInfo(id=f"sidecar~{ip}~{name}.{namespace}~{namespace}.svc.cluster.local", metadata=metadata)
    return build_proxy(node, default_cluster=CLUSTER)


def scope_of(proxy: Proxy, context: PushContext, previous: SidecarScope | None = None) -> SidecarScope:
    """The scope of a proxy in a snapshot."""
    return run_steps(build_scope(view_in(proxy, context).outbound.scope, context, previous))


def view_in(proxy: Proxy, context: PushContext) -> View:
    """The view of a proxy in a snapshot."""
    return select_view(proxy, context)
