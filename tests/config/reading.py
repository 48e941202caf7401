"""Shorthand of the tests in this folder: documents in, verdicts out."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from trierarch.config.admission import Admitted, Refused, Verdict, admit
from trierarch.config.objects import AnyObject, Origin

ORIGIN = Origin(source="test", path="a.yaml", line=1)
CASES = Path(os.environ.get("TRIERARCH_CASES") or Path(__file__).parents[3] / "shared")
API_VERSIONS = {
    "VirtualService": "networking.istio.io/v1",
    "DestinationRule": "networking.istio.io/v1",
    "ServiceEntry": "networking.istio.io/v1",
    "WorkloadEntry": "networking.istio.io/v1",
    "Sidecar": "networking.istio.io/v1",
    "PeerAuthentication": "security.istio.io/v1",
    "RequestAuthentication": "security.istio.io/v1",
    "AuthorizationPolicy": "security.istio.io/v1",
    "EndpointSlice": "discovery.k8s.io/v1",
    "HTTPRoute": "gateway.networking.k8s.io/v1",
}


def document(kind: str, text: str = "", /, **fields: object) -> dict[str, object]:
    """An object of the kind, its spec from YAML text; further fields replace those of the object."""
    whole: dict[str, object] = {
        "apiVersion": API_VERSIONS.get(kind, "v1"),
        "kind": kind,
        "metadata": {"name": "it", "namespace": "shop"},
        "spec": yaml.load(text, yaml.CSafeLoader) or {},
    }
    return whole | fields


def verdict(kind: str, text: str = "", /, **fields: object) -> Verdict:
    """What is said of the object."""
    return admit(document(kind, text, **fields), ORIGIN, "Kubernetes")


def admitted(kind: str, text: str = "", /, **fields: object) -> AnyObject:
    """The object, which must be admitted."""
    answer = verdict(kind, text, **fields)
    assert isinstance(answer, Admitted), answer
    return answer.object


def complaints(kind: str, text: str = "", /, **fields: object) -> list[str]:
    """The paths of what is wrong, marked with ? if it is only a remark."""
    answer = verdict(kind, text, **fields)
    assert isinstance(answer, Admitted | Refused), answer
    return [f"{each.path}{'' if type(each).__name__ == 'Rejected' else '?'}" for each in answer.findings]
