"""Which gateways lead into a network (networking.md §3.4)."""

import pytest

from tests.push.fixtures import built, edited, objects, snapshot, view_of
from trierarch.config.resolved_names import build_resolved_name
from trierarch.push.changes import GATEWAYS_KEY
from trierarch.push.network_gateways import NetworkGateway

EAST = "Service istio-system/east: {metadata: {labels: {topology.istio.io/network: far}}, type: LoadBalancer, "
PORTS = "ports: [{name: tls, port: 15443, nodePort: 31443}], "
TWO = "status: {loadBalancer: {ingress: [{ip: 203.0.113.2}, {ip: 203.0.113.1}]}}}"


def gateways(*texts):
    """The gateways of a mesh as ADDRESS:PORT NETWORK CLUSTER."""
    known = snapshot(*texts).network_gateways.known
    return sorted(f"{each.address}:{each.port} {each.network} {each.cluster}".strip() for each in known)


def test_mesh_networks_state_addresses():
    """As they are; they are in no cluster. A gateway without a port leads nowhere."""
    networks = (
        "MeshNetworks mesh: {networks: {far: {endpoints: [{fromRegistry: c2}], "
        "gateways: [{address: 203.0.113.1, port: 443}, {address: 203.0.113.2}]}}}"
    )
    assert gateways(networks) == ["203.0.113.1:443 far"]


def test_a_labelled_service_is_a_gateway_where_its_load_balancer_is():
    """At each of its addresses, and at its external ones."""
    assert gateways(EAST + PORTS + TWO) == ["203.0.113.1:15443 far Kubernetes", "203.0.113.2:15443 far Kubernetes"]
    assert gateways(EAST + PORTS + "externalIPs: [198.51.100.1]}") == ["198.51.100.1:15443 far Kubernetes"]


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_a_service_states_its_port(place):
    """By a label or an annotation; what is no number is as if it were not there."""
    meta = {"labels": {"topology.istio.io/network": "far"}, "annotations": {}}
    for text, port in (("444", 444), ("x", 15443)):
        meta[place]["networking.istio.io/gatewayPort"] = text
        assert gateways(
            f"Service istio-system/east: {{metadata: {meta}, type: LoadBalancer, {PORTS}externalIPs: [203.0.113.1]}}"
        ) == [f"203.0.113.1:{port} far Kubernetes"]


def test_a_network_names_services_of_its_own_clusters():
    """By their host name; the same service in a cluster that is not part of the network is none of its gateways."""
    service = f"Service istio-system/east: {{type: LoadBalancer, {PORTS}{TWO}"
    named = (
        "MeshNetworks mesh: {networks: {far: {endpoints: [{fromRegistry: %s}], "
        "gateways: [{registryServiceName: east.istio-system.svc.cluster.local, port: 444}]}}}"
    )
    assert gateways(service, named % "Kubernetes") == [
        "203.0.113.1:444 far Kubernetes",
        "203.0.113.2:444 far Kubernetes",
    ]
    assert gateways(service, named % "other") == []


def test_the_label_counts_more_than_the_name():
    """A service that says itself which network it leads into is believed."""
    named = (
        "MeshNetworks mesh: {networks: {near: {endpoints: [{fromRegistry: Kubernetes}], "
        "gateways: [{registryServiceName: east.istio-system.svc.cluster.local, port: 444}]}}}"
    )
    assert gateways(EAST + PORTS + "externalIPs: [203.0.113.1]}", named) == ["203.0.113.1:15443 far Kubernetes"]


def test_a_service_on_ports_of_nodes_is_at_the_nodes_it_selects():
    """Their external addresses, and the port that it has on nodes."""
    service = (
        "Service istio-system/east: {metadata: {labels: {topology.istio.io/network: far}, "
        "annotations: {traffic.istio.io/nodeSelector: '%s'}}, type: NodePort, " + PORTS.rstrip(", ") + "}"
    )
    nodes = """
        Node /a: {metadata: {labels: {edge: "yes"}}, status: {addresses: [
            {type: InternalIP, address: 10.0.0.1}, {type: ExternalIP, address: 203.0.113.1}]}}
        Node /b: {status: {addresses: [{type: ExternalIP, address: 203.0.113.2}]}}
    """
    assert gateways(service % '{"edge": "yes"}', nodes) == ["203.0.113.1:31443 far Kubernetes"]
    assert gateways(service % "not json", nodes) == []
    assert gateways(service % "[]", nodes) == []


def test_a_host_name_is_no_address_yet():
    """What nobody resolved cannot be sent to a proxy."""
    assert gateways(EAST + PORTS + "status: {loadBalancer: {ingress: [{hostname: east.example}]}}}") == []


def test_gateways_of_the_endpoints_cluster_come_first():
    """A network that spans clusters is entered in the cluster where the endpoint is."""
    here, there = EAST + PORTS + "externalIPs: [203.0.113.1]}", EAST + PORTS + "externalIPs: [203.0.113.2]}"
    found = snapshot(*objects(here), *objects(there, cluster="c2")).network_gateways
    both = (
        NetworkGateway("203.0.113.1", 15443, "far", "Kubernetes"),
        NetworkGateway("203.0.113.2", 15443, "far", "c2"),
    )
    assert found.to("far", "c2") == both[1:]
    assert found.to("far", "c3") == both
    assert found.to("near", "c2") == ()
    assert found.scale == 2


def test_other_gateways_are_a_change_of_their_own():
    """Any load assignment may show them; what leaves them alone keeps the section."""
    before = built(view_of(EAST + PORTS + TWO))
    view = edited(before.view, EAST + "ports: [{name: tls, port: 15443}], " + TWO)
    same = built(view, before)
    assert same.network_gateways is before.network_gateways
    assert GATEWAYS_KEY not in same.changed
    assert GATEWAYS_KEY in built(edited(view, EAST + PORTS + "externalIPs: [203.0.113.9]}"), same).changed


def resolved(name, *addresses):
    """The object that says which addresses a name has."""
    return build_resolved_name(name, addresses, "dns")


def test_a_name_stands_for_its_addresses():
    """Of both families; with each port, network and cluster that has it. Who is to be looked up is told."""
    before = built(
        view_of(
            EAST + PORTS + "status: {loadBalancer: {ingress: [{hostname: east.example}]}}}",
            "MeshNetworks mesh: {networks: {near: {gateways: [{address: east.example, port: 443}, "
            "{address: west.example, port: 443}, {address: nowhere.example}, {address: 203.0.113.9, port: 443}]}}}",
        )
    )
    assert {each.address for each in before.network_gateways.known} == {"203.0.113.9"}
    assert before.network_gateways.names == {"east.example", "west.example"}
    view, _ = before.view.apply(
        [resolved("east.example", "192.0.2.1", "2001:db8::1"), resolved("other.example", "::1")]
    )
    after = built(view, before).network_gateways
    assert after.known == {
        NetworkGateway("203.0.113.9", 443, "near"),
        *(NetworkGateway(address, 443, "near") for address in ("192.0.2.1", "2001:db8::1")),
        *(NetworkGateway(address, 15443, "far", "Kubernetes") for address in ("192.0.2.1", "2001:db8::1")),
    }
    assert after.names == before.network_gateways.names


def test_a_name_alone_changes_nothing_for_proxies():
    """As long as nobody has looked it up."""
    gateway = "MeshNetworks mesh: {networks: {far: {gateways: [{address: %s, port: 443}]}}}"
    before = built(view_of(gateway % "a.example"))
    after = built(edited(before.view, gateway % "b.example"), before)
    assert after.network_gateways.names == {"b.example"}
    assert GATEWAYS_KEY not in after.changed
