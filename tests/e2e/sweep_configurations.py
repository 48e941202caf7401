"""The meshes of the sweep, as cases: those a real istiod was asked about, simulations, and samples as people write.

A sample is a file of what somebody applies to a cluster. It says nothing of Pods, so each workload gets one here, and
lies on top of the Services and workloads of its folder: a VirtualService alone would route nowhere.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import yaml

from tests.conformance.cases import CONFIG_CLUSTER, Case, conformance_folder, load_cases, shared_folder
from tests.conformance.simulations import read_simulation
from tests.conformance.yaml_documents import load_documents
from tests.e2e.mesh_objects import Document, build_pod, build_slice, key_of
from tests.fuzz.mutation import mutate_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from random import Random

_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")
_BASE = ("Service", "ServiceAccount", "Namespace", *_WORKLOADS)
_NETWORK = "10.77.0"
_STRANGER = f"{_NETWORK}.250"


def load_configurations() -> Iterator[Case]:
    """All that are there; see `tests.conformance.cases.shared_folder`."""
    yield from load_cases(shared_folder(), frozenset())
    yield from load_simulations(conformance_folder("simulation") / "inputs.json")
    yield from load_samples(conformance_folder("samples"))


def mutated(case: Case, random: Random) -> Case:
    """The same mesh with about half of its objects changed at random: what nobody has thought of writing."""
    objects = {
        cluster: tuple(_mutated(document, documents, random) for document in documents)
        for cluster, documents in case.objects.items()
    }
    return replace(case, objects=objects)


def _mutated(document: Document, others: Sequence[Document], random: Random) -> Document:
    """A document that may have changed, but is still an object."""
    if random.random() < 0.5:
        return document
    changed = mutate_document(random, document, others)
    is_object = isinstance(changed, dict) and "kind" in changed and isinstance(changed.get("metadata"), dict)
    return changed if is_object else document


def load_simulations(file: Path) -> Iterator[Case]:
    """The inputs of all simulations."""
    for record in json.loads(file.read_text()) if file.is_file() else ():
        yield read_simulation(record, "inputs")


# --- samples ---------------------------------------------------------------------------------------------------------
def load_samples(folder: Path) -> Iterator[Case]:
    """Each file on top of what its folder runs."""
    for sample in sorted(path for path in folder.glob("*") if path.is_dir()):
        files = {path: _read_objects(path) for path in sorted(sample.rglob("*.yaml"))}
        base = [each for documents in files.values() for each in documents if each["kind"] in _BASE]
        for path, documents in files.items():
            if documents:
                yield _lay(str(path.relative_to(folder)), documents, base)


def _read_objects(path: Path) -> list[Document]:
    """The objects in a file; none if it is a template or no configuration of a cluster."""
    try:
        documents = load_documents(path.read_text())
    except yaml.YAMLError:
        return []
    objects = [each for each in documents if isinstance(each, dict) and isinstance(each.get("metadata"), dict)]
    return [each for each in objects if "kind" in each and "name" in each["metadata"]]


def _lay(name: str, documents: list[Document], base: list[Document]) -> Case:
    """A sample on top of its base, seen by the workloads that it brings along, else by those of the base."""
    objects = {key_of(each): each for each in (*reversed(base), *documents)}
    pods = [_pod(each, number) for number, each in enumerate(_workloads(objects.values()), 1)]
    slices = [_slice(each, pods) for each in objects.values() if each["kind"] == "Service"]
    brought = {key_of(each)[1:] for each in _workloads(documents)}
    seers = [pod for pod in pods if key_of(pod)[1:] in brought] or pods
    nodes = {key_of(pod)[2]: _node_of(pod) for pod in seers} or {"stranger": _stranger(documents)}
    everything = (*objects.values(), *pods, *filter(None, slices))
    head, mesh = {"proxies": nodes}, {CONFIG_CLUSTER: everything}
    return Case(family="samples", name=name, about="", head=head, objects=mesh, expected={})


def _workloads(documents: Iterable[Document]) -> Iterator[Document]:
    return (each for each in documents if each["kind"] in _WORKLOADS)


def _pod(workload: Document, number: int) -> Document:
    _, namespace, name = key_of(workload)
    template = workload["spec"]["template"]
    labels = template.get("metadata", {}).get("labels") or {}
    return build_pod(namespace, name, f"{_NETWORK}.{number}", labels, template["spec"])


def _slice(service: Document, pods: list[Document]) -> Document | None:
    """The endpoints of a service that selects Pods."""
    _, namespace, name = key_of(service)
    selector = (service.get("spec") or {}).get("selector") or {}
    local = [pod for pod in pods if key_of(pod)[1] == namespace]
    chosen = [pod for pod in local if selector and selector.items() <= pod["metadata"]["labels"].items()]
    ports = service["spec"].get("ports", ()) if chosen else ()
    return build_slice(name, [_target(port, chosen[0]) for port in ports], chosen) if chosen else None


def _target(port: Document, pod: Document) -> Document:
    """Where a port of a service leads in a Pod: to its number, or to the container's port of that name."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, str):
        ports = [each for container in pod["spec"]["containers"] for each in container.get("ports", ())]
        target = next((each["containerPort"] for each in ports if each.get("name") == target), port["port"])
    return {"name": port.get("name", ""), "port": target, "protocol": port.get("protocol", "TCP")}


def _node_of(pod: Document) -> Document:
    _, namespace, name = key_of(pod)
    address = pod["status"]["podIP"]
    metadata = {"LABELS": pod["metadata"]["labels"], "INSTANCE_IPS": address}
    return _sidecar(name, namespace, address, metadata)


def _stranger(documents: list[Document]) -> Document:
    """A workload without a service, where the objects are."""
    return _sidecar("stranger", key_of(documents[0])[1], _STRANGER, {})


def _sidecar(name: str, namespace: str, address: str, metadata: Document) -> Document:
    stated = {"NAMESPACE": namespace, "CLUSTER_ID": CONFIG_CLUSTER, "ISTIO_VERSION": "1.32.0", **metadata}
    return {"id": f"sidecar~{address}~{name}.{namespace}~{namespace}.svc.cluster.local", "metadata": stated}
