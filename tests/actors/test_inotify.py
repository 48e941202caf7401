"""Waiting for changes: what makes it worth looking, and what happens where the system cannot tell."""

from __future__ import annotations

import pytest
import trio
from inotify_simple import Event, INotify, flags

from actors import inotify
from actors.inotify import Watch, open_watch

LIMIT = 5.0


@pytest.fixture
def watch():
    """A real watch."""
    with open_watch() as watch:
        yield watch


async def test_what_is_named_is_told(watch, tmp_path):
    """A change below a named directory, or of a named entry."""
    (tmp_path / "all").mkdir()
    (tmp_path / "one").mkdir()
    with watch.renewed():
        watch.name(tmp_path / "all")
        watch.name(tmp_path / "one", "this")
    for path in (tmp_path / "all" / "anything", tmp_path / "one" / "this"):
        path.write_text("x")
        with trio.fail_after(LIMIT):
            await watch.wait()


async def test_what_does_not_matter_is_not_told(watch, tmp_path, monkeypatch):
    """Hidden entries, entries beside the named one, and what is not named any more."""
    for name in ("all", "one", "former"):
        (tmp_path / name).mkdir()
    with watch.renewed():
        watch.name(tmp_path / "former")
    with watch.renewed():
        watch.name(tmp_path / "all")
        watch.name(tmp_path / "one", "this")
    for path in ("all/.hidden", "one/other", "former/anything"):
        (tmp_path / path).write_text("x")
    told = []

    async def tell():
        await watch.wait(longest=LIMIT)
        told.append(True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tell)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert told == []
        (tmp_path / "all" / "visible").write_text("x")


async def test_a_directory_that_goes_is_told(watch, tmp_path):
    """Deleted or moved away, itself; and one that is not there cannot be named, which is no error."""
    (tmp_path / "a").mkdir()
    with watch.renewed():
        watch.name(tmp_path / "a")
        watch.name(tmp_path / "nowhere")
    (tmp_path / "a").rmdir()
    with trio.fail_after(LIMIT):
        await watch.wait()
    with watch.renewed():
        pass
    assert watch.problem == ""


async def test_waiting_has_an_end(watch, autojump_clock):
    """It is worth looking now and then even if nothing is told."""
    await watch.wait()
    assert trio.current_time() == inotify.UNTOLD
    await watch.wait(longest=1.0)
    assert trio.current_time() == inotify.UNTOLD + 1


def test_a_lost_event_may_have_been_anything(watch):
    """When the kernel's queue overflows it is worth looking."""
    assert watch._matters(Event(-1, flags.Q_OVERFLOW, 0, ""))
    assert not watch._matters(Event(77, flags.CREATE, 0, "unknown"))


async def test_too_many_watches_fall_back_to_looking(monkeypatch, tmp_path, autojump_clock):
    """Where the limit of watches is reached, it is worth looking every second."""

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(INotify, "add_watch", refuse)
    with open_watch() as watch:
        with watch.renewed():
            watch.name(tmp_path)
        assert watch.problem == "[Errno 28] No space left on device"
        await watch.wait()
    assert trio.current_time() == inotify.POLLED


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (AttributeError("inotify_init1"), "this system has no inotify"),
        (OSError(24, "Too many open files"), "[Errno 24] Too many open files"),
    ],
)
async def test_no_inotify_falls_back_to_looking(monkeypatch, tmp_path, error, problem, autojump_clock):
    """Without inotify everything can be named, and it is worth looking every second."""

    def refuse(**_):
        raise error

    monkeypatch.setattr(inotify, "INotify", refuse)
    with open_watch() as watch:
        assert isinstance(watch, Watch)
        with watch.renewed():
            watch.name(tmp_path)
        assert watch.problem == problem
        await watch.wait()
    assert trio.current_time() == inotify.POLLED
