"""Objects of a mesh as plain data, for tests that make meshes instead of writing them down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Document = dict[str, Any]
Key = tuple[str, str, str]
"""Kind, namespace, name."""


def key_of(document: Document) -> Key:
    """What names an object; `default` is the namespace of one that states none."""
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace") or "default", metadata["name"]


def build_object(version: str, kind: str, namespace: str, name: str, **body: object) -> Document:
    """An object with this body: `spec`, or whatever its kind has."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **body}


def build_pod(namespace: str, name: str, address: str, labels: Mapping[str, str], spec: object = None) -> Document:
    """A Pod that runs and is ready."""
    ready = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": ready}
    stated = spec or {"serviceAccountName": name, "containers": [{"name": "app"}]}
    pod = build_object("v1", "Pod", namespace, name, spec=stated, status=status)
    pod["metadata"]["labels"] = dict(labels)
    return pod


def build_slice(service: str, ports: Iterable[Document], pods: Iterable[Document]) -> Document:
    """The endpoints of a service: these Pods, all ready. The service is where they are."""
    endpoints = [_endpoint(pod) for pod in pods]
    namespace = endpoints[0]["targetRef"]["namespace"]
    body = {"addressType": "IPv4", "ports": list(ports), "endpoints": endpoints}
    found = build_object("discovery.k8s.io/v1", "EndpointSlice", namespace, f"{service}-1", **body)
    found["metadata"]["labels"] = {"kubernetes.io/service-name": service}
    return found


def _endpoint(pod: Document) -> Document:
    kind, namespace, name = key_of(pod)
    target = {"kind": kind, "namespace": namespace, "name": name}
    return {"addresses": [pod["status"]["podIP"]], "conditions": {"ready": True}, "targetRef": target}
