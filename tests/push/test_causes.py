"""Causes: bounded, merged in order, settled one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trierarch.push.causes import KEPT, Cause, Causes, ChangeEvent, Stages


def causes(*ids, dropped=0):
    """Causes of these ids."""
    kept = tuple(
        Cause(
            id=number, source="config", kind="Service", namespace="shop", name=f"{number}", resource_version="",
            event=ChangeEvent.UPDATED, seen_at=0.0,
        )
        for number in ids
    )  # fmt: skip
    return Causes(kept=kept, dropped=dropped)


def test_a_cause_counts_once():
    """Merging what was merged already changes nothing."""
    both = causes(1, 2).merged(causes(2, 3))
    assert both == causes(1, 2, 3)
    assert both.merged(causes(1, 3)) == both


def test_beyond_fifty_they_are_counted():
    """The oldest are kept; nothing goes uncounted."""
    merged = causes(*range(1, KEPT)).merged(causes(*range(KEPT, KEPT + 10), dropped=2))
    assert merged == causes(*range(1, KEPT + 1), dropped=9 + 2)


def test_settled_causes_go():
    """Those of a snapshot and no others, whatever their order."""
    assert causes(4, 5, 6).without(causes(5)) == causes(4, 6)


def test_with_uncounted_ones_all_up_to_the_newest_go():
    """If some were only counted, those that could have been among them are taken for settled."""
    assert causes(4, 5, 6).without(causes(5, dropped=1)) == causes(6)


def test_stages_keep_the_oldest_that_is_known():
    """Zero means not yet."""
    merged = Stages(seen_at=3.0, debounced_at=4.0).merged(Stages(seen_at=2.0, built_at=5.0))
    assert merged == Stages(seen_at=2.0, debounced_at=4.0, built_at=5.0)


IDS = st.lists(st.integers(1, 99), unique=True, max_size=30).map(sorted)


@given(IDS, IDS, IDS)
def test_merging_is_associative(first, second, third):
    """In whatever order requests meet, the same causes come out."""
    a, b, c = causes(*first), causes(*second), causes(*third)
    left, right = a.merged(b).merged(c), a.merged(b.merged(c))
    assert left.kept == right.kept
