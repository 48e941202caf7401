"""A folder as a source, with real files: every way in which people and programs replace files.

Nothing sleeps here: each test waits for what the source sends, with a limit that is only reached by a failure.
"""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace

import pytest
import trio

from actors import file_source
from actors.file_source import SourceMissing, plan_sources
from actors.inotify import open_watch
from actors.mailbox import Mailbox
from actors.messages import ResendAll
from trierarch.config.objects import ObjectKey
from trierarch.settings import Settings

LIMIT = 5.0


def service(name, port=80):
    """The text of a Service."""
    return (
        f"apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: shop\n"
        f"spec:\n  ports:\n  - name: http\n    port: {port}\n"
    )


def key(name):
    """Its key."""
    return ObjectKey("Kubernetes", "Service", "shop", name)


class Reception:
    """Stands in for intake: what the source has sent, and what it all comes to."""

    def __init__(self) -> None:
        self.mailbox = Mailbox("intake")
        self.inbox = Mailbox("config")
        self.objects = {}
        self.findings = ()

    async def next(self):
        """The next message."""
        with trio.fail_after(LIMIT):
            message = await self.mailbox.receive()
        if message.full:
            self.objects = {}
        self.objects |= {each.key: each for each in message.upserts}
        for gone in message.deletes:
            del self.objects[gone]
        self.findings = message.findings
        return message

    async def until(self, *names):
        """Take messages until exactly the services of these names are there."""
        while set(self.objects) != {key(name) for name in names}:
            await self.next()

    async def until_port(self, name, port):
        """Take messages until a service has this port."""
        while key(name) not in self.objects or self.objects[key(name)].spec.ports[0].port != port:
            await self.next()

    async def until_reason(self, part):
        """Take messages until some finding says this."""
        while not any(part in each.reason for each in self.findings):
            await self.next()


@pytest.fixture
def folder(tmp_path):
    """An empty folder of configuration."""
    folder = tmp_path / "mesh"
    folder.mkdir()
    return folder


@asynccontextmanager
async def serving(path, *, asked=False):
    """The source of a folder, running; `asked`: intake has asked for everything before."""
    async with living(*plan_sources(Settings(config=str(path))), asked=asked) as reception:
        yield reception


@asynccontextmanager
async def living(source, *, asked=False):
    """One life of the actor of a source."""
    reception = Reception()
    if asked:
        reception.inbox.post(ResendAll())
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(file_source.run, reception.inbox, intake=reception.mailbox, source=source))
        yield reception
        nursery.cancel_scope.cancel()


async def test_everything_is_sent_first(folder):
    """A full set at first, of files at any depth, by suffix, without hidden ones."""
    (folder / "below" / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "a.yaml").write_text(service("a") + "---\n" + service("b"))
    (folder / "below" / "c.yml").write_text(service("c"))
    (folder / "below" / "deep" / "d.json").write_text(
        '{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "d", "namespace": "shop"}}'
    )
    for hidden in (".hidden.yaml", ".git/e.yaml", "notes.txt", "backup.yaml~"):
        (folder / hidden).write_text(service("e"))
    async with serving(folder) as reception:
        message = await reception.next()
        assert message.full
        assert message.source == "config"
        assert set(reception.objects) == {key(name) for name in "abcd"}


async def test_an_empty_folder_is_a_valid_mesh(folder):
    """The full set may be empty."""
    async with serving(folder) as reception:
        message = await reception.next()
        assert (message.full, message.upserts, message.findings) == (True, (), ())


async def test_an_edit_in_place(folder):
    """Writing into a file: only what differs is sent, with the time at which it was seen."""
    (folder / "a.yaml").write_text(service("a") + "---\n" + service("b"))
    async with serving(folder) as reception:
        await reception.next()
        before = trio.current_time()
        (folder / "a.yaml").write_text(service("a") + "---\n" + service("b", 81))
        message = await reception.next()
        assert ([each.key for each in message.upserts], message.deletes, message.full) == (
            [key("b")],
            frozenset(),
            False,
        )
        assert before <= message.seen_at <= trio.current_time()


async def test_an_editor_s_save(folder):
    """Writing beside and renaming over, as editors do."""
    (folder / "a.yaml").write_text(service("a"))
    async with serving(folder) as reception:
        await reception.next()
        (folder / ".a.yaml.swp").write_text(service("a", 81))
        (folder / ".a.yaml.swp").rename(folder / "a.yaml")
        await reception.until_port("a", 81)


async def test_files_come_and_go(folder):
    """New files, deleted files, files renamed to another name or out of the way."""
    (folder / "a.yaml").write_text(service("a"))
    async with serving(folder) as reception:
        await reception.next()
        (folder / "b.yaml").write_text(service("b"))
        await reception.until("a", "b")
        (folder / "a.yaml").unlink()
        await reception.until("b")
        (folder / "b.yaml").rename(folder / "b.yaml.off")
        await reception.until()
        (folder / "b.yaml.off").rename(folder / "b.yml")
        await reception.until("b")


async def test_directories_come_and_go(folder, tmp_path):
    """Files in new directories are seen, even of directories moved in as a whole; and missed when those go."""
    (tmp_path / "prepared" / "deep").mkdir(parents=True)
    (tmp_path / "prepared" / "deep" / "a.yaml").write_text(service("a"))
    async with serving(folder) as reception:
        await reception.next()
        (tmp_path / "prepared").rename(folder / "team")
        await reception.until("a")
        (folder / "team" / "deep" / "a.yaml").write_text(service("a", 81))
        await reception.until_port("a", 81)
        (folder / "new" / "deep").mkdir(parents=True)
        (folder / "new" / "deep" / "b.yaml").write_text(service("b"))
        await reception.until("a", "b")
        shutil.rmtree(folder / "team")
        await reception.until("b")
        (folder / "new").rename(tmp_path / "away")
        await reception.until()


async def test_a_mounted_config_map(folder):
    """Kubernetes swaps a hidden link that all files of a mounted ConfigMap lead through."""

    def version(name, port):
        (folder / name).mkdir()
        (folder / name / "a.yaml").write_text(service("a", port))
        (folder / "..new").symlink_to(name)
        (folder / "..new").rename(folder / "..data")

    version("..2024_1", 80)
    (folder / "a.yaml").symlink_to("..data/a.yaml")
    async with serving(folder) as reception:
        await reception.next()
        assert set(reception.objects) == {key("a")}
        version("..2024_2", 81)
        shutil.rmtree(folder / "..2024_1")
        await reception.until_port("a", 81)
        version("..2024_3", 82)
        await reception.until_port("a", 82)


async def test_the_folder_itself_is_a_link(tmp_path):
    """A deployment swaps the link to the whole folder; also a link on the way to it."""
    for name, port in (("v1", 80), ("v2", 81), ("v3", 82)):
        (tmp_path / name / "mesh").mkdir(parents=True)
        (tmp_path / name / "mesh" / "a.yaml").write_text(service("a", port))

    def point(name):
        (tmp_path / "next").symlink_to(name)
        (tmp_path / "next").rename(tmp_path / "current")

    point("v1")
    async with serving(tmp_path / "current" / "mesh") as reception:
        await reception.next()
        point("v2")
        await reception.until_port("a", 81)
        point(tmp_path / "v3")
        await reception.until_port("a", 82)


async def test_links_to_files_and_folders_elsewhere(folder, tmp_path):
    """What a link leads to is watched where it is."""
    (tmp_path / "elsewhere" / "more").mkdir(parents=True)
    (tmp_path / "elsewhere" / "real.yaml").write_text(service("a"))
    (tmp_path / "elsewhere" / "more" / "b.yaml").write_text(service("b"))
    (folder / "a.yaml").symlink_to("../elsewhere/real.yaml")
    (folder / "more").symlink_to(tmp_path / "elsewhere" / "more")
    async with serving(folder) as reception:
        await reception.until("a", "b")
        (tmp_path / "elsewhere" / "real.yaml").write_text(service("a", 81))
        await reception.until_port("a", 81)
        (tmp_path / "elsewhere" / "more" / "b.yaml").write_text(service("b", 81))
        await reception.until_port("b", 81)


async def test_links_that_lead_back_end_somewhere(folder):
    """A link to a folder that it is in is not followed; a link to itself cannot be read."""
    (folder / "a.yaml").write_text(service("a"))
    (folder / "again").symlink_to(folder)
    (folder / "self.yaml").symlink_to("self.yaml")
    async with serving(folder) as reception:
        await reception.next()
        assert set(reception.objects) == {key("a")}
        (finding,) = reception.findings
        assert (finding.origin.path, finding.reason) == (
            "self.yaml",
            "cannot be read: Too many levels of symbolic links",
        )


async def test_a_broken_document_is_a_finding(folder):
    """A malformed document is told with file and line, what stood there stays, and mending it is told too."""
    (folder / "a.yaml").write_text(service("a"))
    (folder / "b.yaml").write_text(service("b"))
    async with serving(folder) as reception:
        await reception.next()
        (folder / "a.yaml").write_text("# a comment\n" + service("a").replace("spec:", "spec: ["))
        while not reception.findings:
            await reception.next()
        (finding,) = reception.findings
        assert (finding.origin.path, finding.origin.line > 1) == ("a.yaml", True)
        assert set(reception.objects) == {key("a"), key("b")}
        (folder / "a.yaml").write_text(service("a", 81))
        await reception.until_port("a", 81)
        assert reception.findings == ()


async def test_a_file_that_cannot_be_read_keeps_what_it_said(folder):
    """A link that leads nowhere any more is a finding; a file that is gone is not."""
    (folder / "real.off").write_text(service("a"))
    (folder / "a.yaml").symlink_to("real.off")
    async with serving(folder) as reception:
        await reception.next()
        (folder / "real.off").rename(folder / "elsewhere.off")
        await reception.until_reason("cannot be read: No such file or directory")
        assert set(reception.objects) == {key("a")}
        (folder / "elsewhere.off").rename(folder / "real.off")
        while reception.findings:
            await reception.next()
        (folder / "a.yaml").unlink()
        await reception.until()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list everything")
async def test_a_closed_directory_keeps_what_it_said(folder):
    """A directory that cannot be listed is a finding, and its files stand."""
    (folder / "team").mkdir()
    (folder / "team" / "a.yaml").write_text(service("a"))
    async with serving(folder) as reception:
        await reception.next()
        (folder / "team").chmod(0)
        try:
            await reception.until_reason("cannot be read: Permission denied")
            assert set(reception.objects) == {key("a")}
        finally:
            (folder / "team").chmod(0o755)
        while reception.findings:
            await reception.next()
        assert set(reception.objects) == {key("a")}


async def test_what_is_no_file_is_left_alone(folder):
    """A pipe with the name of a file is told and not opened."""
    os.mkfifo(folder / "pipe.yaml")
    async with serving(folder) as reception:
        await reception.next()
        assert [each.reason for each in reception.findings] == ["cannot be read: not a regular file"]


async def test_rapid_edits_end_with_the_last(folder):
    """A hundred edits in a row, all of one size within one tick of the clock: the last one counts."""
    (folder / "a.yaml").write_text(service("a", 8000))
    async with serving(folder) as reception:
        await reception.next()
        for port in range(8001, 8101):
            (folder / "a.yaml").write_text(service("a", port))
            await trio.lowlevel.checkpoint()
        await reception.until_port("a", 8100)


async def test_touching_a_file_says_nothing(folder):
    """A file whose text is the same makes no message."""
    (folder / "a.yaml").write_text(service("a"))
    async with serving(folder) as reception:
        await reception.next()
        (folder / "a.yaml").write_text(service("a"))
        (folder / "b.yaml").write_text(service("b"))
        message = await reception.next()
        assert [each.key for each in message.upserts] == [key("b")]


async def test_intake_may_ask_for_everything(folder):
    """After a restart of intake the full set is sent again, with what is found by then."""
    (folder / "a.yaml").write_text(service("a"))
    (folder / "broken.yaml").write_text("kind: [")
    async with serving(folder) as reception:
        await reception.next()
        reception.inbox.post(ResendAll())
        message = await reception.next()
        assert (message.full, [each.key for each in message.upserts], len(message.findings)) == (True, [key("a")], 1)


async def test_a_request_before_the_full_set_is_answered_by_it(folder):
    """At a start intake and source both mean the same: it is sent once."""
    (folder / "a.yaml").write_text(service("a"))
    async with serving(folder, asked=True) as reception:
        assert (await reception.next()).full
        (folder / "b.yaml").write_text(service("b"))
        assert not (await reception.next()).full


async def test_a_vanished_folder_keeps_its_last_state(folder, tmp_path, lines):
    """The folder is taken away and put back: nothing is deleted meanwhile, and what changed there is seen."""
    (folder / "a.yaml").write_text(service("a"))
    async with serving(folder) as reception:
        await reception.next()
        folder.rename(tmp_path / "away")
        reception.inbox.post(ResendAll())
        message = await reception.next()
        assert (message.full, [each.key for each in message.upserts]) == (True, [key("a")])
        (tmp_path / "away" / "a.yaml").write_text(service("a", 81))
        (tmp_path / "away").rename(folder)
        await reception.until_port("a", 81)
    assert [line["event"] for line in lines] == ["source_read", "source_vanished", "source_read", "source_returned"]


async def test_a_start_without_the_folder_says_nothing(folder, lines):
    """An actor that is restarted while its folder is away waits for it, for an empty set would delete everything."""
    (source,) = plan_sources(Settings(config=str(folder)))
    folder.rmdir()
    reception = Reception()
    teller = file_source.FileSource(source, reception.inbox, reception.mailbox)
    with open_watch() as watch:
        await teller.look(watch, everything=True)
        await teller.look(watch)
        assert "No such file or directory" in teller.missing
        assert reception.mailbox.receive_nowait() is None
        folder.mkdir()
        (folder / "a.yaml").write_text(service("a"))
        await teller.look(watch)
    message = await reception.next()
    assert (message.full, [each.key for each in message.upserts], teller.missing) == (True, [key("a")], "")
    assert [line["event"] for line in lines] == ["source_vanished", "source_returned", "source_read"]


async def test_polling_where_nobody_tells(folder, monkeypatch, lines):
    """Without inotify the folder is looked at now and then, and the log says so."""
    monkeypatch.setattr("actors.inotify.INotify", lambda **_: (_ for _ in ()).throw(OSError(24, "Too many open files")))
    monkeypatch.setattr("actors.inotify.POLLED", 0.01)
    (folder / "a.yaml").write_text(service("a"))
    async with serving(folder) as reception:
        await reception.next()
        (folder / "a.yaml").write_text(service("a", 81))
        await reception.until_port("a", 81)
    assert [line["reason"] for line in lines if line["event"] == "watching_fell_back"] == [
        "[Errno 24] Too many open files"
    ]


async def test_unknown_kinds_are_named_once(folder, lines):
    """A kind that is not understood is logged when it is first seen."""
    (folder / "a.yaml").write_text("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n")
    async with serving(folder) as reception:
        await reception.next()
        (folder / "b.yaml").write_text(
            "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: b}\n---\n" + service("b")
        )
        await reception.until("b")
    assert [(line["kind"], line["file"]) for line in lines if line["event"] == "kind_skipped"] == [("Thing", "a.yaml")]


# --- the plan, and files that hold one object -------------------------------------------------------------------------
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


async def test_the_last_good_version_outlives_the_actor(folder):
    """A file is broken and the actor dies: its successor still sends what the file said before."""
    file = folder / "a.yaml"
    file.write_text(service("web"))
    (source,) = plan_sources(Settings(config=str(folder)))
    async with living(source) as reception:
        await reception.until("web")
        file.write_text("kind: [Service\n")
        await reception.until_reason("did not find expected")
    async with living(source) as reception:
        message = await reception.next()
        assert message.full
        assert set(reception.objects) == {key("web")}
        assert message.findings
