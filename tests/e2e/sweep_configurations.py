"""The meshes of the sweep, as cases: those a real istiod was asked about, simulations, and samples as people write.

A sample is a file of what somebody applies to a cluster. It says nothing of Pods, so each workload gets one here, and
lies on top of the Services and workloads of its folder: a VirtualService alone would route nowhere.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from tests.conformance.cases import CONFIG_CLUSTER, Case, load_cases
from tests.conformance.yaml_documents import load_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Document = dict[str, Any]

_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")
_BASE = ("Service", "ServiceAccount", "Namespace", *_WORKLOADS)
_NETWORK = "10.77.0"
_STRANGER = f"{_NETWORK}.250"


def load_configurations(folder: Path) -> Iterator[Case]:
    """All of them; none if the folder has none."""
    yield from load_cases(folder, frozenset())
    yield from load_simulations(folder / "conformance" / "simulation")
    yield from load_samples(folder / "conformance" / "samples")


# --- simulations -----------------------------------------------------------------------------------------------------
def load_simulations(folder: Path) -> Iterator[Case]:
    """The inputs of all simulations."""
    file = folder / "inputs.json"
    for each in json.loads(file.read_text()) if file.is_file() else ():
        texts = (each["config"], each["kubeConfig"])
        documents = tuple(document for text in texts for document in load_documents(text or ""))
        head = {"mesh": each["meshConfig"], "features": each["features"], "proxies": {"proxy": _node(each["proxy"])}}
        yield _case("inputs", each["name"], head, documents)


def _node(proxy: Document) -> Document:
    metadata = {
        "NAMESPACE": proxy.get("metadataNamespace") or proxy["namespace"],
        "STATIC_LABELS": proxy["labels"],
        "INSTANCE_IPS": ",".join(proxy["ip"]),
        "ISTIO_VERSION": proxy["istioVersion"],
        "CLUSTER_ID": proxy.get("clusterID") or CONFIG_CLUSTER,
    }
    return {"id": f"{proxy['type']}~{proxy['ip'][0]}~{proxy['id']}~{proxy['dnsDomain']}", "metadata": metadata}


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
    objects = {_key(each): each for each in (*reversed(base), *documents)}
    pods = [_pod(each, number) for number, each in enumerate(_workloads(objects.values()), 1)]
    slices = [_slice(each, pods) for each in objects.values() if each["kind"] == "Service"]
    brought = {_key(each)[1:] for each in _workloads(documents)}
    seers = [pod for pod in pods if _key(pod)[1:] in brought] or pods
    nodes = {_key(pod)[2]: _node_of(pod) for pod in seers} or {"stranger": _stranger(documents)}
    return _case("samples", name, {"proxies": nodes}, (*objects.values(), *pods, *filter(None, slices)))


def _key(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace") or "default", metadata["name"]


def _workloads(documents: Iterable[Document]) -> Iterator[Document]:
    return (each for each in documents if each["kind"] in _WORKLOADS)


def _pod(workload: Document, number: int) -> Document:
    _, namespace, name = _key(workload)
    template, address = workload["spec"]["template"], f"{_NETWORK}.{number}"
    metadata = {"name": name, "namespace": namespace, "labels": template.get("metadata", {}).get("labels") or {}}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": ready}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"], "status": status}


def _slice(service: Document, pods: list[Document]) -> Document | None:
    """The endpoints of a service that selects Pods."""
    _, namespace, name = _key(service)
    selector = (service.get("spec") or {}).get("selector") or {}
    chosen = [
        pod
        for pod in pods
        if selector and _key(pod)[1] == namespace and selector.items() <= pod["metadata"]["labels"].items()
    ]
    if not chosen:
        return None
    labels = {"kubernetes.io/service-name": name}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{name}-1", "namespace": namespace, "labels": labels},
        "addressType": "IPv4",
        "ports": [_target(port, chosen[0]) for port in service["spec"].get("ports", ())],
        "endpoints": [_endpoint(pod) for pod in chosen],
    }


def _target(port: Document, pod: Document) -> Document:
    """Where a port of a service leads in a Pod: to its number, or to the container's port of that name."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, str):
        ports = [each for container in pod["spec"]["containers"] for each in container.get("ports", ())]
        target = next((each["containerPort"] for each in ports if each.get("name") == target), port["port"])
    return {"name": port.get("name", ""), "port": target, "protocol": port.get("protocol", "TCP")}


def _endpoint(pod: Document) -> Document:
    kind, namespace, name = _key(pod)
    target = {"kind": kind, "namespace": namespace, "name": name}
    return {"addresses": [pod["status"]["podIP"]], "conditions": {"ready": True}, "targetRef": target}


def _node_of(pod: Document) -> Document:
    _, namespace, name = _key(pod)
    address = pod["status"]["podIP"]
    metadata = {"LABELS": pod["metadata"]["labels"], "INSTANCE_IPS": address}
    return _sidecar(name, namespace, address, metadata)


def _stranger(documents: list[Document]) -> Document:
    """A workload without a service, where the objects are."""
    return _sidecar("stranger", _key(documents[0])[1], _STRANGER, {})


def _sidecar(name: str, namespace: str, address: str, metadata: Document) -> Document:
    stated = {"NAMESPACE": namespace, "CLUSTER_ID": CONFIG_CLUSTER, "ISTIO_VERSION": "1.32.0", **metadata}
    return {"id": f"sidecar~{address}~{name}.{namespace}~{namespace}.svc.cluster.local", "metadata": stated}


def _case(family: str, name: str, head: Document, documents: Iterable[Document]) -> Case:
    return Case(family=family, name=name, about="", head=head, objects={CONFIG_CLUSTER: tuple(documents)}, expected={})
