"""Known answers to "does this change concern this proxy?", from `debounce/proxy-needs-push.yaml`.

Sidecar rows are played against a scope that depends on what the file says. Rows about gateways need the processors of
gateways, rows about clients of workload types those types: both are left to whoever builds them.
"""

from __future__ import annotations

import pytest
import yaml

from tests.conformance.cases import shared_folder
from tests.push.fixtures import sidecar, snapshot
from trierarch.config.objects import ObjectKey
from trierarch.push.request import ConfigKey, PushRequest
from trierarch.push.scope import Skipped, affects
from trierarch.push.sidecar_scope import SidecarScope
from trierarch.push.view import ScopeKey, select_view

FILES = [root / "debounce" / "proxy-needs-push.yaml" for root in (shared_folder() / "conformance", shared_folder())]
FILE = next((file for file in FILES if file.is_file()), FILES[0])
TABLE = yaml.safe_load(FILE.read_text()) if FILE.is_file() else {"cases": []}
SIDECAR_ROWS = [row for row in TABLE["cases"] if row["proxy"] in ("sidecar", "each")]

pytestmark = pytest.mark.skipif(
    not SIDECAR_ROWS, reason=f"no known answers at {FILE}: set TRIERARCH_CASES to where they are"
)

ROOT, OWN, OTHER = "rootns", "ns", "ns1"
CONTEXT = snapshot(f"MeshConfig mesh: {{rootNamespace: {ROOT}}}")
VIEW = select_view(sidecar(namespace=OWN), CONTEXT)
IN_VIEWS = ("AuthorizationPolicy", "RequestAuthentication")
"""Kinds that concern no proxy that stays in its view: here the view has none of them, before and after."""
NEVER_FOR_SIDECARS = ("Gateway", "Address")


def scope_depending_on(*keys):
    """A scope of namespace `ns` that depends on these keys and nothing else."""
    key = ScopeKey(OWN, ObjectKey("Kubernetes", "Sidecar", OWN, "sc"))
    return SidecarScope(
        key=key,
        sidecar=None,
        egress=(),
        services=(),
        by_host={},
        rules={},
        registry_only=False,
        depends_on=(frozenset(keys),),
    )


def keys_of(rows):
    """Push keys as the file writes them: kind, name, namespace."""
    return frozenset(ConfigKey(kind, namespace, name) for kind, name, namespace in rows or ())


SCOPE = scope_depending_on(
    *(ConfigKey(kind, OWN, name) for kind, name in (TABLE.get("context", {}).get("sidecar", {}).get("dependsOn") or ()))
)


def expect(keys, want, *, forced=False):
    """Ask about these keys; `want` is what the file says: a verdict and the keys that stay, or "all"."""
    request = PushRequest(keys=keys, forced=forced)
    verdict = affects(VIEW, SCOPE, None, request, CONTEXT)
    needed, remaining = want
    assert isinstance(verdict, Skipped) is not needed
    if not isinstance(verdict, Skipped):
        assert verdict.keys == (keys if remaining in ("all", None) else keys_of(remaining))


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in SIDECAR_ROWS])
def test_row(row):
    """The verdict, and which of the changed keys it rests on."""
    if "configs" in row:
        expect(keys_of(row["configs"]), row["want"], forced=row.get("forced", False))
    elif "each" in row:
        for kind, name in row["each"]:
            expect(keys_of([(kind, name, OWN)]), row["want"])
            expect(keys_of([(kind, name + "invalid", OWN)]), row["sameWithSuffix"])
    elif "eachKind" in row:
        for kind in (each for each in row["eachKind"] if each not in IN_VIEWS):
            expect(keys_of([(kind, "name1", OWN)]), row["sameNamespace"])
            expect(keys_of([(kind, "name1", OTHER)]), row["otherNamespace"])
            expect(keys_of([(kind, "name1", ROOT)]), row["rootNamespace"])
    else:
        for kind in NEVER_FOR_SIDECARS:
            expect(keys_of([(kind, "name1", OWN)]), row["want"])
