"""Kills an actor at a message or at a step: a test says which actor of the tree, and at the how-manieth.

    with open_ambush("debouncer", 7) as ambush:
        ...                     # the debouncer takes its seventh message, and dies at its next checkpoint
    assert ambush.struck

The message that it took is the one that is lost. With a `delay` it gets a little further: so many turns of the loop.

Who is told nothing by anybody (a port, the collector) dies at a step instead, with `open_ambush_at_step`: a step is
whatever one of its tasks does between two checkpoints. Actors are known by their names in the tree, whoever made them.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING
from unittest.mock import patch

import trio

from actors.mailbox import ControlMailbox
from actors.supervision import Child

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECTION = "connection"
"""Stands for whichever connection gets so far first."""

_CHILD: ContextVar[Child | None] = ContextVar("child", default=None)
"""Whose life the running task is part of."""


class Ambush:
    """Waits for an actor. `taken`: the messages, or steps, that each has taken so far, in all its lives."""

    def __init__(self, actor: str, number: int, delay: int) -> None:
        self.taken: Counter[str] = Counter()
        self.struck = False
        self._actor = actor
        self._number = number
        self._delay = delay
        self._met = False

    def note(self, child: Child) -> None:
        """An actor took a message, or a step."""
        name = child.spec.name
        self.taken[name] += 1
        if not self._met and self._is_meant(name) and self.taken[name] == self._number:
            self._met = True
            self._strike(child)

    def _strike(self, child: Child) -> None:
        if self._delay:
            trio.lowlevel.spawn_system_task(self._strike_later, child)
        else:
            self._strike_now(child)

    async def _strike_later(self, child: Child) -> None:
        for _ in range(self._delay):
            await trio.lowlevel.checkpoint()
        self._strike_now(child)

    def _strike_now(self, child: Child) -> None:
        self.struck = self._met = child.kill()  # a connection may have ended by itself: then it will be another one

    def _is_meant(self, name: str) -> bool:
        return name.startswith("connection-") if self._actor == CONNECTION else name == self._actor


class _Steps(trio.abc.Instrument):
    """Tells an ambush of each step."""

    def __init__(self, ambush: Ambush) -> None:
        self._ambush = ambush

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        child = task.context.get(_CHILD)
        if child is not None:
            self._ambush.note(child)


@contextmanager
def open_ambush(actor: str, number: int, delay: int = 0) -> Iterator[Ambush]:
    """Wait for that message for the length of a block."""
    ambush, receive_nowait = Ambush(actor, number, delay), ControlMailbox.receive_nowait

    def noted_receive(self):
        message, child = receive_nowait(self), _CHILD.get()
        if message is not None and child is not None:
            ambush.note(child)
        return message

    with patch.object(ControlMailbox, "receive_nowait", noted_receive), _known_lives():
        yield ambush


@contextmanager
def open_ambush_at_step(actor: str, number: int) -> Iterator[Ambush]:
    """Wait for that step for the length of a block, which must be in the event loop."""
    ambush = Ambush(actor, number, 0)
    steps = _Steps(ambush)
    with _known_lives():
        trio.lowlevel.add_instrument(steps)
        try:
            yield ambush
        finally:
            trio.lowlevel.remove_instrument(steps)


@contextmanager
def _known_lives() -> Iterator[None]:
    """Each task knows whose life it is part of."""
    run = Child._run

    async def named_run(self, handshake):
        _CHILD.set(self)
        return await run(self, handshake)

    with patch.object(Child, "_run", named_run):
        yield
