"""The life of a supervised child, whoever supervises it. `except Exception` stands here and nowhere else.

Theory of operation. Each child has a slot (`Child`) that outlives its lives. A life runs in a task of its own under
the slot's cancel scope and never raises: its ending is put down in the slot and the supervisor's doorbell rings. What
follows is the supervisor's to decide (`actors.static_supervisor`, `actors.factory`) by the policy of `actors.tree`. A
life that fails before its handshake is an ending like any other.

    WAITING --due--> STARTING --started()--> RUNNING --ends--> DOWN --settled--> WAITING or STOPPED
                        |                       |
                        +--------ends-----------+------------> DOWN      stopped by the supervisor ------> STOPPED

trio can only cancel, so a child that shields itself past its deadline is reported as a bug, and nothing takes its place
before it is really gone: a mailbox has one owner at a time.

Every event is one log line with the keys `supervisor`, `child`, `reason` and `restarts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import trio

from actors.logs import get_logger
from actors.tree import (
    ChildSpec,
    Crashed,
    Ending,
    Killed,
    Restart,
    RestartWindow,
    Returned,
    reason,
    restart_delay,
    wants_restart,
)
from protocol.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

log = get_logger()

ResultT = TypeVar("ResultT")

_ERRORS = frozenset({"child_crashed", "shutdown_overdue", "intensity_exceeded"})


class ChildState(StrEnum):
    """Where a child is; see the picture above."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    DOWN = "down"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildStatistics:
    """A child as the debug pages show it."""

    name: str
    supervisor: str
    state: ChildState
    restarts: int
    """Times that it came up again."""
    reason: str
    """How its last life ended, or ""."""
    started_at: float
    """Monotonic seconds at which this life came up; 0.0 = never."""


class SupervisorHandle:
    """A view of a running tree for the debug pages, the kill command and tests. Made by the wiring before the tree.

    `on_restart` is called with the name of each child that is up again.
    """

    def __init__(self, on_restart: Callable[[str], None] = lambda _: None) -> None:
        self.on_restart = on_restart
        self._groups: dict[str, Collection[Child]] = {}

    def kill(self, name: str) -> bool:
        """End a child as if it had crashed: it is counted and restarted. False if there is no such child up."""
        return any(child.kill() for child in self._children() if child.spec.name == name)

    def statistics(self) -> tuple[ChildStatistics, ...]:
        """All children, those of a supervisor side by side in the order of starting."""
        return tuple(child.statistics() for child in self._children())

    def _children(self) -> tuple[Child, ...]:
        return tuple(child for group in self._groups.values() for child in group)

    def register(self, supervisor: str, children: Collection[Child]) -> None:
        """From a supervisor at its start: these are its children, kept up to date by it."""
        self._groups[supervisor] = children

    def forget(self, supervisor: str) -> None:
        """From a supervisor at its end."""
        self._groups.pop(supervisor, None)


class Child:
    """The slot of one child: its life now, if it has one, and what is remembered of those before."""

    def __init__(
        self,
        spec: ChildSpec,
        supervisor: str,
        recent: RestartWindow,
        *,
        ring: Callable[[], None] = lambda: None,
        on_restart: Callable[[str], None],
    ) -> None:
        self.spec = spec
        self.state = ChildState.WAITING
        self.due = 0.0
        self.ending: Ending = Returned()  # of the last life; means something while DOWN, and is forgotten afterwards
        self._supervisor = supervisor
        self._recent = recent
        self._ring = ring
        self._on_restart = on_restart
        self._lives = 0
        self._why_ended = ""
        self._started_at = 0.0
        self._scope = trio.CancelScope()
        self._gone = trio.Event()
        self._gone.set()
        self._killed = False
        self._stopping = False

    async def live(self, *, task_status: trio.TaskStatus[None]) -> None:
        """One life. Raises nothing: its ending is put down. Always completes the handshake, for failing answers it."""
        await self._gone.wait()  # a life that shielded itself from its deadline may still be there
        self.state, self.ending = ChildState.STARTING, Returned()
        self._killed = self._stopping = False
        self._scope, self._gone, self._lives = trio.CancelScope(), trio.Event(), self._lives + 1
        handshake = _Handshake(self, task_status)
        ending = None
        try:
            ending = await self._run(handshake)
        finally:
            self._put_down(ending)
        handshake.complete()

    async def _run(self, handshake: _Handshake) -> Ending:
        try:
            with self._scope:
                await self.spec.start(task_status=handshake)
        except Exception as error:  # noqa: BLE001 - whatever it is, policy decides what follows
            return Crashed(error)
        return Killed() if self._killed else Returned()

    def _put_down(self, ending: Ending | None) -> None:
        """Note how this life ended. None: it was cancelled over its supervisor's head."""
        self._gone.set()
        if ending is None:
            self._why_ended = "stopped by its supervisor"
        if ending is None or self._stopping:
            self._report_stop(ending)
            return
        self.state, self.ending, self._why_ended = ChildState.DOWN, ending, reason(ending)
        self._report_ending(ending)
        self._ring()

    def up(self) -> None:
        """The handshake: this life is ready."""
        self._started_at = trio.current_time()
        if not self._stopping:
            self.state = ChildState.RUNNING
        if self._restarts:
            self._on_restart(self.spec.name)
        self.report("child_restarted" if self._restarts else "child_started", self._why_ended)

    def kill(self) -> bool:
        """Cancel this life so that it counts as a crash; False if there is none."""
        if self.state not in {ChildState.STARTING, ChildState.RUNNING}:
            return False
        self._killed = True
        self._scope.cancel()
        return True

    async def stop(self, why: str = "stopped by its supervisor") -> None:
        """Cancel this life, if there is one, and wait until it is gone or its deadline has passed."""
        if not self._gone.is_set():
            self._why_ended = why
        self.state, self._stopping = ChildState.STOPPED, True
        self._scope.cancel()
        with trio.move_on_after(self.spec.shutdown):
            await self._gone.wait()
        if not self._gone.is_set():
            self.report("shutdown_overdue", f"still running {self.spec.shutdown:g} s after it was cancelled")

    def count_restart(self, now: float) -> bool:
        """Set the time at which its restart is due; and whether that is one too many for this child alone."""
        self._recent, exceeded = self._recent.add(now)
        self.due = now + restart_delay(len(self._recent.times))
        return exceeded

    @property
    def restarts_with_others(self) -> bool:
        """Whether it starts after a neighbour's restart has stopped it. Whoever never lived has yet to."""
        return self.spec.restart is not Restart.TEMPORARY or not self._lives

    @property
    def _restarts(self) -> int:
        return max(0, self._lives - 1)

    def _report_stop(self, ending: Ending | None) -> None:
        if isinstance(ending, Crashed):
            self.report("child_crashed", f"while it was stopped: {reason(ending)}", ending.error)
        else:
            self.report("child_stopped", self._why_ended)

    def _report_ending(self, ending: Ending) -> None:
        match ending:
            case Crashed(error):
                self.report("child_crashed", self._why_ended, error)
            case Killed():
                self.report("child_killed", self._why_ended)
            case Returned():
                expected = not wants_restart(self.spec.restart, ending)
                self.report("child_stopped" if expected else "child_crashed", self._why_ended)

    def report(self, event: str, why: str, error: Exception | None = None) -> None:
        """One line about this child; a crash brings its traceback along."""
        line = log.bind(supervisor=self._supervisor, child=self.spec.name, reason=why, restarts=self._restarts)
        if event in _ERRORS:
            line.error(event, exc_info=error)
        else:
            line.info(event)

    def statistics(self) -> ChildStatistics:
        """As the debug pages show it."""
        return ChildStatistics(
            name=self.spec.name,
            supervisor=self._supervisor,
            state=self.state,
            restarts=self._restarts,
            reason=self._why_ended,
            started_at=self._started_at,
        )


class _Handshake:
    """The `task_status` of a child: notes that it is up before it tells the supervisor, who waits for that."""

    def __init__(self, child: Child, outer: trio.TaskStatus[None]) -> None:
        self._child = child
        self._outer = outer
        self._done = False

    def started(self, value: None = None) -> None:
        """From the child: ready."""
        if self._done:
            raise LocalError(f"{self._child.spec.name} called started() twice")
        self._child.up()
        self.complete()

    def complete(self) -> None:
        """Let the supervisor go on, whether the child is up or not."""
        if not self._done:
            self._done = True
            self._outer.started()


async def attempt(work: Callable[[], Awaitable[ResultT]]) -> ResultT | Crashed:
    """Do a piece of work that may fail by itself, without taking along the actor that does it for others."""
    try:
        return await work()
    except Exception as error:  # noqa: BLE001 - whatever it is, whoever asked for the work is told
        return Crashed(error)
