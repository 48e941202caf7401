"""Long work in small steps (`trierarch.push.steps`), taken by an actor: between two steps it is others' turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from trierarch.push.steps import Steps

ResultT = TypeVar("ResultT")


async def drive(steps: Steps[ResultT]) -> ResultT:
    """Take all steps, with a checkpoint after each, also after the last."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: ResultT = stop.value
            await trio.lowlevel.checkpoint()
            return result
        await trio.lowlevel.checkpoint()


async def drive_lightly(steps: Steps[ResultT]) -> ResultT:
    """Take all steps, with a checkpoint after each if there are several: whoever does many small things in a row would
    pay more for checkpoints than for what it does.
    """
    several = False
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: ResultT = stop.value
            break
        await trio.lowlevel.checkpoint()
        several = True
    if several:
        await trio.lowlevel.checkpoint()
    return result
