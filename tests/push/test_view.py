"""Where a proxy stands: its workload, its Sidecar, what it serves, and what of it may be part of a view."""

from __future__ import annotations

import pytest

from tests.push.fixtures import built, edited, objects, sidecar, snapshot, view_in, view_of
from trierarch.push.model import Locality, PortProtocol
from trierarch.push.proxy import NodeInfo, build_proxy
from trierarch.push.targets import LONGEST_POD_PORTS
from trierarch.push.view import find_workload

WEB = "web.shop.svc.cluster.local"
POD = """
    Pod shop/web-1: {metadata: {labels: {app: web, version: v1}}, nodeName: n1,
      containers: [{ports: [{name: main, containerPort: 8080}]}],
      initContainers: [{restartPolicy: Always, ports: [{name: aside, containerPort: 9090}]},
        {ports: [{name: early, containerPort: 1}]}],
      status: {podIP: 10.1.0.1, phase: Running}}
"""


def service(name="web", ports="[{name: http, port: 80, targetPort: 8080}]", selector="{app: web}", extra=""):
    """A Service of namespace shop as a line of text."""
    return f"Service shop/{name}: {{clusterIP: 10.0.0.1, ports: {ports}, selector: {selector}{extra}}}"


def targets(context, proxy=None):
    """Host, service port and target port of what a proxy serves."""
    found = view_in(proxy or sidecar(), context).inbound.targets
    return [
        (each.service.host.removesuffix(".shop.svc.cluster.local"), each.service_port, each.target_port)
        for each in found
    ]


def test_services_that_select_the_pod():
    """networking.md §1.5: target ports by number, by name of a container's port, or the port itself."""
    ports = """[{name: a, port: 1, targetPort: 8080}, {name: b, port: 2, targetPort: main},
        {name: c, port: 3, targetPort: aside}, {name: d, port: 4, targetPort: early}, {name: e, port: 5}]"""
    context = snapshot(POD, service(ports=ports), service("other", selector="{app: cart}"))
    assert targets(context) == [("web", 1, 8080), ("web", 3, 9090), ("web", 5, 5)]


def test_the_oldest_service_comes_first():
    """Then by host; each service keeps its own target for a shared port."""
    old = service("old", extra=", metadata: {creationTimestamp: '2020-01-01T00:00:00Z'}")
    new = service("a-new", extra=", metadata: {creationTimestamp: '2024-01-01T00:00:00Z'}")
    assert targets(snapshot(POD, new, old)) == [("old", 80, 8080), ("a-new", 80, 8080)]


def test_ports_of_one_service_with_one_target():
    """Are one target if they speak the same."""
    same = "[{name: http, port: 80, targetPort: 8080}, {name: http-x, port: 81, targetPort: 8080}]"
    assert targets(snapshot(POD, service(ports=same))) == [("web", 80, 8080)]
    other = same.replace("http-x", "grpc")
    found = view_in(sidecar(), snapshot(POD, service(ports=other))).inbound.targets
    assert [each.protocol for each in found] == [PortProtocol.HTTP, PortProtocol.GRPC]


def test_a_pod_that_nobody_selects():
    """Services without a selector whose slices list its address."""
    listed = """
        EndpointSlice shop/x: {metadata: {labels: {kubernetes.io/service-name: web}}, ports: [{name: http, port: 7}],
          endpoints: [{addresses: [10.1.0.1]}]}
    """
    assert targets(snapshot(POD, service(selector="{}"), listed)) == [("web", 80, 7)]
    assert targets(snapshot(POD, service(selector="{}"), service("mine"), listed)) == [("mine", 80, 8080)]


def test_a_pod_that_is_not_known():
    """Services that select the labels it claims, with the ports that it claims (xds-server.md §4.11)."""
    ports = "[{name: a, port: 1, targetPort: main}, {name: b, port: 2, targetPort: 8}]"
    claims = {"LABELS": {"app": "web"}, "POD_PORTS": '[{"name": "main", "containerPort": 8080}]'}
    context = snapshot(service(ports=ports))
    assert targets(context, sidecar(**claims)) == [("web", 1, 8080), ("web", 2, 8)]
    for nonsense in ("nonsense", "[" * 50_000, '[{"name": "main", "containerPort": 8080}]' + " " * LONGEST_POD_PORTS):
        assert targets(context, sidecar(LABELS={"app": "web"}, POD_PORTS=nonsense)) == [("web", 2, 8)]
    for number in ("0", "-5", "65536", "1" * 300, "null"):
        impossible = f'[{{"name": "main", "containerPort": {number}}}]'
        assert targets(context, sidecar(LABELS={"app": "web"}, POD_PORTS=impossible)) == [("web", 2, 8)]


def test_a_workload_entry_with_the_proxys_address():
    """Is served for ServiceEntries that have it as an endpoint and for Services that select it."""
    context = snapshot(
        service(ports="[{name: http, port: 80, targetPort: main}]"),
        """
        WorkloadEntry shop/vm: {address: 10.5.0.1, labels: {app: web}, ports: {http: 8080}}
        ServiceEntry other/pay: {hosts: [pay.example], ports: [{number: 443, name: tls}], resolution: STATIC,
          endpoints: [{address: 10.5.0.1, ports: {tls: 8443}}]}
        """,
    )
    assert targets(context, sidecar("vm", ip="10.5.0.1")) == [("web", 80, 8080), ("pay.example", 443, 8443)]


@pytest.mark.parametrize(
    ("name", "namespace", "expected"),
    [
        ("b", "shop", ("shop", "b")),
        ("z", "shop", ("shop", "a")),
        ("b", "other", ("bank", "c")),
    ],
)
def test_workload_entries_with_one_address(name, namespace, expected):
    """Hosts of several networks: the proxy's name tells, or its namespace, or else the first is taken."""
    address = "{address: 10.5.0.1, labels: {app: web}}"
    context = snapshot(*(f"WorkloadEntry {place}: {address}" for place in ("shop/a", "shop/b", "bank/c")))
    found = find_workload(sidecar(name, namespace=namespace, ip="10.5.0.1"), context)
    assert (found.namespace, found.key.name) == expected


def test_services_of_other_clusters_are_not_served():
    """A proxy serves those of its own cluster; one that names none would serve all."""
    far = objects(service(), cluster="far") + objects(POD, cluster="far")
    context = built(view_of(*far))
    assert targets(context, sidecar(CLUSTER_ID="far")) == [("web", 80, 8080)]
    assert targets(context) == []


@pytest.mark.parametrize(
    ("sidecars", "expected"),
    [
        ([], None),
        (["Sidecar shop/plain: {}"], ("shop", "plain")),
        (
            ["Sidecar shop/plain: {}", "Sidecar shop/mine: {workloadSelector: {labels: {version: v1}}}"],
            ("shop", "mine"),
        ),
        (
            ["Sidecar shop/other: {workloadSelector: {labels: {version: v2}}}", "Sidecar istio-system/all: {}"],
            ("istio-system", "all"),
        ),
        (["Sidecar shop/plain: {}", "Sidecar istio-system/all: {}"], ("shop", "plain")),
        (["Sidecar elsewhere/plain: {}"], None),
    ],
)
def test_which_sidecar_applies(sidecars, expected):
    """networking.md §0.4: one that selects the workload, the namespace's, the root's, none."""
    key = view_in(sidecar(), snapshot(POD, *sidecars)).outbound.scope
    assert key.namespace == "shop"
    assert (key.sidecar and (key.sidecar.namespace, key.sidecar.name)) == expected


def test_gateways_have_no_sidecar():
    """Only sidecars do."""
    node = NodeInfo(id="router~10.1.0.1~web-1.shop~shop.svc.cluster.local")
    router = build_proxy(node, default_cluster="Kubernetes")
    assert view_in(router, snapshot("Sidecar shop/plain: {}")).outbound.scope.sidecar is None


def test_only_labels_that_somebody_asks_for_tell_views_apart():
    """Two Pods that differ in another label share a view; once a route asks for it, they do not."""
    pods = POD + POD.replace("web-1", "web-2").replace("v1", "v2").replace("10.1.0.1", "10.1.0.2")
    first, second = sidecar(), sidecar("web-2", ip="10.1.0.2")
    plain = snapshot(pods, service())
    assert view_in(first, plain) == view_in(second, plain)
    asking = """
        VirtualService shop/web: {hosts: [web], http: [{match: [{sourceLabels: {version: v1}}],
          route: [{destination: {host: web}}]}]}
    """
    apart = snapshot(pods, service(), asking)
    assert view_in(first, apart).outbound.labels == {("version", "v1")}
    assert view_in(first, apart).outbound != view_in(second, apart).outbound


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DestinationRule shop/r: {host: web, workloadSelector: {matchLabels: {app: web}}}", {"app"}),
        (
            """DestinationRule shop/r: {host: web, trafficPolicy: {portLevelSettings: [{port: {number: 1}, loadBalancer:
            {localityLbSetting: {failoverPriority: [version, x=y]}}}]}}""",
            {"version", "x"},
        ),
        ("VirtualService shop/v: {hosts: [web], tls: [{match: [{sniHosts: [a], sourceLabels: {app: web}}]}]}", {"app"}),
        ("VirtualService shop/v: {hosts: [web], tcp: [{match: [{sourceLabels: {app: web}}]}]}", {"app"}),
        ("MeshConfig mesh: {localityLbSetting: {failoverPriority: [tier]}}", {"tier"}),
        ("Sidecar shop/s: {workloadSelector: {labels: {app: web}}}", set()),
        (
            "Service shop/s: {clusterIP: 1.1.1.1, trafficDistribution: PreferClose}",
            {"topology.istio.io/network", "topology.kubernetes.io/region", "topology.kubernetes.io/zone"},
        ),
    ],
)
def test_labels_that_are_asked_for(text, expected):
    """Selectors of rules, sourceLabels, failover priorities, near endpoints; a Sidecar is in the key itself."""
    assert snapshot(text).selectors.outbound == expected


def test_the_node_counts_only_where_something_stays_on_it():
    """A service with internalTrafficPolicy Local."""
    plain, local = snapshot(POD, service()), snapshot(POD, service(extra=", internalTrafficPolicy: Local"))
    proxy = sidecar(NODE_NAME="n1")
    assert view_in(proxy, plain).outbound.node_name == ""
    assert view_in(proxy, local).outbound.node_name == "n1"


def test_locality():
    """From the Pod's node, else from the client's Node (xds-server.md §4.6)."""
    node = "Node /n1: {metadata: {labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: z}}}"
    assert view_in(sidecar(), snapshot(POD, node)).outbound.locality == Locality("r", "z")
    claimed = build_proxy(
        NodeInfo(id=sidecar().node_id, locality=Locality("a", "b", "c")), default_cluster="Kubernetes"
    )
    assert view_in(claimed, snapshot(POD)).outbound.locality == Locality("a", "b", "c")


def test_own_addresses_count_only_where_a_headless_service_has_them():
    """Otherwise each workload would be a view of its own."""
    listed = """
        EndpointSlice shop/x: {metadata: {labels: {kubernetes.io/service-name: web}}, ports: [{name: http, port: 7}],
          endpoints: [{addresses: [10.1.0.1]}]}
    """
    headless = service().replace("10.0.0.1", "None")
    assert view_in(sidecar(), snapshot(POD, headless, listed)).outbound.own_addresses == {"10.1.0.1"}
    assert view_in(sidecar(), snapshot(POD, service(), listed)).outbound.own_addresses == frozenset()


def test_the_address_counts_where_the_configuration_names_it():
    """Mode NONE, or a Sidecar ingress at 0.0.0.0."""
    context = snapshot(POD)
    assert view_in(sidecar(), context).inbound.address == ""
    assert view_in(sidecar(INTERCEPTION_MODE="NONE"), context).inbound.address == "10.1.0.1"
    ingress = """
        Sidecar shop/s: {ingress: [{port: {number: 80, protocol: HTTP, name: http}, defaultEndpoint: '0.0.0.0:8080'}]}
    """
    assert view_in(sidecar(), snapshot(POD, ingress)).inbound.address == "10.1.0.1"


def test_a_view_follows_its_pod():
    """New labels select another Sidecar."""
    chosen = "Sidecar shop/mine: {workloadSelector: {labels: {version: v2}}}"
    view = view_of(POD, chosen)
    before = built(view)
    after = built(edited(view, POD.replace("v1", "v2")), before)
    assert view_in(sidecar(), before).outbound.scope.sidecar is None
    assert view_in(sidecar(), after).outbound.scope.sidecar.name == "mine"
