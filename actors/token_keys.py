"""Keeps the keys of those whose tokens are believed: read from a file, or fetched from the issuer, again and again.

Owns: the `KeyRing`s, which outlive it; whoever verifies tokens reads them.
Receives: nothing; it looks now and then.
Sends: nothing.
Dies when: nothing known. Keys that cannot be had are logged, and those that were had last stay.
Recovers by: reading and fetching everything again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import trio

from actors.logs import get_logger
from trierarch.identity.tokens import read_keys

if TYPE_CHECKING:
    from actors.authentication import KeyRing
    from trierarch.identity.rules import TokenRule
    from trierarch.identity.tokens import KeySet

LARGEST = 1024 * 1024
"""Bytes of a set of keys; an issuer has a handful."""

PATIENCE = 10.0
"""Seconds that a whole answer may take."""

LOOK, REFRESH, RETRY = 5.0, 60.0, 5.0
"""Seconds between two looks at a file, between two visits to an issuer, and until it is tried again without success."""

DISCOVERY = "/.well-known/openid-configuration"
"""Where an issuer says where its keys are (OpenID Connect Discovery 1.0 §4)."""

_SCHEMES = ("http://", "https://")

log = get_logger("token_keys")


async def run(rings: tuple[KeyRing, ...], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Keep the keys of all of them fresh, for ever."""
    task_status.started()
    made = await trio.to_thread.run_sync(_make_client)  # it reads the system's hundred roots
    async with made as client, trio.open_nursery() as nursery:
        for ring in rings:
            nursery.start_soon(_keep_fresh, ring, client)


def _make_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=PATIENCE, trust_env=False)


async def _keep_fresh(ring: KeyRing, client: httpx.AsyncClient) -> None:
    local = bool(ring.rule.keys) and not ring.rule.keys.startswith(_SCHEMES)
    while True:
        try:
            content = await _read_file(ring.rule.keys) if local else await _fetch_keys(client, ring.rule)
            _accept(ring, read_keys(content))
        except (OSError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
            _complain(ring, str(error) or type(error).__name__)
        await trio.sleep(LOOK if local else RETRY if ring.problem else REFRESH)


def _accept(ring: KeyRing, keys: KeySet) -> None:
    if ring.problem or [each.id for each in keys] != [each.id for each in ring.keys]:
        log.info("token_keys_read", issuer=ring.rule.issuer, source=ring.rule.keys, keys=[each.id for each in keys])
    ring.keys, ring.problem = keys, ""


def _complain(ring: KeyRing, problem: str) -> None:
    if problem != ring.problem:
        log.error("token_keys_unread", issuer=ring.rule.issuer, source=ring.rule.keys, reason=problem)
    ring.problem = problem


async def _read_file(path: str) -> bytes:
    content = await trio.Path(Path(path)).read_bytes()
    if len(content) > LARGEST:
        raise ValueError(f"larger than {LARGEST >> 20} MiB")
    return content


async def _fetch_keys(client: httpx.AsyncClient, rule: TokenRule) -> bytes:
    """The issuer's keys, by way of its discovery document if nobody said where they are."""
    return await fetch(client, rule.keys or _keys_url(await fetch(client, rule.issuer.rstrip("/") + DISCOVERY), rule))


def _keys_url(document: bytes, rule: TokenRule) -> str:
    match json.loads(document):
        case {"issuer": rule.issuer, "jwks_uri": str(url)}:
            return url
        case _:
            raise ValueError("its discovery document is another issuer's, or says nothing of keys")


async def fetch(client: httpx.AsyncClient, url: str) -> bytes:
    """What is to be had at a URL, within bounds of time and size. Raises `httpx.HTTPError` or ValueError."""
    with trio.move_on_after(PATIENCE):
        async with client.stream("GET", url) as response:
            response.raise_for_status()
            content = b""
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > LARGEST:
                    raise ValueError(f"{url}: larger than {LARGEST >> 20} MiB")
            return content
    raise ValueError(f"{url}: no whole answer within {PATIENCE:.0f} s")
