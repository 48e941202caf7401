"""Long work in small steps (`trierarch.push.steps`), taken by an actor: between two steps it is others' turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from trierarch.push.steps import Steps

ResultT = TypeVar("ResultT")


async def drive(steps: Steps[ResultT]) -> ResultT:
    """Take all steps, with a checkpoint after each, also after the last."""
    result = await drive_through(steps)
    await trio.lowlevel.checkpoint()
    return result


async def drive_through(steps: Steps[ResultT]) -> ResultT:
    """The same without a checkpoint after the last, for whoever goes on with something small: so there may be none."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: ResultT = stop.value
            return result
        await trio.lowlevel.checkpoint()
