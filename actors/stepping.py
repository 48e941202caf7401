"""Long work in small steps (`trierarch.push.steps`), taken by an actor: between two steps it is others' turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from trierarch.push.steps import Steps

ResultT = TypeVar("ResultT")


async def drive(steps: Steps[ResultT]) -> ResultT:
    """Take all steps, with a checkpoint after each, also after the last."""
    return await _take_all(steps, turn_is_due=True)


async def drive_lightly(steps: Steps[ResultT]) -> ResultT:
    """Take all steps, with a checkpoint after each if there are several: whoever does many small things in a row would
    pay more for checkpoints than for what it does.
    """
    return await _take_all(steps, turn_is_due=False)


async def _take_all(steps: Steps[ResultT], *, turn_is_due: bool) -> ResultT:
    """`turn_is_due`: whether there is a checkpoint after the last step even if it is the only one."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: ResultT = stop.value
            break
        await trio.lowlevel.checkpoint()
        turn_is_due = True
    if turn_is_due:
        await trio.lowlevel.checkpoint()
    return result
