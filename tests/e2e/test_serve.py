"""`trierarch serve` as a process: how it starts, what it refuses, how it ends. No Envoy is needed."""

from __future__ import annotations

import signal
import socket
from contextlib import ExitStack

import grpc
import pytest

from examples.shop.processes import ControlPlane, wait_until
from tests.e2e.ads_client import CDS, AdsStream
from tests.e2e.shops import next_network

pytestmark = pytest.mark.slow

SOUND = """
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec: {hosts: [web], http: [{route: [{destination: {host: web}, weight: 5}]}]}
"""
BROKEN = SOUND.replace("weight: 5", "weight: -5")


@pytest.fixture
def serve(tmp_path):
    """Start a control plane on a folder with this file `web.yaml`; it ends with the test."""
    with ExitStack() as stack:

        def start(text="", *flags):
            config = tmp_path / "config"
            config.mkdir()
            if text:
                (config / "web.yaml").write_text(text)
            return stack.enter_context(ControlPlane(config, tmp_path / "trierarch.log", next_network(), flags))

        yield start


def listens(address):
    """Whether somebody accepts connections at HOST:PORT."""
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_an_empty_folder_is_a_mesh(serve):
    """With nothing configured the control plane is ready and its xDS port is open."""
    plane = serve()
    plane.wait_until_ready()
    wait_until("the xDS port", lambda: listens(plane.xds))
    assert plane.get("/debug/adsz").json()["totalClients"] == 0


@pytest.mark.parametrize("flag", ["--config", "--mesh-config", "--networks-config", "--cluster"])
def test_what_is_missing_ends_with_code_2(serve, flag):
    """A control plane that was told a wrong path serves nobody, and names the path."""
    plane = serve("", flag, "far=nowhere" if flag == "--cluster" else "nowhere")
    assert plane.wait() == 2
    assert "nowhere" in plane.log.read_text()
    assert "Traceback" not in plane.log.read_text()


def test_strict_refuses_a_rejected_document(serve):
    """With --strict a document that cannot be in force ends the process before anybody is served, and is named."""
    plane = serve(BROKEN, "--strict")
    assert plane.wait() == 2
    assert "web.yaml" in plane.log.read_text()
    assert plane.logged("xds_opened") == []


def test_strict_serves_a_sound_folder(serve):
    """--strict changes nothing where nothing is wrong."""
    serve(SOUND, "--strict").wait_until_ready()


def test_a_broken_file_at_the_start(serve):
    """Without --strict the rest is served; the log and the metric name what is not."""
    plane = serve(BROKEN)
    plane.wait_until_ready()
    (line,) = plane.logged("object_rejected")
    assert (line["file"], line["line"]) == ("web.yaml", 2)
    assert 'pilot_total_rejected_configs{name="shop/web",type="VirtualService"} 1.0' in plane.get("/metrics").text


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(serve, by):
    """The clients are told to go elsewhere (UNAVAILABLE, not a broken connection); the process ends with code 0."""
    plane = serve()
    plane.wait_until_ready()
    with AdsStream(plane.xds, "sidecar~127.0.0.1~web-1.shop~shop.svc.cluster.local", delta=True) as stream:
        stream.ask(CDS)
        assert plane.end(by) == 0
        with pytest.raises(grpc.RpcError) as error:
            stream.receive()
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    assert "shutting down" in error.value.details()
    assert plane.logged("shutdown_overdue") == []


def test_a_port_that_is_taken_is_named(tmp_path):
    """A process that cannot open its port ends, and says which."""
    plane = ControlPlane(tmp_path, tmp_path / "trierarch.log", next_network())
    host, port = plane.xds.split(":")
    with socket.create_server((host, int(port))), plane:
        assert plane.wait() not in (0, -signal.SIGKILL)
    assert "cannot go on: root gave up" in plane.log.read_text()
    assert f"('{host}', {port})" in plane.log.read_text()


def test_killing_needs_permission(serve):
    """Without --allow-kill nobody can kill an actor over HTTP."""
    plane = serve()
    plane.wait_until_ready()
    assert plane.kill_actor("intake").status_code == 403
    assert plane.logged("child_killed") == []


def test_killing_by_name(serve):
    """`trierarch kill` kills who is named, and the metric counts the restart; a name that no actor has is an error that
    says where the names are.
    """
    plane = serve("", "--allow-kill")
    plane.wait_until_ready()
    assert plane.command("kill", "somebody") == "Error: no actor 'somebody' is running; see /debug/actors"
    assert plane.command("kill", "intake") == "killed intake"
    wait_until(
        "the restart", lambda: 'trierarch_actor_restarts_total{actor="intake"} 1.0' in plane.get("/metrics").text
    )
    wait_until("the next snapshot", lambda: "pilot_debounce_time_count 2.0" in plane.get("/metrics").text)
