"""CPU time of this thread: a machine that is busy with other things makes it longer, but not much."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trierarch.push.steps import Steps

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Timing(Generic[ResultT_co]):
    """Milliseconds of one run, of its longest step, and what it built."""

    total: float
    longest: float
    result: ResultT_co


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector out of a measurement."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def timed(make: Callable[[], Steps[ResultT]]) -> Timing[ResultT]:
    """Drive a builder to its end."""
    with no_collection():
        steps, total, longest = make(), 0.0, 0.0
        while True:
            start = time.thread_time()
            try:
                next(steps)
            except StopIteration as stop:
                spent = (time.thread_time() - start) * 1000
                return Timing(total + spent, max(longest, spent), stop.value)
            spent = (time.thread_time() - start) * 1000
            total, longest = total + spent, max(longest, spent)


def timed_call(call: Callable[[], ResultT]) -> Timing[ResultT]:
    """Time a plain function."""
    with no_collection():
        start = time.thread_time()
        result = call()
        spent = (time.thread_time() - start) * 1000
    return Timing(spent, spent, result)


def best_of(call: Callable[[], object], rounds: int = 30) -> float:
    """Milliseconds of a plain function, in the best of some rounds."""
    return min(timed_call(call).total for _ in range(rounds))
