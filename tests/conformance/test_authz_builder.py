"""Authorization policies and the filters that istiod's builder makes of them (`authz-builder/`), message by message."""

from __future__ import annotations

import json
from functools import cache

import pytest
import yaml
from google.protobuf import any_pb2, json_format

from tests.conformance.cases import CONFIG_CLUSTER, ORIGIN, shared_folder
from tests.conformance.go_tables import istio_object, plain, rows, snake_case
from tests.conformance.protojson import load_messages, to_plain
from tests.push.fixtures import snapshot
from trierarch.config.decode import Decoded, decode_mesh_config, decode_object
from trierarch.envoy.rbac import Access, build_http_custom, build_http_rbac, build_network_access
from trierarch.envoy.rbac_values import build_string
from trierarch.envoy.trust_domains import expand_principals
from trierarch.envoy.well_known_types import encode

FOLDERS = [root / "authz-builder" for root in (shared_folder() / "conformance", shared_folder())]
FOLDER = next((folder for folder in FOLDERS if folder.is_dir()), FOLDERS[0])
SELECTION = "model/pilot__pkg__model__authorization.json"
HTTP_FILTER = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter"
NETWORK_FILTER = "type.googleapis.com/envoy.config.listener.v3.Filter"
absent = pytest.mark.skip(reason=f"no cases at {FOLDER}: set TRIERARCH_CASES to where they are")


@cache
def suite():
    """The cases and what they have in common."""
    file = FOLDER / "cases.json"
    return json.loads(file.read_text()) if file.is_file() else {"cases": [], "context": {}}


CASES = [pytest.param(case, id=f"{case['kind']}-{case['name']}") for case in suite()["cases"]]


@pytest.mark.parametrize("case", CASES or [pytest.param(None, marks=absent)])
def test_filters(case):
    """The same filters, field by field; policies inside a filter have no order."""
    found = [_normal(type_url, encode(each)) for type_url, each in _build(case)]
    assert found == [_expected(FOLDER / name, case["kind"]) for name in case["expected"]]


def _build(case):
    """What ours are, with the policies that the case builds: those that ask a provider, or all others."""
    access = _access(case)
    policies = access.policies
    chosen = type(policies)(custom=policies.custom) if case["customBuilder"] else policies._replace(custom=())
    access = access._replace(policies=chosen)
    if case["kind"] == "tcp":
        return [(NETWORK_FILTER, each) for each in build_network_access(access)]
    return [(HTTP_FILTER, each) for each in (*build_http_custom(access), *build_http_rbac(access))]


def _access(case):
    proxy = suite()["context"]["proxy"]
    stated = case["trustDomain"] or {"trustDomain": "cluster.local", "aliases": []}
    mesh = {
        "rootNamespace": suite()["context"]["rootNamespace"],
        "trustDomain": stated["trustDomain"],
        "trustDomainAliases": stated["aliases"],
        **(case["meshConfig"] or {}),
    }
    documents = yaml.safe_load_all((FOLDER / case["input"]).read_text())
    context = snapshot(
        _decoded(decode_mesh_config(mesh, ORIGIN, CONFIG_CLUSTER)),
        *(_decoded(decode_object(each, ORIGIN, CONFIG_CLUSTER)) for each in documents if each),
        *(_service(host, namespace) for host, namespace in suite()["context"]["services"].items()),
    )
    applying = context.authorization.of(proxy["configNamespace"], proxy["labels"].items())
    return Access(applying, (stated["trustDomain"], *stated["aliases"]))


def _service(host, namespace):
    return istio_object("ServiceEntry", {"hosts": [host], "ports": [{"number": 9000, "name": "x"}]}, "it", namespace)


def _decoded(answer):
    assert isinstance(answer, Decoded), answer
    return answer.object


def _normal(type_url, body):
    return to_plain(type_url, body)


def _expected(path, kind):
    """The message that the file describes, written as ours is."""
    load_messages()
    type_url = NETWORK_FILTER if kind == "tcp" else HTTP_FILTER
    message = any_pb2.Any()
    json_format.ParseDict({"@type": type_url, **yaml.safe_load(path.read_text())}, message)
    return _normal(type_url, message.value)


# --- neighbouring tables ---------------------------------------------------------------------------------------------
def related(function):
    """Parametrizes a test by `row` with the whole rows of a function of `related-tables.json`."""
    file = FOLDER / "related-tables.json"
    tables = json.loads(file.read_text()) if file.is_file() else []
    found = [
        pytest.param(row["row"], id=row["row"].get("name") or row["row"].get("principal"))
        for table in tables
        for row in table["rows"]
        if table["func"] == function and row["complete"]
    ]
    return pytest.mark.parametrize("row", found or [pytest.param(None, marks=absent)])


@related("TestStringMatcherWithPrefix")
def test_values_with_wildcards(row):
    """At the beginning, at the end, alone, and none; after a fixed beginning or not."""
    built = encode(build_string(row["v"], row["prefix"]))
    assert to_plain("type.googleapis.com/envoy.type.matcher.v3.StringMatcher", built) == snake_case(plain(row["want"]))


@related("TestReplaceTrustDomainInPrincipal")
def test_trust_domains_of_principals(row):
    """A whole principal of the mesh gets the mesh's trust domain; what is no whole principal stays."""
    domain = row.get("trustDomainIn", "mesh.example")
    given = row["principal"].replace("xyz/", "cluster.local/")
    assert list(expand_principals([given], (domain,))) == [row["out"] or given]


@rows(SELECTION, "TestAuthorizationPolicies_ListAuthorizationPolicies")
def test_policies_of_a_workload(row):
    """Those of the root namespace, then those of its own, by action."""
    matcher = row["selectionOpts"]
    policies = [
        istio_object("AuthorizationPolicy", each["spec"], each["meta"]["name"], each["meta"]["namespace"])
        for each in row.get("configs") or ()
    ]
    context = snapshot("MeshConfig mesh: {rootNamespace: istio-config}", *policies)
    found = context.authorization.of(matcher["workloadNamespace"], (matcher.get("workloadLabels") or {}).items())
    for want, action in (("wantAllow", found.allow), ("wantDeny", found.deny), ("wantAudit", found.audit)):
        expected = [(each["namespace"], each["name"]) for each in row.get(want) or ()]
        assert [(policy.key.namespace, policy.key.name) for policy in action] == expected
    custom = [policy.key.name for each in found.custom for policy in each.policies]
    assert custom == [each["name"] for each in row.get("wantCustom") or ()]
