"""Each sidecar and gRPC client of a case (`oracle/`) is sent here what a real istiod answered.

Kinds that are not whole yet in a family are not here; `tests.conformance.oracle` shows how far they are. Where ours
differs on purpose, or for now, it is listed, with the reason; an entry that is not needed any more fails too.
"""

from __future__ import annotations

import pytest

from tests.conformance.cases import load_cases, shared_folder
from tests.conformance.comparing import KINDS, Verdict
from tests.conformance.oracle import run_case

WITHOUT_LISTENERS = tuple(kind for kind in KINDS if kind != "listeners")
FAMILIES = {
    "clusters": KINDS,
    "endpoints": KINDS,
    "extensions": WITHOUT_LISTENERS,
    "grpc": KINDS,
    "listeners": KINDS,
    "routes": KINDS,
    "security": KINDS,
    "services": KINDS,
    "sidecars": KINDS,
    "simulation": KINDS,
    "simulation-routes": KINDS,
    "telemetry": WITHOUT_LISTENERS,
}
CASES = list(load_cases(shared_folder(), frozenset(FAMILIES)))

UNASKED = "a client is sent the listeners that it asked for, and no other names of the same"
HASHED = "a policy of a port holds for the routes to it, whether or not they name the port"
REFUSED_BY_ENVOY = "Envoy refuses a forward proxy with HTTP options that checks no names, unless it is told to be one"

DIFFERENT = {
    "grpc/client-load-balancing": {"outbound|80||web.shop.svc.cluster.local": HASHED},
    "grpc/client-name-forms": dict.fromkeys(("web.shop.svc.cluster.local:7070", "web.shop:80", "web:80"), UNASKED),
    "services/serviceentry-dynamic-dns": {"outbound|8080||*.dyn.example": REFUSED_BY_ENVOY},
}


@pytest.mark.skipif(not CASES, reason="no cases: TRIERARCH_CASES names no folder with oracle/cases")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_answers(case):
    """By name, and field by field."""
    rows = [row for row in run_case(case, kinds=FAMILIES[case.family]) if row.verdict is not Verdict.EQUAL]
    bad = {row.name: (row.proxy, row.kind, row.differences) for row in rows}
    expected = DIFFERENT.get(str(case), {})
    assert {name: where for name, where in bad.items() if name not in expected} == {}
    assert bad.keys() == expected.keys()
