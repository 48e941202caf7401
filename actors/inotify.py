"""Waiting until files may have changed: by inotify where the system has it, else by looking now and then.

Not an actor but a tool of those that read files. A watch does not say what changed, only that it is worth looking.
Whoever looks names everything that matters anew each time, and names it before looking at it, so that no change falls
in between. Some changes are told by nobody (another host writes to a network file system, a file is changed through a
mapping), so it is worth looking every `UNTOLD` seconds at any rate.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import trio
from inotify_simple import Event, INotify, flags

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POLLED = 1.0
"""Seconds between two looks where nobody tells of changes."""

UNTOLD = 30.0
"""Seconds between two looks where changes are told."""

QUIET = 0.015
"""Seconds without an event after which a group of changes is taken for complete."""

SETTLED = 0.2
"""Seconds after which it is taken for complete in any case."""

_APPEARED = flags.CREATE | flags.MOVED_TO | flags.CLOSE_WRITE | flags.ATTRIB
_VANISHED = flags.DELETE | flags.MOVED_FROM | flags.DELETE_SELF | flags.MOVE_SELF
_MASK = _APPEARED | _VANISHED | flags.ONLYDIR
"""Whatever may make a name mean another content. Not MODIFY: what is being written is not worth reading yet."""


class Watch:
    """Everything that one reader looks at. `problem`: why changes are not told, or ""."""

    def __init__(self, inotify: INotify | None, problem: str = "") -> None:
        self.problem = problem
        self._inotify = inotify
        self._names: dict[int, set[str]] = {}  # watch descriptor to the names that matter; "": all that are not hidden

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """A look: what is not named within this block does not matter any more."""
        before, self._names = self._names, {}
        try:
            yield
        finally:
            for descriptor in before.keys() - self._names.keys():
                self._forget(descriptor)

    def name(self, directory: Path, entry: str = "") -> None:
        """This entry of the directory matters, or all that are not hidden. It need not be there."""
        if self._inotify is None:
            return
        try:
            descriptor = self._inotify.add_watch(directory, _MASK)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return  # whoever looks will find out
        except OSError as error:  # the limit of watches: man inotify(7), max_user_watches
            self.problem = str(error)
        else:
            self._names.setdefault(descriptor, set()).add(entry)

    async def wait(self, longest: float = UNTOLD) -> None:
        """Until it is worth looking: something changed and has settled, or `longest` seconds have passed."""
        if self._inotify is None or self.problem:
            await trio.sleep(min(POLLED, longest))
            return
        with trio.move_on_after(longest):
            await self._told(self._inotify)
            await self._settle(self._inotify)

    async def _told(self, inotify: INotify) -> None:
        while True:
            await trio.lowlevel.wait_readable(inotify.fileno())
            if any(self._matters(event) for event in inotify.read(timeout=0)):
                return

    async def _settle(self, inotify: INotify) -> None:
        """A file is written in several steps, and files come in groups."""
        quiet = False
        with trio.move_on_after(SETTLED):
            while not quiet:
                with trio.move_on_after(QUIET) as pause:
                    await self._told(inotify)
                quiet = pause.cancelled_caught

    def _matters(self, event: Event) -> bool:
        if event.mask & flags.Q_OVERFLOW:
            return True
        names = self._names.get(event.wd)
        if names is None:
            return False
        return not event.name or event.name in names or ("" in names and not event.name.startswith("."))

    def _forget(self, descriptor: int) -> None:
        if self._inotify is not None:
            with suppress(OSError):  # it went with its directory
                self._inotify.rm_watch(descriptor)


@contextmanager
def open_watch() -> Iterator[Watch]:
    """A watch for the length of a block."""
    opened = _open_inotify()
    if isinstance(opened, str):
        yield Watch(None, opened)
        return
    with opened:
        yield Watch(opened)


def _open_inotify() -> INotify | str:
    """inotify, or why there is none."""
    try:
        return INotify(nonblocking=True)
    except AttributeError:  # the system's C library does not know it
        return "this system has no inotify"
    except OSError as error:  # the limit of instances: man inotify(7), max_user_instances
        return str(error)
