"""Keeps the keys of those whose tokens are believed: read from a file, or fetched from the issuer, again and again.

Owns: the `KeyRing`s, which outlive it; whoever verifies tokens reads them.
Receives: nothing; it looks now and then.
Sends: nothing.
Dies when: nothing known. A failure is logged, and the keys known before stay.
Recovers by: reading and fetching everything again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import trio

from actors.logs import get_logger
from trierarch.config.key_sets import LONGEST_BODY, KeySet, NoKeys, location_of
from trierarch.identity.tokens import read_keys

if TYPE_CHECKING:
    from actors.authentication import KeyRing
    from actors.key_fetching import Fetch
    from trierarch.config.key_sets import JsonWebKeySet

PATIENCE = 10.0
"""Seconds that a fetch may take."""

LOOK, REFRESH, RETRY = 5.0, 60.0, 5.0
"""Seconds between two looks at a file, between two visits to an issuer, and until it is tried again without success."""

_SCHEMES = ("http://", "https://")

log = get_logger("token_keys")


async def run(
    rings: tuple[KeyRing, ...], *, fetch: Fetch, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Keep the keys of all of them fresh, for ever."""
    task_status.started()
    async with trio.open_nursery() as nursery:
        for ring in rings:
            nursery.start_soon(_keep_fresh, ring, fetch)


async def _keep_fresh(ring: KeyRing, fetch: Fetch) -> None:
    path = ring.rule.keys
    local = bool(path) and not path.startswith(_SCHEMES)
    location = location_of(ring.rule.issuer, path)
    while True:
        _take(ring, await _read_file(path) if local else await fetch(location, PATIENCE))
        await trio.sleep(LOOK if local else RETRY if ring.problem else REFRESH)


async def _read_file(path: str) -> JsonWebKeySet:
    try:
        content = await trio.Path(Path(path)).read_bytes()
    except OSError as error:
        return NoKeys(str(error.strerror))
    return KeySet(content.decode(errors="replace")) if len(content) <= LONGEST_BODY else NoKeys("the file is too long")


def _take(ring: KeyRing, found: JsonWebKeySet) -> None:
    match found:
        case NoKeys(reason=reason):
            _complain(ring, reason)
        case KeySet(text=text):
            try:
                keys = read_keys(text.encode())
            except ValueError as error:
                _complain(ring, str(error))
                return
            names = [each.id for each in keys]
            if ring.problem or names != [each.id for each in ring.keys]:
                log.info("token_keys_read", issuer=ring.rule.issuer, source=ring.rule.keys, keys=names)
            ring.keys, ring.problem = keys, ""


def _complain(ring: KeyRing, problem: str) -> None:
    if problem != ring.problem:
        log.error("token_keys_unread", issuer=ring.rule.issuer, source=ring.rule.keys, reason=problem)
    ring.problem = problem
