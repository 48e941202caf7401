"""Long work in small steps: a builder is a generator that yields after each unit of work and returns its result.

The actor that drives it checkpoints at the yields, so nothing holds the event loop for long; a test just runs it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

ResultT = TypeVar("ResultT")

Steps = Generator[None, None, ResultT]
"""A builder: each yield is a place where the event loop may do something else."""


def run_steps(steps: Steps[ResultT]) -> ResultT:
    """Drive a builder to its end without pausing (tests, command line)."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: ResultT = stop.value
            return result
