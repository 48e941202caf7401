"""Which sources there are, and those that hold one object: the mesh configuration."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
import trio

from actors import file_source
from actors.file_source import SourceMissing, plan_sources
from actors.source_messages import ResendAll
from tests.actors.file_source.reception import Reception, service
from trierarch.settings import Settings


def test_the_sources_of_the_settings(folder, tmp_path):
    """One source for each folder and file that is named."""
    (tmp_path / "mesh.yaml").write_text("")
    (tmp_path / "networks.yaml").write_text("")
    settings = Settings(
        config=str(folder),
        mesh_config=str(tmp_path / "mesh.yaml"),
        networks_config=str(tmp_path / "networks.yaml"),
        clusters=(("east", str(folder)),),
    )
    assert [source.name for source in plan_sources(settings)] == [
        "config", "mesh-config", "networks-config", "cluster-east",
    ]  # fmt: skip


def test_a_missing_source_is_told_at_the_start(tmp_path):
    """The plan cannot be made when a folder or file is not there."""
    with pytest.raises(SourceMissing, match="nowhere: there is no such file or folder"):
        plan_sources(Settings(config=str(tmp_path / "nowhere")))


async def test_a_further_cluster_has_kubernetes_kinds_only(folder):
    """The objects of `--cluster east=DIR` belong to that cluster."""
    (folder / "a.yaml").write_text(service("a"))
    (_, source) = plan_sources(Settings(config=str(folder), clusters=(("east", str(folder)),)))
    reception = Reception()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(file_source.run, reception.inbox, intake=reception.mailbox, source=source))
        await reception.next()
        assert [each.cluster for each in reception.objects] == ["east"]
        nursery.cancel_scope.cancel()


@pytest.fixture
async def mesh_file(folder, tmp_path, nursery):
    """A file with the mesh configuration, and who hears of it."""
    path = tmp_path / "mesh.yaml"
    path.write_text("accessLogFile: /dev/stdout\n")
    (_, source) = plan_sources(Settings(config=str(folder), mesh_config=str(path)))
    reception = Reception()
    await nursery.start(partial(file_source.run, reception.inbox, intake=reception.mailbox, source=source))
    await reception.next()
    yield SimpleNamespace(path=path, reception=reception)
    nursery.cancel_scope.cancel()


async def test_the_mesh_configuration_is_one_object(mesh_file):
    """Read at first, and again when it is replaced."""
    ((mesh,),) = (mesh_file.reception.objects.values(),)
    assert (mesh.key.kind, mesh.spec.access_log_file) == ("MeshConfig", "/dev/stdout")
    other = mesh_file.path.with_suffix(".new")
    other.write_text("accessLogFile: /dev/null\n")
    other.rename(mesh_file.path)
    message = await mesh_file.reception.next()
    assert [each.spec.access_log_file for each in message.upserts] == ["/dev/null"]


async def test_a_mesh_configuration_that_goes_stays_in_force(mesh_file, lines):
    """The file is gone for a while: nothing is said, not even when everything is asked for again."""
    mesh_file.path.rename(mesh_file.path.with_suffix(".off"))
    mesh_file.reception.inbox.post(ResendAll())
    message = await mesh_file.reception.next()
    assert (message.full, len(message.upserts)) == (True, 1)
    assert "source_vanished" in [line["event"] for line in lines]


async def test_a_broken_mesh_configuration_keeps_the_last_one(mesh_file):
    """Malformed: a finding, and nothing changes; gone: nothing changes; mended: the finding goes."""
    mesh_file.path.write_text("accessLogFile: [")
    message = await mesh_file.reception.next()
    assert (message.upserts, message.deletes, len(message.findings)) == ((), frozenset(), 1)
    mesh_file.path.unlink()
    mesh_file.path.write_text("accessLogFile: /dev/null\n")
    while mesh_file.reception.findings:
        await mesh_file.reception.next()
    ((mesh,),) = (mesh_file.reception.objects.values(),)
    assert mesh.spec.access_log_file == "/dev/null"
