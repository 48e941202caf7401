"""The supervision tree as a value, and every decision about it as a pure function (after Erlang/OTP).

What lives here: specifications of children and supervisors, how a life may end, and the policy: who wants a restart,
who is restarted along with whom, how many restarts are too many, how long to wait before one. What must not: tasks,
clocks, logs; `actors.static_supervisor` and `actors.factory` drive what is decided here.

Children start left to right and stop right to left. Intensities multiply along a path: with 3 at the root and 5 below,
a child may crash 24 times before the process ends, so keep them small.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from protocol.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    import trio

FIRST_DELAY = 0.1
"""Seconds before the second restart of a child within the period; it doubles from there. The first is immediate."""

LONGEST_DELAY = 5.0
"""Seconds; the delay grows no further."""


class Restart(StrEnum):
    """Whether a child that ended by itself is started again."""

    PERMANENT = "permanent"
    """Always. You most likely want this one."""
    TRANSIENT = "transient"
    """Unless it returned."""
    TEMPORARY = "temporary"
    """Never."""


class Strategy(StrEnum):
    """Who is restarted together with the child that ended."""

    ONE_FOR_ONE = "one_for_one"
    """Nobody."""
    REST_FOR_ONE = "rest_for_one"
    """Those that were started after it, for they may depend on it."""
    ONE_FOR_ALL = "one_for_all"
    """All."""


class StartFunction(Protocol):
    """Runs a child for one life: calls `task_status.started()` when it is ready, and returns or raises at its end."""

    def __call__(self, *, task_status: trio.TaskStatus[None]) -> Awaitable[None]:
        """Run until the end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """A worker. `shutdown`: seconds that it may take to stop once cancelled."""

    name: str
    start: StartFunction
    restart: Restart = Restart.PERMANENT
    shutdown: float = 5.0

    def __post_init__(self) -> None:
        if not self.shutdown > 0:
            raise LocalError(f"{self.name}: shutdown must be positive")


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSpec:
    """A supervisor and what is below it: more than `intensity` restarts within `period` seconds make it fail upward.

    A supervisor below another is a permanent child of it and may take as long to stop as its children together. Names
    are unique in the whole tree, because children are killed and reported by name.
    """

    name: str
    children: tuple[ChildSpec | SupervisorSpec, ...]
    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: int = 3
    period: float = 60.0

    def __post_init__(self) -> None:
        if self.intensity < 0 or not self.period > 0:
            raise LocalError(f"{self.name}: intensity must not be negative and period must be positive")
        repeated = [name for name, count in Counter(names(self)).items() if count > 1]
        if repeated:
            raise LocalError(f"{self.name}: names occur twice: {', '.join(repeated)}")


def names(spec: ChildSpec | SupervisorSpec) -> Iterator[str]:
    """All names of a tree, its root's first."""
    yield spec.name
    if isinstance(spec, SupervisorSpec):
        for child in spec.children:
            yield from names(child)


# --- how a life ends -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Returned:
    """It came to its end."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """It raised."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Killed:
    """Somebody killed it by name."""


Ending = Returned | Crashed | Killed
"""How a life ended by itself. A child that its supervisor stopped has no ending: nothing is decided about it."""


def reason(ending: Ending) -> str:
    """An ending in words, for the log."""
    match ending:
        case Returned():
            return "returned"
        case Crashed(error):
            return describe(error)
        case Killed():
            return "killed"


def describe(error: BaseException) -> str:
    """An exception in words: a group, which is what a nursery raises, as the different exceptions in it."""
    words = (f"{type(each).__name__}: {each}" if str(each) else type(each).__name__ for each in _leaves(error))
    return "; ".join(dict.fromkeys(words))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


# --- the policy ------------------------------------------------------------------------------------------------------
def wants_restart(restart: Restart, ending: Ending) -> bool:
    """Whether a child that ended so is started again."""
    match restart:
        case Restart.PERMANENT:
            return True
        case Restart.TRANSIENT:
            return not isinstance(ending, Returned)
        case Restart.TEMPORARY:
            return False


def affected(strategy: Strategy, children: tuple[str, ...], failed: str) -> tuple[str, ...]:
    """Who is stopped and started again because `failed` is, in the order of starting."""
    match strategy:
        case Strategy.ONE_FOR_ONE:
            return (failed,)
        case Strategy.REST_FOR_ONE:
            return children[children.index(failed) :]
        case Strategy.ONE_FOR_ALL:
            return children


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartWindow:
    """The restarts of the last `period` seconds. Invariant: `times` ascends and spans at most `period`."""

    intensity: int
    period: float
    times: tuple[float, ...] = ()

    def add(self, now: float) -> tuple[RestartWindow, bool]:
        """One more restart at `now`; and whether that is one too many."""
        times = (*(time for time in self.times if now - time <= self.period), now)
        return replace(self, times=times), len(times) > self.intensity


def restart_delay(recent: int) -> float:
    """Seconds to wait before a restart, if this is the `recent`-th (from 1) of this child within the period."""
    if recent <= 1:
        return 0.0
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(recent - 2, 16))
