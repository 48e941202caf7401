"""Real inputs: Istio's samples, the inputs of istiod's simulations and of the oracle, and the schemas of the CRDs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.config.reading import CASES, ORIGIN, document
from trierarch.config.admission import Admitted, Refused, admit, check
from trierarch.config.decode import Decoded, UnknownKind, decode_mesh_config, decode_mesh_networks, decode_object
from trierarch.config.documents import parse_document, split_documents
from trierarch.config.findings import Finding, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SAMPLES = CASES / "conformance" / "samples"
SIMULATIONS = CASES / "conformance" / "simulation" / "ready.json"
ORACLE = CASES / "oracle" / "cases"
CRDS = CASES / "conformance" / "validation" / "crd-all.gen.yaml"
KINDS = (
    "VirtualService",
    "DestinationRule",
    "ServiceEntry",
    "WorkloadEntry",
    "Sidecar",
    "PeerAuthentication",
    "RequestAuthentication",
)

REALLY_UNKNOWN = frozenset({"spec.tcp[0].name"})
"""A field that one input has and Istio has not."""


def documents(files: Iterable[tuple[str, bytes]]) -> Iterator[Mapping[str, object]]:
    """The documents of files, every one of which must be readable."""
    for path, data in files:
        for chunk in split_documents(data, path):
            parsed = parse_document(chunk, ORIGIN)
            assert not isinstance(parsed, Rejected), (path, parsed)
            yield from (each.value for each in parsed)


def judge(documents: Iterable[Mapping[str, object]]) -> tuple[int, list[object]]:
    """How many documents are admitted; and the unknown fields and rejections of those that are of a known kind."""
    count, wrong = 0, []
    for each in documents:
        answer = admit(each, ORIGIN, "k")
        if isinstance(answer, UnknownKind):
            continue
        count += isinstance(answer, Admitted)
        wrong += [(finding.key, finding.path, finding.reason) for finding in answer.findings if is_wrong(finding)]
    return count, wrong


def is_wrong(finding: Finding) -> bool:
    """A rejection, or a field that we should know."""
    if isinstance(finding, Rejected):
        return True
    return finding.reason == "unknown field" and finding.path not in REALLY_UNKNOWN


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no samples at {SAMPLES}: set TRIERARCH_CASES to where they are")
def test_samples():
    """All objects of Istio's samples are admitted; the other YAML files beside them are not objects."""
    files = ((str(path), path.read_bytes()) for path in sorted(SAMPLES.rglob("*.yaml")))
    count, wrong = judge(each for each in documents(files) if "apiVersion" in each and "kind" in each)
    assert wrong == []
    assert count > 100


def texts(written: object) -> Iterator[str]:
    """The YAML texts of one case, however they are grouped."""
    if isinstance(written, str):
        yield written
    elif isinstance(written, list | dict):
        for part in written.values() if isinstance(written, dict) else written:
            yield from texts(part)


@pytest.mark.skipif(not SIMULATIONS.is_file(), reason=f"none at {SIMULATIONS}: set TRIERARCH_CASES to where it is")
def test_simulations():
    """All inputs of istiod's simulations are admitted."""
    cases = json.loads(SIMULATIONS.read_text())
    written = (case.get(part) for case in cases["cases"] + cases["routeCases"] for part in ("config", "kubeConfig"))
    count, wrong = judge(documents(("case.yaml", text.encode()) for part in written for text in texts(part)))
    assert wrong == []
    assert count > 150


@pytest.mark.skipif(not ORACLE.is_dir(), reason=f"no cases at {ORACLE}: set TRIERARCH_CASES to where they are")
def test_cases_of_the_oracle():
    """All inputs with which istiod was asked are admitted, their mesh configurations and networks too."""
    heads, objects = [], []
    for each in documents((str(path), path.read_bytes()) for path in sorted(ORACLE.rglob("*.yaml"))):
        (heads if "proxies" in each else objects).append(each)
    count, wrong = judge(objects)
    assert wrong == []
    assert count > 1500
    for head in heads:
        for field, decode in (("mesh", decode_mesh_config), ("networks", decode_mesh_networks)):
            decoded = decode(head.get(field) or {}, ORIGIN, "k")  # type: ignore[arg-type]
            assert isinstance(decoded, Decoded), decoded
            remarks = [each for each in check(decoded).findings if "deny what they match" not in each.reason]
            assert remarks == [], head["about"]


def leaves(schema: Mapping[str, Any]) -> Iterator[object]:
    """For each leaf of a CRD's schema a value that has only that leaf."""
    if "properties" in schema:
        for name, inner in schema["properties"].items():
            yield from ({name: value} for value in leaves(inner))
    elif schema.get("type") == "array":
        yield from ([value] for value in leaves(schema["items"]))
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from ({"key": value} for value in leaves(schema["additionalProperties"]))
    else:
        yield leaf(schema)


def leaf(schema: Mapping[str, Any]) -> object:
    """A value of a leaf's type."""
    if "enum" in schema:
        return schema["enum"][-1]
    if schema.get("format") == "byte":
        return "aGk="
    # As a string, "5s" is as good as any other, and it is a duration.
    return {"integer": 1, "number": 1.5, "boolean": True, "object": {}}.get(schema.get("type", ""), "5s")


@pytest.mark.skipif(not CRDS.is_file(), reason=f"no CRDs at {CRDS}: set TRIERARCH_CASES to where they are")
@pytest.mark.parametrize("kind", KINDS)
def test_all_fields_of_the_crds_are_decoded(kind: str):
    """Every field of Istio's schemas has a place in the classes."""
    loaded = yaml.load_all(CRDS.read_text(), yaml.CSafeLoader)
    (crd,) = (each for each in loaded if each and each["spec"]["names"]["kind"] == kind)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for spec in leaves(schema):
        decoded = decode_object(document(kind, spec=spec), ORIGIN, "k")
        assert isinstance(decoded, Decoded), (spec, decoded)
        assert decoded.remarks == (), spec


def test_refusals_are_told_apart():
    """The judge of this module sees what is refused."""
    assert judge([document("ServiceEntry")])[0] == 0
    assert isinstance(admit(document("ServiceEntry"), ORIGIN, "k"), Refused)
