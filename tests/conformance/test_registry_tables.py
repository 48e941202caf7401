"""Known answers about workloads, aliases and what a proxy serves, from tables of istiod's own tests (`go-tables/`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conformance.cases import CONFIG_CLUSTER
from tests.conformance.go_tables import istio_object, plain, rows, whole_rows
from tests.push.fixtures import snapshot, view_in
from trierarch.config import labels
from trierarch.push.proxy import NodeInfo, build_proxy

MODEL = "model/pilot__pkg__model__{}.json"
KUBERNETES = "registry/pilot__pkg__serviceregistry__kube__controller__controller.json"
EXTERNAL = "registry/pilot__pkg__serviceregistry__serviceentry__conversion.json"


def workload_entry(name, namespace, spec, own_labels=None):
    """A WorkloadEntry with labels of its own, beside those of the specification."""
    return replace(istio_object("WorkloadEntry", spec, name, namespace), labels=own_labels or {})


@rows(EXTERNAL, "TestConvertWorkloadEntryToWorkloadInstance", "workloadInstanceTests")
def test_workload_entries(row):
    """What is known of a workload: labels, identity, place, whether it takes mTLS."""
    meta, wanted = row["wle"]["meta"], row["out"]["endpoint"]
    entry = workload_entry("it", meta["namespace"], row["wle"]["spec"], meta.get("labels"))
    found = snapshot(entry).workloads.entries[entry.key]
    assert dict(found.all_labels) == wanted["labels"] | {labels.CLUSTER: CONFIG_CLUSTER}
    assert list(found.addresses) == wanted["addresses"]
    assert found.service_account == wanted["serviceAccount"]
    assert found.tls_mode == wanted["tlsMode"]
    assert found.network == wanted.get("network", "")
    assert "/".join(found.locality).rstrip("/") == wanted["locality"].get("label", "")
    assert dict(found.ports) == row["out"].get("portMap", {})


@rows(MODEL.format("push_context"), "TestResolveServiceAliases", "tests")
def test_aliases(row):
    """Of which service a name stands in the end; a loop stands for none."""
    concrete = "{clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}"
    alias = "{{type: ExternalName, externalName: {externalName}.ns.svc.cluster.local}}"
    bodies = {each["name"]: alias.format_map(each) if "externalName" in each else concrete for each in row["input"]}
    found = snapshot(*(f"Service ns/{name}: {body}" for name, body in bodies.items())).services
    for each in row["output"]:
        (service,) = (one for one in found.ordered if one.name == each["name"])
        assert [alias.host.partition(".")[0] for alias in service.aliases] == each.get("aliases", [])


@rows(KUBERNETES, "TestGetProxyServiceTargets_WorkloadInstance", "cases")
def test_services_of_workload_entries(row):
    """A proxy is the entry that its name means, or else one of its namespace, or else the first, with its address."""
    entries = whole_rows(KUBERNETES, "TestGetProxyServiceTargets_WorkloadInstance", "range")
    objects = [_entry(each) for each in entries]
    apps = {
        (each["namespace"], each["endpoint"]["labels"]["app"]): each["endpoint"]["endpointPort"] for each in entries
    }
    lines = [
        f"Service {namespace}/{app}: {{selector: {{app: {app}}}, ports: [{{name: http, port: {port}}}]}}"
        for (namespace, app), port in apps.items()
    ]
    proxy = row["proxy"]
    if not proxy.get("ipAddresses"):
        pytest.skip("a proxy has an address")
    name = proxy.get("id") or "other.elsewhere"
    node = NodeInfo(
        id=f"sidecar~{proxy['ipAddresses'][0]}~{name}~x",
        metadata={"NAMESPACE": proxy.get("configNamespace", ""), "INSTANCE_IPS": ",".join(proxy["ipAddresses"])},
    )
    context = snapshot(*objects, *lines)
    targets = view_in(build_proxy(node), context).inbound.targets
    wanted = [
        (each["service"]["hostname"].partition(".svc.")[0], each["port"]["targetPort"]) for each in row["want"] or ()
    ]
    assert [(each.service.host.partition(".svc.")[0], each.target_port) for each in targets] == wanted


def _service_line(row):
    app, port = row["endpoint"]["labels"]["app"], row["endpoint"]["endpointPort"]
    return f"Service {row['namespace']}/{app}: {{selector: {{app: {app}}}, ports: [{{name: http, port: {port}}}]}}"


def _entry(row):
    endpoint = plain(row["endpoint"])
    spec = {"address": endpoint["addresses"][0], "labels": endpoint["labels"]}
    return workload_entry(row["name"], row["namespace"], spec)
