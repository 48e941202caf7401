"""Fetches the keys of the issuers whose tokens workloads understand, and tells what it found (networking.md §6.2).

Owns: what was found where. It is kept in the `KeySets`, which outlive the actor: else every proxy would refuse tokens
    until the keys are fetched anew.
Receives: `KeysWanted` from the snapshot builder, `ResendAll` from intake, `KeysFetched` from its own fetches.
Sends: `SourceChanged` to intake: everything at first, then what changes.
Dies when: nothing known. Keys that cannot be fetched again stay; those that never could be are said to be none.
Recovers by: sending what it knows, and fetching again what was wanted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, assert_never

import trio

from actors.finds import Finds
from actors.following import Following
from actors.logs import get_logger
from actors.source_messages import KeysFetched, KeysWanted, ResendAll
from actors.supervision import attempt
from actors.tree import Crashed
from trierarch.config.key_sets import KeySet, NoKeys, build_key_set

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.key_fetching import Fetch
    from actors.mailbox import Mailbox
    from actors.messages import ToIntake
    from actors.metrics import Metrics
    from actors.source_messages import ToJwksSource
    from trierarch.config.key_sets import JsonWebKeySet, KeyLocation

NAME = "jwks"
"""The source, in logs and causes."""

FIRST_RETRY, LONGEST_RETRY = 1.0, 60.0
"""Seconds until a fetch that failed is tried again; the pause doubles as long as it fails."""

AT_ONCE = 64
"""Fetches under way at a time; each is one connection."""

LONGEST_PATIENCE = 60.0
"""Seconds that a fetch may take, whatever a rule says."""

log = get_logger("jwks_source")


@dataclass(slots=True)
class KeySets:
    """What outlives a crash of the actor: what is wanted (and the seconds that a fetch may take), what was found."""

    wanted: Mapping[KeyLocation, float] = field(default_factory=dict)
    found: dict[KeyLocation, JsonWebKeySet] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where the source's messages go, who fetches for it, and every how many seconds."""

    intake: Mailbox[ToIntake]
    fetch: Fetch
    refresh: float
    metrics: Metrics


async def run(
    inbox: Mailbox[ToJwksSource],
    *,
    outlets: Outlets,
    key_sets: KeySets,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Fetch what is wanted, again and again."""
    task_status.started()  # intake, which takes what is sent, starts later
    async with trio.open_nursery() as nursery:
        finds = Finds(NAME, key_sets.found, outlets.intake, build_key_set)
        source = JwksSource(key_sets, finds, outlets.metrics, Fetches(nursery, inbox, outlets, key_sets))
        await finds.tell_everything()
        while True:
            await source.handle(await inbox.receive())


class Fetches:
    """A task for each location that is wanted, which posts to the actor what it finds."""

    def __init__(
        self, nursery: trio.Nursery, inbox: Mailbox[ToJwksSource], outlets: Outlets, key_sets: KeySets
    ) -> None:
        self._inbox = inbox
        self._outlets = outlets
        self._key_sets = key_sets
        self._limit = trio.CapacityLimiter(AT_ONCE)
        self._following = Following(nursery, self._repeat)

    def follow(self) -> None:
        """Fetch what is wanted from now on, and nothing else."""
        self._following.follow(sorted(self._key_sets.wanted))

    async def _repeat(self, location: KeyLocation) -> None:
        retry = FIRST_RETRY
        while True:
            found = await self._try(location)
            self._inbox.post(KeysFetched(location=location, found=found))
            if isinstance(found, KeySet):
                retry = FIRST_RETRY
                await trio.sleep(self._outlets.refresh)
            else:
                await trio.sleep(min(retry, self._outlets.refresh))
                retry = min(2 * retry, LONGEST_RETRY)

    async def _try(self, location: KeyLocation) -> JsonWebKeySet:
        """One fetch. A bug that one location brings to light would come to light again after every restart."""
        async with self._limit:
            await trio.lowlevel.checkpoint_if_cancelled()  # what is not wanted any more has no patience
            patience = min(self._key_sets.wanted[location], LONGEST_PATIENCE)
            outcome = await attempt(partial(self._outlets.fetch, location, patience))
        if not isinstance(outcome, Crashed):
            return outcome
        self._outlets.metrics.contained_errors.labels("keys").inc()
        log.error("fetch_failed", url=location.url, exc_info=outcome.error)
        return NoKeys("fetching failed by an error of the control plane's own")


class JwksSource:
    """The state of one life of the actor."""

    def __init__(
        self, key_sets: KeySets, finds: Finds[KeyLocation, JsonWebKeySet], metrics: Metrics, fetches: Fetches
    ) -> None:
        self._key_sets = key_sets
        self._finds = finds
        self._metrics = metrics
        self._fetches = fetches
        self._problems: dict[KeyLocation, str] = {}
        fetches.follow()

    async def handle(self, message: ToJwksSource) -> None:
        """Step by one message."""
        match message:
            case ResendAll():
                await self._finds.tell_everything()
            case KeysWanted(locations=locations):
                await self._want(locations)
            case KeysFetched(location=location, found=found) if location in self._key_sets.wanted:
                await self._take(location, found)
            case KeysFetched():
                pass  # nobody wants them any more
            case never:
                assert_never(never)

    async def _want(self, locations: Mapping[KeyLocation, float]) -> None:
        self._key_sets.wanted = locations
        self._fetches.follow()
        self._problems = {place: problem for place, problem in self._problems.items() if place in locations}
        await self._finds.keep(locations)

    async def _take(self, location: KeyLocation, found: JsonWebKeySet) -> None:
        known = isinstance(self._finds.get(location), KeySet)
        self._report(location, found, known=known)
        if isinstance(found, KeySet) or not known:
            await self._finds.put(location, found)

    def _report(self, location: KeyLocation, found: JsonWebKeySet, *, known: bool) -> None:
        """Count every fetch; say once that keys cannot be had, and once that they can. `known`: there are some."""
        problem = self._problems.pop(location, "")
        match found:
            case KeySet():
                self._metrics.key_fetches.inc()
                if problem or not known:
                    log.info("keys_fetched", url=location.url)
            case NoKeys(reason):
                self._metrics.failed_key_fetches.inc()
                self._problems[location] = reason
                if reason != problem:
                    log.warning("keys_unfetched", url=location.url, reason=reason, kept=known)
