"""A folder as a source, where something is wrong: what cannot be read, is malformed, or is away for a while."""

from __future__ import annotations

import os

import pytest

from actors import file_source
from actors.file_source import plan_sources
from actors.inotify import open_watch
from actors.source_messages import ResendAll
from tests.actors.file_source.reception import Reception, key, living, service, serving
from trierarch.settings import Settings


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
