"""The memo: what was made from which inputs, so that nothing is planned, built or encoded twice.

A key is a function with its inputs, and the inputs are all that the function may read (`units.py`), so an entry can
never be stale: a change makes another key. Nothing is therefore invalidated here, only forgotten when there is no room
left, least recently used first. One owner, no locks.

Invariant: len(memo) <= capacity.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from trierarch.push.steps import Steps

InputsT = TypeVar("InputsT", bound=Hashable)
ResultT = TypeVar("ResultT")
Key = tuple[Callable[..., object], Hashable]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoStatistics:
    """Counts since the start. `entries` is how many results are held now, `capacity` how many there may be."""

    hits: int
    misses: int
    entries: int
    capacity: int


class Memo:
    """Results by (function, inputs). A result is never None, so `find` can say None for "not there"."""

    __slots__ = ("_capacity", "_results", "hits", "misses")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._results: OrderedDict[Key, object] = OrderedDict()
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._results)

    def find(self, build: Callable[[InputsT], ResultT], inputs: InputsT) -> ResultT | None:
        """What `build` made of equal inputs, or None if that is not remembered."""
        return cast("ResultT | None", self._find((build, inputs)))

    def build(self, build: Callable[[InputsT], ResultT], inputs: InputsT) -> ResultT:
        """Build it now and remember it."""
        self.misses += 1
        result = build(inputs)
        self._keep((build, inputs), result)
        return result

    def recall(self, select: Callable[[InputsT], ResultT], inputs: InputsT) -> ResultT:
        """What is remembered or else made now: for what is too small to be a step of its own."""
        found = self.find(select, inputs)
        return self.build(select, inputs) if found is None else found

    def think(self, select: Callable[[InputsT, Memo], ResultT], inputs: InputsT) -> ResultT:
        """The same for what may have parts of its result remembered too."""
        found = self._find((select, inputs))
        if found is None:
            self.misses += 1
            found = select(inputs, self)
            self._keep((select, inputs), found)
        return cast("ResultT", found)

    def steps(self, select: Callable[[InputsT, Memo], Steps[ResultT]], inputs: InputsT) -> Steps[ResultT]:
        """The same for what takes steps."""
        found = self._find((select, inputs))
        if found is None:
            self.misses += 1
            found = yield from select(inputs, self)
            self._keep((select, inputs), found)
        return cast("ResultT", found)

    def statistics(self) -> MemoStatistics:
        """How useful it is."""
        return MemoStatistics(hits=self.hits, misses=self.misses, entries=len(self), capacity=self._capacity)

    def _find(self, key: Key) -> object | None:
        result = self._results.get(key)
        if result is not None:
            self._results.move_to_end(key)
            self.hits += 1
        return result

    def _keep(self, key: Key, result: object) -> None:
        self._results[key] = result
        while len(self._results) > self._capacity:
            self._results.popitem(last=False)
