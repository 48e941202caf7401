"""Looks up the names by which gateways between networks are known, and tells their addresses (xds-server.md §8.11).

Owns: what names stand for. It is kept in the `Names`, which outlive the actor: addresses that were found would be gone
    from every proxy while they are looked up anew.
Receives: `NamesWanted` from the snapshot builder, `ResendAll` from intake, `NameLookedUp` from its own lookups.
Sends: `SourceChanged` to intake: everything at first, then what changes.
Dies when: nothing known. A name that cannot be looked up keeps the addresses that it had.
Recovers by: sending what it knows, and looking up again what was wanted.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, assert_never

import trio

from actors.finds import Finds
from actors.following import Following
from actors.logs import get_logger
from actors.source_messages import NameLookedUp, NamesWanted, ResendAll
from trierarch.config.resolved_names import build_resolved_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from actors.mailbox import Mailbox
    from actors.messages import ToIntake
    from actors.source_messages import ToDnsSource

NAME = "dns"
"""The source, in logs and causes."""

REFRESH = 30.0
"""Seconds after which a name is looked up again: the system does not say how long its answer holds, and this is the
shortest time that istiod takes for it.
"""

RETRY = 5.0
"""The same after a failure."""

PATIENCE = 10.0
"""Seconds that a lookup may take. The system may go on for longer; nobody waits for it then."""

AT_ONCE = 8
"""Lookups under way at a time: each holds a thread, one that was given up on too."""

MOST_NAMES = 500
"""A mesh has a gateway or two for each of its networks. The answers to all names fit into the mailbox twice."""

LookUp: TypeAlias = "Callable[[str], Awaitable[tuple[str, ...]]]"
"""The addresses of a name, sorted. Raises OSError if there are none."""

log = get_logger("dns_source")


@dataclass(slots=True)
class Names:
    """What outlives a crash of the actor: the names that are wanted, and the addresses of those that were found."""

    wanted: frozenset[str] = frozenset()
    found: dict[str, tuple[str, ...]] = field(default_factory=dict)


def system_lookup() -> LookUp:
    """Lookups as the system does them, whatever it asks for them."""
    limit = trio.CapacityLimiter(AT_ONCE)

    async def look_up(name: str) -> tuple[str, ...]:
        with trio.fail_after(PATIENCE):
            return await trio.to_thread.run_sync(_addresses, name, limiter=limit, abandon_on_cancel=True)

    return look_up


def _addresses(name: str) -> tuple[str, ...]:
    answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(sorted({str(address[0]) for *_, address in answers}))


async def run(
    inbox: Mailbox[ToDnsSource],
    *,
    intake: Mailbox[ToIntake],
    names: Names,
    look_up: LookUp,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Look up what is wanted, again and again."""
    task_status.started()  # intake, which takes what is sent, starts later
    async with trio.open_nursery() as nursery:
        finds = Finds(NAME, names.found, intake, build_resolved_name)
        source = DnsSource(names, finds, Lookups(nursery, inbox, look_up))
        await finds.tell_everything()
        while True:
            await source.handle(await inbox.receive())


class Lookups:
    """A task for each name that is wanted, which posts to the actor what it finds."""

    def __init__(self, nursery: trio.Nursery, inbox: Mailbox[ToDnsSource], look_up: LookUp) -> None:
        self._inbox = inbox
        self._look_up = look_up
        self._following = Following(nursery, self._repeat)

    def want(self, names: frozenset[str]) -> None:
        """Look up these names from now on, and no others."""
        self._following.follow(sorted(names))

    async def _repeat(self, name: str) -> None:
        while True:
            answer = await self._try(name)
            self._inbox.post(answer)
            await trio.sleep(REFRESH if answer.addresses else RETRY)

    async def _try(self, name: str) -> NameLookedUp:
        try:
            return NameLookedUp(name=name, addresses=await self._look_up(name))
        except trio.TooSlowError:
            return NameLookedUp(name=name, problem=f"no answer within {PATIENCE:g} s")
        except (OSError, ValueError) as error:  # what cannot be a name is a ValueError
            return NameLookedUp(name=name, problem=str(error))


class DnsSource:
    """The state of one life of the actor."""

    def __init__(self, names: Names, finds: Finds[str, tuple[str, ...]], lookups: Lookups) -> None:
        self._names = names
        self._finds = finds
        self._lookups = lookups
        self._problems: dict[str, str] = {}
        lookups.want(names.wanted)

    async def handle(self, message: ToDnsSource) -> None:
        """Step by one message."""
        match message:
            case ResendAll():
                await self._finds.tell_everything()
            case NamesWanted(names=names):
                await self._want(names)
            case NameLookedUp(name=name) if name in self._names.wanted:
                await self._take(message)
            case NameLookedUp():
                pass  # nobody wants it any more
            case never:
                assert_never(never)

    async def _want(self, asked_for: frozenset[str]) -> None:
        names = frozenset(sorted(asked_for)[:MOST_NAMES])
        if names != asked_for:
            log.warning("names_left_out", names=len(asked_for) - len(names))
        self._names.wanted = names
        self._lookups.want(names)
        self._problems = {name: problem for name, problem in self._problems.items() if name in names}
        await self._finds.keep(names)

    async def _take(self, answer: NameLookedUp) -> None:
        self._report(answer)
        if answer.addresses:
            await self._finds.put(answer.name, answer.addresses)

    def _report(self, answer: NameLookedUp) -> None:
        """Say once that a name cannot be looked up, and once that it can again."""
        before = self._problems.pop(answer.name, "")
        if answer.problem:
            self._problems[answer.name] = answer.problem
            if answer.problem != before:
                kept = self._finds.get(answer.name) or ()
                log.warning("lookup_failed", name=answer.name, reason=answer.problem, kept=kept)
        elif before:
            log.info("lookup_recovered", name=answer.name, addresses=answer.addresses)
