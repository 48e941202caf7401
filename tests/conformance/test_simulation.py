"""Known answers of traffic simulations, from `simulation/ready.json`: calls walked through what a sidecar is sent.

A case is a mesh, a proxy and calls with what they meet. Route cases look only at the clusters behind each domain of one
route configuration. Cases of gateways need processors of their own and are left out.
Further meshes, of `inputs.json`, come without answers.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from tests.conformance.answers import TYPES, generate_all
from tests.conformance.cases import CONFIG_CLUSTER, ORIGIN, build_client, build_snapshot, conformance_folder
from tests.conformance.protojson import to_plain
from tests.conformance.simulations import PROXY, read_simulation
from tests.conformance.walker import Call, walk
from trierarch.config.admission import Admitted, admit
from trierarch.config.decode import UnknownKind

FILE = conformance_folder("simulation") / "ready.json"
KNOWN: dict[str, Any] = json.loads(FILE.read_text()) if FILE.is_file() else {"cases": [], "routeCases": []}
INPUTS = json.loads(FILE.with_name("inputs.json").read_text()) if FILE.is_file() else []

CALLS = [(case, call) for case in KNOWN["cases"] if case["proxy"]["type"] == "sidecar" for call in case["calls"]]
ROUTES = KNOWN["routeCases"]

pytestmark = pytest.mark.skipif(not CALLS, reason=f"no known answers at {FILE}: set TRIERARCH_CASES to where they are")


def resources_for(case):
    """What the proxy of a case may ask for: resources in plain data, by kind and name."""
    return _generated(json.dumps(case, sort_keys=True))


@cache
def _generated(text):
    sets = _generate(read_simulation(json.loads(text)))
    return {
        kind: {resource.name: to_plain(TYPES[kind], resource.body) for resource in resources}
        for kind, resources in sets.items()
    }


def _generate(case):
    return generate_all(build_client(case.head["proxies"][PROXY]), build_snapshot(case))


def call_of(call):
    """A call of the file; what it leaves out is as the file's README says."""
    spoken = {"protocol": "", "tls": "plaintext", "alpn": "", "sni": "", "path": "/", "address": "1.3.3.7"}
    stated = {key: value for key, value in call.items() if key in spoken and value}
    return Call(
        port=call["port"],
        host=call.get("hostHeader") or "",
        headers=call.get("headers") or {},
        inbound=call.get("callMode") == "inbound",
        secret=call.get("mtlsSecretConfigName") or "default",
        **(spoken | stated),
    )


@pytest.mark.parametrize(
    ("case", "call"), [pytest.param(*each, id=f"{each[0]['name']}-{each[1]['name']}") for each in CALLS]
)
def test_call(case, call):
    """The call meets what it should; of an answer only what is stated counts, unless it is to be compared strictly."""
    resources = resources_for({key: case[key] for key in case if key != "calls"})
    met = walk(call_of(call["call"]), resources["listeners"].values(), resources["routes"])
    wanted = {key: value for key, value in call["result"].items() if value and key != "strictMatch"}
    shown = met if call["result"].get("strictMatch") else {key: met.get(key) for key in wanted}
    assert shown == wanted, met


@pytest.mark.parametrize("case", [pytest.param(each, id=f"{each['name']}-{each['variant']}") for each in ROUTES])
def test_routes(case):
    """The clusters behind each domain; null: there need be no such configuration."""
    configuration = resources_for(case)["routes"].get(case["routeName"])
    found = {
        domain: sorted(route.get("route", {}).get("cluster", "") for route in host["routes"])
        for host in (configuration or {"virtual_hosts": ()})["virtual_hosts"]
        for domain in host["domains"]
    }
    for domain, clusters in (case["expectedVirtualHosts"] or {}).items():
        assert found.get(domain) == clusters


@pytest.mark.parametrize("case", [pytest.param(each, id=each["name"]) for each in INPUTS])
def test_inputs(case):
    """All objects are read without an objection, and what comes of them is the same bytes each time."""
    read = read_simulation(case)
    for document in read.objects[CONFIG_CLUSTER]:
        answer = admit(document, ORIGIN, CONFIG_CLUSTER)
        assert isinstance(answer, Admitted | UnknownKind), answer
    first, second = (_generate(read) for _ in range(2))
    for kind, resources in first.items():
        assert resources.version == second[kind].version
