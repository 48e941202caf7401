"""Looking at files: which are there, which may have changed, and what is in those. Blocking: for a worker thread.

Not an actor. What the files mean is decided by `trierarch.config.folder`; here a file is a path and its bytes.

Symbolic links are followed, so whatever a link leads through matters too: a mounted ConfigMap is changed by renaming a
hidden link that all its files lead through. A file is not read again while its stamp is the same; but a stamp is only
remembered once it is old, because two changes within a tick of the file system's clock can leave the same stamp.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from trierarch.config.findings import Rejected
from trierarch.config.folder import Content, is_config_path
from trierarch.config.objects import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.inotify import Watch

TICK = 2.0
"""Seconds after which a stamp can be trusted. Coarse, for the clocks of network file systems differ from ours."""

LARGEST_FILE = 64 * 1024 * 1024
"""Bytes. A list of all objects of a large cluster has a few megabytes; a file is read as a whole."""

LINKS = 40
"""As many links in a row are followed as Linux does (man 7 path_resolution)."""


ContentT = TypeVar("ContentT", covariant=True)


class SourceMissing(Exception):  # noqa: N818 - what is the case, not a fault of ours
    """A folder or file of configuration is not there, or cannot be read. The message says which and why."""


class Stamp(NamedTuple):
    """What tells that a file is as it was without reading it. Times in nanoseconds since the epoch."""

    inode: int
    size: int
    modified: int
    changed: int


Stamps: TypeAlias = "Mapping[str, Stamp | None]"
"""Files that are there, by path relative to the folder. None: must be read again the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is there now: `contents` of whatever may have changed since the last look (None: gone), `stamps` of all."""

    contents: Mapping[str, Content]
    stamps: Stamps


@dataclass(frozen=True, slots=True)
class Seen(Generic[ContentT]):
    """A file that may have changed. Without a stamp it must be read again the next time."""

    stamp: Stamp | None
    content: ContentT


def look_at_folder(source: str, root: Path, known: Stamps, watch: Watch) -> Look:
    """All files below a folder, given the stamps of the last look. Raises `SourceMissing`."""
    with watch.renewed():
        name_way(root, watch)
        tree = _Tree(source, watch)
        tree.walk(root)
    contents: dict[str, Content] = dict(tree.closed)
    stamps: dict[str, Stamp | None] = dict.fromkeys(tree.closed)
    for path in tree.files:
        seen = _look_inside(Origin(source=source, path=path), root / path, known.get(path))
        if seen is None:
            stamps[path] = known[path]
        elif seen.content is not None:
            stamps[path] = seen.stamp
        if seen is not None:
            contents[path] = seen.content
    for path in known.keys() - stamps.keys():
        if path.startswith(tuple(tree.closed)):
            stamps[path] = known[path]
        else:
            contents[path] = None
    return Look(contents=contents, stamps=stamps)


def look_at_file(path: Path, known: Stamp | None, watch: Watch) -> Seen[bytes] | None:
    """One file by itself; None if it is as it was known. Raises `SourceMissing`."""
    with watch.renewed():
        name_way(path, watch)
    try:
        return _look_at(path, known)
    except OSError as error:
        raise SourceMissing(f"{path}: {error.strerror}") from None


def name_way(path: Path, watch: Watch) -> None:
    """Tell the watch all that decides what a path leads to: every link on the way, and the entry at its end."""
    here, ahead, links = Path("/"), list(reversed(path.absolute().parts[1:])), 0
    while ahead:
        step = here / ahead.pop()
        target = _link_target(step) if links < LINKS else None
        if step.name == "..":
            here = here.parent
        elif target is not None:
            watch.name(here, step.name)
            here = Path("/") if target.is_absolute() else here
            ahead.extend(part for part in reversed(target.parts) if part != "/")
            links += 1
        else:
            if not ahead:
                watch.name(here, step.name)
            here = step


def _link_target(path: Path) -> Path | None:
    try:
        return path.readlink()
    except OSError:  # not a link, or not there
        return None


class _Tree:
    """Walks a folder. `files`: paths to read, in order. `closed`: directories that cannot be listed, ending in "/"."""

    def __init__(self, source: str, watch: Watch) -> None:
        self.files: list[str] = []
        self.closed: dict[str, Rejected] = {}
        self._source = source
        self._watch = watch

    def walk(self, root: Path) -> None:
        """Everything that is not hidden. Raises `SourceMissing` if the root cannot be listed."""
        self._watch.name(root)
        try:
            entries, identity = _entries(root)
        except OSError as error:
            raise SourceMissing(f"{root}: {error.strerror}") from None
        self._walk_entries(entries, "", (identity,))

    def _walk_entries(self, entries: list[os.DirEntry[str]], prefix: str, above: tuple[tuple[int, int], ...]) -> None:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                name_way(Path(entry.path), self._watch)
            if _is_directory(entry):
                self._walk_below(Path(entry.path), f"{prefix}{entry.name}/", above)
            elif is_config_path(prefix + entry.name):
                self.files.append(prefix + entry.name)

    def _walk_below(self, directory: Path, prefix: str, above: tuple[tuple[int, int], ...]) -> None:
        self._watch.name(directory)
        try:
            entries, identity = _entries(directory)
        except FileNotFoundError:
            return  # it went a moment ago
        except OSError as error:
            self.closed[prefix] = _unreadable(Origin(source=self._source, path=prefix), error)
            return
        if identity not in above:  # else a link led back to where we are
            self._walk_entries(entries, prefix, (*above, identity))


def _entries(directory: Path) -> tuple[list[os.DirEntry[str]], tuple[int, int]]:
    status = directory.stat()
    with os.scandir(directory) as entries:
        return sorted(entries, key=lambda entry: entry.name), (status.st_dev, status.st_ino)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link in a circle, or into a closed directory: reading it will tell
        return False


def _look_inside(origin: Origin, path: Path, known: Stamp | None) -> Seen[Content] | None:
    """The file now, or why it cannot be read, or that it has gone; None if it is as it was known."""
    try:
        return _look_at(path, known)
    except FileNotFoundError as error:
        return Seen(None, _unreadable(origin, error) if path.is_symlink() else None)
    except OSError as error:
        return Seen(None, _unreadable(origin, error))


def _look_at(path: Path, known: Stamp | None) -> Seen[bytes] | None:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if status.st_size > LARGEST_FILE:
        raise OSError(errno.EFBIG, f"larger than {LARGEST_FILE >> 20} MiB")
    stamp = Stamp(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if stamp == known:
        return None
    content = path.read_bytes()
    old = time.time() - max(status.st_mtime, status.st_ctime) > TICK
    return Seen(stamp if old else None, content)


def _unreadable(origin: Origin, error: OSError) -> Rejected:
    return Rejected(origin=origin, key=None, path="", reason=f"cannot be read: {error.strerror}")
