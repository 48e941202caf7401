"""PeerAuthentications composed: slots, precedence, ports, and what of them servers and clients are told."""

from __future__ import annotations

import json

import pytest

from tests.conformance.cases import shared_folder
from tests.push.fixtures import built, edited, objects, scope_of, sidecar, snapshot, view_in, view_of
from trierarch.config.peer_authentication import MutualTlsMode
from trierarch.push.authentication import BOTH_KINDS, NO_POLICIES, PeerModes
from trierarch.push.request import ConfigKey, PushRequest
from trierarch.push.scope import Skipped, affected_types, affects

STRICT, PERMISSIVE, DISABLE = MutualTlsMode.STRICT, MutualTlsMode.PERMISSIVE, MutualTlsMode.DISABLE
LABELS = {"app": "web", "version": "v1"}

MESH = "PeerAuthentication istio-system/default: {mtls: {mode: %s}}"
NAMESPACE = "PeerAuthentication shop/default: {mtls: {mode: %s}}"
WORKLOAD = "PeerAuthentication shop/web: {selector: {matchLabels: {app: web}}, mtls: {mode: %s}}"
PORTS = "PeerAuthentication shop/ports: {selector: {matchLabels: {version: v1}}, portLevelMtls: %s}"


def modes(*policies: str, namespace: str = "shop") -> PeerModes:
    """What a workload with `LABELS` accepts under these policies."""
    return snapshot(*policies).authentication.of(namespace).of(LABELS.items())


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([], PERMISSIVE),
        ([MESH % "STRICT"], STRICT),
        ([MESH % "UNSET"], PERMISSIVE),
        ([MESH % "STRICT", NAMESPACE % "PERMISSIVE"], PERMISSIVE),
        ([MESH % "STRICT", NAMESPACE % "UNSET"], STRICT),
        ([MESH % "DISABLE", NAMESPACE % "STRICT", WORKLOAD % "DISABLE"], DISABLE),
        ([MESH % "DISABLE", NAMESPACE % "STRICT", WORKLOAD % "UNSET"], STRICT),
        ([MESH % "STRICT", WORKLOAD % "UNSET"], STRICT),
        ([WORKLOAD % "STRICT"], STRICT),
        ([(WORKLOAD % "STRICT").replace("app: web", "app: db")], PERMISSIVE),
        ([(WORKLOAD % "STRICT").replace("{app: web}", "{app: web, version: v2}")], PERMISSIVE),
        ([(WORKLOAD % "STRICT").replace("shop/", "istio-system/")], PERMISSIVE),
        ([(WORKLOAD % "STRICT").replace("shop/", "bank/")], PERMISSIVE),
        ([(NAMESPACE % "STRICT").replace("{mtls", "{selector: {matchLabels: {}}, mtls")], STRICT),
    ],
)
def test_the_narrowest_slot_with_a_mode_counts(policies, expected):
    """Mesh, namespace, workload; UNSET is as if nothing stood there, and no selector reaches another namespace."""
    assert modes(*policies) == PeerModes(expected)


AGED = "PeerAuthentication {}: {{metadata: {{creationTimestamp: '{}'}}, {} mtls: {{mode: {}}}}}"


@pytest.mark.parametrize("slot", ["istio-system", "shop", "selected"])
def test_in_a_slot_the_oldest_counts(slot):
    """Whatever its name; among those of the same age the name decides."""
    namespace, selector = (slot, "") if slot != "selected" else ("shop", "selector: {matchLabels: {app: web}},")
    young = AGED.format(f"{namespace}/a", "2026-03-02T00:00:00Z", selector, "STRICT")
    old = AGED.format(f"{namespace}/b", "2026-03-01T00:00:00Z", selector, "DISABLE")
    same_age = AGED.format(f"{namespace}/c", "2026-03-01T00:00:00Z", selector, "PERMISSIVE")
    assert modes(young, old, same_age) == PeerModes(DISABLE)


def test_of_two_selecting_policies_the_older_counts_even_if_it_says_less():
    """Nothing is merged: the ports of the younger one are lost."""
    old = AGED.format("shop/b", "2026-03-01T00:00:00Z", "selector: {matchLabels: {app: web}},", "UNSET")
    assert modes(NAMESPACE % "STRICT", old, PORTS % "{'80': {mode: DISABLE}}") == PeerModes(STRICT)


def test_ports_have_modes_of_their_own_in_the_workload_slot():
    """UNSET there is the mode of the workload; ports are the workload's, in the order of their numbers."""
    found = modes(MESH % "STRICT", PORTS % "{'9000': {mode: DISABLE}, '90': {mode: UNSET}, '100': {}}")
    assert found == PeerModes(STRICT, ((90, STRICT), (100, STRICT), (9000, DISABLE)))
    assert [found.at(port) for port in (80, 90, 9000)] == [STRICT, STRICT, DISABLE]


def test_the_root_namespace_has_no_policies_but_the_meshs():
    """With another root namespace, that one's are the mesh's."""
    renamed = "MeshConfig mesh: {rootNamespace: elsewhere}"
    own = "PeerAuthentication elsewhere/default: {mtls: {mode: STRICT}}"
    assert modes(MESH % "DISABLE", own, renamed) == PeerModes(STRICT)
    assert modes(MESH % "DISABLE", own, renamed, namespace="istio-system") == PeerModes(DISABLE)
    selecting = (WORKLOAD % "STRICT").replace("shop/", "istio-system/")
    assert modes(selecting, namespace="istio-system") == BOTH_KINDS


def test_policies_without_effect_are_remarked():
    """A second one in a slot, and a selector in the root namespace."""
    older = AGED.format("shop/old", "2026-03-01T00:00:00Z", "", "STRICT")
    selecting = (WORKLOAD % "STRICT").replace("shop/", "istio-system/")
    found = snapshot(NAMESPACE % "STRICT", older, WORKLOAD % "STRICT", selecting).findings
    assert {(each.key.namespace, each.key.name, each.path) for each in found} == {
        ("shop", "default", ""),
        ("istio-system", "web", "spec.selector"),
    }


@pytest.mark.parametrize(
    ("policies", "concerned"),
    [
        ([MESH % "STRICT", NAMESPACE % "PERMISSIVE", WORKLOAD % "STRICT"], False),
        ([MESH % "DISABLE"], True),
        ([MESH % "DISABLE", NAMESPACE % "STRICT"], False),
        ([NAMESPACE % "DISABLE"], True),
        ([WORKLOAD % "DISABLE"], True),
        ([PORTS % "{'80': {mode: DISABLE}}"], True),
        ([PORTS % "{'80': {mode: STRICT}}"], False),
    ],
)
def test_clients_are_told_only_where_mutual_tls_is_off(policies, concerned):
    """PERMISSIVE and STRICT are the same to them, so that such an edit costs them nothing."""
    assert (snapshot(*policies).authentication.for_clients("shop") != NO_POLICIES) is concerned


# --- known answers ---------------------------------------------------------------------------------------------------
TABLE = shared_folder() / "conformance" / "go-tables" / "security" / "pilot__pkg__security__authn__policy_applier.json"
NAMES = {"MTLSDisable": DISABLE, "MTLSPermissive": PERMISSIVE, "MTLSStrict": STRICT}


def known_answers():
    """The rows of istiod's table of compositions that can be read."""
    tables = json.loads(TABLE.read_text())["tables"] if TABLE.is_file() else []
    rows = [row for table in tables if table["func"] == "TestComposePeerAuthentication" for row in table["rows"]]
    return [row["row"] for row in rows if row["complete"]]


def _policy(config):
    spec = {key: value for key, value in config["spec"].items() if key != "$type"}
    document = {"apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication", "metadata": config["meta"]}
    (found,) = objects(json.dumps(document | {"spec": spec}))
    return found


@pytest.mark.skipif(not TABLE.is_file(), reason=f"no known answers at {TABLE}: set TRIERARCH_CASES to where they are")
def test_compositions_of_istiod():
    """What istiod's own tests say of a workload `app: foo` in `my-ns`; the root namespace is `root-namespace`."""
    rows = known_answers()
    assert len(rows) >= 9
    for row in rows:
        context = snapshot("MeshConfig mesh: {rootNamespace: root-namespace}", *map(_policy, row["configs"]))
        found = context.authentication.of("my-ns").of({"app": "foo"}.items())
        ports = {int(port): NAMES[mode] for port, mode in row["want"].get("perPort", {}).items()}
        assert (found.default, dict(found.ports)) == (NAMES[row["want"]["mode"]], ports), row["name"]


# --- who is concerned ------------------------------------------------------------------------------------------------
WEB = "Service shop/web: {ports: [{name: http, port: 80}], selector: {app: web}}"
PROXY = sidecar(LABELS=LABELS)


def test_a_view_has_the_modes_of_its_workload_by_value():
    """Two policies that say the same make no difference; gateways go by their own configuration."""
    before = snapshot(WEB, WORKLOAD % "STRICT")
    after = snapshot(WEB, NAMESPACE % "STRICT")
    assert view_in(PROXY, before) == view_in(PROXY, after)
    assert view_in(PROXY, before).inbound.peers == PeerModes(STRICT)
    assert view_in(sidecar(LABELS={"app": "db"}), before).inbound.peers == BOTH_KINDS


@pytest.mark.parametrize(
    ("namespace", "concerned"), [("shop", True), ("istio-system", True), ("bank", True), ("far", False)]
)
def test_policies_concern_their_own_namespace_and_that_of_services_in_reach(namespace, concerned):
    """Also policies that came after the scope was resolved; what is concerned then is how clients connect."""
    bank = "Service bank/pay: {ports: [{name: http, port: 80}]}"
    narrow = "Sidecar shop/default: {egress: [{hosts: ['./*', 'bank/*']}]}"
    context = snapshot(WEB, bank, narrow, "Service far/away: {ports: [{name: http, port: 80}]}")
    view, scope = view_in(PROXY, context), scope_of(PROXY, context)
    request = PushRequest(keys=frozenset({ConfigKey("PeerAuthentication", namespace, "new")}))
    assert (not isinstance(affects(view, scope, None, request, context), Skipped)) is concerned
    assert affected_types(request, view) == ("CDS", "EDS")


def test_changes_name_the_policies():
    """A new policy, one that says something else, one that went."""
    first = built(view_of(MESH % "STRICT", NAMESPACE % "STRICT"))
    (gone,) = objects(NAMESPACE % "STRICT")
    second = built(edited(first.view, MESH % "DISABLE", WORKLOAD % "STRICT", deletes=[gone]), first)
    assert second.changed == {
        ConfigKey("PeerAuthentication", "istio-system", "default"),
        ConfigKey("PeerAuthentication", "shop", "default"),
        ConfigKey("PeerAuthentication", "shop", "web"),
    }
