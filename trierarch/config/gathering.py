"""`Gathering`: what every source has said, merged into one `ConfigView`. Plain state with one owner.

Sources are independent, and an object may come from two of them; then the later source (in the order given) counts, and
when it drops the object, the other's returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trierarch.config.store import ConfigView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trierarch.config.objects import AnyObject, ObjectKey


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
    ) -> tuple[Changed, ...]:
        """What really changed, in the order of keys. `full`: what is not among the upserts is gone."""
        table = self._tables[source]
        said = {each.key: each for each in upserts}
        gone = (table.keys() if full else set(deletes)) - said.keys()
        for key in gone:
            table.pop(key, None)
        table.update(said)
        return self._settle(gone | said.keys())

    def _settle(self, touched: Iterable[ObjectKey]) -> tuple[Changed, ...]:
        before = self.view
        in_force = {key: self._in_force(key) for key in touched}
        self.view, keys = before.apply(
            [each for each in in_force.values() if each is not None],
            [key for key, each in in_force.items() if each is None],
        )
        return tuple(Changed(key=key, before=before.get(key), after=self.view.get(key)) for key in sorted(keys))

    def _in_force(self, key: ObjectKey) -> AnyObject | None:
        return next((table[key] for table in reversed(self._tables.values()) if key in table), None)


def find_changes(before: ConfigView, after: ConfigView) -> tuple[Changed, ...]:
    """How two views differ, in the order of keys; they need not have any object in common."""
    keys = {key for view in (before, after) for table in view.tables.values() for key in table}
    pairs = (Changed(key=key, before=before.get(key), after=after.get(key)) for key in sorted(keys))
    return tuple(pair for pair in pairs if _digest(pair.before) != _digest(pair.after))


def _digest(known: AnyObject | None) -> bytes | None:
    return known.digest if known else None
