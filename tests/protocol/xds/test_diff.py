"""The difference of two sets: what it is, and that it is computed once."""

import weakref

from hypothesis import given
from hypothesis import strategies as st

from protocol.xds.diff import NOTHING, difference, has_grown
from protocol.xds.resources import EMPTY, ResourceSet
from tests.protocol.xds.tables import build_part, build_set

NAMES = "abcdef"

contents = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 1))


@st.composite
def chains(draw, pool):
    """A set of parts, some of them from a pool; a name is in one part only."""
    parts, taken = [], set()
    for part in draw(st.lists(st.one_of(st.sampled_from(pool), contents.map(to_part)), max_size=3)):
        if part.names.isdisjoint(taken):
            parts.append(part)
            taken |= part.names
    return ResourceSet(*parts)


def to_part(numbers):
    """A part of name -> number."""
    return build_part({name: str(number) for name, number in numbers.items()})


pools = st.lists(contents.map(to_part), min_size=1, max_size=3)
pairs = pools.flatmap(lambda pool: st.tuples(chains(pool), chains(pool)))


@given(pairs)
def test_it_is_the_difference_of_all_resources(pair):
    """However the resources are spread over parts, and whichever parts the two sets share."""
    old, new = ({resource.name: resource.body for resource in resources} for resources in pair)
    found = difference(*pair)
    assert found.changed == {name for name, body in new.items() if old.get(name) != body}
    assert found.removed == old.keys() - new.keys()
    assert bool(found) == (old != new)


@given(pairs)
def test_asking_twice_gives_the_same(pair):
    """What is remembered is what was found."""
    assert difference(*pair) == difference(*pair)


def test_parts_that_are_shared_are_not_looked_at():
    """Two sets with the same parts are equal without a comparison, and one changed part is all that is compared."""
    shared, old, new = build_part({"a": "1"}), build_part({"b": "1"}), build_part({"b": "2"})
    assert difference(ResourceSet(shared), ResourceSet(shared)) is NOTHING
    assert difference(ResourceSet(shared, old), ResourceSet(shared, new)).changed == {"b"}
    assert (shared.since, new.since.version) == (None, old.version)


def test_it_is_computed_once_for_two_parts():
    """All who compare the same two parts get the same object, whatever else their sets hold."""
    old, new = build_part({"a": "1"}), build_part({"a": "2"})
    one = difference(ResourceSet(build_part({"x": "1"}), old), ResourceSet(build_part({"x": "1"}), new))
    mine = build_part({"mine": "1"})
    assert difference(ResourceSet(old), ResourceSet(new)) is difference(ResourceSet(mine, old), ResourceSet(mine, new))
    assert one.changed == {"a"}


def test_what_is_remembered_keeps_no_old_part_alive():
    """A part knows its predecessor by version only, so a chain of changes leaves nothing behind."""
    old, new = build_part({"a": "1"}), build_part({"a": "2"})
    difference(ResourceSet(old), ResourceSet(new))
    gone = weakref.ref(old)
    del old
    assert gone() is None


@given(contents, contents, st.frozensets(st.sampled_from(NAMES)))
def test_what_a_part_is_known_to_have_grown_by(before, after, added):
    """It is never said wrongly; and of names that came to all that were there it is said."""
    old, new = to_part(before), to_part(after)
    difference(ResourceSet(old), ResourceSet(new))
    grown = has_grown(new, old.names, added)
    if grown:
        assert old.names | added == new.names
        assert not old.names & added
    if old.names < new.names and added == new.names - old.names:
        assert grown


def test_another_predecessor_is_compared_anew():
    """A client that lags behind gets the difference from what it has, not the one that was remembered."""
    first, second, third = (build_part({"a": text, "b": text[:1]}) for text in ("1", "2", "22"))
    assert difference(ResourceSet(second), ResourceSet(third)).changed == {"a"}
    assert difference(ResourceSet(first), ResourceSet(third)).changed == {"a", "b"}


def test_equal_names_become_one_set():
    """So that a subscription which shares the predecessor's names is recognised by identity in the successor too."""
    old, new = build_part({"a": "1"}), build_part({"a": "2"})
    difference(ResourceSet(old), ResourceSet(new))
    assert new.names is old.names


def test_a_name_that_moves_to_another_part_is_not_removed():
    """It is changed if its bytes are others, and nothing has happened otherwise."""
    old = build_set({"a": "1", "b": "1"}, {"c": "1"})
    assert not difference(old, build_set({"a": "1"}, {"b": "1", "c": "1"}))
    assert difference(old, build_set({"a": "1"}, {"b": "2", "c": "1"})).changed == {"b"}
    assert difference(old, EMPTY).removed == {"a", "b", "c"}
