"""A folder as a source, with real files: every way in which people and programs replace files."""

from __future__ import annotations

import shutil

import trio

from actors.source_messages import ResendAll
from tests.actors.file_source.reception import key, service, serving


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
