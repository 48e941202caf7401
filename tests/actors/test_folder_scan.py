"""Looking at folders: what is read again, what is gone, what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import folder_scan
from actors.folder_scan import SourceMissing, look_at_file, look_at_folder, name_way
from actors.inotify import Watch


class Names(Watch):
    """A watch that only remembers what is named."""

    def __init__(self) -> None:
        super().__init__(None)
        self.named = set()

    def name(self, directory, entry=""):
        """Remember it."""
        self.named.add((str(directory), entry))


def look(root, known=None):
    """A look at a folder."""
    return look_at_folder("config", root, known or {}, Names())


@pytest.fixture
def trusting(monkeypatch):
    """Stamps are trusted at once, as if all files were old."""
    monkeypatch.setattr(folder_scan, "TICK", -1e9)


def test_a_file_with_the_same_stamp_is_not_read(tmp_path, trusting):
    """Only what may have changed is among the contents."""
    (tmp_path / "a.yaml").write_bytes(b"a")
    (tmp_path / "b.yaml").write_bytes(b"b")
    first = look(tmp_path)
    assert first.contents == {"a.yaml": b"a", "b.yaml": b"b"}
    (tmp_path / "b.yaml").write_bytes(b"bb")
    second = look(tmp_path, first.stamps)
    assert second.contents == {"b.yaml": b"bb"}
    (tmp_path / "a.yaml").unlink()
    third = look(tmp_path, second.stamps)
    assert (third.contents, set(third.stamps)) == ({"a.yaml": None}, {"b.yaml"})


def test_a_young_stamp_is_not_trusted(tmp_path):
    """What changed a moment ago may change again within the same tick of the clock, and is read again."""
    (tmp_path / "a.yaml").write_bytes(b"a")
    first = look(tmp_path)
    assert first.stamps == {"a.yaml": None}
    assert look(tmp_path, first.stamps).contents == {"a.yaml": b"a"}


def test_files_that_go_while_one_looks(tmp_path, monkeypatch):
    """A file or directory that was listed and is gone when it is looked at is just gone."""
    (tmp_path / "a.yaml").write_bytes(b"a")
    (tmp_path / "below").mkdir()
    entries = folder_scan._entries

    def listed_then_gone(directory):
        listing = entries(directory)
        (tmp_path / "a.yaml").unlink(missing_ok=True)
        if (tmp_path / "below").exists():
            (tmp_path / "below").rmdir()
        return listing

    monkeypatch.setattr(folder_scan, "_entries", listed_then_gone)
    assert look(tmp_path, {"a.yaml": None}).stamps == {}


def test_a_closed_directory_keeps_its_files(tmp_path, monkeypatch):
    """What cannot be listed is told under its own name; what is known of the files below stays."""
    (tmp_path / "team").mkdir()
    entries = folder_scan._entries

    def closed(directory):
        if directory.name == "team":
            raise PermissionError(13, "Permission denied")
        return entries(directory)

    monkeypatch.setattr(folder_scan, "_entries", closed)
    seen = look(tmp_path, {"team/a.yaml": None, "other.yaml": None})
    assert seen.contents["other.yaml"] is None
    assert seen.contents["team/"].reason == "cannot be read: Permission denied"
    assert set(seen.stamps) == {"team/", "team/a.yaml"}
    monkeypatch.undo()
    assert look(tmp_path, seen.stamps).contents == {"team/": None, "team/a.yaml": None}


def test_a_root_that_is_not_there(tmp_path):
    """Missing, or not a folder: told, never taken for empty."""
    (tmp_path / "file").write_bytes(b"")
    for root in (tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(SourceMissing, match=str(root)):
            look(root)


def test_a_file_by_itself(tmp_path, trusting):
    """Its bytes, then nothing while its stamp is the same; missing, it is told."""
    path = tmp_path / "mesh.yaml"
    path.write_bytes(b"a")
    seen = look_at_file(path, None, Names())
    assert seen.content == b"a"
    assert look_at_file(path, seen.stamp, Names()) is None
    path.unlink()
    with pytest.raises(SourceMissing, match=r"mesh.yaml: No such file or directory"):
        look_at_file(path, seen.stamp, Names())


def test_all_links_on_the_way_are_named(tmp_path):
    """Relative and absolute links, links to links, and the entry at the end."""
    real = tmp_path / "real"
    real.mkdir()
    (real / "a.yaml").write_bytes(b"")
    (tmp_path / "first").symlink_to("real")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "second").symlink_to("../first/a.yaml")
    (tmp_path / "third").symlink_to(tmp_path / "below" / "second")
    watch = Names()
    name_way(tmp_path / "third", watch)
    assert watch.named == {
        (str(tmp_path), "third"), (str(tmp_path / "below"), "second"), (str(tmp_path), "first"), (str(real), "a.yaml"),
    }  # fmt: skip


def test_links_in_a_circle_end(tmp_path):
    """Links are followed so many times and no more."""
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    watch = Names()
    name_way(Path(tmp_path / "one"), watch)
    assert watch.named == {(str(tmp_path), "one"), (str(tmp_path), "two")}
