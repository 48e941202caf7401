"""Simulated meshes, from the folder `simulation`, as cases: each has one proxy, named `proxy`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.cases import CONFIG_CLUSTER, Case
from tests.conformance.yaml_documents import load_documents

if TYPE_CHECKING:
    from tests.conformance.cases import Document

PROXY = "proxy"


def read_simulation(record: Document, family: str = "simulation") -> Case:
    """The case that a record of `ready.json` or `inputs.json` describes; calls and answers are left out."""
    texts = (record["config"], record["kubeConfig"])
    documents = tuple(document for text in texts for document in load_documents(text or ""))
    head = {
        "mesh": record.get("meshConfig"),
        "features": record.get("features"),
        "proxies": {PROXY: _node(record["proxy"])},
    }
    objects = {CONFIG_CLUSTER: documents}
    return Case(family=family, name=record["name"], about="", head=head, objects=objects, expected={})


def _node(proxy: Document) -> Document:
    """The labels of a simulated proxy are its own whatever the mesh says of its address: so they are fixed ones."""
    metadata = {
        "NAMESPACE": proxy.get("metadataNamespace") or proxy["namespace"],
        "STATIC_LABELS": proxy["labels"],
        "INSTANCE_IPS": ",".join(proxy["ip"]),
        "ISTIO_VERSION": proxy["istioVersion"],
        "CLUSTER_ID": proxy.get("clusterID") or CONFIG_CLUSTER,
    }
    return {"id": f"{proxy['type']}~{proxy['ip'][0]}~{proxy['id']}~{proxy['dnsDomain']}", "metadata": metadata}
