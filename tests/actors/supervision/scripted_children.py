"""Children of supervisors that play a script: each life an act, one after the other."""

from __future__ import annotations

from functools import partial

import trio

from actors.tree import ChildSpec, Restart


class Stage:
    """Scripted children: each life plays the next act of its script; `diary` tells what happened."""

    def __init__(self) -> None:
        self.diary = []
        self.lives = {}

    def child(self, name, *script, restart=Restart.PERMANENT, shutdown=5.0):
        """A child whose n-th life plays the n-th act, and then the last for ever (default: runs until cancelled)."""
        acts = script or (runs,)
        return ChildSpec(name=name, start=partial(self._play, name, acts), restart=restart, shutdown=shutdown)

    async def _play(self, name, acts, *, task_status):
        life = self.lives[name] = self.lives.get(name, 0) + 1
        self.diary.append(f"+{name}")
        try:
            await acts[min(life, len(acts)) - 1](task_status)
        finally:
            self.diary.append(f"-{name}")


async def runs(task_status):
    """Comes up and stays up."""
    task_status.started()
    await trio.sleep_forever()


BOOM = ValueError("boom")


def crashes_after(seconds, error=BOOM):
    """Comes up and crashes later."""

    async def act(task_status):
        task_status.started()
        await trio.sleep(seconds)
        raise error

    return act


def returns_after(seconds):
    """Comes up and returns later."""

    async def act(task_status):
        task_status.started()
        await trio.sleep(seconds)

    return act


async def fails_to_start(_task_status):
    """Crashes before it is up."""
    raise OSError("no room")


async def never_starts(_task_status):
    """Returns without ever having been up."""


def shields_for(seconds):
    """Comes up, and once cancelled holds on for a while: a bug."""

    async def act(task_status):
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(seconds)

    return act
