"""The memo: what was made from which inputs, so that nothing is planned, built or encoded twice.

A key is a function with its inputs, and the inputs are all that the function may read (`units.py`), so an entry can
never be stale: a change makes another key. Nothing is therefore invalidated here, only forgotten when there is no room
left. One owner, no locks.

Theory. There are two generations. What is asked for is in the recent one, or comes to it from the older one. When the
recent one is full, by number or by bytes, it becomes the older one, and what has not been asked for since the last time
fades: a few entries are let go with each that is added, for to free a hundred thousand is no step of 5 ms. A dictionary
that keeps the order of all that is asked would forget more exactly; but now and then it goes through all its entries,
which are all over memory, in one step.

Invariant: what was asked for last is remembered, `capacity` entries of it unless they weigh more than `HEAVIEST`.
Invariant: len(memo) <= 3 * capacity, and mostly no more than twice as many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from protocol.xds.resources import Chunk, Resource

if TYPE_CHECKING:
    from trierarch.push.steps import Steps

InputsT = TypeVar("InputsT", bound=Hashable)
ResultT = TypeVar("ResultT")
Key = tuple[Callable[..., object], Hashable]

HEAVIEST = 256 * 1024 * 1024
"""Bytes of resources in a generation. A service of a thousand endpoints that come and go is 100 KB more each time."""

FADING_AT_ONCE = 10
"""Entries that are let go with each that is added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoStatistics:
    """Counts since the start. `entries` is how many results are held now, `capacity` how many are in a generation."""

    hits: int
    misses: int
    entries: int
    capacity: int


class Memo:
    """Results by (function, inputs). A result is never None, so `find` can say None for "not there"."""

    __slots__ = ("_capacity", "_fading", "_heaviest", "_older", "_recent", "_weight", "hits", "misses")

    def __init__(self, capacity: int, heaviest: int = HEAVIEST) -> None:
        self._capacity = capacity
        self._heaviest = heaviest
        self._recent: dict[Key, object] = {}
        self._weight = 0
        self._older: dict[Key, object] = {}
        self._fading: deque[dict[Key, object]] = deque()
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._recent) + len(self._older) + sum(map(len, self._fading))

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
        result = self._recent.get(key)
        if result is None:
            result = self._older.pop(key, None)
            if result is None:
                return None
            self._keep(key, result)
        self.hits += 1
        return result

    def _keep(self, key: Key, result: object) -> None:
        self._recent[key] = result
        self._weight += _weigh(result)
        if len(self._recent) >= self._capacity or self._weight >= self._heaviest:
            self._fading.append(self._older)
            self._older, self._recent, self._weight = self._recent, {}, 0
        self._forget_some()

    def _forget_some(self) -> None:
        for _ in range(FADING_AT_ONCE):
            while self._fading and not self._fading[0]:
                self._fading.popleft()
            if not self._fading:
                return
            self._fading[0].popitem()


def _weigh(result: object) -> int:
    """The bytes of what was encoded; what was only thought consists of what others hold too."""
    match result:
        case bytes():
            return len(result)
        case Chunk(body=body):
            return len(body)
        case Resource(size=size):
            return size
        case tuple() if result and isinstance(result[0], Resource):
            return sum(each.size for each in result)
        case _:
            return 0
