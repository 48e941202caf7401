"""istiod's own tables of validation: what they admit is admitted, what they refuse is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.config.reading import CASES, ORIGIN, document
from trierarch.config.admission import Admitted, Refused, admit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TABLES = CASES / "conformance" / "validation" / "tables"
CRD_CASES = CASES / "conformance" / "validation" / "crd-cases.json"
_ROUTE = {"route": [{"destination": {"host": "a.b"}}]}


def _virtual_service(http: Mapping[str, object]) -> dict[str, object]:
    return {"hosts": ["a.b"], "http": [http]}


def _tcp(row: Mapping[str, object]) -> dict[str, object]:
    return {"route": row["routes"]}


def _policy(**fields: object) -> dict[str, object]:
    return {"host": "a.b", "trafficPolicy": fields}


def _balancer(field: str, row: Mapping[str, object]) -> dict[str, object]:
    return _policy(loadBalancer={field: row["in"]}, outlierDetection=row.get("outlier"))


def _source(**fields: object) -> dict[str, object]:
    return {"rules": [{"from": [{"source": fields}]}]}


FILES = (
    "validation__validation",
    "validation__virtualservice",
    "validation__agent__validation",
    "security__security",
)

AROUND = {
    "TestValidateVirtualService": ("VirtualService", lambda row: row["in"]),
    "TestValidateChainingVirtualService": ("VirtualService", lambda row: row["in"]),
    "TestValidateDestinationRule": ("DestinationRule", lambda row: row["in"]),
    "TestValidateServiceEntries": ("ServiceEntry", lambda row: row["in"]),
    "TestValidateWorkloadEntry": ("WorkloadEntry", lambda row: row["in"]),
    "TestValidateSidecar": ("Sidecar", lambda row: row["in"]),
    "TestValidatePeerAuthentication": ("PeerAuthentication", lambda row: row["in"]),
    "TestValidateRequestAuthentication": ("RequestAuthentication", lambda row: row["in"]),
    "TestValidateAuthorizationPolicy": ("AuthorizationPolicy", lambda row: row["in"]),
    "TestValidateCondition": (
        "AuthorizationPolicy",
        lambda row: {"rules": [{"when": [{"key": row["key"], "values": row["values"]}]}]},
    ),
    "TestCheckTrustDomainValues": ("AuthorizationPolicy", lambda row: _source(trustDomains=row["values"])),
    "TestCheckValidPathTemplate": (
        "AuthorizationPolicy",
        lambda row: {"rules": [{"to": [{"operation": {"paths": row["values"]}}]}]},
    ),
    "TestValidateHTTPRoute": ("VirtualService", lambda row: _virtual_service(row["route"])),
    "TestValidateRootHTTPRoute": ("VirtualService", lambda row: _virtual_service(row["route"])),
    "TestValidateDelegateHTTPRoute": ("VirtualService", lambda row: {"http": [row["route"]]}),
    "TestValidateCORSPolicy": ("VirtualService", lambda row: _virtual_service({**_ROUTE, "corsPolicy": row["in"]})),
    "TestValidateHTTPRetry": ("VirtualService", lambda row: _virtual_service({**_ROUTE, "retries": row["in"]})),
    "TestValidateHTTPRewrite": ("VirtualService", lambda row: _virtual_service({**_ROUTE, "rewrite": row["in"]})),
    "TestValidateRouteDestination": (
        "VirtualService",
        lambda row: {"hosts": ["a.b"], "tcp": [{"route": row["routes"]}]},
    ),
    "TestValidateTrafficPolicy": ("DestinationRule", lambda row: {"host": "a.b", "trafficPolicy": row["in"]}),
    "TestValidateConnectionPool": ("DestinationRule", lambda row: _policy(connectionPool=row["in"])),
    "TestValidateLoadBalancer": ("DestinationRule", lambda row: _policy(loadBalancer=row["in"])),
    "TestValidateOutlierDetection": ("DestinationRule", lambda row: _policy(outlierDetection=row["in"])),
    "TestValidateTLS": ("DestinationRule", lambda row: _policy(tls=row["tls"])),
    "TestValidateLocalityLbSetting": ("DestinationRule", lambda row: _balancer("localityLbSetting", row)),
    "TestValidateZoneAwareLbSetting": ("DestinationRule", lambda row: _balancer("zoneAwareLbSetting", row)),
}
"""The tables that are about one of our kinds: the kind, and the spec around what a row has."""

NOT_IN_JSON = frozenset({"match with nil element"})
"""Rows about values that a Go program can make, but no document."""


def _plain(value: object) -> object:
    """Without the marks of the tables."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if name != "$type"}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _document(kind: str, row: Mapping[str, object], spec: object) -> dict[str, object]:
    metadata = {"name": "it", "namespace": "shop", "annotations": row.get("annotations", {})}
    return document(kind, spec=_plain(spec), metadata=metadata)


def _rows(path: Path) -> list[tuple[str, Mapping[str, object], bool]]:
    rows = []
    for table in json.loads(path.read_text())["tables"]:
        fields = [field for field, _ in table["fields"]]
        for row in (each["row"] for each in table["rows"] if each["complete"] and table["func"] in AROUND):
            right = bool(row.get("valid")) if "valid" in fields else not (row.get("err") or row.get("wantError"))
            if row.get("name") not in NOT_IN_JSON:
                rows.append((table["func"], row, right))
    return rows


@pytest.mark.skipif(not TABLES.is_dir(), reason=f"no tables at {TABLES}: set TRIERARCH_CASES to where they are")
def test_tables_of_istiod():
    """All rows of istiod's validation tests about these kinds are refused or admitted as there."""
    wrong, count = [], 0
    for name in FILES:
        for func, row, right in _rows(TABLES / f"pkg__config__{name}.json"):
            kind, spec = AROUND[func]
            answer = admit(_document(kind, row, spec(row)), ORIGIN, "k")
            count += 1
            if isinstance(answer, Admitted) != right:
                wrong.append((func, row.get("name"), right))
    assert wrong == []
    assert count > 250


@pytest.mark.skipif(not CRD_CASES.is_file(), reason=f"no cases at {CRD_CASES}: set TRIERARCH_CASES to where they are")
def test_objects_that_the_crds_refuse():
    """Istio's examples of what its CRDs refuse, as far as they are of these kinds."""
    for case in json.loads(CRD_CASES.read_text())["cases"]:
        answer = admit(case["object"], ORIGIN, "k")
        # "full" has an address that its own YAML does not quote, so it is read as an object.
        if isinstance(answer, Admitted | Refused) and case["name"] != "full":
            assert isinstance(answer, Admitted) == (case["expectError"] is None), case
