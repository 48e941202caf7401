"""Endpoints: from slices, Pods, nodes, workload entries and service entries."""

from __future__ import annotations

import pytest

from tests.push.fixtures import built, edited, objects, snapshot, view_of
from trierarch.push.mesh import ContextSettings, Features
from trierarch.push.model import Health, Hostname, Locality

WEB = Hostname("shop", "web.shop.svc.cluster.local")
SERVICE = (
    "Service shop/web: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80, targetPort: 8080}], selector: {app: web}}"
)
POD = """
    Pod shop/web-1: {metadata: {labels: {app: web, security.istio.io/tlsMode: istio}}, serviceAccountName: web,
      nodeName: n1, hostname: h, subdomain: s, status: {podIP: 10.1.0.1, phase: Running}}
"""
SLICE = """
    EndpointSlice shop/web-x: {metadata: {labels: {kubernetes.io/service-name: web}}, ports: [{name: http, port: 8080}],
      endpoints: [{addresses: [10.1.0.1], targetRef: {kind: Pod, name: web-1}}]}
"""
NODE = """
    Node /n1: {metadata: {labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: z,
      topology.istio.io/subzone: s}}}
"""


def web_slice(endpoints, name="web-x", ports="[{name: http, port: 8080}]", extra=""):
    """A slice of service `web` as a line of text."""
    labels = "{kubernetes.io/service-name: web}"
    return (
        f"EndpointSlice shop/{name}: {{metadata: {{labels: {labels}}}, ports: {ports}, endpoints: {endpoints}{extra}}}"
    )


def endpoints(context, service=WEB):
    """The endpoints of a service."""
    return context.endpoints.of(service).endpoints


def addresses(context, service=WEB):
    """The first addresses and ports of a service's endpoints."""
    return [(endpoint.addresses[0], endpoint.port) for endpoint in endpoints(context, service)]


def test_an_endpoint_is_what_its_pod_is():
    """networking.md §1.4: labels with those of the place, identity, locality of the node, TLS mode, names."""
    context = snapshot(SERVICE, POD, SLICE, NODE)
    (endpoint,) = endpoints(context)
    assert endpoint.addresses == ("10.1.0.1",)
    assert (endpoint.port, endpoint.port_name) == (8080, "http")
    assert endpoint.service_account == "spiffe://cluster.local/ns/shop/sa/web"
    assert endpoint.locality == Locality("r", "z", "s")
    assert endpoint.tls_mode == "istio"
    assert (endpoint.workload_name, endpoint.node_name) == ("web-1", "n1")
    assert (endpoint.host_name, endpoint.subdomain) == ("h", "s")
    assert endpoint.labels == {
        "app": "web",
        "security.istio.io/tlsMode": "istio",
        "topology.kubernetes.io/region": "r",
        "topology.kubernetes.io/zone": "z",
        "topology.istio.io/subzone": "s",
        "topology.istio.io/cluster": "Kubernetes",
        "kubernetes.io/hostname": "n1",
    }
    assert context.endpoints.of(WEB).service_accounts == ("spiffe://cluster.local/ns/shop/sa/web",)


@pytest.mark.parametrize(
    ("conditions", "cookie", "expected"),
    [
        ("{}", False, Health.HEALTHY),
        ("{ready: true, terminating: true}", False, Health.HEALTHY),
        ("{ready: false}", False, Health.TERMINATING),
        ("{ready: false, terminating: false}", False, Health.UNHEALTHY),
        ("{ready: false}", True, Health.DRAINING),
        ("{ready: false, serving: false}", True, Health.TERMINATING),
        ("{ready: false, terminating: false}", True, Health.UNHEALTHY),
    ],
)
def test_health(conditions, cookie, expected):
    """networking.md §1.4: unknown conditions count as true; only services with the cookie label drain."""
    labels = "{istio.io/persistent-session: COOKIE}" if cookie else "{}"
    service = f"Service shop/web: {{metadata: {{labels: {labels}}}, ports: [{{name: http, port: 80}}]}}"
    (endpoint,) = endpoints(snapshot(service, web_slice(f"[{{addresses: [10.1.0.1], conditions: {conditions}}}]")))
    assert endpoint.health is expected


@pytest.mark.parametrize(
    ("labels", "features", "expected"),
    [
        ("{istio.io/draining: 'true'}", Features(), Health.DRAINING),
        ("{istio.io/draining: ''}", Features(), Health.HEALTHY),
        ("{leaving: 'yes'}", Features(), Health.HEALTHY),
        ("{leaving: 'yes'}", Features(draining_label="leaving"), Health.DRAINING),
        ("{istio.io/draining: 'true'}", Features(draining_label="leaving"), Health.HEALTHY),
        ("{istio.io/draining: 'true'}", Features(draining_label=""), Health.HEALTHY),
    ],
)
def test_a_label_drains_a_workload(labels, features, expected):
    """Whatever it says, if it says anything; which label that is can be set, and set to none (xds-server.md §9.3)."""
    pod = f"Pod shop/web-1: {{metadata: {{labels: {labels}}}, status: {{podIP: 10.1.0.1, phase: Running}}}}"
    (endpoint,) = endpoints(snapshot(SERVICE, SLICE, pod, settings=ContextSettings(features=features)))
    assert endpoint.health is expected


@pytest.mark.parametrize(("label", "expected"), [("seat", Health.DRAINING), ("", Health.TERMINATING)])
def test_the_label_of_services_that_drain_can_be_set(label, expected):
    """The same label that asks for sessions by cookie."""
    service = "Service shop/web: {metadata: {labels: {seat: COOKIE}}, ports: [{name: http, port: 80}]}"
    leaving = web_slice("[{addresses: [10.1.0.1], conditions: {ready: false}}]")
    features = Features(session_cookie_label=label)
    (endpoint,) = endpoints(snapshot(service, leaving, settings=ContextSettings(features=features)))
    assert endpoint.health is expected


def test_an_endpoint_waits_for_its_pod():
    """Withheld until the Pod that it names is known; one that names none is used as it is."""
    view = view_of(SERVICE, SLICE, web_slice("[{addresses: [10.1.0.2]}]", name="web-y"))
    before = built(view)
    assert addresses(before) == [("10.1.0.2", 8080)]
    after = built(edited(view, POD), before)
    assert addresses(after) == [("10.1.0.1", 8080), ("10.1.0.2", 8080)]


def test_a_pod_is_also_found_by_its_address():
    """In the same namespace only."""
    pods = """
        Pod shop/a: {metadata: {labels: {app: a}}, status: {podIP: 10.1.0.1}}
        Pod other/b: {metadata: {labels: {app: b}}, status: {podIP: 10.1.0.2}}
    """
    found = endpoints(snapshot(SERVICE, pods, web_slice("[{addresses: [10.1.0.1]}, {addresses: [10.1.0.2]}]")))
    assert [endpoint.labels.get("app") for endpoint in found] == ["a", None]


def test_what_overlapping_slices_list_twice_is_one_endpoint():
    """By address and port name."""
    context = snapshot(
        SERVICE, web_slice("[{addresses: [1.1.1.1]}]"), web_slice("[{addresses: [1.1.1.1]}]", name="web-y")
    )
    assert addresses(context) == [("1.1.1.1", 8080)]


def test_slices_of_names_are_ignored():
    """Those of addressType FQDN."""
    assert endpoints(snapshot(SERVICE, web_slice("[{addresses: [a.b]}]", extra=", addressType: FQDN"))) == ()


def test_endpoints_objects_count_only_without_slices():
    """The older form gives way; its addresses that are not ready are as in a mirrored slice."""
    legacy = """
        Endpoints shop/web: {subsets: [{addresses: [{ip: 1.1.1.1}], notReadyAddresses: [{ip: 2.2.2.2}],
          ports: [{name: http, port: 8080}]}]}
    """
    view = view_of(SERVICE, legacy)
    before = built(view)
    assert [(each.addresses[0], each.health) for each in endpoints(before)] == [
        ("1.1.1.1", Health.HEALTHY),
        ("2.2.2.2", Health.TERMINATING),
    ]
    assert addresses(built(edited(view, web_slice("[{addresses: [3.3.3.3]}]")), before)) == [("3.3.3.3", 8080)]


def test_both_addresses_of_a_pod_with_dual_stack():
    """The first address is the Pod's first, in whatever slice it stands."""
    pod = "Pod shop/web-1: {status: {podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}, {ip: 'fd00::1'}]}}"
    listed = web_slice("[{addresses: ['fd00::1'], targetRef: {kind: Pod, name: web-1}}]", extra=", addressType: IPv6")
    on = ContextSettings(features=Features(dual_stack=True))
    assert endpoints(snapshot(SERVICE, pod, listed, settings=on))[0].addresses == ("10.1.0.1", "fd00::1")
    assert endpoints(snapshot(SERVICE, pod, listed))[0].addresses == ("fd00::1",)


def test_endpoints_of_several_clusters():
    """Each cluster's slices, with that cluster's Pods."""
    far = objects(SERVICE + "\n" + "Pod shop/web-1: {metadata: {labels: {at: far}}, status: {podIP: 10.1.0.1}}", "far")
    far += objects(SLICE, "far")
    found = endpoints(built(view_of(SERVICE, POD, SLICE, *far)))
    assert [(endpoint.cluster, endpoint.labels.get("at")) for endpoint in found] == [
        ("Kubernetes", None),
        ("far", "far"),
    ]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("{topology.istio.io/locality: a/b/c}", Locality("a", "b", "c")),
        ("{istio-locality: a.b.c}", Locality("a", "b", "c")),
        ("{topology.istio.io/locality: a}", Locality("a")),
        ("{}", Locality("r", "z", "s")),
    ],
)
def test_locality(labels, expected):
    """A Pod's own label goes before its node's; dots separate where there is no slash."""
    pod = f"Pod shop/web-1: {{metadata: {{labels: {labels}}}, nodeName: n1, status: {{podIP: 10.1.0.1}}}}"
    assert endpoints(snapshot(SERVICE, pod, SLICE, NODE))[0].locality == expected


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("Pod shop/web-1: {metadata: {labels: {topology.istio.io/network: own}}, status: {podIP: 10.1.0.1}}", "own"),
        ("Namespace /istio-system: {metadata: {labels: {topology.istio.io/network: near}}}", "near"),
        ("MeshNetworks mesh: {networks: {by-range: {endpoints: [{fromCidr: 10.1.0.0/16}]}}}", "by-range"),
        ("MeshNetworks mesh: {networks: {by-name: {endpoints: [{fromRegistry: Kubernetes}]}}}", "by-name"),
        ("Node /other: {}", ""),
    ],
)
def test_network(extra, expected):
    """The Pod's label, else the label of its cluster's root namespace, else MeshNetworks."""
    assert endpoints(snapshot(SERVICE, POD, SLICE, extra))[0].network == expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("{}", "web-1"),
        ("{ownerReferences: [{kind: StatefulSet, name: set, controller: true}]}", "web-1"),
        ("{generateName: web-, ownerReferences: [{kind: StatefulSet, name: set, controller: true}]}", "set"),
        (
            """{generateName: web-, labels: {pod-template-hash: abc},
            ownerReferences: [{kind: ReplicaSet, name: web-abc, controller: true}]}""",
            "web",
        ),
        ("{generateName: job-, ownerReferences: [{kind: Job, name: nightly-12345678, controller: true}]}", "nightly"),
        ("{generateName: web-, ownerReferences: [{kind: DaemonSet, name: set}]}", "web-1"),
    ],
)
def test_workload_name(metadata, expected):
    """networking.md §1.4: the owner's name, for Pods that something generated."""
    pod = f"Pod shop/web-1: {{metadata: {metadata}, status: {{podIP: 10.1.0.1}}}}"
    assert endpoints(snapshot(SERVICE, pod, SLICE))[0].workload_name == expected


def test_a_finished_pod_is_no_workload():
    """An endpoint that names it is withheld."""
    assert endpoints(snapshot(SERVICE, SLICE, "Pod shop/web-1: {status: {podIP: 10.1.0.1, phase: Succeeded}}")) == ()


def test_a_kubernetes_service_selects_workload_entries():
    """networking.md §1.6: on the target port, or the entry's own port of that name."""
    context = snapshot(
        SERVICE,
        """
        WorkloadEntry shop/vm: {address: 10.5.0.1, labels: {app: web}, serviceAccount: vm}
        WorkloadEntry shop/own: {address: 10.5.0.2, labels: {app: web}, ports: {http: 7}}
        WorkloadEntry shop/not: {address: 10.5.0.3, labels: {app: not}}
        """,
    )
    assert addresses(context) == [("10.5.0.2", 7), ("10.5.0.1", 8080)]
    assert [endpoint.tls_mode for endpoint in endpoints(context)] == ["disabled", "istio"]
    assert {endpoint.health for endpoint in endpoints(context)} == {Health.UNKNOWN}


PAY = Hostname("shop", "pay.example")


def entry(body, ports="[{number: 80, name: http, protocol: HTTP}]"):
    """A ServiceEntry for pay.example as a line of text."""
    return f"ServiceEntry shop/pay: {{hosts: [pay.example], ports: {ports}, {body}}}"


def test_inline_endpoints():
    """Port by name, else the target port, else the number; Unix sockets have no port."""
    context = snapshot(
        entry(
            "resolution: STATIC, endpoints: [{address: 1.1.1.1, ports: {http: 7}}, {address: 2.2.2.2, weight: 3,"
            " labels: {v: '1'}, locality: a/b, network: far}, {address: 'unix:///tmp/socket'}]",
            ports="[{number: 80, name: http, protocol: HTTP, targetPort: 8}]",
        )
    )
    assert addresses(context, PAY) == [("1.1.1.1", 7), ("2.2.2.2", 8), ("/tmp/socket", 0)]
    second = endpoints(context, PAY)[1]
    assert (second.weight, second.network, second.locality) == (3, "far", Locality("a", "b"))
    assert second.workload_name == "pay-1"
    assert second.labels["v"] == "1"
    assert second.health is Health.UNKNOWN


def test_a_dns_service_without_endpoints_is_its_own():
    """The host at the target port."""
    context = snapshot(entry("resolution: DNS", ports="[{number: 80, name: http, targetPort: 8}]"))
    assert addresses(context, PAY) == [("pay.example", 8)]
    assert endpoints(context, PAY)[0].workload_name == "pay"
    assert endpoints(snapshot(entry("resolution: STATIC")), PAY) == ()


def test_each_address_of_an_entry_repeats_its_endpoints():
    """networking.md §1.6."""
    context = snapshot(entry("resolution: STATIC, addresses: [9.9.9.1, 9.9.9.2], endpoints: [{address: 1.1.1.1}]"))
    assert addresses(context, PAY) == [("1.1.1.1", 80), ("1.1.1.1", 80)]


def test_a_service_entry_selects_entries_and_ready_pods():
    """Of its own namespace."""
    context = snapshot(
        entry("resolution: STATIC, workloadSelector: {labels: {app: pay}}"),
        """
        WorkloadEntry shop/vm: {address: 10.5.0.1, labels: {app: pay}}
        WorkloadEntry other/vm: {address: 10.5.0.2, labels: {app: pay}}
        Pod shop/ready: {metadata: {labels: {app: pay}}, status: {podIP: 10.1.0.1,
          conditions: [{type: Ready, status: 'True'}]}}
        Pod shop/waiting: {metadata: {labels: {app: pay}}, status: {podIP: 10.1.0.2}}
        """,
    )
    assert addresses(context, PAY) == [("10.5.0.1", 80), ("10.1.0.1", 80)]


def test_an_entry_whose_health_is_checked_must_be_healthy():
    """networking.md §1.6: with the annotation, a condition has to say so."""
    checked = (
        "metadata: {annotations: {proxy.istio.io/health-checks-enabled: 'true'}}, address: 10.5.0.1, labels: {a: b}"
    )
    selecting = entry("resolution: STATIC, workloadSelector: {labels: {a: b}}")
    view = view_of(selecting, f"WorkloadEntry shop/vm: {{{checked}}}")
    before = built(view)
    assert endpoints(before, PAY) == ()
    healthy = f"WorkloadEntry shop/vm: {{{checked}, status: {{conditions: [{{type: Healthy, status: 'True'}}]}}}}"
    assert addresses(built(edited(view, healthy), before), PAY) == [("10.5.0.1", 80)]


def test_a_pod_that_ticks_changes_nothing():
    """A status that says the same of endpoints leaves the very objects."""
    view = view_of(SERVICE, POD, SLICE)
    before = built(view)
    ticked = POD.replace("phase: Running", "phase: Running, conditions: [{type: Initialized, status: 'True'}]")
    after = built(edited(view, ticked), before)
    assert after.view is not before.view
    assert after.endpoints.of(WEB) is before.endpoints.of(WEB)
    assert after.changed == frozenset()


def test_addresses_that_are_reached_directly():
    """Endpoints of headless services, so that a proxy is not made to call itself."""
    headless = SERVICE.replace("10.0.0.1", "None")
    assert snapshot(headless, POD, SLICE).endpoints.listening == {"10.1.0.1"}
    assert snapshot(SERVICE, POD, SLICE).endpoints.listening == frozenset()
