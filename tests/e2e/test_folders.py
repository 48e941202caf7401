"""Folders as they are really changed: swapped, renamed, half written, mounted by Kubernetes.

No Envoy is needed: a delta client hears exactly what is pushed.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack

import pytest

from examples.shop.processes import ControlPlane, Mesh, wait_until
from tests.e2e.ads_client import CDS, RDS, AdsStream
from tests.e2e.shops import ROUTING, next_network, weights_of

pytestmark = pytest.mark.slow

NODE = "sidecar~127.10.0.1~front-1.shop~shop.svc.cluster.local"


@pytest.fixture
def served(tmp_path):
    """Serve a folder; gives the control plane and a delta client that is up to date."""
    with ExitStack() as stack:

        def serve(folder):
            plane = ControlPlane(folder, tmp_path / "trierarch.log", next_network())
            stack.enter_context(plane)
            plane.wait_until_ready()
            stream = stack.enter_context(AdsStream(plane.xds, NODE, delta=True))
            stream.ask(CDS)
            stream.ask(RDS, "8080")
            return plane, stream

        yield serve


def link(path, target):
    """Make a link, or change it to another target, in one step."""
    draft = path.with_name(f".{path.name}.new")
    draft.symlink_to(target)
    draft.rename(path)


def test_a_folder_is_swapped(tmp_path, served):
    """A link to one folder becomes a link to another: what differs is pushed, and nothing vanishes in between."""
    for number, share in (1, 30), (2, 40), (3, 45):
        Mesh(tmp_path / f"mesh-{number}").set_weights(share, 100 - share)
    link(tmp_path / "mesh", "mesh-1")
    _, stream = served(tmp_path / "mesh")
    for number, share in (2, 40), (3, 45):
        link(tmp_path / "mesh", f"mesh-{number}")
        assert weights_of(stream.receive_and_ack(RDS, "8080")) == [share, 100 - share]
    assert stream.is_quiet()


def test_a_folder_is_swapped_as_kubernetes_does_it(tmp_path, served):
    """A mounted ConfigMap: files are links through `..data`, a link that is changed when all new files are there."""
    mount = tmp_path / "mount"
    mount.mkdir()
    for number, share in (1, 30), (2, 40):
        Mesh(mount / f"..{number}").set_weights(share, 100 - share)
    link(mount / "..data", "..1")
    for file in (mount / "..1").glob("*.yaml"):
        link(mount / file.name, f"..data/{file.name}")
    _, stream = served(mount)
    link(mount / "..data", "..2")
    shutil.rmtree(mount / "..1")
    assert weights_of(stream.receive_and_ack(RDS, "8080")) == [40, 60]
    assert stream.is_quiet()


def test_a_folder_vanishes_and_returns(tmp_path, served):
    """While it is away the last good configuration stays; when it is back, its changes arrive."""
    mesh = Mesh(tmp_path / "mesh")
    plane, stream = served(mesh.folder)
    mesh.folder.rename(tmp_path / "elsewhere")
    wait_until("it is noticed", lambda: plane.logged("source_vanished"))
    assert stream.is_quiet()
    assert plane.is_ready()
    Mesh(tmp_path / "other").set_weights(20, 80)
    (tmp_path / "other").rename(mesh.folder)
    assert weights_of(stream.receive_and_ack(RDS, "8080")) == [20, 80]


def test_a_file_is_renamed_and_an_object_is_in_two(tmp_path, served):
    """Where an object stands says nothing; of two, that of the last file is in force, and the other one after it."""
    mesh = Mesh(tmp_path / "mesh")
    plane, stream = served(mesh.folder)
    (mesh.folder / ROUTING).rename(mesh.folder / "routing.json.yaml")
    assert stream.is_quiet()
    text = mesh.read("routing.json.yaml")
    mesh.write("zz-later.yaml", text.replace("90", "60").replace("10}", "40}"))
    assert weights_of(stream.receive_and_ack(RDS, "8080")) == [40, 60]
    assert "zz-later.yaml" in str(plane.logged("object_remarked"))
    (mesh.folder / "zz-later.yaml").unlink()
    assert weights_of(stream.receive_and_ack(RDS, "8080")) == [10, 90]


def test_a_file_is_written_in_pieces(tmp_path, served):
    """Half a document is no deletion: what the file said last stays in force until it can be read again."""
    mesh = Mesh(tmp_path / "mesh")
    plane, stream = served(mesh.folder)
    text = mesh.read(ROUTING).replace("90}", "70}").replace("10}", "30}")
    half = text.index("route: [{")
    (mesh.folder / ROUTING).write_text(text[:half])
    wait_until("it is noticed", lambda: plane.logged("object_rejected"))
    assert stream.is_quiet()
    with (mesh.folder / ROUTING).open("a") as file:
        file.write(text[half:])
    assert weights_of(stream.receive_and_ack(RDS, "8080")) == [30, 70]
    wait_until("the all-clear", lambda: plane.logged("finding_resolved"))
