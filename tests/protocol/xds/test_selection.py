"""What is sent of a set, found by names."""

from __future__ import annotations

import gc
import weakref

from hypothesis import given
from hypothesis import strategies as st

from protocol.xds.resources import Part, ResourceSet, build_resource
from protocol.xds.selection import select
from tests.protocol.xds.tables import CDS, EDS, TYPES

NAMES = "abcdefg"
some_names = st.frozensets(st.sampled_from(NAMES))


def build_part(names):
    """A part of resources with these names."""
    return Part(build_resource(name, name.encode()) for name in sorted(names))


def divided(names, place):
    """A set of two parts that have these names."""
    return ResourceSet(build_part(names & set(NAMES[:place])), build_part(names & set(NAMES[place:])))


@given(some_names, st.integers(0, len(NAMES)), st.lists(some_names, max_size=5), st.sampled_from([CDS, EDS]))
def test_whatever_was_asked_before_what_is_named_is_found(defined, place, questions, type_url):
    """Each name once: what is defined, a placeholder where the type has one, or among those that are unknown."""
    resources, rules = divided(defined, place), TYPES[type_url]
    for names in questions:
        found = select(names, rules, resources)
        sent = [resource.name for resource in found]
        assert sorted([*sent, *found.unknown]) == sorted(names)
        assert set(found.unknown) == (set() if rules.placeholder else names - defined)
        assert len(found) == len(sent)
        assert frozenset().union(*found.names) == set(sent)


def test_who_wants_the_same_of_a_shared_part_gets_the_same_object():
    """Whatever else their sets hold; so it is counted and encoded once for all of them."""
    shared = build_part("abc")
    one, other = (ResourceSet(shared, build_part(own)) for own in "xy")
    first = select(frozenset("a"), TYPES[CDS], one)
    assert select(frozenset("a"), TYPES[CDS], other) is first
    assert select(frozenset("b"), TYPES[CDS], other) is not first


def test_a_part_does_not_hold_itself():
    """Asked for as a whole it leaves no note, so that it goes with the last who has it."""
    part = build_part("abc")
    gone = weakref.ref(part)
    gc.disable()
    try:
        select(part.names, TYPES[CDS], ResourceSet(part))
        select(frozenset("a"), TYPES[CDS], ResourceSet(part))
        del part
        assert gone() is None
    finally:
        gc.enable()
