"""The memo: what was built from which inputs, so that nothing is built and encoded twice.

A key is a build function with its inputs, and the inputs are all that the function may read (`units.py`), so an entry
can never be stale: a change makes another key. Nothing is therefore invalidated here, only forgotten when there is no
room left, least recently used first. One owner, no locks.

Invariant: len(memo) <= capacity.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar, cast

InputsT = TypeVar("InputsT", bound=Hashable)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoStatistics:
    """Counts since the start. `entries` is how many results are held now, `capacity` how many there may be."""

    hits: int
    misses: int
    entries: int
    capacity: int


class Memo:
    """Results by (build, inputs). A result is never None, so `find` can say None for "not there"."""

    __slots__ = ("_capacity", "_results", "hits", "misses")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._results: OrderedDict[tuple[Callable[..., object], Hashable], object] = OrderedDict()
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._results)

    def find(self, build: Callable[[InputsT], ResultT], inputs: InputsT) -> ResultT | None:
        """What `build` made of equal inputs, or None if that is not remembered."""
        key = (build, inputs)
        result = self._results.get(key)
        if result is None:
            return None
        self._results.move_to_end(key)
        self.hits += 1
        return cast("ResultT", result)

    def build(self, build: Callable[[InputsT], ResultT], inputs: InputsT) -> ResultT:
        """Build it now, remember it, and forget the least recently used if there is no room."""
        self.misses += 1
        result = build(inputs)
        self._results[build, inputs] = result
        while len(self._results) > self._capacity:
            self._results.popitem(last=False)
        return result

    def statistics(self) -> MemoStatistics:
        """How useful it is."""
        return MemoStatistics(hits=self.hits, misses=self.misses, entries=len(self), capacity=self._capacity)
