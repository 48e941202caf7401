"""Name tables that a real istiod sent: ours hold the same names, addresses and origins."""

from __future__ import annotations

import pytest

from tests.conformance.cases import build_client, build_snapshot, load_cases, shared_folder
from tests.conformance.protojson import to_plain
from trierarch.envoy.generate import generate
from trierarch.envoy.memo import Memo
from trierarch.envoy.part_cache import PartCache
from trierarch.envoy.types import NAME_TABLE
from trierarch.push.sidecar_scope import build_scope
from trierarch.push.steps import run_steps
from trierarch.push.view import select_view

CASES = [
    pytest.param(case, name, id=f"{case}-{name}")
    for case in load_cases(shared_folder(), frozenset({"services"}))
    for name, answer in case.expected.items()
    if "name_table" in answer
]


@pytest.mark.skipif(not CASES, reason="no cases: TRIERARCH_CASES names no folder with oracle/cases")
@pytest.mark.parametrize(("case", "name"), CASES)
def test_name_table(case, name):
    """For each client that was sent one."""
    context = build_snapshot(case)
    view = select_view(build_client(case.head["proxies"][name]), context)
    scope = run_steps(build_scope(view.outbound.scope, context))
    resources = run_steps(generate(view, scope, context, NAME_TABLE, Memo(1000), PartCache()))
    assert [to_plain(NAME_TABLE, resource.body) for resource in resources] == case.expected[name]["name_table"]
