"""Reuse inside a section: what is built from the same inputs as before is the same object as before.

The rule of the snapshot is that `is` means unchanged. Three pieces keep it:

- `changed_keys` compares two versions of a table (a mapping whose values compare by identity).
- `regroup` keeps the objects of a table together by something that they name, and redoes only the groups that changed.
- `build_units` builds one value a key from its inputs, and redoes it only if an input differs or something that it
  looks up elsewhere (its `reads`) is among the keys that went stale.

Nothing here knows what is built.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from trierarch.config.objects import ObjectKey
    from trierarch.push.steps import Steps

KeyT = TypeVar("KeyT", bound=Hashable)
GroupT = TypeVar("GroupT", bound=Hashable)
InputsT = TypeVar("InputsT", bound=tuple[object, ...])
ValueT = TypeVar("ValueT")

Reads = frozenset[Hashable]
NO_READS: Reads = frozenset()


class Keyed(Protocol):
    """A thing that knows its key in a table."""

    @property
    def key(self) -> ObjectKey:
        """The key."""
        ...


KeyedT = TypeVar("KeyedT", bound=Keyed)


def changed_keys(old: Mapping[KeyT, object], new: Mapping[KeyT, object]) -> frozenset[KeyT]:
    """Keys that were added, removed, or now have another object."""
    if old is new:
        return frozenset()
    changed = frozenset(key for key, value in new.items() if old.get(key) is not value)
    return changed | (old.keys() - new.keys())


@dataclass(frozen=True, slots=True, eq=False)
class Groups(Generic[GroupT, KeyedT]):
    """The objects of a table by group, each group in the order of its keys."""

    table: Mapping[ObjectKey, KeyedT] = field(default_factory=dict)
    grouped: Mapping[GroupT, tuple[KeyedT, ...]] = field(default_factory=dict)

    def of(self, group: GroupT) -> tuple[KeyedT, ...]:
        """The members of a group: the same tuple as before if no member changed."""
        return self.grouped.get(group, ())


def regroup(
    table: Mapping[ObjectKey, KeyedT],
    groups_of: Callable[[KeyedT], Iterable[GroupT]],
    previous: Groups[GroupT, KeyedT],
) -> Groups[GroupT, KeyedT]:
    """Group a table; only groups with a changed member are made anew."""
    changed = changed_keys(previous.table, table)
    if not changed:
        return previous
    came: dict[GroupT, list[KeyedT]] = {}
    for key in changed:
        for group in groups_of(previous.table[key]) if key in previous.table else ():
            came.setdefault(group, [])
        for group in groups_of(table[key]) if key in table else ():
            came.setdefault(group, []).append(table[key])
    grouped = dict(previous.grouped)
    for group, members in came.items():
        stayed = [each for each in previous.of(group) if each.key not in changed]
        grouped[group] = tuple(sorted((*stayed, *members), key=_key))
    return Groups(table, {group: members for group, members in grouped.items() if members})


def _key(member: Keyed) -> ObjectKey:
    return member.key


class Built(NamedTuple, Generic[ValueT]):
    """A value, the inputs that it was built from, and the keys that it looked up elsewhere meanwhile."""

    inputs: tuple[object, ...]
    reads: Reads
    value: ValueT


Units = Mapping[KeyT, Built[ValueT]]


def no_reads(_inputs: tuple[object, ...]) -> Reads:
    """For units that look up nothing but their inputs."""
    return NO_READS


def build_units(
    wanted: Iterable[tuple[KeyT, InputsT]],
    build: Callable[[InputsT], ValueT],
    previous: Units[KeyT, ValueT],
    *,
    reads: Callable[[InputsT], Reads] = no_reads,
    stale: Reads = NO_READS,
    same: Callable[[ValueT, ValueT], object] = operator.eq,
) -> Steps[Units[KeyT, ValueT]]:
    """One value for each wanted key, in that order; yields after each value that had to be built.

    Inputs compare as tuples do: model objects by identity, small values by value. A value that comes out the `same` as
    before is the old object. If every unit is reused, the result is `previous` itself.
    """
    units: dict[KeyT, Built[ValueT]] = {}
    fresh = False
    for key, inputs in wanted:
        old = previous.get(key)
        if old is not None and old.inputs == inputs and old.reads.isdisjoint(stale):
            units[key] = old
            continue
        value = build(inputs)
        if old is not None and same(old.value, value):
            value = old.value
        units[key] = Built(inputs, reads(inputs), value)
        fresh = True
        yield
    return units if fresh or len(units) != len(previous) else previous


def readers(units: Units[KeyT, ValueT], stale: Reads) -> Iterator[KeyT]:
    """The units that looked up something stale."""
    if stale:
        yield from (key for key, unit in units.items() if not unit.reads.isdisjoint(stale))


def same_fields(one: Any, other: Any) -> bool:  # noqa: ANN401 - any two dataclass instances
    """Whether two instances of a dataclass that compares by identity say the same, field by field."""
    if one is other:
        return True
    names = [each.name for each in fields(one)]
    return type(one) is type(other) and all(getattr(one, name) == getattr(other, name) for name in names)


def same_members(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Whether two tuples of such instances say the same, member by member."""
    return len(one) == len(other) and all(map(same_fields, one, other))


def kept(old: Mapping[KeyT, ValueT], new: Mapping[KeyT, ValueT]) -> Mapping[KeyT, ValueT]:
    """`old` if both hold the same objects in the same order, else `new`."""
    same = len(old) == len(new) and all(map(operator.is_, old.values(), new.values())) and list(old) == list(new)
    return old if same else new
