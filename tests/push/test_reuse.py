"""The mechanism by which sections keep what did not change."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from trierarch.config.objects import ObjectKey
from trierarch.push.reuse import Groups, build_units, changed_keys, kept, readers, regroup, same_fields, same_members
from trierarch.push.steps import run_steps


@dataclass(frozen=True, eq=False)
class Thing:
    """Something with a key that belongs to groups."""

    key: ObjectKey
    groups: tuple[str, ...]


def key(number):
    """The key of thing number so-and-so."""
    return ObjectKey("c", "Thing", "ns", f"thing-{number}")


tables = st.dictionaries(st.integers(0, 6).map(key), st.lists(st.sampled_from("xyz"), unique=True).map(tuple)).map(
    lambda groups: {name: Thing(name, own) for name, own in groups.items()}
)


def groups_of(thing):
    """The groups of a thing."""
    return thing.groups


@given(st.lists(tables, min_size=1, max_size=5))
def test_regrouping_equals_grouping(history):
    """However a table came about, its groups are those that grouping it from nothing gives."""
    groups = Groups()
    for table in history:
        groups = regroup(table, groups_of, groups)
        assert groups.grouped == regroup(table, groups_of, Groups()).grouped


@given(tables, tables)
def test_an_untouched_group_keeps_its_tuple(old, new):
    """A group of which no member changed is the same tuple as before."""
    both = {**old, **{name: thing for name, thing in new.items() if name not in old}}
    before, after = regroup(old, groups_of, Groups()), regroup(both, groups_of, regroup(old, groups_of, Groups()))
    touched = {group for name, thing in both.items() if name not in old for group in thing.groups}
    assert all(after.of(group) == before.of(group) for group in set("xyz") - touched)


@given(st.dictionaries(st.integers(0, 5), st.integers(0, 2)), st.dictionaries(st.integers(0, 5), st.integers(0, 2)))
def test_changed_keys_are_those_that_differ(old, new):
    """Keys that came, went, or have another value."""
    assert changed_keys(old, new) == {name for name in old.keys() | new.keys() if old.get(name) is not new.get(name)}


def build_squares(wanted, previous, built, **options):
    """Units that square their first input; `built` notes which had to be built."""

    def build(inputs):
        built.append(inputs[0])
        return inputs[0] ** 2

    return run_steps(build_units(wanted, build, previous, **options))


def test_units_with_equal_inputs_are_reused():
    """Only the unit whose input changed is built again; if none did, the units are the old mapping itself."""
    built = []
    first = build_squares([("a", (1,)), ("b", (2,))], {}, built)
    second = build_squares([("a", (1,)), ("b", (3,))], first, built)
    assert built == [1, 2, 3]
    assert second["a"] is first["a"]
    assert build_squares([("a", (1,)), ("b", (3,))], second, built) is second


def test_units_are_built_again_for_what_they_looked_up():
    """A unit whose inputs are the same is built again if something that it read went stale."""
    built = []
    reads = {"reads": lambda inputs: frozenset({f"shelf {inputs[0]}"})}
    first = build_squares([("a", (1,)), ("b", (2,))], {}, built, **reads)
    build_squares([("a", (1,)), ("b", (2,))], first, built, stale=frozenset({"shelf 2"}), **reads)
    assert built == [1, 2, 2]
    assert list(readers(first, frozenset({"shelf 1"}))) == ["a"]


def test_a_unit_that_comes_out_the_same_is_the_old_value():
    """What a unit says decides whether it is a new object."""
    first = run_steps(build_units([("a", (1,))], lambda inputs: [inputs[0] > 0], {}))
    second = run_steps(build_units([("a", (2,))], lambda inputs: [inputs[0] > 0], first))
    assert second["a"].value is first["a"].value


def test_units_that_are_no_longer_wanted_go():
    """The result holds what was wanted, in that order."""
    first = build_squares([("a", (1,)), ("b", (2,))], {}, [])
    assert list(build_squares([("b", (2,))], first, [])) == ["b"]


def test_building_yields_after_each_built_unit():
    """Reused units cost no step."""
    first = build_squares([("a", (1,)), ("b", (2,))], {}, [])
    steps = build_units([("a", (1,)), ("b", (5,))], lambda inputs: inputs[0], first)
    assert len(list(steps)) == 1


def test_sameness_field_by_field():
    """Instances that compare by identity are told apart by what they say."""
    one, twin, other = Thing(key(1), ("x",)), Thing(key(1), ("x",)), Thing(key(1), ("y",))
    assert same_fields(one, twin)
    assert not same_fields(one, other)
    assert same_members((one,), (twin,))
    assert not same_members((one,), (one, one))


def test_kept_minds_the_order():
    """Mappings with the same objects are the same only in the same order."""
    old = {"a": key(1), "b": key(2)}
    assert kept(old, dict(old)) is old
    reversed_ = dict(reversed(old.items()))
    assert kept(old, reversed_) is reversed_
