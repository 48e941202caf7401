"""`Gathering`: what every source has said, merged into one `ConfigView`. Plain state with one owner.

Sources are independent, and an object may come from two of them; then the later source (in the order given) counts, and
when it drops the object, the other's returns. A source may tell thousands of objects at once, so they are taken in in
steps; between two of them the view holds a part of what was told, and is nobody else's to see.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from trierarch.config.store import ConfigView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trierarch.config.folder import Steps
    from trierarch.config.objects import AnyObject, ObjectKey

KEYS_PER_STEP = 500
"""Keys that are looked at before it is others' turn: about 2 ms of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """An object that is not what it was. Before: None if it is new; after: None if it is gone."""

    key: ObjectKey
    before: AnyObject | None
    after: AnyObject | None


class Gathering:
    """One table for each source, and the view of them all."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._tables: dict[str, dict[ObjectKey, AnyObject]] = {source: {} for source in sources}
        self.view = ConfigView()

    def take(
        self, source: str, upserts: Iterable[AnyObject], deletes: Iterable[ObjectKey] = (), *, full: bool = False
    ) -> Steps[tuple[Changed, ...]]:
        """What really changed, in the order told, then what is gone. `full`: what is not among the upserts is gone."""
        table = self._tables[source]
        said = {each.key: each for each in upserts}
        left = tuple(table) if full else tuple(deletes)
        gone = dict.fromkeys(key for key in left if key not in said)
        yield
        for key in gone:
            table.pop(key, None)
        table.update(said)
        changes: list[Changed] = []
        for keys in _batches((*said, *gone)):
            yield
            changes += self._settle(keys)
        return tuple(changes)

    def _settle(self, touched: tuple[ObjectKey, ...]) -> Iterator[Changed]:
        before = self.view
        in_force = {key: self._in_force(key) for key in touched}
        self.view, changed = before.apply(
            [each for each in in_force.values() if each is not None],
            [key for key, each in in_force.items() if each is None],
        )
        return (Changed(key=key, before=before.get(key), after=in_force[key]) for key in touched if key in changed)

    def _in_force(self, key: ObjectKey) -> AnyObject | None:
        return next((table[key] for table in reversed(self._tables.values()) if key in table), None)


def find_changes(before: ConfigView, after: ConfigView) -> Steps[tuple[Changed, ...]]:
    """How two views differ; they need not have any object in common. What is there now goes before what is gone."""
    keys = dict.fromkeys(key for view in (after, before) for table in view.tables.values() for key in table)
    changes: list[Changed] = []
    for batch in _batches(keys):
        yield
        pairs = (Changed(key=key, before=before.get(key), after=after.get(key)) for key in batch)
        changes += (pair for pair in pairs if _digest(pair.before) != _digest(pair.after))
    return tuple(changes)


def _batches(keys: Iterable[ObjectKey]) -> Iterator[tuple[ObjectKey, ...]]:
    remaining = iter(keys)
    while batch := tuple(islice(remaining, KEYS_PER_STEP)):
        yield batch


def _digest(known: AnyObject | None) -> bytes | None:
    return known.digest if known else None
