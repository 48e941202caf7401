"""Services: what Kubernetes Services and ServiceEntries become, who sees them, which of several counts."""

from __future__ import annotations

import pytest

from tests.push.fixtures import built, decoded, edited, objects, snapshot, view_of
from trierarch.push.model import UNSPECIFIED_ADDRESS, Hostname, PortProtocol, Registry, Resolution, TrafficDistribution
from trierarch.push.port_protocols import parse_protocol, select_protocol
from trierarch.push.visibility import is_visible

WEB = Hostname("shop", "web.shop.svc.cluster.local")


def only(context):
    """The one service of a snapshot."""
    (service,) = context.services.ordered
    return service


@pytest.mark.parametrize(
    ("number", "name", "transport", "app_protocol", "expected"),
    [
        (80, "http", "TCP", None, PortProtocol.HTTP),
        (80, "HTTP-web", "TCP", None, PortProtocol.HTTP),
        (80, "http2-x", "TCP", None, PortProtocol.HTTP2),
        (80, "grpc-web-x", "TCP", None, PortProtocol.GRPC_WEB),
        (80, "grpc-x", "TCP", None, PortProtocol.GRPC),
        (80, "httpx", "TCP", None, PortProtocol.UNSUPPORTED),
        (80, "", "TCP", None, PortProtocol.UNSUPPORTED),
        (80, "http", "UDP", None, PortProtocol.UDP),
        (80, "http", "UDP", "grpc", PortProtocol.UDP),
        (80, "http", "TCP", "tls", PortProtocol.TLS),
        (80, "http", "TCP", "kubernetes.io/h2c", PortProtocol.HTTP2),
        (80, "http", "TCP", "kubernetes.io/ws", PortProtocol.HTTP),
        (80, "http", "TCP", "kubernetes.io/wss", PortProtocol.HTTPS),
        (80, "http", "TCP", "own.example/x", PortProtocol.UNSUPPORTED),
        (3306, "db", "TCP", None, PortProtocol.TCP),
        (3306, "http", "TCP", None, PortProtocol.HTTP),
        (27017, "", "TCP", None, PortProtocol.TCP),
    ],
)
def test_protocol_of_a_port(number, name, transport, app_protocol, expected):
    """networking.md §1.3: UDP, then appProtocol in place of the name, then the name, then server-first ports."""
    assert select_protocol(number, name, transport, app_protocol) is expected


def test_protocol_as_written():
    """A ServiceEntry's protocol is read like a name, and no port is special there."""
    assert parse_protocol("MONGO") is PortProtocol.MONGO
    assert (
        only(snapshot("ServiceEntry a/x: {hosts: [x.y], ports: [{number: 3306, name: a}]}")).ports[0].protocol.is_auto
    )


def test_kubernetes_service():
    """Name, addresses of its cluster, ports with their targets, selector."""
    service = only(
        snapshot("""
            Service shop/web: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, 'fd00::1'], selector: {app: web}, ports: [
              {name: http, port: 80, targetPort: 8080}, {name: tcp, port: 90, targetPort: named}, {name: x, port: 7}]}
        """)
    )
    assert service.id == WEB
    assert service.registry is Registry.KUBERNETES
    assert service.resolution is Resolution.CLIENT_SIDE
    assert service.addresses == {"Kubernetes": ("10.0.0.1", "fd00::1")}
    assert service.default_address == "10.0.0.1"
    assert [port.target for port in service.ports] == [8080, "named", 0]
    assert service.selector == {"app": "web"}


@pytest.mark.parametrize(
    ("body", "field", "expected"),
    [
        ("clusterIP: None", "resolution", Resolution.PASSTHROUGH),
        ("clusterIP: None", "headless", True),
        ("clusterIP: None", "default_address", UNSPECIFIED_ADDRESS),
        ("sessionAffinity: x", "default_address", UNSPECIFIED_ADDRESS),
        ("type: ExternalName, externalName: a.b", "resolution", Resolution.ALIAS),
        ("type: ExternalName, externalName: a.b", "external_name", "a.b"),
        ("type: ExternalName, externalName: a.b", "mesh_external", True),
        ("internalTrafficPolicy: Local", "node_local", True),
        ("trafficDistribution: PreferClose", "traffic_distribution", TrafficDistribution.SAME_ZONE),
        ("trafficDistribution: PreferSameNode", "traffic_distribution", TrafficDistribution.SAME_NODE),
        ("publishNotReadyAddresses: true", "publish_not_ready", True),
        ("selector: {}", "selector", None),
    ],
)
def test_fields_of_a_kubernetes_service(body, field, expected):
    """networking.md §1.2, one field at a time."""
    assert getattr(only(snapshot(f"Service shop/web: {{{body}}}")), field) == expected


@pytest.mark.parametrize(
    ("annotation", "field", "expected"),
    [
        ("networking.istio.io/exportTo: '., other'", "export_to", {"shop", "other"}),
        ("networking.istio.io/exportTo: '~'", "export_to", {"~"}),
        (
            "networking.istio.io/traffic-distribution: PreferSameZone",
            "traffic_distribution",
            TrafficDistribution.SAME_ZONE,
        ),
        ("alpha.istio.io/canonical-serviceaccounts: 'a,b'", "subject_alt_names", ("a", "b")),
        (
            "alpha.istio.io/kubernetes-serviceaccounts: web",
            "subject_alt_names",
            ("spiffe://cluster.local/ns/shop/sa/web",),
        ),
    ],
)
def test_annotations_of_a_kubernetes_service(annotation, field, expected):
    """networking.md §1.2, annotations."""
    assert (
        getattr(only(snapshot(f"Service shop/web: {{metadata: {{annotations: {{{annotation}}}}}}}")), field) == expected
    )


def test_a_namespace_speaks_for_its_services():
    """Its annotation counts for a Service that says nothing itself."""
    context = snapshot("""
        Namespace /shop: {metadata: {annotations: {networking.istio.io/traffic-distribution: PreferClose}}}
        Service shop/web: {clusterIP: 10.0.0.1}
    """)
    assert only(context).traffic_distribution is TrafficDistribution.SAME_ZONE


def test_a_service_entry_is_a_service_for_each_host_and_address():
    """networking.md §1.6: ranges of one address are that address; without addresses there is one service a host."""
    context = snapshot("""
        ServiceEntry shop/x: {hosts: [a.example, b.example], addresses: [1.1.1.1/32, 2.0.0.0/8], ports: []}
        ServiceEntry shop/y: {hosts: [c.example], ports: []}
    """)
    places = [(service.hostname, service.default_address) for service in context.services.ordered]
    assert places == [
        ("a.example", "1.1.1.1"),
        ("a.example", "2.0.0.0/8"),
        ("b.example", "1.1.1.1"),
        ("b.example", "2.0.0.0/8"),
        ("c.example", UNSPECIFIED_ADDRESS),
    ]


@pytest.mark.parametrize(
    ("resolution", "expected"),
    [
        ("NONE", Resolution.PASSTHROUGH),
        ("STATIC", Resolution.CLIENT_SIDE),
        ("DNS", Resolution.DNS),
        ("DNS_ROUND_ROBIN", Resolution.DNS_ROUND_ROBIN),
        ("DYNAMIC_DNS", Resolution.DYNAMIC_DNS),
    ],
)
def test_resolution_of_a_service_entry(resolution, expected):
    """networking.md §1.1, the kinds of resolution."""
    assert only(snapshot(f"ServiceEntry a/x: {{hosts: [x.y], resolution: {resolution}}}")).resolution is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("resolution: DNS", True),
        ("resolution: DNS_ROUND_ROBIN", True),
        ("resolution: DNS, endpoints: [{address: c.d}]", True),
        ("resolution: DNS, endpoints: [{address: c.d}, {address: e.f}]", False),
        ("resolution: DNS, workloadSelector: {labels: {a: b}}", False),
        ("resolution: STATIC, endpoints: [{address: 1.2.3.4}]", False),
    ],
)
def test_who_races_addresses(body, expected):
    """networking.md §2.3: where the author says so, and clients resolve one name."""
    metadata = "metadata: {annotations: {istio.io/connect-strategy: RACE_FIRST_TCP_CONNECT}}"
    assert only(snapshot(f"ServiceEntry a/x: {{hosts: [a.b], {metadata}, {body}}}")).races_addresses is expected
    assert only(snapshot(f"ServiceEntry a/x: {{hosts: [a.b], {body}}}")).races_addresses is False


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("hosts: [a.b], resolution: DNS", ("240.240.0.1",)),
        ("hosts: [a.b], resolution: NONE", ()),
        ("hosts: [a.b], resolution: DNS, addresses: [1.2.3.4]", ()),
        ("hosts: ['*.b'], resolution: STATIC", ()),
        ("hosts: [other.b], resolution: DNS", ()),
        (
            "hosts: [a.b], resolution: DNS, metadata: {labels: {networking.istio.io/enable-autoallocate-ip: 'false'}}",
            (),
        ),
    ],
)
def test_allocated_addresses(body, expected):
    """networking.md §1.7: who may have an address that a controller allocated."""
    status = "status: {addresses: [{value: 240.240.0.1, host: a.b}]}"
    assert only(snapshot(f"ServiceEntry a/x: {{{body}, {status}}}")).auto_addresses == expected


def test_kubernetes_goes_before_a_service_entry_of_the_same_name():
    """Even if that is older; both stay in the list of all."""
    context = snapshot("""
        ServiceEntry shop/old: {hosts: [web.shop.svc.cluster.local], ports: [{number: 81, name: http}],
          metadata: {creationTimestamp: '2020-01-01T00:00:00Z'}}
        Service shop/web: {clusterIP: 10.0.0.1, metadata: {creationTimestamp: '2024-01-01T00:00:00Z'}}
    """)
    assert context.services.by_id[WEB].registry is Registry.KUBERNETES
    assert [service.registry for service in context.services.ordered] == [Registry.EXTERNAL, Registry.KUBERNETES]


def test_the_older_of_two_service_entries_counts():
    """By creation time, whatever their names."""
    context = snapshot("""
        ServiceEntry shop/a: {hosts: [x.y], ports: [{number: 1, name: a}],
          metadata: {creationTimestamp: '2024-01-01T00:00:00Z'}}
        ServiceEntry shop/b: {hosts: [x.y], ports: [{number: 2, name: b}],
          metadata: {creationTimestamp: '2020-01-01T00:00:00Z'}}
    """)
    assert context.services.by_id[Hostname("shop", "x.y")].ports[0].number == 2


def test_one_service_in_several_clusters():
    """The config cluster's definition counts, with the addresses of all."""
    here = objects("Service shop/web: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}")
    there = objects("Service shop/web: {clusterIP: 10.9.0.1, ports: [{name: http, port: 99}]}", cluster="far")
    context = built(view_of(*there, *here))
    service = only(context)
    assert service.addresses == {"Kubernetes": ("10.0.0.1",), "far": ("10.9.0.1",)}
    assert service.ports[0].number == 80


def test_aliases_are_followed_to_a_service():
    """Through chains; a loop leads nowhere (xds-server.md §8.2)."""
    context = snapshot("""
        Service shop/web: {clusterIP: 10.0.0.1}
        Service shop/one: {type: ExternalName, externalName: web.shop.svc.cluster.local}
        Service shop/two: {type: ExternalName, externalName: one.shop.svc.cluster.local}
        Service shop/round: {type: ExternalName, externalName: about.shop.svc.cluster.local}
        Service shop/about: {type: ExternalName, externalName: round.shop.svc.cluster.local}
    """)
    names = [alias.host.partition(".")[0] for alias in context.services.by_id[WEB].aliases]
    assert names == ["one", "two"]


def test_visibility():
    """xds-server.md §8.2: public beats all, then nobody, then single namespaces."""
    context = snapshot("""
        ServiceEntry a/public: {hosts: [public.x], exportTo: ['*', b]}
        ServiceEntry a/hidden: {hosts: [hidden.x], exportTo: ['~', b]}
        ServiceEntry a/own: {hosts: [own.x], exportTo: ['.']}
        ServiceEntry a/lent: {hosts: [lent.x], exportTo: [b]}
    """)
    seen = {name: [each.hostname for each in context.services.visible(name)] for name in "abc"}
    assert seen == {"a": ["own.x", "public.x"], "b": ["lent.x", "public.x"], "c": ["public.x"]}
    for name in "abc":
        assert seen[name] == sorted(each.hostname for each in context.services.ordered if is_visible(each, name))


def test_the_mesh_may_cap_service_entries():
    """serviceEntryVisibility, by the labels of the entry's namespace; Kubernetes Services are not capped."""
    context = snapshot("""
        MeshConfig mesh: {serviceEntryVisibility: {defaultVisibility: NAMESPACE, applyToSidecars: true, policies: [
          {visibility: PUBLIC, matchingRules: [{namespaceSelector: {matchLabels: {open: 'yes'}}}]},
          {visibility: NONE, matchingRules: [
            {namespaceSelector: {matchExpressions: [{key: shut, operator: Exists}]}}]}]}}
        Namespace /open: {metadata: {labels: {open: 'yes'}}}
        Namespace /shut: {metadata: {labels: {shut: ''}}}
        ServiceEntry open/x: {hosts: [open.x]}
        ServiceEntry shut/x: {hosts: [shut.x]}
        ServiceEntry rest/x: {hosts: [rest.x]}
        ServiceEntry rest/lent: {hosts: [lent.x], exportTo: [other]}
        Service shut/kube: {clusterIP: 10.0.0.1}
    """)
    reach = {service.hostname: service.export_to for service in context.services.ordered}
    assert reach["open.x"] == {"*"}
    assert reach["shut.x"] == {"~"}
    assert reach["rest.x"] == {"rest"}
    assert reach["lent.x"] == {"~"}
    assert reach["kube.shut.svc.cluster.local"] == {"*"}


def test_a_rewritten_service_that_says_the_same_is_the_same():
    """An annotation that nobody reads makes no new service, and no change."""
    view = view_of("Service shop/web: {clusterIP: 10.0.0.1}")
    before = built(view)
    view = edited(view, "Service shop/web: {clusterIP: 10.0.0.1, metadata: {annotations: {note: x}}}")
    after = built(view, before)
    assert only(after) is only(before)
    assert after.changed == frozenset()


def test_documents_as_kubernetes_writes_them():
    """The short form of these tests is the long one."""
    document = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}}
    assert (
        decoded({**document, "spec": {"clusterIP": "10.0.0.1"}}).digest
        == objects("Service shop/web: {clusterIP: 10.0.0.1}")[0].digest
    )
