"""Cases of ground truth: a folder of inputs, and what a real istiod answered to each proxy.

A case file is a head document (proxies, MeshConfig, switches of the control plane, further clusters) and the objects
of a mesh. Here it becomes a snapshot; nothing is generated or compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conformance.yaml_documents import load_documents
from trierarch.config.admission import Admitted, admit
from trierarch.config.decode import Decoded, decode_mesh_config, decode_mesh_networks
from trierarch.config.objects import AnyObject, Origin
from trierarch.config.store import ConfigView
from trierarch.push.mesh import ContextSettings
from trierarch.push.model import Locality
from trierarch.push.processors import build_push_context
from trierarch.push.proxy import NodeInfo, Proxy, build_proxy
from trierarch.push.steps import run_steps
from trierarch.settings import parse_settings

if TYPE_CHECKING:
    from trierarch.push.context import PushContext

Document = Mapping[str, Any]
CONFIG_CLUSTER = "Kubernetes"
ORIGIN = Origin(source="case")


def shared_folder() -> Path:
    """Where cases are: $TRIERARCH_CASES, else `../shared` beside the checkout."""
    beside = Path(__file__).parents[3] / "shared"
    return Path(os.environ.get("TRIERARCH_CASES") or beside)


def conformance_folder(name: str) -> Path:
    """The folder of a family of conformance data there, in `conformance/` or beside it; it need not exist."""
    places = [root / name for root in (shared_folder() / "conformance", shared_folder())]
    return next((place for place in places if place.is_dir()), places[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case. `objects` maps a cluster to its documents; `expected` maps a proxy to its resources by kind."""

    family: str
    name: str
    about: str
    head: Document
    objects: Mapping[str, tuple[Document, ...]]
    expected: Mapping[str, Document]

    def __str__(self) -> str:
        return f"{self.family}/{self.name}"


def load_cases(folder: Path, families: frozenset[str], text: str = "") -> Iterator[Case]:
    """The cases of these families (all if there are none) whose names contain `text`, and that have an answer."""
    for path in sorted((folder / "oracle" / "cases").rglob("*.yaml")):
        answer = folder / "oracle" / "expected" / f"{path.parent.name}__{path.stem}.json"
        wanted = (not families or path.parent.name in families) and text in f"{path.parent.name}/{path.stem}"
        if wanted and answer.exists():
            yield load_case(path, answer)


def load_case(path: Path, answer: Path) -> Case:
    """Read a case and its answer."""
    head, *documents = load_documents(path.read_text())
    objects = {CONFIG_CLUSTER: tuple(documents)}
    for cluster, further in (head.get("clusters") or {}).items():
        read = tuple(load_documents(further) if isinstance(further, str) else further)
        objects[cluster] = objects.get(cluster, ()) + read
    return Case(
        family=path.parent.name,
        name=path.stem,
        about=head.get("about", ""),
        head=head,
        objects=objects,
        expected=json.loads(answer.read_text())["proxies"],
    )


def build_snapshot(case: Case) -> PushContext:
    """The mesh of a case as a snapshot. What is refused or of an unknown kind is left out, as the product would."""
    features = {name: str(value).lower() for name, value in (case.head.get("features") or {}).items()}
    settings = ContextSettings(cluster=CONFIG_CLUSTER, features=parse_settings({}, features).features)
    view, _ = ConfigView().apply(_objects(case))
    return run_steps(build_push_context(view, settings, None, 1))


def _objects(case: Case) -> Iterator[AnyObject]:
    for cluster, documents in case.objects.items():
        for document in documents:
            for item in document["items"] if document.get("kind") == "List" else [document]:
                verdict = admit(item, ORIGIN, cluster)
                if isinstance(verdict, Admitted):
                    yield verdict.object
    for name, decode in (("mesh", decode_mesh_config), ("networks", decode_mesh_networks)):
        stated = case.head.get(name) or {}
        document = load_documents(stated)[0] if isinstance(stated, str) else stated
        decoded = decode(document, ORIGIN, CONFIG_CLUSTER)
        assert isinstance(decoded, Decoded), f"{case}: {decoded}"
        yield decoded.object


def build_client(node: Document) -> Proxy:
    """The proxy that a case's node describes."""
    locality = node.get("locality") or {}
    return build_proxy(
        NodeInfo(
            id=node["id"],
            cluster=node.get("cluster", ""),
            metadata=node.get("metadata") or {},
            locality=Locality(locality.get("region", ""), locality.get("zone", ""), locality.get("sub_zone", "")),
            extensions=None,
        ),
        default_cluster=CONFIG_CLUSTER,
    )
