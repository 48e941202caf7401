"""`ConfigView`: all configuration objects as one immutable value that shares whatever did not change.

A view is a table of tables, one a kind. Applying a change copies the tables of the kinds that changed and nothing else,
so a table that `is` the old one has not changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trierarch.config.objects import AnyObject, ObjectKey

_EMPTY: Mapping[ObjectKey, AnyObject] = {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConfigView:
    """All objects in force, by kind and key."""

    tables: Mapping[str, Mapping[ObjectKey, AnyObject]] = field(default_factory=dict)

    def table(self, kind: str) -> Mapping[ObjectKey, AnyObject]:
        """The objects of one kind. The same table object as before if nothing of that kind changed."""
        return self.tables.get(kind, _EMPTY)

    def get(self, key: ObjectKey) -> AnyObject | None:
        """The object of that key, or None."""
        return self.table(key.kind).get(key)

    def apply(
        self, upserts: Iterable[AnyObject], deletes: Iterable[ObjectKey] = ()
    ) -> tuple[ConfigView, frozenset[ObjectKey]]:
        """The view after a change, and the keys that really changed (an equal digest is no change)."""
        changed: dict[str, dict[ObjectKey, AnyObject | None]] = {}
        for key in deletes:
            if key in self.table(key.kind):
                changed.setdefault(key.kind, {})[key] = None
        for upsert in upserts:
            key = upsert.key
            old = self.table(key.kind).get(key)
            if old is None or old.digest != upsert.digest:
                changed.setdefault(key.kind, {})[key] = upsert
            else:
                changed.get(key.kind, {}).pop(key, None)
        tables = dict(self.tables)
        for kind, edits in changed.items():
            tables[kind] = _edited(self.table(kind), edits)
        keys = frozenset(key for edits in changed.values() for key in edits)
        return (ConfigView(tables=tables) if keys else self), keys


def _edited(
    table: Mapping[ObjectKey, AnyObject], edits: Mapping[ObjectKey, AnyObject | None]
) -> Mapping[ObjectKey, AnyObject]:
    edited = dict(table)
    for key, value in edits.items():
        if value is None:
            edited.pop(key, None)
        else:
            edited[key] = value
    return edited
