"""A gRPC client that speaks ADS by hand against a control plane as a process: no Envoy hides what is sent."""

from __future__ import annotations

import grpc
import pytest

from examples.shop.processes import ControlPlane, Mesh, wait_until
from tests.e2e.ads_client import CDS, EDS, LDS, RDS, AdsStream, resources, versions
from tests.e2e.shops import ROUTING, next_network, weights_of

pytestmark = pytest.mark.slow

PROXY = "front-1.shop"
NODE = f"sidecar~127.10.0.1~{PROXY}~shop.svc.cluster.local"
V1, V2 = (f"outbound|8080|{version}|reviews.shop.svc.cluster.local" for version in ("v1", "v2"))


@pytest.fixture
def mesh(tmp_path):
    """A copy of the shop's mesh. Its addresses stay: nobody binds them."""
    return Mesh(tmp_path / "mesh")


@pytest.fixture
def plane(tmp_path, mesh):
    """A control plane on that mesh."""
    with ControlPlane(mesh.folder, tmp_path / "trierarch.log", next_network(), ("--allow-kill",)) as running:
        running.wait_until_ready()
        yield running


@pytest.fixture(params=["delta", "sotw"])
def connect(request, plane):
    """Open streams as the shop's client, in either protocol; they are closed with the test."""
    streams = []

    def open_stream(node=NODE):
        streams.append(AdsStream(plane.xds, node, delta=request.param == "delta"))
        return streams[-1]

    yield open_stream
    for stream in streams:
        stream.close()


def status(plane):
    """The item of /debug/syncz for the client."""
    (found,) = [each for each in plane.get("/debug/syncz").json() if each["proxy"] == PROXY]
    return found


def test_first_answers(plane, connect):
    """Each type is answered once: all clusters and listeners, the endpoints and routes asked for; an ACK is not."""
    stream = connect()
    clusters = resources(stream.ask(CDS))
    assert {V1, V2, "BlackHoleCluster", "PassthroughCluster"} <= clusters.keys()
    endpoints = resources(stream.ask(EDS, V1, V2))
    addresses = {
        name: each.endpoints[0].lb_endpoints[0].endpoint.address.socket_address.address
        for name, each in endpoints.items()
    }
    assert addresses == {V1: "127.10.0.3", V2: "127.10.0.4"}
    assert len(resources(stream.ask(LDS))) == 1
    assert weights_of(stream.ask(RDS, "8080")) == [10, 90]
    assert stream.is_quiet()
    wait_until("all ACKs", lambda: status(plane)["route_acked"])
    assert all(each["sent"] == each["acked"] for each in status(plane)["resources"].values())


def test_a_subscription_changes(connect):
    """A name that is added is answered, with nothing else; one that is dropped is not."""
    stream = connect()
    stream.ask(CDS)
    first = stream.ask(EDS, V1)
    assert resources(first).keys() == {V1}
    if stream.delta:
        added = stream.ask(EDS, V2)
        stream.send(EDS, resource_names_unsubscribe=[V1])
    else:
        stream.ack(first, V1, V2)
        added = stream.receive_and_ack(EDS, V1, V2)
        stream.ack(added, V2)
    assert resources(added).keys() == {V2}
    assert stream.is_quiet()


def test_an_edit_is_pushed(plane, mesh, connect):
    """Who watches what has changed is sent just that; why is known."""
    stream = connect()
    stream.ask(CDS)
    stream.ask(LDS)
    first = stream.ask(RDS, "8080")
    edited_at = mesh.set_weights(30, 70)
    pushed = stream.receive_and_ack(RDS, "8080")
    assert weights_of(pushed) == [30, 70]
    assert pushed.nonce != first.nonce
    assert stream.is_quiet()
    push = plane.wait_for_ack(edited_at, PROXY)
    assert [(each["kind"], each["name"], each["event"]) for each in push["causes"]] == [
        ("VirtualService", "reviews", "updated")
    ]


def test_an_edit_that_says_the_same_is_none(plane, mesh, connect):
    """A file that is written anew with the same objects, in another spelling, pushes nothing."""
    stream = connect()
    stream.ask(RDS, "8080")
    before = len(plane.pushes(PROXY))
    mesh.write(ROUTING, "# another comment\n" + mesh.read(ROUTING).replace('"yes"', "'yes'"))
    assert stream.is_quiet()
    assert len(plane.pushes(PROXY)) == before


def test_coming_back(plane, mesh, connect):
    """A client that returns is answered by what it says that it holds; in state of the world, with everything."""
    stream = connect()
    first = stream.ask(EDS, V1, V2)
    stream.close()
    mesh.write("reviews.yaml", mesh.read("reviews.yaml").replace("127.10.0.4", "127.10.0.44"))
    wait_until("the edit", lambda: len(plane.logged("snapshot_built")) == 2)
    returned = connect()
    if returned.delta:
        again = returned.ask(EDS, V1, V2, initial_resource_versions=versions(first))
        assert resources(again).keys() == {V2}
    else:
        again = returned.ask(EDS, V1, V2, version_info=first.version_info)
        assert resources(again).keys() == {V1, V2}
    assert resources(again)[V2] != resources(first)[V2]
    assert returned.is_quiet()


def test_a_delta_client_hears_what_vanished_while_it_was_away(plane, mesh):
    """What it declares and nobody defines any more is named as removed."""
    with AdsStream(plane.xds, NODE, delta=True) as stream:
        held = versions(stream.ask(CDS))
    (mesh.folder / "rates.yaml").unlink()
    wait_until("the edit", lambda: len(plane.logged("snapshot_built")) == 2)
    with AdsStream(plane.xds, NODE, delta=True) as stream:
        stream.send(CDS, initial_resource_versions=held)
        answer = stream.receive()
    assert list(answer.removed_resources) == ["outbound|8080||rates.partner.example"]
    assert resources(answer) == {}


def test_a_nack_is_reported(plane, mesh, connect):
    """A rejection is in /debug/syncz, the log, the metric and `trierarch why`; it is not answered; the next edit is
    sent, and its ACK clears it.
    """
    stream = connect()
    stream.send(RDS, ("8080",))
    refused = stream.receive()
    stream.nack(refused, "no such filter", "8080")
    wait_until("the NACK", lambda: plane.logged("resources_rejected"))
    assert stream.is_quiet()
    route = status(plane)["resources"][RDS]
    assert (route["sent"], route["acked"], route["lastError"]) == (refused.nonce, "", "no such filter")
    assert 'pilot_total_xds_rejects_total{type="rds"} 1.0' in plane.get("/metrics").text
    why = plane.command("why", PROXY)
    assert f"{PROXY}: nacked" in why
    assert "rejected: no such filter" in why
    mesh.set_weights(50, 50)
    pushed = stream.receive_and_ack(RDS, "8080")
    wait_until("the ACK", lambda: status(plane)["resources"][RDS]["acked"] == pushed.nonce)
    assert status(plane)["resources"][RDS]["lastError"] == ""


def test_a_client_that_does_not_say_who_it_is(plane, connect):
    """The first request must have a node: the stream ends with INVALID_ARGUMENT, and nobody is listed."""
    stream = connect(node="")
    stream.send(CDS)
    with pytest.raises(grpc.RpcError) as error:
        stream.receive()
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert plane.get("/debug/adsz").json()["totalClients"] == 0


def test_a_client_that_goes_away_is_forgotten(plane, connect):
    """Closed or cut off: soon it is not listed any more."""
    stream = connect()
    stream.ask(CDS)
    assert plane.get("/debug/adsz").json()["totalClients"] == 1
    stream.close()
    wait_until("nobody", lambda: plane.get("/debug/adsz").json()["totalClients"] == 0)
