"""The files of a certificate authority: where it comes from, and keeping a root of our own. Blocking: for threads.

No actor: `actors.authority` calls it. What the files mean is decided by `trierarch.identity.bundle`. A private key is
written with mode 0600 into a folder with mode 0700, under its final name only when it is complete.
"""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from actors.folder_scan import name_way
from trierarch.identity.authority import Authority
from trierarch.identity.bundle import FILES, PLAIN, BadBundle, dump_root, load_plugged, load_root, with_further_roots

if TYPE_CHECKING:
    from actors.inotify import Watch
    from trierarch.settings import Settings

KEPT = "root.pem"
"""Our own root and its key."""

PUBLISHED = PLAIN.roots
"""A copy of the roots beside it, for whoever has to trust us."""

LARGEST = 1024 * 1024
"""Bytes of one file that are read."""

_OTHERS = 0o007


class BadAuthority(Exception):  # noqa: N818 - says what is bad, as `BadSetting` does
    """There is a certificate authority to begin with, but it cannot be used. The message says where and why."""


# --- where an authority comes from -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Plugged:
    """Somebody else's, in a folder."""

    folder: Path


@dataclass(frozen=True, slots=True)
class Kept:
    """Our own root, in a folder. `further`: a folder with more roots to trust, if there is one."""

    folder: Path
    further: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class InMemory:
    """Our own root, which ends with the process."""

    further: tuple[Path, ...] = ()


Source: TypeAlias = Plugged | Kept | InMemory


def plan_source(settings: Settings) -> Source:
    """Which authority there will be. Raises `BadAuthority` if there is half of a bundle, or a wrong one."""
    folder = Path(settings.root_ca_dir)
    match read_plugged(folder):
        case Authority():
            return Plugged(folder)
        case BadBundle(reason=reason):
            raise BadAuthority(f"{folder}: {reason}")
        case None:
            pass
    further = (folder,) if folder.is_dir() else ()
    return Kept(Path(settings.ca_folder), further) if settings.ca_folder else InMemory(further)


# --- reading ---------------------------------------------------------------------------------------------------------
def look(source: Source, known: Authority | None, watch: Watch) -> Authority | BadBundle | None:
    """The authority as the files have it now; None if there is none yet. `known`: the one in force."""
    _name_files(source, watch)
    match source:
        case Plugged(folder=folder):
            return read_plugged(folder)
        case Kept(folder=folder, further=further):
            return _with_further(read_kept(folder), further)
        case InMemory(further=further):
            return _with_further(known and replace(known, roots=(known.certificate,)), further)


def read_plugged(folder: Path) -> Authority | BadBundle | None:
    """The bundle in a folder; None if there is none."""
    try:
        return load_plugged(_read_files(folder, FILES))
    except OSError as error:
        return _unreadable(error)


def read_kept(folder: Path) -> Authority | BadBundle | None:
    """Our own root as it was kept; None if it never was."""
    path = folder / KEPT
    try:
        if path.stat().st_mode & _OTHERS:
            return BadBundle(f"{path} may be read by everybody: chmod 600")
        return load_root(_read(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        return _unreadable(error)


def _with_further(own: Authority | BadBundle | None, folders: tuple[Path, ...]) -> Authority | BadBundle | None:
    """Our own authority with the further roots in these folders."""
    for folder in folders:
        if isinstance(own, Authority):
            try:
                own = with_further_roots(own, _read_files(folder, (PLAIN.roots,)))
            except OSError as error:
                own = _unreadable(error)
    return own


def _name_files(source: Source, watch: Watch) -> None:
    match source:
        case Plugged(folder=folder):
            paths = [folder / name for name in FILES]
        case Kept(folder=folder, further=further):
            paths = [folder / KEPT, *(each / PLAIN.roots for each in further)]
        case InMemory(further=further):
            paths = [each / PLAIN.roots for each in further]
    with watch.renewed():
        for path in paths:
            name_way(path, watch)


def _read_files(folder: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """The contents of those that are there. Raises OSError for one that cannot be read."""
    files = {}
    for name in names:
        with suppress(FileNotFoundError, NotADirectoryError):
            files[name] = _read(folder / name)
    return files


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, f"larger than {LARGEST >> 20} MiB", str(path))
    return content


def _unreadable(error: OSError) -> BadBundle:
    return BadBundle(f"{error.filename}: {error.strerror}")


# --- writing ---------------------------------------------------------------------------------------------------------
def keep(folder: Path, root: Authority, *, replaces: bool) -> bool:
    """Write our own root. Unless it `replaces` one: False if somebody else was faster, whose root it then is.

    Raises OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        _write(folder / KEPT, dump_root(root), replaces=replaces)
    except FileExistsError:
        return False
    _write(folder / PUBLISHED, root.roots_pem, replaces=True, mode=0o644)
    return True


def _write(path: Path, content: bytes, *, replaces: bool, mode: int = 0o600) -> None:
    """A whole file under its name at once. Raises FileExistsError if it may not replace one that is there."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        if replaces:
            temporary.replace(path)
        else:
            path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
