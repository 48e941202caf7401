"""How two `ResourceSet`s differ: computed once for each pair of parts and shared by all who ask.

A set is a chain of parts, and most parts of two successive sets are the very same objects: those are passed over by
identity. Two different parts are compared once, and the answer is remembered on the newer one for the predecessor that
it was last compared with: a push compares the same two parts for every proxy that shares them.

Remembering is safe though parts are immutable, shared values. The note is a pure function of two contents and is filed
under the predecessor's `version`, a digest of its content: it can be missing, or be of another predecessor, but never
wrong. It names the predecessor by version and not by reference, so that a chain of notes keeps no old part alive; of
what was in it only the set of names is kept, for many a client will watch just these, and some more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from protocol.xds.resources import Part, Resource, ResourceSet


@dataclass(frozen=True, slots=True)
class Difference:
    """Names from one set to another: new or with other bytes (`changed`), and no longer there (`removed`). Disjoint."""

    changed: frozenset[str]
    removed: frozenset[str]

    def __bool__(self) -> bool:
        """Whether the two sets differ at all."""
        return bool(self.changed or self.removed)

    def within(self, names: frozenset[str]) -> Difference:
        """The difference as somebody sees it who watches these names only."""
        return Difference(self.changed & names, self.removed & names) if self else self


class Since(NamedTuple):
    """A part's note of the part that it was last compared with: its version, its names, and what leads from it here."""

    version: str
    names: frozenset[str]
    difference: Difference


NOTHING = Difference(frozenset(), frozenset())
"""The difference of equal sets."""


def difference(old: ResourceSet, new: ResourceSet) -> Difference:
    """What leads from `old` to `new`. Costs nothing where they share parts, a dictionary's walk where they do not."""
    if old is new or old.version == new.version:
        return NOTHING
    before = _without_shared(old.parts, new.parts)
    after = _without_shared(new.parts, old.parts)
    if not before:
        return Difference(frozenset().union(*(part.names for part in after)), frozenset())
    if len(before) == len(after) == 1:
        return _difference_of_parts(before[0], after[0])
    if len(before) == len(after):
        pairs = [_difference_of_parts(*pair) for pair in zip(before, after, strict=True)]
        return _union(pairs, old, new)
    return _compare(_flatten(before), _flatten(after))


def has_grown(part: Part, names: frozenset[str], added: frozenset[str]) -> bool:
    """Whether a part's names are known to be these, which its predecessor had, and those added, and no others.

    That is told by its note, for to compare 2,400 names would take long.
    """
    since = part.since
    if since is None or since.names is not names or since.difference.removed:
        return False
    are_all = len(part) == len(names) + len(added)
    return are_all and added <= since.difference.changed and added.isdisjoint(names)


def _without_shared(parts: Sequence[Part], others: Sequence[Part]) -> list[Part]:
    return [part for part in parts if part not in others]


def _flatten(parts: Sequence[Part]) -> dict[str, Resource]:
    return {resource.name: resource for part in parts for resource in part.resources.values()}


def _difference_of_parts(old: Part, new: Part) -> Difference:
    since = new.since  # looked at once: another thread may write one too
    if since is not None and since.version == old.version:
        return since.difference
    found = _compare(old.resources, new.resources)
    if old.names == new.names:
        new.names = old.names  # one set for both: subscriptions that share it stay recognisable by identity
    new.since = Since(old.version, old.names, found)
    return found


def _compare(old: Mapping[str, Resource], new: Mapping[str, Resource]) -> Difference:
    changed = frozenset(name for name, resource in new.items() if not _same(old.get(name), resource))
    removed = frozenset(old.keys() - new.keys())
    return Difference(changed, removed) if changed or removed else NOTHING


def _same(old: Resource | None, new: Resource | None) -> bool:
    if old is new:
        return True
    return old is not None and new is not None and old.version == new.version


def _union(pairs: Sequence[Difference], old: ResourceSet, new: ResourceSet) -> Difference:
    """The difference of chains whose parts differ so. A name may have moved from one part to another."""
    changed = frozenset().union(*(pair.changed for pair in pairs))
    removed = frozenset().union(*(pair.removed for pair in pairs))
    moved = changed & removed
    unchanged = frozenset(name for name in moved if _same(old.get(name), new.get(name)))
    return Difference(changed - unchanged, removed - moved)
